#!/usr/bin/env bash
# `weaver` for x86-64 Linux without any library of the system: for Alpine, for old distributions, for a container that
# has nothing else. Built with Debian's musl, and run where there is no other file.
#
#   tests/devstack/static.sh [dev|release]    the profile; release by itself
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

profile=${1-release}
[[ $# -le 1 && $profile =~ ^(dev|release)$ ]] || {
  echo "usage: tests/devstack/static.sh [dev|release]" >&2
  exit 2
}
triple=x86_64-unknown-linux-musl
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
begun=$SECONDS

fail() {
  echo "static: $*" >&2
  exit 1
}

tests/devstack/prerequisites.sh rust cc static
# As packaging/build.sh: no path of this machine in the program.
export CARGO_ENCODED_RUSTFLAGS=--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo$'\x1f'--remap-path-prefix=$PWD=/source
cargo build --locked --quiet --profile "$profile" --target "$triple" -p weaver-cli
directory=$profile
[[ $profile != dev ]] || directory=debug
weaver=$target/$triple/$directory/weaver
! readelf --wide --program-headers "$weaver" | grep -q INTERP || fail "$weaver asks for a dynamic linker"
! readelf --wide --dynamic "$weaver" | grep NEEDED || fail "$weaver needs libraries"

# A root with the program and nothing else.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$weaver" "$root/weaver"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
alone() { unshare --user --map-root-user chroot "$root" /weaver "$@"; }
said=$(alone --version)
[[ $said == "weaver $version" ]] || fail "it says '$said'"
[[ $(alone crd show) == *CustomResourceDefinition* ]] || fail "it does not print the CRDs"
# It gets as far as asking for a name, by its own resolver.
cat >"$root/kubeconfig" <<'END'
{"apiVersion": "v1", "kind": "Config", "current-context": "a",
 "clusters": [{"name": "a", "cluster": {"server": "https://weaver.invalid:6443"}}],
 "users": [{"name": "a", "user": {"token": "x"}}],
 "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}
END
said=$(alone version --kubeconfig /kubeconfig)
[[ $said == *"cluster  not reached: "* ]] || fail "it says '$said'"
echo "  $weaver: static, $(($(stat -c %s "$weaver") >> 10)) KiB, in $((SECONDS - begun)) s"
