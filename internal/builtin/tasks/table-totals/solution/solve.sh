#!/bin/bash
set -e
awk -F, 'NR>1 {s[$1]+=$3} END {for (r in s) print r "\t" s[r]}' /app/sales.csv | sort -t "$(printf '\t')" -k2,2nr > /app/totals.tsv
