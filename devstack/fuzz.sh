#!/usr/bin/env bash
# Fuzzes each parser of weaver-diagnostics for FUZZ_SECONDS (30), two at once, from the seeds and from what earlier runs
# have found worth keeping (target/fuzz/corpus). What breaks one is left in target/fuzz/broken, and is printed.
# libFuzzer by the stable compiler: the flags are those of cargo-fuzz without a sanitizer, since nothing here is unsafe.
set -euo pipefail
cd "$(dirname "$0")/.."

devstack/prerequisites.sh rust cc cxx
work="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
seconds="${FUZZ_SECONDS:-30}"
host=$(rustc -vV | sed -n 's/^host: //p')
coverage="-sanitizer-coverage-level=4 -sanitizer-coverage-inline-8bit-counters -sanitizer-coverage-pc-table -sanitizer-coverage-trace-compares"
flags="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1"
for flag in $coverage; do flags+=" -Cllvm-args=$flag"; done
# With a target given, build scripts and macros are compiled without the flags.
RUSTFLAGS=$flags cargo build --locked --quiet --release --manifest-path diagnostics/fuzz/Cargo.toml --target "$host" \
  --target-dir "$work"

fuzz() {
  local name=$1 corpus="$work/corpus/$1" log="$work/$1.log"
  mkdir -p "$corpus" "$work/broken/$name"
  if "$work/$host/release/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
    -print_final_stats=1 -artifact_prefix="$work/broken/$name/" "$corpus" "diagnostics/fuzz/seeds/$name" > "$log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, none breaks it"
  else
    tail -n 40 "$log"
    echo "fuzz: $name is broken by the input above, which is in $work/broken/$name"
    return 1
  fi
}
export -f fuzz
export work host seconds
sed -n 's/^name = "\(.*\)"/\1/p' diagnostics/fuzz/Cargo.toml | grep -vx weaver-fuzz |
  xargs -P 2 -I {} bash -euo pipefail -c 'fuzz {}'
