#!/usr/bin/env bash
# The fuzz targets, the libraries with other versions of Kubernetes, `weaver` compiled for Windows, clean machines, the
# Debian packages, then scenarios that take minutes or hundreds of namespaces, inside a fresh stack. Ends with the test
# runner's summary.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

tests/devstack/prerequisites.sh rust cc cross go curl
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh
tool cargo-nextest "$nextest_version"
tests/devstack/fuzz.sh replay
tests/devstack/other_kubernetes.sh
echo "== weaver for Windows, compiled ($SECONDS s so far)"
tests/devstack/laptops.sh check
echo "== clean machines ($SECONDS s so far)"
tests/devstack/clean_roots.sh
echo "== Debian packages ($SECONDS s so far)"
tests/devstack/packages.sh
# The whole workspace with its tests, as `make test` has built it: in any part of it, the dependencies would have other
# features and be compiled again.
cargo test --locked --quiet --workspace --no-run
echo "== long tests, inside a fresh stack ($SECONDS s so far)"
exec "${CARGO_TARGET_DIR:-target}/debug/weaver-devstack" with-server -- \
  "$nextest" nextest run --locked --workspace --test long --run-ignored only --profile long
