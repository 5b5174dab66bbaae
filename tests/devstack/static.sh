#!/usr/bin/env bash
# `weaver` for Linux on x86-64 and arm64 without any library of the system: for Alpine, for old distributions, for a
# container that has nothing else. Built with musl, and run where there is no other file.
#
#   tests/devstack/static.sh [dev|release]    the profile; release by itself
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=packaging/published.sh
. packaging/published.sh
# shellcheck source=tests/devstack/apt.sh
. tests/devstack/apt.sh

profile=${1-release}
[[ $# -le 1 && $profile =~ ^(dev|release)$ ]] || {
  echo "usage: tests/devstack/static.sh [dev|release]" >&2
  exit 2
}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
begun=$SECONDS

fail() {
  echo "static: $*" >&2
  exit 1
}

tests/devstack/prerequisites.sh rust cc static
# Debian has no compiler for arm64 that knows musl, and needs none: Rust's target has the libc, and the C of ring uses
# nothing in which it differs.
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
triples=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
CARGO_ENCODED_RUSTFLAGS=$(published) \
  cargo build --locked --quiet --profile "$profile" "${triples[@]/#/--target=}" -p weaver-cli
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# It gets as far as asking for a name, by its own resolver.
cat >"$root/kubeconfig" <<'END'
{"apiVersion": "v1", "kind": "Config", "current-context": "a",
 "clusters": [{"name": "a", "cluster": {"server": "https://weaver.invalid:6443"}}],
 "users": [{"name": "a", "user": {"token": "x"}}],
 "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}
END

# A user does it without sudo, but not on Ubuntu, whose kernel refuses.
change=(as_root)
[[ $EUID -eq 0 ]] || ! unshare --user --map-root-user true 2>/dev/null || change=(unshare --user --map-root-user)
# In a root with the program and nothing else but an emulator, which is there whether the kernel knows it or not.
alone() { "${change[@]}" chroot "$root" "${start[@]}" "$@"; }

for triple in "${triples[@]}"; do
  weaver=$target/$triple/${profile/dev/debug}/weaver
  [[ $(readelf --wide --program-headers "$weaver") != *INTERP* ]] || fail "$weaver asks for a dynamic linker"
  [[ $(readelf --wide --dynamic "$weaver") != *NEEDED* ]] || fail "$weaver needs libraries"
  cp "$weaver" "$root/weaver"
  start=(/weaver)
  if [[ $triple == aarch64-* && $(uname -m) != aarch64 ]]; then
    cp "$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1)" "$root/emulator"
    start=(/emulator /weaver)
  fi
  said=$(alone --version)
  [[ $said == "weaver $version" ]] || fail "$weaver says '$said'"
  [[ $(alone crd show) == *CustomResourceDefinition* ]] || fail "$weaver does not print the CRDs"
  said=$(alone version --kubeconfig /kubeconfig)
  [[ $said == *"cluster  not reached: "* ]] || fail "$weaver says '$said'"
  echo "  $weaver: static, $(($(stat -c %s "$weaver") >> 10)) KiB"
done
echo "  both in $((SECONDS - begun)) s"
