#!/usr/bin/env bash
# `weaver` for laptops with Windows: compiled by Debian's mingw, and tested under wine.
#
#   tests/devstack/laptops.sh          the tests of the CLI under wine
#   tests/devstack/laptops.sh check    compiled, and no more: what test-long does
#   tests/devstack/laptops.sh release  the program as it is published, and that it runs under wine
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

release() {
  local program=$target/$windows/release/weaver.exe said version
  tests/devstack/prerequisites.sh rust cc windows wine
  # As packaging/build.sh: no path of this machine, and no time, in the program.
  local flags=(--remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix="$PWD=/source" "-Clink-arg=-Wl,--no-insert-timestamp")
  CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}") \
    cargo build --locked --quiet --release -p weaver-cli --target "$windows"
  wine_home
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
  said=$(wine "$program" --version)
  [[ ${said%$'\r'} == "weaver $version" ]] || {
    echo "laptops: $program says '$said'" >&2
    return 1
  }
  echo "  $program: $(($(stat -c %s "$program") >> 10)) KiB, runs under wine"
}

case ${1-windows} in
  check | windows | release) "${1-windows}" ;;
  *)
    echo "usage: tests/devstack/laptops.sh [check|release]" >&2
    exit 2
    ;;
esac
