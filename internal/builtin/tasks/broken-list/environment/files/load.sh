#!/bin/bash
# Reads lines "name count" and writes the number of lines and the sum of the counts.
n=0 sum=0
while read -r name count rest; do
  case $count in ''|*[!0-9]*) echo "line $((n + 1)): bad count '$count' for $name" >&2; exit 1 ;; esac
  n=$((n + 1)) sum=$((sum + count))
done < stock.txt
echo "$n items, $sum pieces" > report.txt
echo "report written"
