#!/bin/bash
got=$(tr -d '[:space:]' < /app/answer.txt 2>/dev/null)
if [ "$got" = 7342 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
