#!/usr/bin/env bash
# Builds the release programs for the Raspberry Pi with the plain toolchain and judges what came out: the same code
# as in `make image` (image/src/programs.rs). Stripped programs go to target/image/programs/, symbols to out/symbols/.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

tests/devstack/prerequisites.sh rust cc cross image
begun=$SECONDS
cargo build --locked --quiet -p weaver-image
"${CARGO_TARGET_DIR:-target}/debug/weaver-image" programs
echo "  for aarch64-unknown-linux-gnu, in $((SECONDS - begun)) s"
