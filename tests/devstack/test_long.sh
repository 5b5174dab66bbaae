#!/usr/bin/env bash
# The fuzz targets, the libraries with other versions of Kubernetes, `weaver` compiled for Windows, clean machines, the
# Debian packages, another release next to this one where PREVIOUS names it (skew.sh), then scenarios that take minutes
# or hundreds of namespaces, inside a fresh stack. Ends with the test runner's summary.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

# All at once: two installations are in each other's way.
tests/devstack/prerequisites.sh rust cc cxx cross go curl image deb apt release windows
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh
tool cargo-nextest "$nextest_version"

# Clean machines and packages wait for downloads and boots: next to each other, and to what the compiler is busy with.
# What they say is shown when they are done.
said=$(mktemp -d)
# Where nextest is to try a test twice, so are these: a busy machine may have been what failed.
proven() { "$@" || { ((${NEXTEST_RETRIES-0} > 0)) && echo "== once more: $1" && "$@"; }; }
set -m # groups of their own, to end each with all it started
proven tests/devstack/clean_roots.sh > "$said/roots" 2>&1 &
roots=$!
proven tests/devstack/packages.sh > "$said/packages" 2>&1 &
packages=$!
set +m
trap 'kill -- "-$roots" "-$packages" 2> /dev/null || :; rm -r "$said"' EXIT

tests/devstack/fuzz.sh replay
tests/devstack/other_kubernetes.sh
echo "== weaver for Windows, compiled ($SECONDS s so far)"
tests/devstack/laptops.sh check
echo "== clean machines and Debian packages ($SECONDS s so far)"
done=0
wait "$roots" || done=$?
wait "$packages" || done=$?
cat "$said"/*
((done == 0)) || exit "$done"
trap - EXIT
rm -r "$said"
# The whole workspace with its tests, as `make test` has built it: in any part of it, the dependencies would have other
# features and be compiled again.
cargo test --locked --quiet --workspace --no-run
tests/devstack/skew.sh
echo "== long tests, inside a fresh stack ($SECONDS s so far)"
exec "${CARGO_TARGET_DIR:-target}/debug/weaver-devstack" with-server -- \
  "$nextest" nextest run --locked --workspace --test long --run-ignored only --profile long
