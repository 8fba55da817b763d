#!/usr/bin/env bash
# Runs the end-to-end suites one by one. Prints the time of each, and at the end every test that was skipped, with its reason.
# TITO_REQUIRE=all makes what is missing a failure. Arguments name suites; none = all.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tmp
log=$(mktemp -d .tmp/e2e.XXXXXX)
trap 'rm -rf "$log"' EXIT
wanted=" $* "
fail=0 table="" covered=""

suite() { # suite NAME PACKAGES…
  local name=$1 start=$SECONDS status=ok
  shift
  covered+=" $*"
  [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
  printf '\n== %s\n' "$name"
  go run gotest.tools/gotestsum@v1.13.0 --format testname --hide-summary=output,skipped --jsonfile "$log/$name.json" -- \
    -tags e2e -count=1 -timeout 30m -run '^TestE2E' "$@" || { status=FAILED; fail=1; }
  local passed skipped
  passed=$(grep -c '"Action":"pass",.*"Test":"TestE2E[^"/]*"' "$log/$name.json")
  skipped=$(grep -c '"Action":"skip",.*"Test":"TestE2E' "$log/$name.json")
  if [ "$((passed + skipped))" = 0 ] && [ $status = ok ]; then status="FAILED: no test ran" fail=1; fi
  table+=$(printf '%-10s %5ds  %3d passed, %d skipped  %s' "$name" $((SECONDS - start)) "$passed" "$skipped" "$status")$'\n'
}

suite tokenizer ./internal/tokenizer/... ./internal/model/...
suite template ./internal/template/...
suite formats ./internal/family/... ./internal/dialect/...
suite artifact ./internal/artifact/... ./internal/explain/...
suite engines ./internal/engine/...
suite qualify ./internal/qualify/...
suite host ./internal/host/... ./internal/session/...
suite trials ./internal/harness/... ./internal/sandbox/...
suite loop ./internal/cli/...

# A package with end-to-end tests that no suite runs is a hole.
while read -r dir; do
  hole=1
  for p in $covered; do [[ ./$dir/ == "${p%...}"* ]] && hole=0; done
  if [ $hole = 1 ]; then table+="$dir has end-to-end tests and is in no suite: add it to scripts/e2e.sh"$'\n' fail=1; fi
done < <(git ls-files --cached --others --exclude-standard '*_e2e_test.go' | xargs -n1 dirname | sort -u)

printf '\n%s%-10s %5ds\n' "$table" total $SECONDS
cat "$log"/*.json 2>/dev/null | grep -h 'skipped: ' | sed -E 's/.*"Package":"[^"]*tito\/([^"]*)","Test":"([^"]*)".*skipped: (.*)\\n.*/  \1 \2: \3/' > "$log/skips"
if [ -s "$log/skips" ]; then printf '\nskipped\n'; cat "$log/skips"; else printf '\nnothing was skipped\n'; fi
exit $fail
