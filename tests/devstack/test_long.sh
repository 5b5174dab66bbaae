#!/usr/bin/env bash
# The fuzz targets, the libraries with other versions of Kubernetes, `weaver` compiled for Windows, the Debian packages,
# another release next to this one where PREVIOUS names it (skew.sh), then scenarios that take minutes or hundreds of
# namespaces, inside a fresh stack, and next to them clean machines.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

# All at once: two installations are in each other's way.
tests/devstack/prerequisites.sh rust cc cxx cross go curl image deb apt release windows
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh
tool cargo-nextest "$nextest_version"

# What waits for downloads and boots is next to what is busy; what it says is shown when it is done.
said=$(mktemp -d)
declare -A begun
end_all() {
  local group
  for group in "${begun[@]}"; do kill -- "-$group" 2> /dev/null || :; done
  rm -r "$said"
}
trap end_all EXIT
# Where nextest is to try a test twice, so are these: a busy machine may have been what failed.
proven() { "$@" || { ((${NEXTEST_RETRIES-0} > 0)) && echo "== once more: $*" && "$@"; }; }
# begin NAME COMMAND...: in a group of its own, to end it with all it started.
begin() {
  set -m
  proven "${@:2}" > "$said/$1" 2>&1 &
  set +m
  begun[$1]=$!
}
# ended NAME: waits for it, and fails where it failed.
ended() {
  local result=0
  wait "${begun[$1]}" || result=$?
  unset "begun[$1]"
  cat "$said/$1"
  return "$result"
}

begin packages tests/devstack/packages.sh
tests/devstack/fuzz.sh replay
tests/devstack/other_kubernetes.sh
echo "== weaver for Windows, compiled ($SECONDS s so far)"
tests/devstack/laptops.sh check
echo "== Debian packages ($SECONDS s so far)"
ended packages
# The whole workspace with its tests, as `make test` has built it: in any part of it, the dependencies would have other
# features and be compiled again.
cargo test --locked --quiet --workspace --no-run
tests/devstack/skew.sh
# Long tests leave a processor idle for half of their time, and on a clean machine nothing is measured.
begin roots nice -n 10 tests/devstack/clean_roots.sh
echo "== long tests, inside a fresh stack ($SECONDS s so far)"
"${CARGO_TARGET_DIR:-target}/debug/weaver-devstack" with-server -- \
  "$nextest" nextest run --locked --workspace --test long --run-ignored only --profile long
echo "== clean machines ($SECONDS s so far)"
ended roots
