# shellcheck shell=bash
# Sourced by prerequisites.sh and tools.sh.

# Those of apt-get in this run, where there are any.
options=()

may_be_root() { [[ $EUID -eq 0 ]] || command -v sudo >/dev/null 2>&1; }

as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# unpack DIRECTORY PACKAGE...: packages of this machine's release, fetched and checked by apt-get, which are unpacked
# there and not installed.
unpack() (
  mkdir -p "$1" && cd "$1" || exit
  shift
  fetch() { apt-get "${options[@]}" download -q -o APT::Sandbox::User=root "$@"; }
  fetch "$@" || { may_be_root && as_root apt-get "${options[@]}" update -q && fetch "$@"; } || exit
  for package in *.deb; do
    dpkg-deb -x "$package" . && rm "$package" || exit
  done
)
