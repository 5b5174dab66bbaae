#!/usr/bin/env bash
# Tests with programs, definitions and chart of another release next to those of this checkout, inside a fresh stack.
# Ends with the test runner's summary.
#
#   PREVIOUS=DIR tests/devstack/skew.sh
#
# DIR is what `make release` wrote, or a checkout of another commit with its programs in target/debug.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

[[ -n ${PREVIOUS-} ]] || {
  echo "== tests with another release: not run; PREVIOUS=DIR names it, see docs/how-to/make-a-release.md"
  exit
}
previous=$(realpath "$PREVIOUS")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -f $previous/SHA256SUMS ]]; then
  for package in "$previous"/{weaver,config-weaver}_*_"$(dpkg --print-architecture)".deb; do dpkg-deb -x "$package" "$work/root"; done
  tar -xzf "$previous"/config-weaver-*-deploy.tar.gz -C "$work"
  ln -s root/usr/bin "$work/bin"
  ln -s "$work"/config-weaver-*-deploy/deploy "$work/deploy"
else
  ln -s "$previous/target/debug" "$work/bin"
  ln -s "$previous/deploy" "$work/deploy"
fi
for part in bin/weaver bin/weaver-operator bin/weaver-node-agent deploy/chart/Chart.yaml; do
  [[ -f $work/$part ]] || {
    echo "skew: PREVIOUS=$PREVIOUS has no ${part##*/}: it is no dist/ of \`make release\`, and no checkout after \`cargo build --locked -p weaver-operator -p weaver-node-agent -p weaver-cli\`" >&2
    exit 1
  }
done

tests/devstack/prerequisites.sh rust cc go curl
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh
tool cargo-nextest "$nextest_version"
helm
# The whole workspace, as `make test` has built it.
cargo test --locked --quiet --workspace --no-run
echo "== tests with the release of $previous, inside a fresh stack ($SECONDS s so far)"
WEAVER_TEST_PREVIOUS_DIR=$work "${CARGO_TARGET_DIR:-target}/debug/weaver-devstack" with-server -- \
  "$nextest" nextest run --locked --workspace --run-ignored only -E 'test(/another_release/)'
