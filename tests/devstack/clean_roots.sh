#!/usr/bin/env bash
# Proves prerequisites.sh where there is nothing but git and make: in clean roots of Debian 12, Debian 13 and Ubuntu
# 24.04, as a user with sudo and as root. What is made is removed at the end.
#
#   tests/devstack/clean_roots.sh [RELEASE...]     trixie bookworm noble
#   tests/devstack/clean_roots.sh up RELEASE       `make up` there, with the time that it takes
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/devstack/prerequisites.sh image
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=tests/devstack/apt.sh
. tests/devstack/apt.sh

work=$(mktemp -d)
trap 'as_root rm -rf --one-file-system "$work"' EXIT
chmod 0755 "$work"

fail() {
  echo "clean roots: $*" >&2
  exit 1
}

# make_root RELEASE: a root with git, make and a user who may use sudo, each account with the project's files; `root` is
# where.
make_root() {
  local of=() home certificates
  root=$work/$1
  if [[ $1 == noble ]]; then
    ubuntus_key
    of=("--components=main,universe" "--keyring=$key")
  fi
  # From the mirror that mmdebstrap knows for the release.
  as_root mmdebstrap --quiet --mode=root --variant=minbase --include=apt,git,make,sudo "${of[@]}" "$1" "$root"
  as_root chroot "$root" useradd --create-home --shell /bin/bash user
  echo 'user ALL=(ALL) NOPASSWD: ALL' | as_root tee "$root/etc/sudoers.d/user" >/dev/null
  # What this machine trusts, such as its proxy: for when the package ca-certificates comes.
  certificates=$root/usr/local/share/ca-certificates
  as_root mkdir -p "$certificates"
  as_root csplit --quiet --elide-empty-files --prefix "$certificates/this-machine-" --suffix-format %03d.crt \
    /etc/ssl/certs/ca-certificates.crt '/BEGIN CERTIFICATE/' '{*}'
  for home in home/user root; do
    as_root mkdir "$root/$home/source"
    git ls-files -z --deduplicate | tar --null --files-from - --create |
      as_root tar --extract --no-same-owner --directory "$root/$home/source"
  done
  as_root chroot "$root" chown -R user: /home/user
}

# Ubuntu's archive is proved by a key that Debian 13 has as a package; `key` is where.
ubuntus_key() {
  key=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  [[ ! -e $key ]] || return 0
  key=$work/trixie$key
  [[ -e $work/trixie ]] || as_root mmdebstrap --quiet --mode=root --variant=minbase trixie "$work/trixie"
  as_root chroot "$work/trixie" apt-get update -qq
  as_root chroot "$work/trixie" apt-get install -qq -y ubuntu-archive-keyring >/dev/null 2>&1
}

# as USER COMMAND: in a login of its own, among the project's files.
as() {
  as_root unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
    chroot "$root" su - "$1" -c "cd source && $2"
}

# refused TEXT COMMAND...: it fails, and its last words have this in them.
refused() {
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then fail "this was not refused: $*: $said"; fi
  [[ $said == *"$text"* ]] || fail "'$text' is not in: $said"
}

# What a shell reads at its start.
profiles() { as "$1" 'cat ~/.profile ~/.bash* ~/.zsh* ~/.config/fish/* /etc/profile /etc/profile.d/* /etc/environment 2>/dev/null | sha256sum'; }

# What is not there is named, and nothing of it is kept.
prove_refusals() {
  local with='tests/devstack/prerequisites.sh'
  refused 'missing Go 1' as user "WEAVER_TOOLS=system $with go"
  refused 'sh.rustup.rs' as user "WEAVER_TOOLS=system $with rust"
  refused 'rustup toolchain install' as user "RUSTUP_UPDATE_ROOT=http://127.0.0.1:9 $with rust"
  refused 'was not kept' as user "mkdir -p /tmp/no/archive/1.28.2/$(uname -m)-unknown-linux-gnu && \
    echo no > /tmp/no/archive/1.28.2/$(uname -m)-unknown-linux-gnu/rustup-init && RUSTUP_UPDATE_ROOT=file:///tmp/no $with rust"
  refused 'Go 1.26 or later (it could not be fetched' as user "GOPROXY=http://127.0.0.1:9 $with go"
}

# prove USER NEED...: they are brought, with a line that says so, and once.
prove() {
  local user=$1 before said again
  shift
  before=$(profiles "$user")
  said=$(as "$user" "tests/devstack/prerequisites.sh $* 2>&1") || fail "$said"
  [[ " $* " != *' rust '* || $said == *"bringing Rust $rust_version"* ]] || fail "Rust came without a word: $said"
  [[ $said == *"bringing Go $go_version"* ]] || fail "Go came without a word: $said"
  again=$(as "$user" "make --no-print-directory help >/dev/null && tests/devstack/prerequisites.sh $* 2>&1")
  [[ -z $again ]] || fail "the second time it says: $again"
  [[ $(profiles "$user") == "$before" ]] || fail "a profile was touched"
  [[ $(as "$user" '. tests/devstack/path.sh && go version') == "go version go$go_version "* ]] || fail "Go is not found"
  [[ " $* " != *' rust '* ]] ||
    as "$user" '. tests/devstack/path.sh && cargo init -q --vcs none --name hello /tmp/hello && cd /tmp/hello &&
      cargo clippy -q && cargo fmt --check && cargo run -q' | grep -q 'Hello, world' || fail "Rust builds nothing"
  as "$user" 'rm -r ~/.cache/config-weaver' || fail "the cache cannot be removed"
}

if [[ ${1-} == up ]]; then
  make_root "$2"
  as user 'time make up; make down'
  exit
fi
(($# > 0)) || set -- trixie bookworm noble
for release in "$@"; do
  begun=$SECONDS
  make_root "$release"
  [[ $release != trixie ]] || prove_refusals
  # The compiler is there after the first of them, and one Rust is like another.
  case $release in
    bookworm) prove root rust cc go; prove user go ;;
    *) prove user rust cc go; prove root go ;;
  esac
  # That of trixie has a key that noble needs.
  [[ $release == trixie ]] || as_root rm -rf --one-file-system "$root"
  echo "clean roots: $release, as root and as a user: ok, $((SECONDS - begun)) s"
done
