#!/usr/bin/env bash
# What a recipe of the Makefile needs on this machine.
#
#   tests/devstack/prerequisites.sh NEED...      needs: rust cross go cc cxx curl lint image deb apt release
#                                                        browser; windows wine static (after rust)
#
# Does nothing, quickly, when all is there. Rust and Go that are missing are brought into the cache (path.sh), with
# WEAVER_TOOLS=system they are only named. Debian packages that are missing are installed through apt-get (with sudo
# when not root). What is not available is named with the one command that brings it, and the exit code is 1.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=tests/devstack/apt.sh
. tests/devstack/apt.sh

# What tests/testbed/go.mod asks for. A Go from 1.21 on fetches a later one as a module, if it is let.
need_go=1.26
module_go=1.21
rustup_version=1.28.2
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null || :)
packages=()
# Those that Debian 12 has only in its backports; elsewhere they are packages like any other.
backports=()
missing=()
# What is to be brought into the cache when the packages are there: rustup rust go.
bring=()

have() { command -v "$1" >/dev/null 2>&1; }

# cannot WHAT COMMAND: something that apt-get cannot bring.
cannot() { missing+=("$1"$'\n'"    $2"); }

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

check_certificates() {
  [[ -e /etc/ssl/certs/ca-certificates.crt || ! -e /etc/debian_version || " ${packages[*]} " == *' ca-certificates '* ]] ||
    packages+=(ca-certificates)
}

check_curl() {
  have curl || packages+=(curl)
  check_certificates
}

# The version of this machine's Go, without the one that it might fetch.
local_go() {
  local found
  found=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || :)
  echo "${found#go}"
}

check_go() {
  local found
  found=$(local_go)
  at_least "$need_go" "${found:-0}" && return
  if at_least "$module_go" "${found:-0}" && [[ $(go env GOTOOLCHAIN) != local* ]]; then return; fi
  if [[ ${WEAVER_TOOLS-} == system ]]; then
    cannot_go "this machine has ${found:-none}"
  else
    check_certificates
    bring+=(go)
  fi
}

cannot_go() {
  local arch
  arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
  cannot "Go $need_go or later ($1), on the PATH; from the Go project:" \
    "curl -fsSL https://go.dev/dl/go$go_version.linux-$arch.tar.gz | sudo tar -C /usr/local -xz && export PATH=/usr/local/go/bin:\$PATH"
}

# As the go command itself fetches it: from the module proxy, checked by the checksum database. A machine without a Go
# that can do that borrows one of its distribution.
bring_go() {
  local with=go borrowed=$toolchains/go/borrowed root
  echo "prerequisites: bringing Go $go_version into $toolchains/go (WEAVER_TOOLS=system takes the machine's own instead)" >&2
  rm -rf "$borrowed"
  if ! at_least "$module_go" "$(local_go)"; then
    if ! borrow_go "$borrowed" >&2; then
      cannot_go "apt-get has none to fetch it with: its message is above"
      return
    fi
    with=$(echo "$borrowed"/usr/lib/go-*/bin/go)
  fi
  root=$(cd / && GOTOOLCHAIN=go$go_version GOMODCACHE=$toolchains/go/modules "$with" env GOROOT) || root=
  # Writable, or removing the cache would be refused.
  chmod -R u+w "$toolchains/go"
  rm -rf "$borrowed" "$toolchains/go/modules/cache"
  if [[ $(GOTOOLCHAIN=local "$root/bin/go" env GOVERSION 2>/dev/null) == "go$go_version" ]]; then
    ln -sfn "$root" "$go_dir"
  else
    cannot_go "it could not be fetched: the go command's message is above"
  fi
}

# borrow_go DIRECTORY: the distribution's newest, which in Debian 12 is that of the backports.
borrow_go() {
  local of=() package
  if [[ $release == bookworm ]]; then
    with_backports "$release" && may_be_root && as_root apt-get "${options[@]}" update -q || return
    of=(-o "APT::Default-Release=$release-backports")
  fi
  known() { apt-cache "${options[@]}" "${of[@]}" depends golang-go | sed -n 's/^ *Depends: \(golang-[0-9.]*-go\)$/\1/p'; }
  package=$(known)
  if [[ -z $package ]] && may_be_root; then
    as_root apt-get "${options[@]}" update -q || return
    package=$(known)
  fi
  [[ -n $package ]] && unpack "$1" "$package"
}

# The toolchain of rust-toolchain.toml, by this machine's rustup or else by one in the cache. Asked for explicitly:
# With RUSTUP_AUTO_INSTALL=0 rustup installs none just because it is used.
check_rust() {
  local installed component target
  rustup=(rustup)
  if [[ ${WEAVER_TOOLS-} == system ]] && ! have rustup; then
    cannot "rustup, the installer of Rust, on the PATH:" \
      "curl --proto '=https' --tlsv1.2 -fsSL https://sh.rustup.rs | sh -s -- -y --default-toolchain none && . ~/.cargo/env"
    return
  elif [[ ${WEAVER_TOOLS-} != system ]] && { [[ -d $rust_dir ]] || ! have rustup; }; then
    rustup=(env "RUSTUP_HOME=$toolchains/rust" "CARGO_HOME=$toolchains/rust/cargo" "$toolchains/rust/rustup")
    if [[ ! -x $toolchains/rust/rustup ]]; then
      check_curl
      bring+=(rustup)
    fi
  fi
  wanted_rust=()
  installed=$("${rustup[@]}" component list --installed --toolchain "$rust_version" 2>/dev/null || true)
  for component in $(list components); do
    grep -q "^$component-" <<<"$installed" || wanted_rust+=(--component "$component")
  done
  for target in $(list targets); do
    grep -qx "rust-std-$target" <<<"$installed" || wanted_rust+=(--target "$target")
  done
  if [[ -z $installed || ${#wanted_rust[@]} -gt 0 ]]; then bring+=(rust); fi
}

# rustup itself, which is its own installer under another name, from where it would renew itself.
bring_rustup() {
  local sum url new=$toolchains/rust/rustup.new
  case $(uname -m) in
    x86_64) sum=20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c ;;
    aarch64) sum=e3853c5a252fca15252d07cb23a1bdd9377a8c6f3efa01531109281ae47f841c ;;
    *)
      cannot "rustup for $(uname -m), on the PATH:" "see https://rustup.rs"
      return
      ;;
  esac
  url=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}/archive/$rustup_version/$(uname -m)-unknown-linux-gnu/rustup-init
  mkdir -p "$toolchains/rust"
  if ! curl --fail --silent --show-error --location --connect-timeout 20 --output "$new" "$url" >&2; then
    cannot "Rust: $url could not be fetched (curl's message is above); with a rustup of your own on the PATH, of whatever origin:" \
      "rustup toolchain install $rust_version --profile minimal"
  elif ! echo "$sum  $new" | sha256sum --check --status; then
    rm "$new"
    cannot "Rust: what $url sends is not rustup $rustup_version, and was not kept; with a rustup of your own on the PATH:" \
      "rustup toolchain install $rust_version --profile minimal"
  else
    chmod 0755 "$new"
    mv "$new" "$toolchains/rust/rustup"
  fi
}

bring_rust() {
  if [[ ${rustup[0]} == rustup ]]; then
    echo "prerequisites: installing Rust $rust_version with rustup" >&2
  elif [[ -x $toolchains/rust/rustup ]]; then
    echo "prerequisites: bringing Rust $rust_version into $toolchains/rust (WEAVER_TOOLS=system takes the machine's own instead)" >&2
  else
    return 0
  fi
  "${rustup[@]}" toolchain install "$rust_version" --profile minimal --no-self-update "${wanted_rust[@]}" >&2 ||
    cannot "Rust $rust_version, which rustup could not install (its message is above); when its server can be reached:" \
      "rustup toolchain install $rust_version --profile minimal ${wanted_rust[*]}"
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
    xz:xz-utils zstd:zstd ssh:openssh-client newuidmap:uidmap; do
    have "${program%%:*}" || packages+=("${program##*:}")
  done
  # mke2fs reads a tar with it. Not `grep -q`, which ends at the first match, and with it ldconfig by a signal.
  ldconfig -p 2>/dev/null | grep 'libarchive\.so\.13' >/dev/null || packages+=("$(libarchive)")
  newer mke2fs 1.47.2 e2fsprogs
  newer qemu-system-aarch64 8.2 qemu-system-arm
  have qemu-img || backports+=(qemu-utils)
  check_emulator
  check_debhelper
}

# What lets this machine run programs for arm64, also where their root has nothing else.
check_emulator() {
  have update-binfmts || packages+=(binfmt-support)
  have qemu-aarch64-static || have qemu-aarch64 || backports+=(qemu-user-static)
}

# The image is assembled of packages of ours.
check_debhelper() {
  have dh || packages+=(debhelper)
  have dpkg-buildpackage || packages+=(dpkg-dev)
  have help2man || packages+=(help2man)
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

# What looks at the pages of `weaver ui` (Chromium, led by WebDriver), and what brings axe-core.
check_browser() {
  # Of whatever origin: the driver finds the browser itself.
  if have chromedriver; then
    have chromium || have google-chrome || packages+=(chromium)
  elif grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then
    cannot "chromedriver, and a Chrome of the same version, on the PATH (Ubuntu has both only as a snap, which cannot be led from here):" \
      "see https://googlechromelabs.github.io/chrome-for-testing/"
  else
    packages+=(chromium chromium-driver)
  fi
  have npm || packages+=(npm)
}

# What makes Debian packages, and judges them.
check_deb() {
  check_debhelper
  have lintian || packages+=(lintian)
}

# What builds weaver for Windows, and what runs it.
check_windows() {
  have x86_64-w64-mingw32-gcc || packages+=(gcc-mingw-w64-x86-64)
  check_targets x86_64-pc-windows-gnu
}

# What fetches zig, which builds for macOS.
check_macos() {
  python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
  check_targets aarch64-apple-darwin x86_64-apple-darwin
}

# What builds weaver without libraries of the system, and looks at it.
check_static() {
  have musl-gcc || packages+=(musl-tools)
  have readelf || packages+=(binutils)
  check_cross
  check_emulator
  check_targets x86_64-unknown-linux-musl aarch64-unknown-linux-musl
}

check_wine() { have wine || packages+=(wine wine64); }

# check_targets TRIPLE...: further targets of the toolchain that check_rust has looked at.
check_targets() {
  local target
  for target in "$@"; do
    "${rustup[@]}" target list --installed --toolchain "$rust_version" 2>/dev/null | grep -qx "$target" ||
      wanted_rust+=(--target "$target")
  done
  if ((${#wanted_rust[@]} > 0)) && [[ " ${bring[*]} " != *' rust '* ]]; then bring+=(rust); fi
}

# What makes an apt repository.
check_apt() {
  have apt-ftparchive || packages+=(apt-utils)
  have gpg || packages+=(gpg)
  have gpg-agent || packages+=(gpg-agent)
  have xz || packages+=(xz-utils)
}

# What packs, signs and tries a release.
check_release() {
  have minisign || packages+=(minisign)
  have zip || packages+=(zip)
  have unzip || packages+=(unzip)
}

# apt's options with which it knows the backports of this release: a set of sources for this one run, made of the
# machine's own and of its mirror.
with_backports() {
  local release=$1 site
  # shellcheck disable=SC2016  # apt fills these in
  site=$(apt-get indextargets --format '$(RELEASE) $(SITE)' | awk -v release="$release" '$1 == release { print $2; exit }')
  [[ -n $site ]] || return 1
  [[ -z ${sources-} ]] || rm -rf "$sources"
  sources=$(mktemp -d)
  trap 'rm -rf "$sources"' EXIT
  cp /etc/apt/sources.list.d/* "$sources" 2>/dev/null || true
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release-backports main" \
    >"$sources/weaver-backports.list"
  chmod -R a+rX "$sources"
  options=(-o "Dir::Etc::SourceParts=$sources")
}

install_packages() {
  local command from=()
  if ((${#backports[@]} > 0)) && [[ $release == bookworm ]]; then
    if ! with_backports "$release"; then
      cannot "the packages ${backports[*]} of $release-backports, whose mirror apt's sources do not show:" \
        "add $release-backports to /etc/apt/sources.list.d, then apt-get install -t $release-backports ${backports[*]}"
      return
    fi
    from=(-t "$release-backports")
  fi
  packages+=("${backports[@]}")
  command="apt-get install -y --no-install-recommends ${from[*]:+${from[*]} }${packages[*]}"
  [[ $EUID -eq 0 ]] || command="sudo $command"
  if ! have apt-get || ! may_be_root; then
    cannot "the packages ${packages[*]} (names as in Debian), which only root may install:" "$command"
    return
  fi
  echo "prerequisites: installing ${packages[*]}" >&2
  # Without a terminal only what went wrong, which stands between hundreds of other lines otherwise.
  exec 3>/dev/null
  [[ ! -t 2 ]] || exec 3>&2
  options+=(-o Acquire::Retries=3)
  if ! { as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update -q &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -qq -y --no-install-recommends "${from[@]}" \
      "${packages[@]}"; } >&3; then
    cannot "the packages ${packages[*]}, which apt-get could not install (its words stand above):" "$command"
  fi
}

have git || packages+=(git)
for need in "$@"; do
  case $need in
    rust | cross | go | cc | cxx | curl | lint | image | deb | apt | release | browser | windows | wine | static | macos) "check_$need" ;;
    *)
      echo "prerequisites: $need is not a need; known: rust cross go cc cxx curl lint image deb apt release browser windows wine static macos" >&2
      exit 2
      ;;
  esac
done
if ((${#packages[@]} + ${#backports[@]} > 0)); then install_packages; fi
if ((${#missing[@]} == 0)); then
  for one in "${bring[@]}"; do "bring_$one"; done
fi
if ((${#missing[@]} > 0)); then
  printf 'prerequisites: missing %s\n' "${missing[@]}" >&2
  exit 1
fi
