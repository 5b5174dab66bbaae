#!/usr/bin/env bash
# What a recipe of the Makefile needs on this machine.
#
#   devstack/prerequisites.sh NEED...      needs: rust cross go cc curl lint
#
# Does nothing, quickly, when all is there. Debian packages that are missing are
# installed through apt-get (with sudo when not root); what cannot be installed
# is named with the one command that does it, and the exit code is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

need_go=1.26
packages=()
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

check_lint() { have shellcheck || packages+=(shellcheck); }

install_packages() {
  local as=() command
  [[ $EUID -eq 0 ]] || as=(sudo)
  command="${as[*]:+${as[*]} }apt-get install -y --no-install-recommends ${packages[*]}"
  if ! have apt-get || { [[ $EUID -ne 0 ]] && ! have sudo; }; then
    cannot "the packages ${packages[*]} (names as in Debian), which only root may install:" "$command"
    return
  fi
  echo "prerequisites: installing ${packages[*]}" >&2
  as+=(env DEBIAN_FRONTEND=noninteractive)
  if ! { "${as[@]}" apt-get update -q && "${as[@]}" apt-get install -qq -y --no-install-recommends "${packages[@]}"; } >&2; then
    cannot "the packages ${packages[*]}, which apt-get could not install (its words stand above):" "$command"
  fi
}

have git || packages+=(git)
for need in "$@"; do
  case $need in
    rust | cross | go | cc | curl | lint) "check_$need" ;;
    *)
      echo "prerequisites: $need is not a need; known: rust cross go cc curl lint" >&2
      exit 2
      ;;
  esac
done
if ((${#packages[@]} > 0)); then
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
