#!/bin/bash
want=$(printf 'east\t45\nsouth\t41\nnorth\t20\nwest\t3\n')
if [ "$(cat /app/totals.tsv 2>/dev/null)" = "$want" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
