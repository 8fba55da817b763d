#!/bin/bash
set -e
cd "$TITO_TASK_ROOT"/app/photos
for f in *; do n=$(echo "$f" | tr 'A-Z ' 'a-z-' | sed 's/\.jpeg$/.jpg/'); [ "$f" = "$n" ] || mv -- "$f" "$n"; done
