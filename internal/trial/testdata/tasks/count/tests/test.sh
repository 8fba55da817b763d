#!/bin/bash
cd "$TITO_TASK_ROOT/app" || exit 1
echo "kind $KIND, greeting $GREETING, in $PWD"
if [ "$(cat answer.txt 2>/dev/null)" = "${EXPECTED:-7}" ]; then r=1; else r=0; fi
echo "$r" > "$TITO_TASK_ROOT/logs/verifier/reward.txt"
