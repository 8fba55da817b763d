#!/bin/bash
ok=1
[ "$(cat /app/report.txt 2>/dev/null)" = "5 items, 515 pieces" ] || ok=0
[ "$(cat /app/stock.txt)" = "$(printf 'bolts 40\nnuts 40\nscrews 120\nwashers 15\nnails 300\n')" ] || ok=0
echo $ok > /logs/verifier/reward.txt
