#!/bin/bash
set -e
cat /app/base.conf /app/site.conf | grep -v -e '^#' -e '^$' | awk -F= '{v[$1]=$0} END {for (k in v) print v[k]}' | LC_ALL=C sort > /app/merged.conf
