#!/usr/bin/env bash
# What a recipe of the Makefile needs on this machine.
#
#   tests/devstack/prerequisites.sh NEED...      needs: rust cross go cc cxx curl lint image
#
# Does nothing, quickly, when all is there. Debian packages that are missing are
# installed through apt-get (with sudo when not root); what cannot be installed
# is named with the one command that does it, and the exit code is 1.
set -euo pipefail
cd "$(dirname "$0")/../.."

need_go=1.26
packages=()
# Those that Debian 12 has only in its backports; elsewhere they are packages like any other.
backports=()
missing=()

have() { command -v "$1" >/dev/null 2>&1; }

# cannot WHAT COMMAND: something that apt-get cannot bring.
cannot() { missing+=("$1"$'\n'"    $2"); }

channel() { sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml; }

# list KEY: the strings of a one-line list in rust-toolchain.toml.
list() { sed -n "s/^$1 *= *\\[\\(.*\\)\\]/\\1/p" rust-toolchain.toml | tr -d '" ' | tr ',' ' '; }

# at_least WANTED FOUND: compares versions.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

check_cc() {
  have cc || packages+=(gcc)
  # The compiler alone is not enough: Rust's linker step needs libc's start files.
  if ! have cc || ! printf '#include <stdlib.h>\nint main(void){return 0;}\n' | cc -x c - -o /dev/null 2>/dev/null; then
    packages+=(libc6-dev)
  fi
}

check_cxx() { have c++ || packages+=(g++); }

check_curl() {
  have curl || packages+=(curl)
  [[ -e /etc/ssl/certs/ca-certificates.crt || ! -e /etc/debian_version ]] || packages+=(ca-certificates)
}

check_go() {
  local found
  if have go; then
    found=$(GOTOOLCHAIN=local go env GOVERSION)
    found=${found#go}
    if ! at_least "$need_go" "$found"; then
      # From 1.21 on, Go fetches the version that go.mod asks for by itself.
      if ! at_least 1.21 "$found" || [[ $(go env GOTOOLCHAIN) == local* ]]; then cannot_go "this machine has $found"; fi
    fi
  elif candidate=$(apt-cache policy golang-go 2>/dev/null | sed -n 's/.*Candidate: \(2:\)\{0,1\}\([0-9.]*\).*/\2/p') &&
    [[ -n $candidate ]] && at_least 1.21 "$candidate"; then
    packages+=(golang-go)
  else
    cannot_go "this machine has none"
  fi
}

cannot_go() {
  local arch
  arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
  cannot "Go $need_go or later ($1), on the PATH; from the Go project:" \
    "curl -fsSL https://go.dev/dl/go1.26.8.linux-$arch.tar.gz | sudo tar -C /usr/local -xz && export PATH=/usr/local/go/bin:\$PATH"
}

# The toolchain of rust-toolchain.toml. Asked for explicitly: rustup may be told
# (RUSTUP_AUTO_INSTALL=0) not to install one just because it is used.
check_rust() {
  local toolchain installed wanted=() component target
  if ! have rustup; then
    if [[ -n $(apt-cache policy rustup 2>/dev/null | sed -n 's/.*Candidate: \([0-9].*\)/\1/p') ]]; then
      packages+=(rustup)
    else
      cannot "rustup, the installer of Rust, on the PATH:" \
        "curl --proto '=https' --tlsv1.2 -fsSL https://sh.rustup.rs | sh -s -- -y --default-toolchain none && . ~/.cargo/env"
    fi
    return
  fi
  toolchain=$(channel)
  installed=$(rustup component list --installed --toolchain "$toolchain" 2>/dev/null || true)
  for component in $(list components); do
    grep -q "^$component-" <<<"$installed" || wanted+=(--component "$component")
  done
  for target in $(list targets); do
    grep -qx "rust-std-$target" <<<"$installed" || wanted+=(--target "$target")
  done
  if [[ -z $installed || ${#wanted[@]} -gt 0 ]]; then
    echo "prerequisites: installing Rust $toolchain" >&2
    rustup toolchain install "$toolchain" --profile minimal --no-self-update "${wanted[@]}" >&2 ||
      cannot "Rust $toolchain, which rustup could not install (its words stand above):" \
        "rustup toolchain install $toolchain --profile minimal ${wanted[*]}"
  fi
}

check_cross() { have aarch64-linux-gnu-gcc || packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross); }

# newer PROGRAM VERSION PACKAGE: at least that version of a program that prints its own.
newer() {
  local found
  have "$1" || { backports+=("$3"); return; }
  found=$({ "$1" --version || "$1" -V; } 2>&1 | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)*' | head -n 1)
  at_least "$2" "${found:-0}" || backports+=("$3")
}

# What makes, reads and boots a card image.
check_image() {
  local program
  for program in mmdebstrap arch-test sfdisk:fdisk fdtput:device-tree-compiler mcopy:mtools mkfs.vfat:dosfstools \
    xz:xz-utils zstd:zstd ssh:openssh-client newuidmap:uidmap update-binfmts:binfmt-support; do
    have "${program%%:*}" || packages+=("${program##*:}")
  done
  # mke2fs reads a tar with it. Not `grep -q`, which ends at the first match, and with it ldconfig by a signal.
  ldconfig -p 2>/dev/null | grep 'libarchive\.so\.13' >/dev/null || packages+=("$(libarchive)")
  newer mke2fs 1.47.2 e2fsprogs
  newer qemu-system-aarch64 8.2 qemu-system-arm
  have qemu-img || backports+=(qemu-utils)
  have qemu-aarch64-static || have qemu-aarch64 || backports+=(qemu-user-static)
}

# Its name in this release: apt may know both, and have but one.
libarchive() {
  local candidate
  candidate=$(apt-cache policy libarchive13t64 2>/dev/null | sed -n 's/^ *Candidate: //p')
  if [[ -z $candidate || $candidate == "(none)" ]]; then echo libarchive13; else echo libarchive13t64; fi
}

check_lint() {
  have shellcheck || packages+=(shellcheck)
  # With it a test kills the agent at each of its writes.
  have strace || packages+=(strace)
  # What it thinks of our units.
  have systemd-analyze || packages+=(systemd)
}

# apt's options with which it knows the backports of this release: a set of sources for this one run, made of the
# machine's own and of its mirror.
with_backports() {
  local release=$1 site
  # shellcheck disable=SC2016  # apt fills these in
  site=$(apt-get indextargets --format '$(RELEASE) $(SITE)' | awk -v release="$release" '$1 == release { print $2; exit }')
  [[ -n $site ]] || return 1
  sources=$(mktemp -d)
  trap 'rm -rf "$sources"' EXIT
  cp /etc/apt/sources.list.d/* "$sources" 2>/dev/null || true
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release-backports main" \
    >"$sources/weaver-backports.list"
  chmod -R a+rX "$sources"
  options=(-o "Dir::Etc::SourceParts=$sources")
}

install_packages() {
  local as=() command release options=() from=()
  [[ $EUID -eq 0 ]] || as=(sudo)
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
  if ((${#backports[@]} > 0)) && [[ $release == bookworm ]]; then
    if ! with_backports "$release"; then
      cannot "the packages ${backports[*]} of $release-backports, whose mirror apt's sources do not show:" \
        "add $release-backports to /etc/apt/sources.list.d, then apt-get install -t $release-backports ${backports[*]}"
      return
    fi
    from=(-t "$release-backports")
  fi
  packages+=("${backports[@]}")
  command="${as[*]:+${as[*]} }apt-get install -y --no-install-recommends ${from[*]:+${from[*]} }${packages[*]}"
  if ! have apt-get || { [[ $EUID -ne 0 ]] && ! have sudo; }; then
    cannot "the packages ${packages[*]} (names as in Debian), which only root may install:" "$command"
    return
  fi
  echo "prerequisites: installing ${packages[*]}" >&2
  as+=(env DEBIAN_FRONTEND=noninteractive)
  if ! { "${as[@]}" apt-get "${options[@]}" update -q &&
    "${as[@]}" apt-get "${options[@]}" install -qq -y --no-install-recommends "${from[@]}" "${packages[@]}"; } >&2; then
    cannot "the packages ${packages[*]}, which apt-get could not install (its words stand above):" "$command"
  fi
}

have git || packages+=(git)
for need in "$@"; do
  case $need in
    rust | cross | go | cc | cxx | curl | lint | image) "check_$need" ;;
    *)
      echo "prerequisites: $need is not a need; known: rust cross go cc curl lint image" >&2
      exit 2
      ;;
  esac
done
if ((${#packages[@]} + ${#backports[@]} > 0)); then
  install_packages
  # What apt-get brought may itself bring more (rustup its toolchain): look once more.
  if ((${#missing[@]} == 0)) && [[ -z ${WEAVER_PREREQUISITES_AGAIN-} ]]; then
    WEAVER_PREREQUISITES_AGAIN=1 exec "$0" "$@"
  fi
fi
if ((${#missing[@]} > 0)); then
  printf 'prerequisites: missing %s\n' "${missing[@]}" >&2
  exit 1
fi
