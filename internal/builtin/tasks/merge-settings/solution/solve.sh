#!/bin/bash
set -e
cat "$TITO_TASK_ROOT"/app/base.conf "$TITO_TASK_ROOT"/app/site.conf | grep -v -e '^#' -e '^$' | awk -F= '{v[$1]=$0} END {for (k in v) print v[k]}' | LC_ALL=C sort > "$TITO_TASK_ROOT"/app/merged.conf
