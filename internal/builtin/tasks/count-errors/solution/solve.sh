#!/bin/bash
set -e
awk '$2 == "ERROR"' /app/logs/*.log | wc -l > /app/errors.txt
