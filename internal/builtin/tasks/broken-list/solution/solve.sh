#!/bin/bash
set -e
sed -i -e 's/^nuts 4O$/nuts 40/' -e 's/^washers l5$/washers 15/' /app/stock.txt
bash /app/load.sh
