#!/bin/bash
set -e
awk -F, 'NR>1 {s[$1]+=$3} END {for (r in s) print r "\t" s[r]}' "$TITO_TASK_ROOT"/app/sales.csv | sort -t "$(printf '\t')" -k2,2nr > "$TITO_TASK_ROOT"/app/totals.tsv
