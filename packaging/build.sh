#!/usr/bin/env bash
# Makes the Debian packages by debhelper: config-weaver, weaver and config-weaver-card, for amd64 and arm64.
#
#   packaging/build.sh                    release programs, built here, into out/
#   packaging/build.sh of PROGRAMS OUT    of existing programs, for this machine or for the card, not compressed:
#                                         for tests and for the card image
#
# WEAVER_DEB_VERSION takes the place of the workspace's version. The same sources give the same bytes: every date is
# SOURCE_DATE_EPOCH or else that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=packaging/published.sh
. packaging/published.sh

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
version=${WEAVER_DEB_VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}
# Cargo's pre-releases come before the release; for dpkg `~` says so.
version=${version/-/\~}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
packages=(-p weaver-node-agent -p weaver-operator -p weaver-cli)
work=$target/deb

usage() {
  echo "usage: packaging/build.sh [of PROGRAMS OUT]" >&2
  exit 2
}

# architecture PROGRAM: the one that it is for, by its ELF header.
architecture() {
  case $(od -An -tx1 -j18 -N2 "$1") in
    ' 3e 00') echo amd64 ;;
    ' b7 00') echo arm64 ;;
    *)
      echo "packaging: $1 is no program for amd64 or arm64" >&2
      return 1
      ;;
  esac
}

# started ARCHITECTURE PROGRAMS: a directory in which the programs start here, those of the card by the emulator, as in
# image/src/programs/emulation.rs.
started() {
  local emulator program
  if [[ $1 == "$native" ]]; then
    echo "$2"
    return
  fi
  emulator=$(command -v qemu-aarch64 qemu-aarch64-static | head -n 1)
  if [[ $1 != arm64 || -z $emulator ]]; then
    echo "packaging: nothing here starts programs for $1; qemu-aarch64 (Debian package qemu-user) starts those for arm64" >&2
    return 1
  fi
  mkdir -p "$work/started"
  for program in weaver weaver-node-agent weaver-operator; do
    printf '#!/bin/sh\nexec %q -L /usr/aarch64-linux-gnu %q "$@"\n' "$emulator" "$2/$program" >"$work/started/$program"
    chmod +x "$work/started/$program"
  done
  echo "$work/started"
}

# generated PROGRAMS: man pages and completions, in man/ and completion/ of $work. The programs start here.
generated() {
  local daemon
  rm -rf "$work/man" "$work/completion"
  mkdir -p "$work/man/weaver" "$work/man/daemons" "$work/completion"
  "$1/weaver" man "$work/man/weaver"
  "$1/weaver" completion bash >"$work/completion/weaver"
  "$1/weaver" completion zsh >"$work/completion/_weaver"
  "$1/weaver" completion fish >"$work/completion/weaver.fish"
  for daemon in weaver-node-agent weaver-operator; do
    help2man --no-info --section 8 --version-string "$version" --include "packaging/man/$daemon.h2m" \
      --output "$work/man/daemons/$daemon.8" "$1/$daemon"
  done
}

# package ARCHITECTURE PROGRAMS HOW...: of programs of that architecture; HOW is for debhelper.
package() {
  local architecture=$1 programs=$2 tree=$work/$1/config-weaver
  shift 2
  rm -rf "${tree%/*}"
  mkdir -p "$tree"
  cp -r packaging/debian "$tree"
  cat >"$tree/debian/changelog" <<EOF
config-weaver ($version) stable; urgency=medium

  * CHANGELOG.md of the sources has what a user notices.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date --utc --date "@$SOURCE_DATE_EPOCH" --rfc-email)
EOF
  ln -s "$PWD/systemd" "$PWD/deploy" "$PWD/packaging/card" "$work/man" "$work/completion" "$tree"
  ln -s "$programs" "$tree/programs"
  # Not how this machine happens to be set up.
  (cd "$tree" && umask 022 && env -i PATH="$PATH" HOME=/nonexistent LC_ALL="$LC_ALL" SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
    WEAVER_COMPRESSION="${compression-}" \
    dpkg-buildpackage --no-sign --no-check-builddeps --host-arch "$architecture" "$@") >"$work/$architecture.log" 2>&1 || {
    tail -n 20 "$work/$architecture.log" >&2
    echo "packaging: $architecture failed; all of it is in $work/$architecture.log" >&2
    exit 1
  }
}

native=$(dpkg --print-architecture)
case ${1-} in
  of)
    (($# == 3)) || usage
    out=$3
    # Builds into two places do not meet.
    work=$(realpath -m "$out")/work
    rm -rf "$work"
    mkdir -p "$work"
    compression=-Znone
    programs=$(realpath "$2")
    architecture=$(architecture "$programs/weaver")
    started=$(started "$architecture" "$programs")
    generated "$started"
    package "$architecture" "$programs" --build=binary
    ;;
  '')
    [[ $native == amd64 ]] || {
      echo "packaging: needs a machine of amd64, whose programs run here and are packed; this is $native" >&2
      exit 1
    }
    out=out
    tests/devstack/prerequisites.sh rust cc cross image deb
    CARGO_ENCODED_RUSTFLAGS=$(published) \
      cargo build --locked --quiet --release --target x86_64-unknown-linux-gnu "${packages[@]}"
    cargo build --locked --quiet -p weaver-image
    "$target/debug/weaver-image" programs
    generated "$target/x86_64-unknown-linux-gnu/release"
    package amd64 "$target/x86_64-unknown-linux-gnu/release" --build=binary
    package arm64 "$PWD/target/image/programs" --build=any
    ;;
  *) usage ;;
esac
mkdir -p "$out"
rm -f "$out"/{config-weaver,config-weaver-card,weaver}_*.deb
mv "$work"/*/*.deb "$out"
[[ ${1-} != of ]] || rm -r "$work"
find "$out" -name '*.deb' -printf '  %9s bytes  %p\n' | sort -k 3
