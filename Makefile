# tito: what people run. `make` alone lists it.
SHELL      := bash
.SHELLFLAGS := -e -o pipefail -c
GO         ?= go
LINT       := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# Our own few lines, not gotestsum as in e2e: building that takes longer than half of the tests.
SUM        := $(GO) run ./scripts/testsum

.DEFAULT_GOAL := help
.PHONY: help build test e2e full lint fmt bench deps rewrite picture clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary, bin/tito
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X github.com/tito-rl/tito/internal/cli.commit=$$(git rev-parse HEAD 2>/dev/null)" -o bin/tito ./cmd/tito

test: ## fast, hermetic, with the race detector; needs Go alone
	$(GO) test -json -race -timeout 10m ./... | $(SUM)

e2e: deps ## real tokenizers, templates, harnesses and oracles, suite by suite with its time
	scripts/e2e.sh

full: export TITO_LONG = 1
full: test e2e ## everything that needs no GPU and no key, tokenizers on ten times as many strings

deps: ## install what e2e needs, by pinned version, into .deps/
	scripts/deps.sh

lint: ## vet, format, linters (each with its reason in .golangci.yml)
	@test -z "$$(gofmt -l cmd internal vectors bench 2>/dev/null)" || { gofmt -l cmd internal vectors bench; exit 1; }
	$(GO) vet ./... && $(GO) vet -tags e2e ./...
	$(LINT) run

fmt: ## format
	gofmt -w cmd internal vectors bench

rewrite: ## regenerate traces and goldens; read the diff before you commit it
	$(GO) test ./internal/fault ./internal/artifact ./internal/session ./internal/schedule ./internal/materialize ./internal/explain ./internal/family/all ./internal/dialect/chatcompletions ./internal/cli -rewrite

bench: ## the figures, in one run, into bench/
	bench/run.sh

picture: build ## draw a real quickstart into docs/quickstart.svg
	dir=$$(mktemp -d) && (cd $$dir && PATH="$(CURDIR)/bin:$$PATH" tito quickstart 2>&1) | scripts/picture -t "tito quickstart" -c "tito quickstart" > docs/quickstart.svg; rm -rf $$dir

clean: ## remove what was built and installed here; runs/ stays
	rm -rf bin .deps .tmp
