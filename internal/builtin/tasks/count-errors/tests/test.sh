#!/bin/bash
if [ "$(tr -d '[:space:]' < "$TITO_TASK_ROOT"/app/errors.txt 2>/dev/null)" = 5 ]; then echo 1; else echo 0; fi > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
