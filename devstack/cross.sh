#!/usr/bin/env bash
# Builds release programs for the Raspberry Pi and looks at what came out.
#
#   devstack/cross.sh CARGO-ARGUMENT...    such as -p weaver-operator
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
devstack/prerequisites.sh rust cc cross

begun=$SECONDS
# cargo's own list of what it built: no guessing at names and places. Not in a process substitution, whose
# failure nobody would see.
built=$(cargo build --locked --release --target "$target" --message-format json-render-diagnostics "$@")
mapfile -t programs < <(grep -o '"executable":"[^"]*"' <<< "$built" | cut -d '"' -f 4)
((${#programs[@]} > 0)) || {
  echo "cross: cargo built no program" >&2
  exit 1
}
for program in "${programs[@]}"; do
  # ELF's e_machine, at offset 18: 0xB7 is AArch64.
  machine=$(od -An -tx1 -j18 -N2 "$program" | tr -d ' \n')
  [[ $machine == b700 ]] || {
    echo "cross: $program is not for AArch64 (ELF machine $machine)" >&2
    exit 1
  }
  printf '  %5.1f MiB  %s\n' "$(stat -c %s "$program" | awk '{ print $1 / 1048576 }')" "$program"
done
echo "  for $target, in $((SECONDS - begun)) s"
