#!/usr/bin/env bash
# `weaver` for laptops with Windows: compiled by Debian's mingw, and tested under wine.
#
#   tests/devstack/laptops.sh          the tests of the CLI under wine
#   tests/devstack/laptops.sh check    compiled, and no more: what test-long does
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

windows=x86_64-pc-windows-gnu
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# A home for wine that is not the user's, and no window. The wine of Debian 12 lacks a library that each program of Rust
# asks for random bytes: here it hands the question on.
wine_home() {
  export WINEPREFIX=$target/wine WINEDEBUG=-all WINEARCH=win64
  unset DISPLAY
  local library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
  [[ -e $WINEPREFIX/system.reg ]] || wineboot --init 2> /dev/null
  [[ -e $library ]] && return
  x86_64-w64-mingw32-gcc -shared -O2 -x c - -o "$library.new" -ladvapi32 << 'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
  return SystemFunction036(data, (ULONG)length);
}
END
  mv "$library.new" "$library"
}

check() {
  tests/devstack/prerequisites.sh rust cc windows
  cargo check --locked --quiet -p weaver-cli --target "$windows"
  echo "laptops: weaver compiles for Windows"
}

windows() {
  tests/devstack/prerequisites.sh rust cc windows wine
  wine_home
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
  cargo test --locked -p weaver-cli --target "$windows"
}

case ${1-windows} in
  check | windows) "${1-windows}" ;;
  *)
    echo "usage: tests/devstack/laptops.sh [check]" >&2
    exit 2
    ;;
esac
