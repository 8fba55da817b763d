#!/bin/bash
want=$(printf 'release plan\n\n1. freeze the branch\n2. run the long tests\n3. tag the release\n4. write the announcement\n\nowner: kim (was: lee)\n')
if [ "$(cat "$TITO_TASK_ROOT"/app/notes.txt)" = "$want" ]; then echo 1; else echo 0; fi > "$TITO_TASK_ROOT"/logs/verifier/reward.txt
