#!/bin/bash
set -e
awk '$2 == "ERROR"' "$TITO_TASK_ROOT"/app/logs/*.log | wc -l > "$TITO_TASK_ROOT"/app/errors.txt
