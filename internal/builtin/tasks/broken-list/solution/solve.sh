#!/bin/bash
set -e
sed -i -e 's/^nuts 4O$/nuts 40/' -e 's/^washers l5$/washers 15/' "$TITO_TASK_ROOT"/app/stock.txt
bash "$TITO_TASK_ROOT"/app/load.sh
