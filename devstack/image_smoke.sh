#!/usr/bin/env bash
# Builds the test image, looks at it as a file, boots it once, and breaks the running machine in several ways.
# Ends with the test runner's summary.
set -euo pipefail
cd "$(dirname "$0")/.."

devstack/prerequisites.sh rust cc cross go curl image
# shellcheck source=devstack/tools.sh
. devstack/tools.sh
tool cargo-nextest "$nextest_version"
# The whole workspace with its tests, as `make test` has built it: in any part of it, the dependencies would have other
# features and be compiled anew.
cargo test --locked --quiet --workspace --no-run
bin=${CARGO_TARGET_DIR:-target}
out=$bin/image/smoke

# One version's image at a time, and nothing of a test that was killed.
rm -rf "$out"/config-weaver-*.img "$out"/.tmp*
echo "== test image"
"$bin/debug/weaver-image" build --k3s testbed --raw --out "$out"
echo "== image tests built ($SECONDS s so far)"
nextest run --locked --workspace --test card --run-ignored only --no-run
echo "== first boot, then the tests ($SECONDS s so far)"
image=$(echo "$out"/config-weaver-*-test-arm64.img)
exec "$bin/debug/weaver-image" with-booted --image "$image" -- \
  "$nextest" nextest run --locked --workspace --test card --run-ignored only --profile card
