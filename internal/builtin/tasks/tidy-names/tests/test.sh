#!/bin/bash
cd "$TITO_TASK_ROOT"/app/photos || { echo 0 > "$TITO_TASK_ROOT"/logs/verifier/reward.txt; exit 0; }
ok=1
[ "$(ls | LC_ALL=C sort | tr '\n' ' ')" = "beach-day.jpg harbour.jpg night-sky-2.jpg old-town.jpg " ] || ok=0
[ "$(cat beach-day.jpg 2>/dev/null)" = beach ] || ok=0
[ "$(cat night-sky-2.jpg 2>/dev/null)" = sky ] || ok=0
echo $ok > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
