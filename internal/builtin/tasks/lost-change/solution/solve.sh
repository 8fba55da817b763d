#!/bin/bash
set -e
sed -i '/^3\. tag the release$/a 4. write the announcement' "$TITO_TASK_ROOT"/app/notes.txt
