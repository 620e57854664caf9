# mopslock. `make` alone shows what there is.

GO ?= go
BIN := bin
GOLANGCI_LINT := $(BIN)/golangci-lint-v2.15.0
GOFUMPT := $(BIN)/gofumpt-v0.12.0

# Everything with goroutines of its own and without a cloud's SDK is tested under
# the race detector; the core has no goroutines, and the SDKs would cost minutes.
RACY := ./host ./host/trace ./host/store ./host/store/local ./host/store/mem ./host/store/cloud ./cmd/mopslock-host/internal/...
STRESS ?= 30s

# Everything but the C library, which needs cgo, must build for these without it.
CROSS := darwin/arm64 windows/amd64 linux/arm64
CROSSED := ./core/... ./host/... ./wasm/... ./cmd/...

.DEFAULT_GOAL := help
.PHONY: help run build lib install test check generate bench stress

help: ## show what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/mopslock-host
	$(GO) build -o $(BIN)/mopslock-host ./cmd/mopslock-host

lib: ## build libmopslock and libmopslock-core into bin/lib
	@$(MAKE) -s -C bindings/c GO=$(GO)

install: ## install header, libraries and pkg-config files (PREFIX=/usr/local)
	@$(MAKE) -s -C bindings/c install GO=$(GO)

run: build ## show leases at work in a fresh directory: who held what and when
	$(GO) run ./tests/examples/demo $(BIN)/mopslock-host

test: ## run every test, stress for 5 s each
	$(GO) test -timeout 15m $$($(GO) list ./... | grep -vxF -e "$$($(GO) list $(RACY))" -e "$$($(GO) list ./tests/stress)")
	$(GO) test -timeout 15m -race $(RACY)
	$(GO) test -timeout 15m ./host ./cmd/mopslock-host -args -engine=wasm
	$(GO) test -timeout 15m -count 1 ./tests/stress

check: $(GOLANGCI_LINT) $(GOFUMPT) ## lint, formatting, module files, generated files, other systems
	@echo "== gofumpt"
	@out=$$($(GOFUMPT) -l core host wasm bindings cmd tests); test -z "$$out" || { echo "not formatted, run $(GOFUMPT) -w on:"; echo "$$out"; exit 1; }
	@echo "== vet"
	@$(GO) vet ./...
	@$(GO) vet -tags mopslock_core ./bindings/c
	@echo "== golangci-lint"
	@$(GOLANGCI_LINT) run ./...
	@echo "== go.mod and go.sum"
	@$(GO) mod tidy -diff
	@$(GO) mod verify
	@echo "== generated files"
	@$(GO) run ./core/internal/gen -check -dir core
	@$(GO) run ./wasm/internal/gen -check -dir wasm
	@set -e; for system in $(CROSS); do echo "== $$system"; \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) vet $(CROSSED); done

generate: ## write the generated files again
	$(GO) generate ./...

bench: ## measure against budgets, as ratios of one run
	$(GO) run ./tests/bench

stress: ## run the stress tests for long (STRESS=30s each) and print their figures
	MOPSLOCK_STRESS=$(STRESS) $(GO) test -timeout 30m -count 1 -v ./tests/stress

# The linters are built from the module proxy, once; a version is part of the name.
$(GOLANGCI_LINT):
	@echo "building golangci-lint; this takes some minutes, once"
	@mkdir -p $(BIN)/tmp
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	@mv $(BIN)/tmp/golangci-lint $@

$(GOFUMPT):
	@mkdir -p $(BIN)/tmp
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install mvdan.cc/gofumpt@v0.12.0
	@mv $(BIN)/tmp/gofumpt $@
