#!/usr/bin/env bash
# Measures the released operator beside a bare client, on an API server of its own. Arguments go to weaver-bench.
# Takes 20 minutes, of which the operator does nothing for ten (--idle); leaves table, raw figures and plots in
# target/bench.
set -euo pipefail
cd "$(dirname "$0")/.."

devstack/prerequisites.sh rust cc go curl
target="${CARGO_TARGET_DIR:-target}"
cargo build --locked --release -p weaver-operator -p weaver-bench
exec "$target/release/weaver-bench" --bin-dir "$target/release" --out "$target/bench" "$@"
