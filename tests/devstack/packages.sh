#!/usr/bin/env bash
# Proves the Debian packages: made twice they have the same bytes, lintian has nothing to say, and in a clean root of
# Debian 13 with an owner's k3s they are installed, upgraded, downgraded, removed and purged, which leaves k3s as it
# was; then once more in the booted root, where the units run; in both `weaver node update` installs them from apt
# repositories, good ones and others. Of the same packages a release is made and checked. The programs are of the dev
# profile. Where PREVIOUS=DIR has packages of another release, these are upgraded too. What is made is removed at the
# end.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/devstack/prerequisites.sh rust cc cross go curl image deb apt release
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=tests/devstack/apt.sh
. tests/devstack/apt.sh
# shellcheck source=tests/devstack/updates.sh
. tests/devstack/updates.sh

work=$(mktemp -d)
init=
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || :; [[ -z $init ]] || as_root kill -KILL "$init"; as_root rm -rf --one-file-system "$work"' EXIT
chmod 0755 "$work"
root=$work/root
programs=${CARGO_TARGET_DIR:-target}/debug
host=$(dpkg --print-architecture)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# As the programs say it.
own=$version
version=${version/-/\~}
newer=$version+newer
bad=$version+newer2

fail() {
  echo "packages: $*" >&2
  exit 1
}

# run COMMAND: by a shell in the root, without a terminal.
run() {
  as_root unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
    chroot "$root" env -i PATH="$PATH" HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$1" </dev/null
}

# In the root as it runs, see boot_root.sh.
inside() {
  as_root nsenter --target "$init" --mount --pid --uts --ipc --net --cgroup \
    env -i PATH="$PATH" HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$1" </dev/null
}

# eventually COMMAND: succeeds within half a minute.
eventually() {
  local deadline=$((SECONDS + 30)) said
  until said=$(run "$1" 2>&1); do
    ((SECONDS < deadline)) || fail "not within 30 s: $1: $said"
    sleep 0.2
  done
}

# quiet COMMAND: its words only where it fails.
quiet() {
  local said
  said=$(run "$1" 2>&1) || fail "$1: $said"
}

# refused TEXT COMMAND: it fails, with this in its words.
refused() {
  local said
  if said=$(run "$2" 2>&1); then fail "not refused: $2: $said"; fi
  [[ $said == *"$1"* ]] || fail "'$1' is not in: $said"
}

# is WANTED COMMAND: that is what it prints, whether it fails or not.
is() {
  local said
  said=$(run "$2" 2>&1 || :)
  [[ $said == "$1" ]] || fail "$2 printed: $said; wanted: $1"
}

# What packages and their accounts do not share with an owner.
etc() {
  run "find /etc \( -name 'passwd*' -o -name 'group*' -o -name 'shadow*' -o -name 'gshadow*' -o -name 'subuid*' -o -name 'subgid*' \
    -o -name '.pwd.lock' -o -path /etc/ld.so.cache \) -prune -o \( -type f -o -type l \) -printf '%p %l %m %u:%g ' \
    \( -type l -printf '\n' -o -exec sha256sum {} \; \) | sort"
}

# make_root: a root with what an owner of k3s has: its unit as its installer writes it, its settings, data.
make_root() {
  as_root mmdebstrap --quiet --mode=root --variant=minbase --skip=cleanup/apt/lists \
    --include=apt,systemd-sysv,iproute2,ca-certificates trixie "$root"
  as_root cp systemd/k3s.service "$root/etc/systemd/system/k3s.service"
  as_root install -D -m 0755 /bin/true "$root/usr/local/bin/k3s"
  run "systemctl --quiet enable k3s.service
    mkdir -p /etc/rancher/k3s/config.yaml.d /var/lib/rancher/k3s /boot/firmware
    echo 'tls-san: [pi.home]' > /etc/rancher/k3s/config.yaml
    echo data > /var/lib/rancher/k3s/state"
}

# made: both versions, and one of another architecture, in the root's /debs.
made() {
  local package
  packaging/build.sh of "$programs" "$work/old"
  WEAVER_DEB_VERSION=$newer packaging/build.sh of "$programs" "$work/new"
  (umask 077 && TZ=Pacific/Apia packaging/build.sh of "$programs" "$work/again" >/dev/null)
  for package in "$work"/old/*; do
    cmp "$package" "$work/again/${package##*/}" || fail "made again it is another file"
  done
  # A new version brings a conffile of its own.
  dpkg-deb -R "$work/new/config-weaver-card_${newer}_all.deb" "$work/card"
  echo '# newer' >>"$work/card/etc/ssh/sshd_config.d/10-weaver.conf"
  dpkg-deb --root-owner-group -Znone -b "$work/card" "$work/new" >/dev/null
  dpkg-deb -R "$work/old/weaver_${version}_$host.deb" "$work/other"
  sed -i 's/^Architecture: .*/Architecture: s390x/' "$work/other/DEBIAN/control"
  dpkg-deb --root-owner-group -Znone -b "$work/other" "$work/new/other.deb" >/dev/null
}

install="apt-get install -qq -y --no-install-recommends -o Dpkg::Use-Pty=0"
ours() { echo "/debs/$1/weaver_${2}_$host.deb /debs/$1/config-weaver_${2}_$host.deb"; }
enabled() { is "$2" "systemctl is-enabled $1"; }

owners_k3s_is_as_it_was() {
  is "$before" "cat /etc/systemd/system/k3s.service /etc/rancher/k3s/config.yaml /var/lib/rancher/k3s/state; \
    readlink /etc/systemd/system/multi-user.target.wants/k3s.service; ls -A /etc/systemd/system /etc/rancher/k3s/config.yaml.d | grep k3s"
  is "" "find /etc/systemd /usr/lib/systemd /run/systemd -path '*k3s*.d*' 2>/dev/null"
}

# verified [UNIT...]: every file of the packages is as it came, and systemd has nothing to say about the units.
verified() {
  is "" "dpkg -V"
  (($# == 0)) || is "" "systemd-analyze verify --man=no $*"
}

on_a_host_with_k3s() {
  local etc_before
  before=$(run "cat /etc/systemd/system/k3s.service /etc/rancher/k3s/config.yaml /var/lib/rancher/k3s/state; \
    readlink /etc/systemd/system/multi-user.target.wants/k3s.service; ls -A /etc/systemd/system /etc/rancher/k3s/config.yaml.d | grep k3s")
  etc_before=$(etc)
  refused "weaver (= $version)" "dpkg -i /debs/old/config-weaver_${version}_$host.deb"
  quiet "dpkg --purge config-weaver"

  quiet "$install $(ours old "$version")"
  verified /usr/lib/systemd/system/weaver*.service
  is "weaver $own" "weaver --version"
  is "750 root:weaver 755 root:root 750 root:weaver-webhook" \
    "echo \$(stat -c '%a %U:%G' /run/weaver /var/lib/weaver /var/lib/weaver/webhook)"
  enabled weaver-node-agent.service enabled
  enabled weaver-webhook.socket enabled
  enabled weaver-preflight.service static
  enabled weaver-operator.service static
  refused 'no such user' "id weaver-admin"
  owners_k3s_is_as_it_was

  refused "does not match system" "dpkg -i /debs/new/other.deb"
  run "systemctl --quiet disable weaver-webhook.socket; echo WEAVER_CLOCK_WAIT=5 > /etc/weaver/node-agent.env
    echo data > /var/lib/weaver/ledger; touch /boot/firmware/NODE-STATUS.txt"
  quiet "$install $(ours new "$newer")"
  is "$newer" "dpkg-query -W -f '\${Version}' config-weaver"
  enabled weaver-webhook.socket disabled
  verified
  quiet "$install --allow-downgrades $(ours old "$version")"
  is "$version" "dpkg-query -W -f '\${Version}' config-weaver"
  verified
  owners_k3s_is_as_it_was

  quiet "apt-get remove -qq -y config-weaver weaver"
  is "data WEAVER_CLOCK_WAIT=5" "echo \$(cat /var/lib/weaver/ledger /etc/weaver/node-agent.env)"
  is "" "ls /usr/bin /usr/lib/systemd/system | grep weaver"
  quiet "$install $(ours old "$version")"
  verified
  enabled weaver-webhook.socket disabled
  # A FAT that has become read-only keeps its report, and no one from purging.
  quiet "mount -t tmpfs tmpfs /boot/firmware; touch /boot/firmware/NODE-STATUS.txt; mount -o remount,ro /boot/firmware
    apt-get purge -qq -y config-weaver weaver"
  quiet "$install $(ours old "$version")"
  quiet "apt-get purge -qq -y config-weaver weaver"
  is "" "find / -xdev -name '*weaver*' ! -path '/debs/*' ! -path '/proc/*'; ls /boot/firmware"
  [[ $(etc) == "$etc_before" ]] || fail "purged, it left in /etc: $(diff <(echo "$etc_before") <(etc))"
  owners_k3s_is_as_it_was
}

# from_another_release: its packages become ours, ours become its again, and an owner's settings and k3s stay.
from_another_release() {
  local there turn theirs
  theirs="/debs/previous/weaver_*_$host.deb /debs/previous/config-weaver_*_$host.deb"
  there=$(dpkg-deb -f "$PREVIOUS"/config-weaver_*_"$host".deb Version)
  quiet "$install $theirs"
  run "systemctl --quiet disable weaver-webhook.socket; echo WEAVER_CLOCK_WAIT=5 > /etc/weaver/node-agent.env
    echo data > /var/lib/weaver/ledger"
  for turn in "$newer $(ours new "$newer")" "$there $theirs" "$newer $(ours new "$newer")"; do
    quiet "$install --allow-downgrades ${turn#* }"
    is "${turn%% *}" "dpkg-query -W -f '\${Version}' config-weaver"
    verified
    enabled weaver-webhook.socket disabled
    is "data WEAVER_CLOCK_WAIT=5" "echo \$(cat /var/lib/weaver/ledger /etc/weaver/node-agent.env)"
    owners_k3s_is_as_it_was
  done
  quiet "apt-get purge -qq -y config-weaver weaver"
  echo "packages: upgraded from $there of PREVIOUS, and back"
}

# The card has no unit of an owner's.
on_a_card() {
  local unit
  quiet "rm -r /etc/systemd/system/k3s.service /etc/systemd/system/multi-user.target.wants/k3s.service"
  quiet "$install $(ours old "$version") /debs/old/config-weaver-card_${version}_all.deb"
  verified /usr/lib/systemd/system/weaver*.service /usr/lib/systemd/system/k3s*.service
  while read -r unit; do enabled "$unit" enabled; done < <(sed -n 's/^enable //p' systemd/system-preset/*)
  is "440 600" "echo \$(stat -c %a /etc/sudoers.d/weaver-admin /etc/netplan/10-wired.yaml)"
  is "weaver-admin adm systemd-journal weaver" "id -Gn weaver-admin"
  quiet "visudo -c"
  # The card keeps no manuals; dpkg takes these for missing, and nothing else.
  quiet "$install --reinstall $(ours old "$version")"
  is "" "dpkg -V | grep -v '^missing  *[c ] */usr/share/\\(man\\|doc\\)/'; find /usr/share/man -name 'weaver*'"
  run "echo '# of the owner' >> /etc/ssh/sshd_config.d/10-weaver.conf"
  quiet "$install -o Dpkg::Options::=--force-confdef $(ours new "$newer") /debs/new/config-weaver-card_${newer}_all.deb"
  is "# of the owner" "tail -n 1 /etc/ssh/sshd_config.d/10-weaver.conf"
  is "# newer" "tail -n 1 /etc/ssh/sshd_config.d/10-weaver.conf.dpkg-dist"
  # The card's package needs it and goes with it: then k3s has no unit. What lets the owner in stays.
  quiet "apt-get remove -qq -y config-weaver"
  is "rc rc ii" "echo \$(dpkg-query -W -f '\${db:Status-Abbrev}' config-weaver config-weaver-card weaver)"
  is "" "ls /usr/lib/systemd/system | grep k3s"
  is "440 600" "echo \$(stat -c %a /etc/sudoers.d/weaver-admin /etc/netplan/10-wired.yaml)"
  is "# of the owner" "tail -n 1 /etc/ssh/sshd_config.d/10-weaver.conf"
  quiet "$install -o Dpkg::Options::=--force-confdef $(ours new "$newer") /debs/new/config-weaver-card_${newer}_all.deb"
  while read -r unit; do enabled "$unit" enabled; done < <(sed -n 's/^enable //p' systemd/system-preset/*)
  is "# of the owner" "tail -n 1 /etc/ssh/sshd_config.d/10-weaver.conf"
  quiet "apt-get purge -qq -y config-weaver-card config-weaver weaver"
  is "" "find /etc /usr -name '*weaver*' ! -path '/etc/ssh/weaver_keys'"
}

# The whole workspace with its tests, as `make test` has built it: in any part of it, the dependencies would have other
# features and be compiled again.
cargo test --locked --quiet --workspace --no-run
# init_below PROCESS: the first systemd among its descendants.
init_below() {
  local at=$1
  until [[ $(cat "/proc/$at/comm") == systemd ]]; do at=$(pgrep --oldest --parent "$at") || return; done 2>/dev/null
  echo "$at"
}

# The same owner's host, running: nothing but the packages makes it report.
on_a_running_host() {
  local unshare agent
  run "systemctl --quiet mask systemd-modules-load.service; printf 'tls-san:\\n\\t- pi.home\\n' > /etc/rancher/k3s/config.yaml"
  as_root unshare --mount --pid --fork --kill-child --uts --ipc --net --cgroup tests/devstack/boot_root.sh "$root" \
    >"$work/boot.log" 2>&1 </dev/null &
  unshare=$!
  until init=$(init_below $unshare); do kill -0 $unshare || fail "it did not boot: $(cat "$work/boot.log")"; done
  run() { inside "$1"; }
  eventually "systemctl is-system-running | grep -q running"

  quiet "systemctl stop k3s"
  quiet "$install $(ours old "$version")"
  eventually "grep -q F-01 /run/weaver/node-status.txt"
  is "active active inactive inactive" \
    "echo \$(systemctl is-active weaver-node-agent weaver-webhook.socket weaver-operator weaver-webhook)"
  # A check fails and k3s does not run: where the owner had asked for it, it would be blocked now.
  is "" "ls /run/weaver | grep k3s"
  agent="systemctl show -p MainPID --value weaver-node-agent"
  agent_before=$(run "$agent")
  quiet "$install $(ours new "$newer")"
  [[ $(run "$agent") != "$agent_before" ]] || fail "an upgrade leaves the old agent running"

  # As docs/how-to/install-on-a-pi.md has it.
  run "mkdir -p /etc/systemd/system/k3s.service.d
    ln -s /usr/share/weaver/k3s.service.d/10-weaver.conf /etc/systemd/system/k3s.service.d/
    systemctl daemon-reload; systemctl start k3s"
  is "F-01" "systemctl is-active --quiet k3s || grep -o -m 1 F-01 /run/weaver/k3s.blocked"

  quiet "apt-get remove -qq -y config-weaver"
  is "inactive inactive" "echo \$(systemctl is-active weaver-node-agent weaver-webhook.socket)"
  # The link leads nowhere, and what is left in /run says nothing any more.
  run "systemctl start --no-block k3s"
  eventually "systemctl is-active k3s | grep -q activating"
  quiet "apt-get purge -qq -y config-weaver weaver"
  is "" "ls -d /run/weaver /var/lib/weaver 2>/dev/null; systemctl --failed --no-legend"
  run "rm -f /etc/systemd/system/k3s.service.d/10-weaver.conf; systemctl daemon-reload"
  is "" "systemctl show -p DropInPaths --value k3s | sed -n '/10-weaver/p'"
  by_update_on_a_running_host
  as_root kill -KILL "$init"
  init=
}

begun=$SECONDS
make_root &
made
wait $!
lintian --allow-root --tag-display-limit 0 --fail-on error,warning \
  --suppress-tags uses-no-compression-for-data-tarball,uses-no-compression-for-control-tarball "$work"/old/*.deb
tests/devstack/release.sh "$programs" "$work/old"
as_root mkdir "$root/debs"
as_root cp -r "$work/old" "$work/new" "$root/debs"
repositories
on_a_host_with_k3s
if compgen -G "${PREVIOUS-}/config-weaver_*_$host.deb" >/dev/null; then
  as_root mkdir "$root/debs/previous"
  as_root cp "$PREVIOUS"/{weaver,config-weaver}_*_"$host".deb "$root/debs/previous"
  from_another_release
else
  echo "== upgrade from packages of another release: not run; PREVIOUS=DIR has them, see docs/how-to/make-a-release.md"
fi
as_root cp -a "$work/apt" "$root/apt"
by_update
as_root cp -a "$root" "$work/running"
on_a_card &
card=$!
root=$work/running
on_a_running_host
wait $card
echo "packages: ok, $((SECONDS - begun)) s"
