#!/usr/bin/env bash
# Measures everything and writes results/*.json and README.md. With arguments, only the parts named. Three to five minutes;
# what is not installed (make deps) is skipped and said.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory build
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -trimpath -o "$bin/bench" ./bench
"$bin/bench" "${@:-all}"
