# `make` alone explains the targets. Building and testing need Go and nothing else; the tools that linting, releasing and
# integration tests need are pinned in tools/ and built on first use.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
BIN      ?= bin
FUZZTIME ?= 10s
# What runs the tests: .ci/run puts gotestsum here.
GOTEST   ?= $(GO) test
PKGS     ?= ./...

export CGO_ENABLED ?= 0

VERSION_PKG := github.com/prometheus/common/version
LDFLAGS = -s -w \
	-X $(VERSION_PKG).Version=$(shell cat VERSION) \
	-X $(VERSION_PKG).Revision=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) \
	-X $(VERSION_PKG).Branch=$(shell git rev-parse --abbrev-ref HEAD 2>/dev/null || echo unknown) \
	-X $(VERSION_PKG).BuildUser=$(shell id -un)@$(shell hostname) \
	-X $(VERSION_PKG).BuildDate=$(shell date -u +%Y%m%d-%H:%M:%S)

# Packages that have tests behind the `integration` tag.
INTEGRATION_PKGS = $(shell grep -rlE '^//go:build .*\bintegration\b' --include='*_test.go' --exclude-dir=bench . | xargs -r -n1 dirname | sort -u)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build omni_exporter and omnitool into ./bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/omni_exporter ./cmd/omnitool

.PHONY: demo
demo: build ## Run the exporter over a simulated pipeline, on loopback
	$(BIN)/omnitool demo

.PHONY: test
test: ## Run every test that needs Go alone
	$(GOTEST) $(PKGS)

.PHONY: test-race
test-race: ## The same under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GOTEST) -race $(PKGS)

.PHONY: integration
integration: tools-integration ## Run the tests against real peers: Prometheus v2 and v3, Python clients, libzmq, Chromium
	$(GOTEST) -tags integration -count=1 -p 1 -timeout 20m $(INTEGRATION_PKGS)

.PHONY: bench
bench: ## Measure against the peers, in one run, as ratios
	cd bench && $(GO) run .

.PHONY: bench-build
bench-build: ## Check that the benchmarks' own module builds
	cd bench && $(GO) vet ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	@for pkg in $$($(GO) list $(PKGS)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | sed -n '/^Fuzz/p'); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: lint
lint: ## Run golangci-lint, gofumpt and go vet
	lint=$$(tools/install.sh lint) && PATH=$$lint:$$PATH && \
	golangci-lint config verify && \
	golangci-lint run $(PKGS) && \
	unformatted=$$(gofumpt -l .) && \
	if [ -n "$$unformatted" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$unformatted" >&2; exit 1; fi
	$(GO) vet $(PKGS)

.PHONY: fmt
fmt: ## Format the Go files
	lint=$$(tools/install.sh lint) && $$lint/golangci-lint fmt ./...

.PHONY: generate
generate: ## Write the generated files anew
	$(GO) generate ./...

.PHONY: promu-build
promu-build: ## Build the binaries as a release does
	release=$$(tools/install.sh release) && $$release/promu build --prefix $(BIN)

.PHONY: tools
tools: ## Build the pinned tools for linting, testing and releasing
	tools/install.sh lint
	tools/install.sh test
	tools/install.sh release

.PHONY: tools-integration
tools-integration: ## Get Prometheus v2 (Debian) and v3 (built once, a few minutes), and axe-core (npm)
	tools/install.sh debian
	tools/install.sh prometheus
	tools/install.sh axe

.PHONY: clean
clean: ## Remove what was built here (the tools' cache stays)
	rm -rf $(BIN) .build .tarballs omni_exporter omnitool
