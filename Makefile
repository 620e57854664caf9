# mopslock. `make` alone lists the targets.

GO ?= go
BIN := bin
GOLANGCI_LINT := $(BIN)/golangci-lint-v2.15.0
GOFUMPT := $(BIN)/gofumpt-v0.12.0
GOVULNCHECK := $(BIN)/govulncheck-v1.8.0
ACTIONLINT := $(BIN)/actionlint-v1.7.12
CRANE := $(BIN)/crane-v0.22.1

# The servers that tests of real stores start; tests/servers knows these names.
SERVERS := $(BIN)/servers
VERSITYGW := $(SERVERS)/versitygw-v1.8.0
FAKE_GCS := $(SERVERS)/fake-gcs-server-v1.56.1
AZURITE := $(SERVERS)/azurite-3.37.0/node_modules/azurite/package.json

# The servers that make bench compares ours with. They are Debian's packages, unpacked and
# not installed, so that no daemon starts and nothing needs root.
PEERS := $(BIN)/peers
PEER_PACKAGES := etcd-server redis-server redis-tools libjemalloc2 liblzf1 libatomic1
APT_GET := apt-get -qq -o APT::Sandbox::User=root

# Tests called Hammer show what goroutines and locks can break. They run under the race
# detector, as the suites of our own stores do.
HAMMERED := ./host ./host/limiter ./host/fence ./host/trace ./host/store/local ./host/store/mem
# make test compiles no cloud's SDK, which takes minutes where nothing is cached: the packages whose
# tests have one go to make test-servers, where servers have them all. The tests called Cloud, Node,
# Valgrind and Asan go there as well, since they need an SDK, Node, Valgrind, or Go's own library with
# AddressSanitizer in it. make stress has tests/stress.
NOCLOUD := -tags mopslock_nocloud
ELSEWHERE := ^Test(Cloud|Node|Valgrind|Asan)
SDK := github.com/aws/\|cloud.google.com/\|github.com/Azure/
TESTED = $(GO) list $(NOCLOUD) -test -f '{{.ImportPath}} {{.Deps}}' ./... | sed -n 's/^\([^ ]*\)\.test /\1 /p' | grep -v '/tests/stress '
# Packages with goroutines of their own and without a cloud's SDK, which would cost minutes.
RACY := $(HAMMERED) ./host/doctor ./host/keep ./host/store ./cmd/mopslock-host/internal/...
STRESS ?= 30s
EXPLORE ?= 1h
# With 100,000 processes a simulation takes three quarters of an hour of two processors,
# and 13 GiB; a tenth of them takes a tenth of both.
FLEET ?= 100000
FUZZ ?= 10m
MUTANTS ?= 200
# How often make flaky runs the tests.
N ?= 20
SOAK ?= 30m

# The Python package is tested as users install it, in an environment of its own.
PYTHON ?= python3
PACKAGE := bindings/python
VENV := $(BIN)/python-venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check -q
PYLIB := $(BIN)/python-lib
PYTEST := HYPOTHESIS_STORAGE_DIRECTORY=$(CURDIR)/$(BIN)/hypothesis $(VENV)/bin/python -m pytest -p no:cacheprovider

# Modules of their own, for what only the bench and a release need.
MODULES := tests/bench/pictures tests/bench/peers release

.DEFAULT_GOAL := help
.PHONY: help run build binaries lib install test test-go test-hammer test-mutations test-python test-wasm race vet-systems test-wine test-servers check vulns fuzz mutants flaky generate bench scale soak explore stress servers peers FORCE

help: ## show what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# mopslock-host version tells the commit. Without git the flag would make the build fail.
build: ## build bin/mopslock-host
	$(GO) build $(if $(shell git rev-parse HEAD 2>/dev/null),-buildvcs=auto) -tags disable_grpc_modules -ldflags '-s -w' -o $(BIN)/mopslock-host ./cmd/mopslock-host

# Static and without C, so that one binary runs on every system of its kind; the same sources make the same bytes anywhere.
# RELEASED is what make release has binaries of, and BINARIES where they lie: BINARIES/linux-arm64/mopslock-host.
RELEASED ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64
BINARIES ?= $(BIN)/binaries

binaries: ## build the command for RELEASED systems into bin/binaries
	@set -e; for to in $(RELEASED); do echo "building for $$to"; \
		CGO_ENABLED=0 GOOS=$${to%-*} GOARCH=$${to#*-} $(GO) build -trimpath $(if $(shell git rev-parse HEAD 2>/dev/null),-buildvcs=auto) -tags disable_grpc_modules \
			-ldflags '-s -w -buildid=' -o $(BINARIES)/$$to/mopslock-host$$(case $$to in windows-*) echo .exe ;; esac) ./cmd/mopslock-host; \
	done

# Wheels for RELEASED systems: the command's of each, and the library's of each but macOS. zig compiles libmopslock-core, for an
# old glibc. All others, and musl, have the pure wheel. tags.py fails if one is not what its name says.
.PHONY: wheels macos-wheel wheels-test
WHEELS ?= $(BIN)/wheels
ZIG := 0.17.1
WHEEL_TOOLS := $(BIN)/wheel-tools-$(ZIG)
PACK = $(abspath $(WHEEL_TOOLS))/bin/python -m pip --disable-pip-version-check -q wheel --no-deps --no-build-isolation -w $(abspath $(WHEELS))

wheels: binaries $(WHEEL_TOOLS) ## build the wheels and the sdist for RELEASED systems into bin/wheels
	@rm -rf $(WHEELS) && mkdir -p $(WHEELS)
	@set -e; export SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)}; \
	for to in $(RELEASED); do echo "packing for $$to"; \
		MOPSLOCK_PLATFORM=$$to MOPSLOCK_BINARY=$$(echo $(abspath $(BINARIES))/$$to/mopslock-host*) $(PACK) ./bindings/command; \
		case $$to in \
		linux-amd64) target=x86_64-linux-gnu.2.17 tag=manylinux_2_17_x86_64 ;; linux-arm64) target=aarch64-linux-gnu.2.17 tag=manylinux_2_17_aarch64 ;; \
		windows-amd64) target=x86_64-windows-gnu tag=win_amd64 ;; windows-arm64) target=aarch64-windows-gnu tag=win_arm64 ;; \
		*) continue ;; esac; \
		GOOS=$${to%-*} GOARCH=$${to#*-} CC="$(abspath $(WHEEL_TOOLS))/bin/python -m ziglang cc -target $$target" \
			$(MAKE) -s -C bindings/c shared GO=$(GO) LIB=$(abspath $(WHEELS))/parts/$$to; \
		MOPSLOCK_PLATFORM=$$to MOPSLOCK_LIB_DIR=$(abspath $(WHEELS))/parts/$$to $(PACK) --config-settings=--build-option=--plat-name=$$tag ./$(PACKAGE); \
	done; \
	MOPSLOCK_ENGINE=wasm $(PACK) ./$(PACKAGE); \
	cd $(PACKAGE) && $(abspath $(WHEEL_TOOLS))/bin/python -c 'import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])' $(abspath $(WHEELS)) >/dev/null
	@rm -rf $(WHEELS)/parts $(PACKAGE)/src/mopslock.egg-info bindings/command/mopslock_host.egg-info
	@$(WHEEL_TOOLS)/bin/python $(PACKAGE)/tags.py $(WHEELS)/*.whl

# No other system has Apple's frameworks, which Go's C code there is linked with.
macos-wheel: ## on macOS: build the library's native wheel into bin/wheels-macos, and take a lease with it
	@test "$$(uname)" = Darwin || { echo "make macos-wheel: this is no macOS; the pure wheel of make wheels is for macOS, too" >&2; exit 1; }
	@rm -rf $(BIN)/tmp/cibuildwheel && $(PYTHON) -m venv $(BIN)/tmp/cibuildwheel && $(BIN)/tmp/cibuildwheel/bin/python -m pip -q install cibuildwheel==4.3.5
	CIBW_BUILD='cp313-*' CIBW_ENVIRONMENT='MOPSLOCK_ENGINE=native MACOSX_DEPLOYMENT_TARGET=12.0 PIP_FIND_LINKS=$(abspath $(WHEELS))' \
		CIBW_TEST_COMMAND='python -c "import mopslock as m; m.acquire(m.stores.Memory(), \"n\").release()"' \
		$(BIN)/tmp/cibuildwheel/bin/cibuildwheel $(PACKAGE) --output-dir $(BIN)/wheels-macos

wheels-test: servers wheels ## install the wheels into fresh environments, and have them exclude each other
	MOPSLOCK_WHEELS=required $(GO) test -timeout 15m -count 1 ./tests/servers -run '^TestWheels$$'

$(WHEEL_TOOLS):
	@rm -rf $(BIN)/tmp/wheel-tools
	@$(PYTHON) -m venv $(BIN)/tmp/wheel-tools
	@$(BIN)/tmp/wheel-tools/bin/python -m pip --disable-pip-version-check -q install auditwheel==6.8.2 setuptools==84.2.1 ziglang==$(ZIG)
	@mv $(BIN)/tmp/wheel-tools $@

# What make release packs beside binaries and wheels. Another machine's libmopslock-core.a takes its binutils, as binutils-aarch64-linux-gnu.
.PHONY: release release-parts release-test release-check
RELEASE := $(BIN)/release
RELEASE_PARTS := $(BIN)/release-parts
PACKER ?= $(GO) run -trimpath .
VERSION = $(shell sed -n 's/^const Version = "\(.*\)"$$/\1/p' core/version.go)

# A binary that was built from another tree than its commit's would say so.
release: ## pack what users download into bin/release, of a clean commit (RELEASED=linux-amd64: for that system)
	@test -z "$$(git status --porcelain)" || { echo "make release: the tree is not clean: commit or remove what git status shows" >&2; exit 1; }
	@test -d .git || { echo "make release: Go reads no commit here: use a clone, and no worktree" >&2; exit 1; }
	@$(MAKE) --no-print-directory wheels release-parts
	@cd release && TZ=UTC CGO_ENABLED=0 $(PACKER) -version $(VERSION) -systems '$(RELEASED)' -root $(CURDIR) -binaries $(abspath $(BINARIES)) \
		-libraries $(CURDIR)/$(RELEASE_PARTS)/libraries -pages $(CURDIR)/$(RELEASE_PARTS)/pages -wheels $(abspath $(WHEELS)) -o $(CURDIR)/$(RELEASE)
	@cd $(RELEASE) && ls -l | awk 'NR > 1 { printf "%11d %s\n", $$5, $$9 }'

release-test: ## install, use and remove what make release has packed for this machine
	cd release && MOPSLOCK_RELEASE=$(CURDIR)/$(RELEASE) CGO_ENABLED=0 $(GO) test -trimpath -count 1 .

# The second copy lies elsewhere, and nothing that was compiled for the first serves it but the tools: zig, and the program that packs.
CHECKED := $(BIN)/release-check
COPY = $(MAKE) --no-print-directory release BIN=bin RELEASED='$(RELEASED)' WHEEL_TOOLS=$(abspath $(WHEEL_TOOLS)) PACKER=$(abspath $(CHECKED))/packer -C $(CHECKED)
release-check: $(WHEEL_TOOLS) ## build a release of this commit twice, from two clones with a build cache each, name what differs, and try it
	@rm -rf $(CHECKED)
	@git clone -q . $(CHECKED)/one
	@CGO_ENABLED=0 $(GO) -C $(CHECKED)/one/release build -trimpath -o $(CURDIR)/$(CHECKED)/packer .
	@git clone -q . $(CHECKED)/another/two
	@+$(COPY)/one
	@+GOCACHE=$(CURDIR)/$(CHECKED)/cache ZIG_GLOBAL_CACHE_DIR=$(CURDIR)/$(CHECKED)/cache/zig $(COPY)/another/two >/dev/null
	@cd $(CHECKED) && diff one/bin/release/SHA256SUMS another/two/bin/release/SHA256SUMS || { echo "two builds of one commit differ: see above" >&2; exit 1; }
	@$(MAKE) --no-print-directory release-test RELEASE=$(CHECKED)/one/bin/release
	@rm -rf $(CHECKED)/cache $(CHECKED)/another
	@echo "two builds of one commit are the same, all $$(wc -l <$(CHECKED)/one/bin/release/SHA256SUMS) files"

# What a release does after make release, for a tag that is the version's.
.PHONY: release-tag push-image
release-tag: ## check that TAG is the version's
	@test '$(TAG)' = 'v$(VERSION)' || { echo "the tag is '$(TAG)', and core/version.go says $(VERSION)" >&2; exit 1; }

# crane logs in as docker does, or with REGISTRY_USER and REGISTRY_TOKEN from the environment.
push-image: $(CRANE) ## push the image of make release to a registry, TO=ghcr.io/mopslock/mopslock-host
	@rm -rf $(BIN)/tmp/image && mkdir -p $(BIN)/tmp/image && tar -xf $(RELEASE)/mopslock-host-$(VERSION)-image.tar -C $(BIN)/tmp/image
	@to='$(TO)'; test -z "$$REGISTRY_TOKEN" || printenv REGISTRY_TOKEN | $(CRANE) auth login "$${to%%/*}" -u "$$REGISTRY_USER" --password-stdin
	@$(CRANE) push $(BIN)/tmp/image $(TO):$(VERSION) && $(CRANE) tag $(TO):$(VERSION) latest

# The command that writes the pages is compiled as the one that is released, of which most is there by then.
release-parts: $(WHEEL_TOOLS) ## build C libraries, man pages and completions for make release
	@rm -rf $(RELEASE_PARTS)
	@TZ=UTC SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) CGO_ENABLED=0 $(GO) run -trimpath -tags disable_grpc_modules,mopslock_pages ./cmd/mopslock-host $(RELEASE_PARTS)/pages
	@set -e; for to in $(filter linux-%,$(RELEASED)); do dir=$(CURDIR)/$(RELEASE_PARTS)/libraries/$$to; echo "building $$to's C library"; \
		case $$to in linux-amd64) machine=x86_64 ;; linux-arm64) machine=aarch64 ;; esac; \
		GOOS=linux GOARCH=$${to#*-} CC="$(abspath $(WHEEL_TOOLS))/bin/python -m ziglang cc -target $$machine-linux-gnu.2.17" \
			$(MAKE) -s -C bindings/c GO=$(GO) LIB=$$dir BINUTILS=$$(test $$to = linux-$$($(GO) env GOARCH) || echo $$machine-linux-gnu-); \
		sed 's|@PREFIX@|$${pcfiledir}/../..|; s|@VERSION@|$(VERSION)|' bindings/c/mopslock-core.pc.in >$$dir/mopslock-core.pc; \
	done

lib: ## build libmopslock-core into bin/lib
	@$(MAKE) -s -C bindings/c GO=$(GO)

install: ## install header, C library and pkg-config file (PREFIX=/usr/local)
	@$(MAKE) -s -C bindings/c install GO=$(GO)

# It shows a directory, so it does not compile the clouds' SDKs, which take minutes where nothing is cached.
run: ## show leases at work in a fresh directory: who held what and when
	$(GO) build -tags mopslock_nocloud -ldflags '-s -w' -o $(BIN)/demo/mopslock-host ./cmd/mopslock-host
	$(GO) run ./tests/examples/demo $(BIN)/demo/mopslock-host

# No test here needs a server, or waits for time to pass. With MOPSLOCK_TOOLS=required a tool that
# is not installed is a failure, and no skip. make -k test goes on after a part that fails. By itself it
# runs two parts at a time: much of Python's is waiting. make check vets, so that no part does.
# The environment comes first: two makes that made it at once would spoil it for each other.
test: $(VENV)/installed ## run the tests: all behaviour, in minutes
	@+$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2 -Oline) test-go test-mutations test-python test-hammer

test-go: ## run the part of test that is Go
	$(GO) test -timeout 15m -vet=off $(NOCLOUD) -skip '$(ELSEWHERE)' $$($(TESTED) | grep -v '$(SDK)' | cut -d ' ' -f 1)

test-hammer: ## run what goroutines and locks can break, under the race detector
	$(GO) test -timeout 15m -vet=off -race -run Hammer $(HAMMERED)

test-mutations: ## check that explorer and simulator catch each mutation by its name
	$(GO) test -timeout 15m -vet=off -tags mopslock_mutations ./tests/explore ./tests/simulate -run Mutations
	$(GO) test -timeout 15m -vet=off -tags mopslock_mutations ./core/machines ./core/client -run 'Mutations|Scripts|Vectors'

test-python: $(VENV)/installed ## run the part of test that is Python
	$(PYTEST) -q $(PACKAGE)/tests --ignore=$(PACKAGE)/tests/stress

test-wasm: $(VENV)/installed ## run the tests of stores of one's own in Python on the WASM engine
	MOPSLOCK_ENGINE=wasm $(PYTEST) -q $(addprefix $(PACKAGE)/tests/test_,api_aio.py api_lease.py fork.py invoke.py memoize.py \
		mops.py own_threads.py permit.py strict.py) -k "not url and not native"

race: ## run the other tests of packages with goroutines under the race detector
	$(GO) test -timeout 15m -race -skip Hammer $(RACY)

# What compiles for other systems. The tests that need Linux or Unix say so by build tags.
vet-systems: ## vet for Windows and macOS, tests as well
	@set -e; for to in windows-amd64 windows-arm64 darwin-amd64 darwin-arm64; do echo "== vet for $$to"; \
		CGO_ENABLED=0 GOOS=$${to%-*} GOARCH=$${to#*-} $(GO) vet $(NOCLOUD) ./...; done

# No part of .ci/run: the standard library is compiled anew, and a store on wine's files takes its time.
WINE := ./core/... ./host ./host/doctor ./host/fence ./host/keep ./host/limiter ./host/store ./host/store/local ./host/trace ./cmd/mopslock-host/...
NOT_WINE := ^Test(Tags|NothingBeforeMain)|TestHammerConformance/stream_whole_or_none

test-wine: ## run tests for Windows by wine, which is installed if need be
	tests/wine -timeout 15m -skip '$(NOT_WINE)' $(WINE)

test-servers: servers ## run what only S3, GCS and Azure servers can tell, and what needs an SDK, Node or Valgrind
	$(GO) test -timeout 15m -count 1 -skip '^TestWheels$$' ./tests/servers/...
	$(GO) test -timeout 15m $$($(TESTED) | grep '$(SDK)' | cut -d ' ' -f 1 | grep -v /tests/servers$$)
	$(GO) test -timeout 15m -run '$(ELSEWHERE)' ./cmd/mopslock-host ./tests/examples ./bindings/c/tests

check: $(GOLANGCI_LINT) $(GOFUMPT) $(ACTIONLINT) $(VENV)/installed ## check lint, formatting, workflows, module files, generated files
	@echo "== gofumpt"
	@out=$$($(GOFUMPT) -l core host wasm bindings cmd release tests); test -z "$$out" || { echo "not formatted, run $(GOFUMPT) -w on:"; echo "$$out"; exit 1; }
	@echo "== vet, where golangci-lint does not look"
	@$(GO) vet -tags mopslock_nocloud ./cmd/mopslock-host
	@$(GO) vet -tags mopslock_nocloud,mopslock_pages ./cmd/mopslock-host
	@$(GO) vet -tags mopslock_mutations ./core/... ./tests/explore/... ./tests/simulate/...
	@echo "== golangci-lint"
	@$(GOLANGCI_LINT) run ./...
	@echo "== ruff"
	@$(VENV)/bin/ruff check -q --cache-dir $(BIN)/ruff $(PACKAGE) bindings/command
	@$(VENV)/bin/ruff format -q --check --cache-dir $(BIN)/ruff $(PACKAGE) bindings/command || { echo "not formatted, run $(VENV)/bin/ruff format $(PACKAGE)"; exit 1; }
	@echo "== mypy"
	@set -e; cd $(PACKAGE); for files in '' ../command/setup.py; do \
		$(CURDIR)/$(VENV)/bin/mypy --no-error-summary --cache-dir $(CURDIR)/$(BIN)/mypy $$files; done
# It knows the inputs of actions by their major version alone.
	@echo "== actionlint"
	@set -e; for workflow in .github/workflows/*.yml; do sed -E 's/(uses: [^@]*@v[0-9]+)\.[0-9.]+/\1/' $$workflow | \
		$(ACTIONLINT) -shellcheck= -pyflakes= -stdin-filename $$workflow -; done
	@sed -n '/^```yaml/,/^```$$/{ /^```/d; s#mopslock/mopslock/\(.*\)@.*#./\1#; p; }' .github/actions/run/README.md | $(ACTIONLINT) -stdin-filename .github/actions/run/README.md -
	@echo "== go.mod and go.sum"
	@$(GO) mod tidy -diff
	@$(GO) mod verify
	@set -e; for module in $(MODULES); do echo "== $$module"; \
		cd $(CURDIR)/$$module; $(GO) mod tidy -diff; $(CURDIR)/$(GOLANGCI_LINT) run ./...; done
	@echo "== generated files"
	@$(GO) run ./core/internal/gen -check -dir core
	@$(GO) run ./wasm/internal/gen -check -dir wasm
	@echo "== govulncheck"
	@$(MAKE) -s vulns

# This fails on known vulnerabilities that our code calls (govulncheck ends with 3). If the
# tool or its database cannot be reached, it says so and does not fail. VULNDB names another
# database than vuln.go.dev.
vulns: ## look for known vulnerabilities that our code calls (VULNDB=URL)
	@out=$$($(MAKE) -s $(GOVULNCHECK) 2>&1) || { echo "NOT CHECKED, govulncheck cannot be installed: $$(echo "$$out" | tail -n 1)"; exit 0; }; \
	out=$$($(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1) && { echo "none known"; exit 0; } || status=$$?; \
	case "$$status $$out" in \
	"1 "*"fetching vulnerabilities"*|"1 "*"vulndb format"*) echo "NOT CHECKED, the database cannot be reached: $$(echo "$$out" | tail -n 1)" ;; \
	*) echo "$$out"; exit 1 ;; esac

# All fuzzers of the module, one after the other, for the same share of FUZZ each.
# A fuzzer leaves what it finds in its package's testdata, to be committed with the cure. If the
# time is up in the middle of an input, go test may call the end of its own deadline a failure.
fuzz: ## fuzz records and messages, FUZZ=10m shared by all fuzzers
	@all=$$(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' core host wasm cmd tests bindings | sed 's#\(.*\)/[^/]*:func #./\1 #' | sort); \
	total=$$(($$(echo '$(FUZZ)' | sed 's/h$$/*3600/; s/m$$/*60/; s/s$$//'))); \
	each=$$((total * 1000 / $$(echo "$$all" | wc -l))); bad=; echo "$$total s shared by $$(echo "$$all" | wc -l) fuzzers"; \
	echo "$$all" | { while read -r package name; do \
		if out=$$($(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime "$${each}ms" -fuzzminimizetime 1s "$$package" 2>&1); then \
			echo "$$package $$name $$(echo "$$out" | grep '^fuzz: elapsed' | tail -n 1)"; \
		else case "$$out" in \
			*"Failing input written"*|*"seed corpus"*|*panic*) echo "$$out"; bad="$$bad $$name" ;; \
			*"    context deadline exceeded"*) echo "$$package $$name ended by its deadline" ;; \
			*) echo "$$out"; bad="$$bad $$name" ;; esac; fi; \
	done; test -z "$$bad" || { echo "found by:$$bad"; exit 1; }; }

mutants: ## break lines of core and host one at a time, MUTANTS=200, and list what no test notices
	$(GO) run ./tests/mutants -n $(MUTANTS)

flaky: $(VENV)/installed ## run the tests N=20 times, shuffled and under load, and print which of them fail each time
	tests/flaky $(N) '$(MAKE) -k -j3 -O test'

generate: ## write the generated files again
	$(GO) generate ./...

bench: ## measure against budgets, as ratios of one run (ROWS=limiter: some of them)
	@$(MAKE) -s peers || echo "NOT INSTALLED, their rows say so: the peers (make peers)"
	$(GO) run ./tests/bench -rows "$(ROWS)"

scale: ## simulate FLEET=100000 processes against the clouds' limits (fewer: in proportion), write tests/scale/README.md
	$(GO) run ./tests/scale -orchestrators $(FLEET) -leases $(FLEET)0 $(if $(filter-out 100000,$(FLEET)),-shrunk) -o tests/scale/README.md

explore: build ## explore protocols strict and semaphore for EXPLORE=1h each, simulate for about as long, and report it
	bin/mopslock-host explore --protocol strict --for $(EXPLORE)
	MOPSLOCK_EXPLORE=$(EXPLORE) $(GO) test -timeout 0 -count 1 -v -run '^TestSemaphore$$' ./tests/explore
	MOPSLOCK_EXPLORE=$(EXPLORE) $(GO) test -timeout 0 -count 1 -v ./tests/simulate

stress: $(VENV)/installed ## run the stress tests for long (STRESS=30s each) and print their figures
	MOPSLOCK_STRESS=$(STRESS) $(GO) test -timeout 30m -count 1 -v ./tests/stress
	MOPSLOCK_STRESS=$(STRESS) $(PYTEST) -q -s $(PACKAGE)/tests/stress

soak: $(VENV)/installed ## hold 10,000 leases in Go and 5,000 in Python for SOAK=30m, and judge what grows
	$(GO) run ./tests/soak -for $(SOAK) -python $(CURDIR)/$(VENV)/bin/python

servers: $(VERSITYGW) $(FAKE_GCS) $(AZURITE) ## install the servers that tests of real stores need

peers: ## get the locks that make bench compares ours with: those of etcd and of Redis
	@$(MAKE) -s $(PEERS)/debian || echo "NOT UNPACKED: $(PEER_PACKAGES); the bench takes those on PATH"
	@$(GO) -C tests/bench/peers build -o $(CURDIR)/$(PEERS)/peers .

$(PEERS)/debian:
	@rm -rf $(BIN)/tmp/peers
	@mkdir -p $(BIN)/tmp/peers/debian $(PEERS)
	@cd $(BIN)/tmp/peers && { $(APT_GET) download $(PEER_PACKAGES) || { $(APT_GET) update && $(APT_GET) download $(PEER_PACKAGES); }; }
	@set -e; for package in $(BIN)/tmp/peers/*.deb; do dpkg-deb -x $$package $(BIN)/tmp/peers/debian; done
	@mv $(BIN)/tmp/peers/debian $@
	@rm -rf $(BIN)/tmp/peers

# The parts are always built, and copied only when they differ: targets that
# depend on them are made again when they have changed. The tests' command has no cloud.
$(PYLIB)/stamp: FORCE
	@$(MAKE) -s -C bindings/c shared GO=$(GO) LIB=$(CURDIR)/$(BIN)/lib
	@$(GO) build -buildvcs=false $(NOCLOUD) -ldflags '-s -w' -o $(BIN)/lib/mopslock-host ./cmd/mopslock-host
	@mkdir -p $(PYLIB)
	@set -e; for file in $(BIN)/lib/libmopslock-core.so $(BIN)/lib/mopslock-host wasm/mopslock.wasm wasm/mopslock.wasm.sha256; do \
		cmp -s $$file $(PYLIB)/$${file##*/} || { cp $$file $(PYLIB)/new; mv $(PYLIB)/new $(PYLIB)/$${file##*/}; touch $@; }; done

# A changed pyproject.toml makes a new environment. Changed sources only
# install the packages again.
$(VENV)/installed: $(PYLIB)/stamp $(addprefix $(PACKAGE)/,pyproject.toml setup.py building.py) $(addprefix bindings/command/,pyproject.toml setup.py) \
		$(shell find $(PACKAGE)/src/mopslock -name '*.py' -o -type d ! -name __pycache__ ! -name _lib)
	@set -e; export MOPSLOCK_LIB_DIR=$(CURDIR)/$(PYLIB) MOPSLOCK_BINARY=$(CURDIR)/$(PYLIB)/mopslock-host; \
	if test $(VENV)/made -nt $(PACKAGE)/pyproject.toml; then \
		$(PIP) install --no-deps --no-build-isolation --force-reinstall ./bindings/command ./$(PACKAGE); \
	else \
		echo "making $(VENV)"; \
		rm -rf $(VENV); \
		$(PYTHON) -m venv $(VENV); \
		$(PIP) install ./bindings/command './$(PACKAGE)[test]'; \
		touch $(VENV)/made; \
	fi
	@touch $@

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

# Not v1.9.0, which wants a module that the Go module proxy does not serve.
$(GOVULNCHECK):
	@mkdir -p $(BIN)/tmp
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install golang.org/x/vuln/cmd/govulncheck@v1.8.0
	@mv $(BIN)/tmp/govulncheck $@

$(ACTIONLINT):
	@mkdir -p $(BIN)/tmp
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	@mv $(BIN)/tmp/actionlint $@

$(CRANE):
	@mkdir -p $(BIN)/tmp
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install github.com/google/go-containerregistry/cmd/crane@v0.22.1
	@mv $(BIN)/tmp/crane $@

$(VERSITYGW):
	@mkdir -p $(BIN)/tmp $(@D)
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	@mv $(BIN)/tmp/versitygw $@

$(FAKE_GCS):
	@mkdir -p $(BIN)/tmp $(@D)
	@GOBIN=$(CURDIR)/$(BIN)/tmp $(GO) install github.com/fsouza/fake-gcs-server@v1.56.1
	@mv $(BIN)/tmp/fake-gcs-server $@

# Installed elsewhere and then moved, so that half an installation is not taken for a whole one.
$(AZURITE):
	@rm -rf $(BIN)/tmp/azurite $(SERVERS)/azurite-3.37.0
	@mkdir -p $(BIN)/tmp/azurite $(SERVERS)
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(BIN)/tmp/azurite azurite@3.37.0
	@touch $(BIN)/tmp/azurite/node_modules/azurite/package.json
	@mv $(BIN)/tmp/azurite $(SERVERS)/azurite-3.37.0
