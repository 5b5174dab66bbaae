#!/usr/bin/env bash
# Fuzzes each parser of weaver-diagnostics, two at once. What breaks one is left in target/fuzz/broken, and is printed.
#   tests/devstack/fuzz.sh          for FUZZ_SECONDS (30), from the seeds and what earlier runs kept: explores
#   tests/devstack/fuzz.sh replay   30,000 inputs from the seeds and one random seed: judges the commit more than the
#                                   luck of the run (hash tables of the parsers are seeded again each time)
# libFuzzer by the stable compiler: the flags are those of cargo-fuzz without a sanitizer, since nothing here is unsafe.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

tests/devstack/prerequisites.sh rust cc cxx
work="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
case "${1-}" in
  '') corpus="$work/corpus" how="-max_total_time=${FUZZ_SECONDS:-30}" ;;
  replay) corpus=$(mktemp -d) how="-seed=1 -runs=30000" && trap 'rm -rf "$corpus"' EXIT ;;
  *) echo "usage: $0 [replay]" >&2 && exit 64 ;;
esac
host=$(rustc -vV | sed -n 's/^host: //p')
coverage="-sanitizer-coverage-level=4 -sanitizer-coverage-inline-8bit-counters -sanitizer-coverage-pc-table -sanitizer-coverage-trace-compares"
flags="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1"
for flag in $coverage; do flags+=" -Cllvm-args=$flag"; done
# With a target given, build scripts and macros are compiled without the flags.
RUSTFLAGS=$flags cargo build --locked --quiet --release --manifest-path lib/diagnostics/fuzz/Cargo.toml --target "$host" \
  --target-dir "$work"

fuzz() {
  local name=$1 log="$work/$1.log"
  mkdir -p "$corpus/$name" "$work/broken/$name"
  # shellcheck disable=SC2086 # one or two flags
  if "$work/$host/release/$name" $how -timeout=10 -rss_limit_mb=1024 -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="$work/broken/$name/" "$corpus/$name" "lib/diagnostics/fuzz/seeds/$name" > "$log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, none breaks it"
  else
    # What broke it stands before a long trace.
    grep -a -A 3 'panicked at' "$log" | cut -c 1-2000
    tail -n 40 "$log"
    echo "fuzz: $name is broken by the input above, which is in $work/broken/$name:"
    find "$work/broken/$name" -type f -newer "$corpus/$name" -exec base64 -w 0 {} \; | head -c 6000 && echo
    return 1
  fi
}
export -f fuzz
export work host corpus how
sed -n 's/^name = "\(.*\)"/\1/p' lib/diagnostics/fuzz/Cargo.toml | grep -vx weaver-fuzz |
  xargs -P 2 -I {} bash -euo pipefail -c 'fuzz {}'
