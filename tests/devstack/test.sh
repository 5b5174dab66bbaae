#!/usr/bin/env bash
# Every check and test of the project; each step says how long it took.
#
#   tests/devstack/test.sh         all of it; ends with the test runner's summary
#   tests/devstack/test.sh lint    only what runs nothing
#   tests/devstack/test.sh tools   only the programs that the tests run, once per machine
#   tests/devstack/test.sh docs    only the book, into target/book
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh

# step NAME COMMAND...: runs it and says how long it took. The command must not be in a condition, or
# `set -e` would be off inside it; so the trap says which step it was that failed.
now=
trap '[[ -z $now ]] || echo "== $now: failed after $((SECONDS - begun)) s" >&2' EXIT
step() {
  now=$1 begun=$SECONDS
  shift
  echo "== $now"
  "$@"
  echo "== $now: ok, $((SECONDS - begun)) s"
  now=
}

dependencies() {
  "$tools/cargo-deny-$deny_version/bin/cargo-deny" --locked check --hide-inclusion-graph bans licenses sources
}

# Known vulnerabilities; their list is on another host than the crates.
advisories() {
  local deny="$tools/cargo-deny-$deny_version/bin/cargo-deny"
  if timeout 60 "$deny" --locked fetch db 2> /dev/null; then
    "$deny" --locked check --hide-inclusion-graph --disable-fetch advisories
  else
    echo "advisories are not checked: their database could not be fetched"
  fi
}

go_format() {
  local wrong
  wrong=$(gofmt -l tests/testbed)
  [[ -z $wrong ]] || {
    printf 'not formatted as gofmt does it (make fmt mends it):\n%s\n' "$wrong" >&2
    return 1
  }
}

rust_format() { cargo fmt --all --check && cargo fmt --manifest-path lib/diagnostics/fuzz/Cargo.toml --check; }

# A workspace of its own, which `make test-long` builds. What is not linked needs no libFuzzer, and no C++ compiler.
fuzz_targets() {
  CUSTOM_LIBFUZZER_PATH=/dev/null cargo clippy --locked --manifest-path lib/diagnostics/fuzz/Cargo.toml \
    --target-dir "${CARGO_TARGET_DIR:-target}" -- -D warnings
}

# shellcheck source=tests/testbed/flags.sh
go_vet() { (cd tests/testbed && . ./flags.sh && go vet -vettool="$PWD/../devstack/own_vet.sh" ./...); }

# Vetted already.
# shellcheck source=tests/testbed/flags.sh
go_test() { (cd tests/testbed && . ./flags.sh && go test -vet=off ./...); }

lint() {
  step "Rust format" rust_format
  step "Go format" go_format
  step "words" tests/devstack/words.sh
  step "shell scripts" shellcheck -x .ci/run packaging/*.sh tests/devstack/*.sh tests/testbed/*.sh image/rootfs/*.sh packaging/card/usr/lib/weaver/*
  step "actionlint $actionlint_version, once per machine" actionlint
  step "workflows" workflows
  step "helm $helm_version, once per machine" helm
  step "chart" chart
  step "cargo-deny $deny_version, once per machine" tool cargo-deny "$deny_version"
  step "dependencies" dependencies
  step "advisories" advisories
  # Else it checks what is compiled below.
  [[ ${RUSTC_WORKSPACE_WRAPPER-} == */linting_rustc.sh ]] ||
    step "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
  step "clippy of the fuzz targets" fuzz_targets
  step "go vet" go_vet
}

documentation() {
  step "mdbook $mdbook_version, once per machine" tool mdbook "$mdbook_version"
  step "documentation" book
}

# They take ports of this machine, and need root.
real_k3d() {
  if [[ -z ${K3D-} ]]; then
    echo "== tests on a real k3d: not run; K3D=DIR names a directory with docker.sock and k3d"
    return
  fi
  step "tests on the k3d of $K3D" "${CARGO_TARGET_DIR:-target}/debug/weaver-devstack" with-server -- \
    "$nextest" nextest run --locked --workspace --run-ignored only -E 'test(/real_k3d/)'
}

needs=(rust cc cross go curl lint image)
case ${1-all} in
  all | tools) needs+=(browser) ;;
  docs) needs=(rust cc) ;;
esac
tests/devstack/prerequisites.sh "${needs[@]}"
case ${1-all} in
  all)
    lint
    documentation
    step "Go tests" go_test
    step "cargo-nextest $nextest_version, once per machine" tool cargo-nextest "$nextest_version"
    step "promtool, once per machine" promtool
    step "axe-core $axe_version, once per machine" axe_core
    # The programs as well, each next to the tests of its crate.
    step "Rust tests built" nextest run --locked --workspace --no-run
    # An example with tests of its own is built as these only.
    step "examples built" cargo build --locked --workspace --examples
    # Of the whole workspace, since in a part of it the dependencies would have other features and be compiled again.
    step "examples in the documentation" cargo test --locked --quiet --workspace --doc
    real_k3d
    echo "== Rust tests, inside a fresh stack ($SECONDS s so far)"
    trap - EXIT
    # API servers of tests end after seconds: memory is cheaper than collecting it. The shared one, which does not, may
    # take 1.5 GB. And nextest starts each test by itself instead of through another nextest, which is for Ctrl-Z.
    exec env GOGC=1000 NEXTEST_DOUBLE_SPAWN=0 "${CARGO_TARGET_DIR:-target}/debug/weaver-devstack" with-server -- \
      "$nextest" nextest run --locked --workspace
    ;;
  lint) lint ;;
  docs) documentation ;;
  tools)
    step "cargo-nextest $nextest_version, once per machine" tool cargo-nextest "$nextest_version"
    step "promtool, once per machine" promtool
    step "helm $helm_version, once per machine" helm
    step "axe-core $axe_version, once per machine" axe_core
    ;;
  *)
    echo "usage: tests/devstack/test.sh [all|lint|tools|docs]" >&2
    exit 2
    ;;
esac
