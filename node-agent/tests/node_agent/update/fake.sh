#!/bin/sh
# Stands for apt-get, apt-cache, dpkg, dpkg-query, dpkg-deb, tar, systemctl, depmod, mkinitramfs and unshare. What is
# installed is in state/: a file of each package with its version and its status. `kill` names a call before or after
# which the caller is killed, `stop` one at which it gets SIGTERM, `fail` one that fails after half of its work.
set -u
here=$(dirname "$0")/..
state=$here/state
me=${0##*/}
# In the namespace it becomes the rest; what it would mount, it writes to.
if [ "$me" = unshare ]; then
  [ -d "$6" ] && [ -d "$7" ] || exit 99
  echo "$8" >>"$6/seen"
  shift 7
  exec "$@"
fi
[ "$me" = systemctl ] || [ -z "${LANGUAGE-}" ] || { echo "this would not be English" >&2; exit 99; }
# Options before the word that is the call.
[ "$me" != systemctl ] || while :; do case $1 in --*) shift ;; *) break ;; esac; done
call="$me $1"
case $* in
  *--simulate*) call="$me simulate" ;;
  *--install*) call="$me install" ;;
  *--configure*) call="$me configure" ;;
  *{Conffiles}*) call="$me conffiles" ;;
esac
echo "$call" >>"$here/calls"
case $* in *-o=Dir::Etc::sourcelist=/etc/apt/sources.list.d/config-weaver.sources\ -o=Dir::Etc::sourceparts=-*) echo "$call" >>"$here/calls-to-own" ;; esac
is() { [ -e "$here/$1" ] && [ "$(cat "$here/$1")" = "$2" ]; }
# Once: the next run is not killed.
dies() { if is kill "$1 $call"; then rm "$here/kill"; kill -9 $PPID; exit 1; fi; }
stops() { if is stop "$call"; then rm "$here/stop"; kill -TERM $PPID; fi; }
fails() {
  is fail "$call" || return 0
  cat "$here/words" >&2
  exit 100
}
# put FILE STATUS: the package of a file gets that version.
put() {
  file=${1##*/}
  version=${file#*_}
  echo "${version%_*} $2" >"$state/${file%%_*}"
}

dies before
stops
case $call in
  "apt-get update") fails ;;
  "apt-get simulate")
    fails
    printf 'Inst weaver [0.1] (0.2 localhost [amd64])\nInst libother (1.0 Debian:13 [amd64])\nConf libother (1.0 Debian:13 [amd64])\n'
    case " $* " in *\ --fix-broken\ *) [ ! -e "$here/missing" ] || sed 's/.*/Inst & (1 Debian:13 [amd64])/' "$here/missing" ;; esac
    ;;
  "apt-get download")
    for word in "$@"; do case $word in *=[0-9]*) echo new >"${word%=*}_${word#*=}_amd64.deb" ;; esac; done
    fails
    ;;
  "apt-get install" | "dpkg install")
    is locked yes && { echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)" >&2; exit 100; }
    # As apt does where the packages need each other in one version, and one has it already.
    case "$call $*" in
      dpkg\ * | *\ --fix-broken\ *) ;;
      *)
        [ "$(cut -d' ' -f1 "$state/config-weaver")" = "$(cut -d' ' -f1 "$state/weaver")" ] || {
          echo "E: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution)." >&2
          exit 100
        }
        ;;
    esac
    for word in "$@"; do
      case $word in
        *.deb)
          put "$word" "iU "
          is kill "within $call" && { rm "$here/kill"; kill -9 $PPID; exit 1; }
          fails
          put "$word" "ii "
          ;;
      esac
    done
    ;;
  "apt-cache policy") case $* in *Dir::Etc*) cat "$here/policy-of-own" ;; *) cat "$here/policy" ;; esac ;;
  "dpkg --print-architecture") echo amd64 ;;
  "dpkg configure") for file in "$state"/*; do sed -i 's/iU /ii /' "$file"; done ;;
  "dpkg-query --show")
    if is fail "$call"; then cat "$here/words" >&2; exit 2; fi
    for file in "$state"/*; do
      wanted=
      for word in "$@"; do case ${file##*/} in $word) wanted=yes ;; esac; done
      [ -n "$wanted" ] || continue
      while read -r version status; do printf '%s\t%s \t%s\t100\n' "${file##*/}" "$status" "$version"; done <"$file"
    done
    exit 1
    ;;
  "dpkg-query --listfiles") printf '/.\n/usr\n/usr/program\n/usr/link\n/etc\n/etc/conffile\n/etc/edited\n/etc/removed\n/etc/obsolete\n/usr/absent\n' ;;
  "dpkg-query conffiles")
    printf ' /etc/conffile d5cd8f3345304d639ca225885645292a\n /etc/edited d5cd8f3345304d639ca225885645292a\n'
    printf ' /etc/removed d5cd8f3345304d639ca225885645292a\n /etc/obsolete d5cd8f3345304d639ca225885645292a obsolete\n'
    ;;
  "dpkg-query --status") printf 'Package: %s\nStatus: install ok installed\nVersion: %s\n' "$2" "$(cut -d' ' -f1 "$state/$2")" ;;
  # As Debian's: conffiles are not among these.
  "dpkg-query --control-list") printf 'md5sums\npostinst\n' ;;
  "dpkg-query --control-show") [ "$3" != postinst ] || echo '#!/bin/sh' ;;
  "dpkg-deb --build")
    shift 3
    name=$(sed -n 's/^Package: //p' "$1/DEBIAN/control")
    {
      find "$1" -printf '%P %m %l\n' | sort
      sed 's/^/conffile /' "$1/DEBIAN/conffiles"
    } >"$2/${name}_$(sed -n 's/^Version: //p' "$1/DEBIAN/control")_amd64.deb"
    ;;
  # A kernel, of the release in its name.
  "dpkg-deb --extract")
    release=${2##*/linux-image-}
    release=${release%%_*}
    case $release in
      [0-9]*)
        mkdir -p "$3/boot" "$3/usr/lib/modules/$release" "$3/usr/lib/linux-image-$release/broadcom"
        echo "kernel $release" >"$3/boot/vmlinuz-$release"
        echo module >"$3/usr/lib/modules/$release/x.ko"
        echo "tree $release" >"$3/usr/lib/linux-image-$release/broadcom/bcm2711-rpi-4-b.dtb"
        ;;
    esac
    fails
    ;;
  "apt-cache show")
    while [ $# -gt 1 ]; do shift; done
    cat "$here/show-$1"
    ;;
  "depmod "*) [ -d "$here/root/lib/modules/$1" ] || exit 1 ;;
  "mkinitramfs -o")
    fails
    echo "initramfs $3" >"$2"
    ;;
  "systemctl reboot") echo "$*" >>"$here/reboots" ;;
  "dpkg-deb --fsys-tarfile") [ -d "$here/definitions" ] && exec tar --create --directory "$here/definitions" . ;;
  "systemctl show")
    state_of=active
    case $* in *weaver-node-agent*) grep -q bad "$state/config-weaver" && state_of=failed ;; esac
    printf 'ActiveState=%s\nStateChangeTimestampMonotonic=1\n' "$state_of"
    ;;
  "systemctl start") grep -q bad "$state/config-weaver" || echo '{}' >"$here/root/run/weaver/report.json" ;;
esac
dies after
exit 0
