# The front door. Each recipe first sees to what it needs on this machine
# (tests/devstack/prerequisites.sh, a quick no-op when all is there).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Rust and Go that were brought are found, and where mkfs and its like are.
export PATH := $(or $(shell WEAVER_TOOLS='$(WEAVER_TOOLS)' && . tests/devstack/path.sh && echo "$$PATH"),$(PATH))

BIN := $(or $(CARGO_TARGET_DIR),target)/debug
PROGRAMS := -p weaver-operator -p weaver-node-agent -p weaver-cli
RUST := @tests/devstack/prerequisites.sh rust cc

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: up
up: ## Start API server, node agent and operator (REPLICAS=N of them); apply the sample tenant; show its copies
	$(RUST)
	@cargo build --locked $(PROGRAMS) -p weaver-devstack
	@$(BIN)/weaver-devstack up $(if $(REPLICAS),--replicas $(REPLICAS))

.PHONY: down
down: $(BIN)/weaver-devstack ## End what `make up` started; the data stays in .run/
	@$(BIN)/weaver-devstack down

.PHONY: status
status: $(BIN)/weaver-devstack ## What runs, and which copies there are
	@$(BIN)/weaver-devstack status || test $$? -eq 3  # 3: something does not run, as it says

.PHONY: test
test: ## Every check and test, the scenario tests on a real API server included
	@tests/devstack/test.sh

.PHONY: test-long
test-long: ## Scenarios that take minutes: all orders of appearance, crowds of targets, faults, a kill at each write; fuzzing
	@tests/devstack/test_long.sh

.PHONY: test-skew
test-skew: ## Programs, CRDs and chart of two releases in one cluster: PREVIOUS=DIR, a dist/ or a checkout with its programs
	@tests/devstack/skew.sh

.PHONY: fuzz
fuzz: ## Fuzz each parser for 30 s, or FUZZ_SECONDS=…; test-long does it with 30,000 inputs from a fixed seed
	@tests/devstack/fuzz.sh

.PHONY: bench
bench: ## What operator and node agent cost, and how fast the operator is next to a bare client; half an hour
	@tests/devstack/bench.sh $(BENCH)

.PHONY: laptops
laptops: ## The tests of `weaver` for Windows, under wine; ten minutes
	@tests/devstack/laptops.sh

.PHONY: windows
windows: ## Release program `weaver` for Windows, by mingw, run under wine
	@tests/devstack/laptops.sh release

.PHONY: macos
macos: ## Release programs `weaver` for macOS, linked by zig: not run
	@tests/devstack/laptops.sh macos

.PHONY: static
static: ## Release programs `weaver` for Linux of any kind, x86-64 and arm64, static by musl, run in an empty root
	@tests/devstack/static.sh

.PHONY: cross
cross: ## Release programs for the Raspberry Pi (aarch64)
	@tests/devstack/cross.sh

IMAGE := @tests/devstack/prerequisites.sh rust cc cross image
WEAVER_IMAGE = $(BIN)/weaver-image

.PHONY: image
image: ## Card image into out/; K3S=FILE or K3S=testbed where k3s cannot be downloaded (else Error 3); IMAGES="pinned FILE" for archives of images; KERNEL=backports for a Pi 5
	$(IMAGE)
	@cargo build --locked --quiet -p weaver-image
	@$(WEAVER_IMAGE) build

.PHONY: image-smoke
image-smoke: ## Test image: built, inspected, booted in QEMU, broken and mended
	@tests/devstack/image_smoke.sh

.PHONY: image-matrix
image-matrix: ## Test image: every fault of docs/tutorials/faults.md induced, seen and mended; writes its table
	@tests/devstack/image_smoke.sh matrix

.PHONY: soak
soak: ## Test image: memory, processor, card writes, share of the boot, size; writes table and pictures; an hour
	@tests/devstack/image_smoke.sh soak

.PHONY: image-pi3
image-pi3: ## Test image: booted from the SD slot of QEMU's Pi 3
	@tests/devstack/image_smoke.sh pi3

.PHONY: boot
boot: ## Boot the image in out/ in QEMU, its console on this terminal
	$(IMAGE)
	@cargo build --locked --quiet -p weaver-image
	@$(WEAVER_IMAGE) boot

.PHONY: deb
deb: ## Debian packages into out/, for amd64 and arm64: config-weaver, weaver, config-weaver-card
	@packaging/build.sh

.PHONY: apt
apt: ## Signed apt repository of the packages of `make deb` into out/apt, for any web server or a USB stick; KEY=FILE|ID signs
	@packaging/apt.sh

.PHONY: oci
oci: ## Container image of the operator into out/, for amd64 and arm64, without a container engine
	@tests/devstack/prerequisites.sh rust cc cross
	@cargo build --locked --quiet -p weaver-image
	@$(WEAVER_IMAGE) oci

.PHONY: version
version: ## Make this checkout another version, to be committed and tagged: VERSION=0.2.0
	@packaging/version.sh

.PHONY: release
release: ## All that is published of VERSION=0.2.0 into dist/; RELEASE_URL=ADDRESS, RELEASE_KEY=FILE and KEY=FILE|ID sign and place it
	@packaging/release.sh

.PHONY: release-smoke
release-smoke: ## Each file of dist/, or DIST=DIR, as its user has it: installed and run in clean roots, under wine; PUBKEY=FILE checks it
	@tests/devstack/release_smoke.sh "$(or $(DIST),dist)" $(PUBKEY)

.PHONY: fmt
fmt: ## Format Rust and Go
	$(RUST) go
	@cargo fmt --all
	@cargo fmt --manifest-path lib/diagnostics/fuzz/Cargo.toml
	@gofmt -w tests/testbed

.PHONY: generate
generate: ## Write deploy/crds/, deploy/chart/, docs/schema/ and the generated pages of docs/reference/ from types, catalogue and programs
	$(RUST)
	@# The whole workspace, as the tests build it: of a part of it, the dependencies would be compiled again.
	@cargo build --locked --quiet --workspace --bins --examples
	@for writer in generate chart schemas reference; do $(BIN)/examples/$$writer; done
	@$(BIN)/examples/codes > docs/reference/codes.md.new
	@mv docs/reference/codes.md.new docs/reference/codes.md

.PHONY: docs
docs: ## The documentation as a book: target/book/index.html
	@tests/devstack/test.sh docs

.PHONY: lint
lint: ## Formatting, clippy, dependencies, Go vet, shell scripts: all checks that run nothing
	@tests/devstack/test.sh lint

$(BIN)/weaver-devstack:
	$(RUST)
	@cargo build --locked -p weaver-devstack
