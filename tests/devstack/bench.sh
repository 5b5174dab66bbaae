#!/usr/bin/env bash
# Measures the released operator next to a bare client, and the released node agent, on an API server of their own; and
# how fast `weaver explain` reads (--only explain, which needs no server).
# Arguments go to weaver-bench. Takes half an hour, of which each does nothing for ten minutes (--idle); leaves table,
# raw figures and plots in target/bench.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

tests/devstack/prerequisites.sh rust cc go curl
target="${CARGO_TARGET_DIR:-target}"
cargo build --locked --release -p weaver-operator -p weaver-node-agent -p weaver-cli -p weaver-bench
exec "$target/release/weaver-bench" --bin-dir "$target/release" --out "$target/bench" "$@"
