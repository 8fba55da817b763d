#!/bin/bash
want=$(printf 'color=blue\nlang=nl\nretries=5\ntimeout=10\nzone=eu\n')
if [ "$(cat "$TITO_TASK_ROOT"/app/merged.conf 2>/dev/null)" = "$want" ]; then echo 1; else echo 0; fi > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
