#!/bin/bash
# Prints the average of its arguments, rounded down.
sum=0
count=0
while [ $# -gt 1 ]; do
  sum=$((sum + $1))
  count=$((count + 1))
  shift
done
echo $((sum / count))
