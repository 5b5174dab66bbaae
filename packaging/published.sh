# shellcheck shell=bash
# Sourced, from the top of the work tree, by what builds programs that are published.

# published [FLAG...]: rustc's flags for CARGO_ENCODED_RUSTFLAGS, of which the first leave no path of this machine in a
# program, as in image/src/programs.rs.
# shellcheck disable=SC2120  # the flags are optional
published() {
  local IFS=$'\x1f' all=(--remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix="$PWD=/source" "$@")
  echo "${all[*]}"
}
