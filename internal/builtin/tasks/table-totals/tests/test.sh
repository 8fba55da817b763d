#!/bin/bash
want=$(printf 'east\t45\nsouth\t41\nnorth\t20\nwest\t3\n')
if [ "$(cat "$TITO_TASK_ROOT"/app/totals.tsv 2>/dev/null)" = "$want" ]; then echo 1; else echo 0; fi > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
