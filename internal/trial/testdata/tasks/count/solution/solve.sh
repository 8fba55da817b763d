#!/bin/bash
./bin/tool data/lines.txt | tr -d " " > answer.txt
echo solved
