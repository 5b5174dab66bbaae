#!/usr/bin/env bash
# Builds the test image, looks at it as a file, boots it once, and breaks the running machine in several ways.
# Ends with the test runner's summary.
#
#   tests/devstack/image_smoke.sh        as above
#   tests/devstack/image_smoke.sh matrix the whole fault matrix, 50 minutes: for docs/tutorials/faults.md
#   tests/devstack/image_smoke.sh soak   what the card costs, an hour: for docs/explanation/performance.md
#   tests/devstack/image_smoke.sh pi3    boots it from the slot of QEMU's Pi 3: four minutes, another disk and board
#
# K3S=FILE puts a k3s for arm64 onto the card; then the matrix has a card join another.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

how=(--raw --programs dev)
needs=(rust cc cross go curl image)
clock=()
case ${1-all} in
  all) tests='not test(/^(pi3|matrix|soak)::/)' ;;
  # Its updates are from an apt repository.
  matrix)
    tests='test(/^matrix::/)'
    needs+=(apt)
    ;;
  # Measured as it would ship: release programs, and packed.
  soak)
    tests='test(/^soak::/)'
    how=(--programs release)
    clock=(--counted)
    ;;
  pi3) tests='test(/^pi3::/)' ;;
  *)
    echo "usage: tests/devstack/image_smoke.sh [all|matrix|soak|pi3]" >&2
    exit 2
    ;;
esac

commit=$(git describe --always --exclude='*' --abbrev=10 --dirty=', with changes')
tests/devstack/prerequisites.sh "${needs[@]}"
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh
tool cargo-nextest "$nextest_version"
# The whole workspace with its tests, as `make test` has built it: in any part of it, the dependencies would have other
# features and be compiled again.
cargo test --locked --quiet --workspace --no-run
bin=${CARGO_TARGET_DIR:-target}
out=$bin/image/smoke

# One version's image at a time, and nothing of a test that was killed.
rm -rf "$out"/config-weaver-*.img "$out"/config-weaver-*.img.xz "$out"/.tmp*
echo "== test image"
export K3S=${K3S:-testbed}
"$bin/debug/weaver-image" build "${how[@]}" --out "$out"
echo "== image tests built ($SECONDS s so far)"
nextest run --locked --workspace --test card --run-ignored only --no-run
image=$(realpath "$out"/config-weaver-*-arm64.img)
run=("$nextest" nextest run --locked --workspace --test card --run-ignored only --profile card -E "$tests")
if [[ ${1-all} == pi3 ]]; then
  echo "== boot from the slot of a Pi 3 ($SECONDS s so far)"
  WEAVER_IMAGE=$image exec "${run[@]}"
fi
echo "== first boot, then the tests ($SECONDS s so far)"
boot=("$bin/debug/weaver-image" with-booted --image "$image" "${clock[@]}" --)
# What was seen goes into the page, most of all where it is not what was expected.
passed=0
case ${1-all} in
  matrix)
    "${boot[@]}" "${run[@]}" || passed=$?
    "$bin/debug/weaver-image" fault-table --rows target/image/booted/rows --commit "$commit"
    ;;
  soak)
    "${boot[@]}" "${run[@]}" || passed=$?
    "$bin/debug/weaver-image" budgets --measured target/image/booted/budgets --commit "$commit"
    ;;
  *) exec "${boot[@]}" "${run[@]}" ;;
esac
exit "$passed"
