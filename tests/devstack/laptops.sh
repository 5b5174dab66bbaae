#!/usr/bin/env bash
# `weaver` for laptops: for Windows compiled by Debian's mingw and tested under wine, for macOS linked by zig, not run.
#
#   tests/devstack/laptops.sh          the tests of the CLI under wine
#   tests/devstack/laptops.sh check    compiled, and no more: what test-long does
#   tests/devstack/laptops.sh release  the program as it is published, and that it runs under wine
#   tests/devstack/laptops.sh under_wine PROGRAM ARGUMENT...
#   tests/devstack/laptops.sh macos [dev|release]   the programs for macOS, of Apple's processors and of Intel's
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=packaging/published.sh
. packaging/published.sh

windows=x86_64-pc-windows-gnu
apple=(aarch64-apple-darwin x86_64-apple-darwin)
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

under_wine() {
  tests/devstack/prerequisites.sh rust cc windows wine
  wine_home
  wine "$@"
}

release() {
  local program=$target/$windows/release/weaver.exe said version
  tests/devstack/prerequisites.sh rust cc windows wine
  # Nor the time.
  CARGO_ENCODED_RUSTFLAGS=$(published -Clink-arg=-Wl,--no-insert-timestamp) \
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

# framework NAME FUNCTION...: one of macOS that libraries of Rust link, as zig's linker reads it: where it is there, and
# what is used of it. It is Apple's, part of each macOS, and cannot be fetched.
framework() {
  local directory=$target/frameworks/$1.framework name=$1 used
  shift
  used=$(printf '_%s, ' "$@")
  mkdir -p "$directory"
  cat >"$directory/$name.tbd" <<END
--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos, x86_64-macos ]
install-name: /System/Library/Frameworks/$name.framework/Versions/A/$name
exports:
- targets: [ arm64-macos, x86_64-macos ]
  symbols: [ ${used%, } ]
...
END
}

# For the certificates that a Mac trusts. What is not named here is an undefined symbol to the linker.
frameworks() {
  framework CoreFoundation \
    CFArrayCreate CFArrayGetCount CFArrayGetValueAtIndex CFDataCreate CFDataGetBytePtr CFDataGetLength \
    CFDateCreate CFDictionaryGetValueIfPresent CFEqual CFErrorCopyDescription CFErrorGetCode \
    CFNumberGetValue CFRelease CFRetain CFStringCreateWithBytes CFStringCreateWithBytesNoCopy \
    CFStringGetBytes CFStringGetCStringPtr CFStringGetLength kCFAbsoluteTimeIntervalSince1970 \
    kCFAllocatorDefault kCFAllocatorNull kCFTypeArrayCallBacks
  framework Security \
    SecCertificateCopyData SecCertificateCopySubjectSummary SecCertificateCreateWithData \
    SecCopyErrorMessageString SecPolicyCreateSSL SecTrustCreateWithCertificates SecTrustEvaluateWithError \
    SecTrustSetAnchorCertificates SecTrustSetAnchorCertificatesOnly SecTrustSetOCSPResponse \
    SecTrustSetVerifyDate SecTrustSettingsCopyCertificates SecTrustSettingsCopyTrustSettings
}

# signed PROGRAM: whether each page of it is as it was signed, without which a Mac with Apple's processor ends it. The
# linker signs, and what is stripped afterwards has to be signed again.
signed() {
  local program=$1 at=32 commands command size offset directory hashes pages limit page
  word() { od -An -tu4 --endian=big -j "$1" -N4 "$program" | tr -d ' '; }
  commands=$(od -An -tu4 -j16 -N4 "$program")
  while read -r command size offset < <(od -An -tu4 -j "$at" -N12 "$program") && ((command != 0x1d)); do
    ((at += size, --commands > 0)) || return
  done
  # Its parts; the first describes the pages.
  (($(word "$offset") == 0xfade0cc0 && $(word $((offset + 12))) == 0)) || return
  directory=$((offset + $(word $((offset + 16)))))
  hashes=$((directory + $(word $((directory + 16))))) pages=$(word $((directory + 28))) limit=$(word $((directory + 32)))
  page=$((1 << $(od -An -tu1 -j $((directory + 39)) -N1 "$program")))
  cmp -s <(od -An -v -tx1 -w32 -j "$hashes" -N $((32 * pages)) "$program" | tr -d ' ') \
    <(head -c "$limit" "$program" | split -b "$page" --filter=sha256sum - | cut -d ' ' -f 1)
}

macos() {
  local profile=${1-release} triple program magic
  tests/devstack/prerequisites.sh rust cc macos
  # shellcheck source=tests/devstack/tools.sh
  . tests/devstack/tools.sh
  tool cargo-zigbuild "$zigbuild_version"
  zig
  frameworks
  CARGO_ENCODED_RUSTFLAGS=$(published "-Clink-arg=-F$target/frameworks") \
    MACOSX_DEPLOYMENT_TARGET=11.0 CARGO_ZIGBUILD_ZIG_PATH=$tools/zig-$zig_version/ziglang/zig \
    "$tools/cargo-zigbuild-$zigbuild_version/bin/cargo-zigbuild" zigbuild --locked --quiet --profile "$profile" \
    -p weaver-cli "${apple[@]/#/--target=}"
  for triple in "${apple[@]}"; do
    program=$target/$triple/${profile/dev/debug}/weaver
    # A program of 64 bits in Mach-O, and its processor.
    magic=$(od -An -tx4 -N8 "$program" | tr -d ' ')
    case $triple in
      aarch64-*) [[ $magic == feedfacf0100000c ]] ;;
      x86_64-*) [[ $magic == feedfacf01000007 ]] ;;
    esac || {
      echo "laptops: $program begins with $magic" >&2
      return 1
    }
    [[ $triple != aarch64-* ]] || signed "$program" || {
      echo "laptops: $program is not as it was signed, or not signed: a Mac with Apple's processor would end it" >&2
      return 1
    }
    echo "  $program: linked, $(($(stat -c %s "$program") >> 10)) KiB, not run"
  done
}

case ${1-windows} in
  check | windows | release | under_wine | macos) "${1-windows}" "${@:2}" ;;
  *)
    echo "usage: tests/devstack/laptops.sh [check|release|under_wine PROGRAM ARGUMENT...|macos [dev|release]]" >&2
    exit 2
    ;;
esac
