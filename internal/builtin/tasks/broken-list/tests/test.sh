#!/bin/bash
ok=1
[ "$(cat "$TITO_TASK_ROOT"/app/report.txt 2>/dev/null)" = "5 items, 515 pieces" ] || ok=0
[ "$(cat "$TITO_TASK_ROOT"/app/stock.txt)" = "$(printf 'bolts 40\nnuts 40\nscrews 120\nwashers 15\nnails 300\n')" ] || ok=0
echo $ok > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
