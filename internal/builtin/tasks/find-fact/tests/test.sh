#!/bin/bash
got=$(tr -d '[:space:]' < "$TITO_TASK_ROOT"/app/answer.txt 2>/dev/null)
if [ "$got" = 7342 ]; then echo 1; else echo 0; fi > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
