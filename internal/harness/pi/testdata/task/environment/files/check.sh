#!/bin/bash
[ "$(bash src/average.sh 2 4 9)" = 5 ] && echo "ok" || { echo "wrong: $(bash src/average.sh 2 4 9)"; exit 1; }
