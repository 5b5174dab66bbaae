#!/bin/sh
# mmdebstrap's customize hook, run with the root of Debian's packages as $1: installs our own packages, which are in its
# /weaver-packages, by its own dpkg, and removes what belongs to this installation. Units are enabled and started by
# nothing but the packages' scripts, which see that no systemd runs here.
set -eu
cd /
root=$1

# Not flushed file by file: this root becomes a tar.
chroot "$root" sh -c 'exec dpkg --force-unsafe-io --install /weaver-packages/*.deb'
rm -r "$root/weaver-packages"

rm -f "$root/etc/.pwd.lock" "$root"/etc/*- "$root"/var/lib/dpkg/*-old "$root/var/log/dpkg.log" "$root/var/log/alternatives.log"
rm -rf "$root"/var/cache/* "$root"/tmp/* "$root"/run/*
