#!/bin/bash
# Prints the sum of the numbers in the file "$1".
sum=1
while read -r n; do
  sum=$((sum + n))
done < "$1"
echo "$sum"
