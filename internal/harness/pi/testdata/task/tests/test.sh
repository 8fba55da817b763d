#!/bin/bash
cd /app || exit 0
ok=1
[ "$(bash src/average.sh 2 4 9)" = 5 ] || ok=0
[ "$(bash src/average.sh 7)" = 7 ] || ok=0
grep -q 'last argument' NOTES.md || ok=0
echo $ok > /logs/verifier/reward.txt
