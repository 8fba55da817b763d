#!/bin/bash
reward() { echo "$1" > "$TITO_TASK_ROOT"/logs/verifier/reward.txt; exit 0; }
t=$(mktemp -d)
printf '1\n2\n3\n' > "$t/a"
printf '' > "$t/b"
printf '%s\n' 100 -40 5 > "$t/c"
[ "$(bash "$TITO_TASK_ROOT"/app/total.sh "$t/a")" = 6 ] || reward 0
[ "$(bash "$TITO_TASK_ROOT"/app/total.sh "$t/b")" = 0 ] || reward 0
[ "$(bash "$TITO_TASK_ROOT"/app/total.sh "$t/c")" = 65 ] || reward 0
reward 1
