#!/bin/sh
# mmdebstrap's customize hook, run with the finished root as $1: builds the initramfs once, checks that
# raspi-firmware's own hook changes nothing when it runs again, takes the boot partition and the list of packages
# out, and removes what belongs to the build machine. Leaves in the root's /weaver-out, which mmdebstrap then takes
# out: firmware.tar, packages.tsv, hashes.tsv, os-release. For a user it runs in a namespace in which nothing of
# his own can be read or written, the checkout included: find fails in a directory that it cannot come back to.
set -eu
cd /
root=$1
out=$root/weaver-out
: "${SOURCE_DATE_EPOCH:?}"
mkdir "$out"

fail() {
    echo "image/rootfs/after.sh: $*" >&2
    exit 1
}

# What the packages' scripts would have done by themselves, see essential.sh.
for diverted in /usr/bin/py3compile /usr/sbin/update-ca-certificates /usr/share/i18n/SUPPORTED; do
    rm "$root$diverted"
    chroot "$root" dpkg-divert --quiet --rename --remove "$diverted"
done
chroot "$root" python3 -m compileall -q -j 2 /usr/lib/python3/dist-packages
chroot "$root" update-ca-certificates
sed -n 's/^[a-zA-Z]/# &/p' "$root/usr/share/i18n/SUPPORTED" | LC_ALL=C sort -u >> "$root/etc/locale.gen"

# Debian turns security updates on, boot-config does where weaver.toml says so. ucf takes it for removed by the owner,
# and writes it no more.
rm "$root/etc/apt/apt.conf.d/20auto-upgrades"

# Package scripts ran with INITRD=No: under emulation each run costs minutes.
chroot "$root" env -u INITRD update-initramfs -c -k all

firmware=$root/boot/firmware
sum() { (cd "$firmware" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum); }
before=$(sum)
for kernel in "$root"/boot/vmlinuz-*; do
    version=${kernel##*/vmlinuz-}
    chroot "$root" env -u INITRD /etc/kernel/postinst.d/z50-raspi-firmware "$version" "/boot/vmlinuz-$version"
done
[ "$before" = "$(sum)" ] || fail "raspi-firmware's hook writes other boot files when it runs again"

chroot "$root" systemd-sysusers
# Else systemd does it at the first boot, which costs a slow card seconds.
chroot "$root" journalctl --update-catalog

# Hashes are known only as long as apt's lists are there.
# shellcheck disable=SC2016  # dpkg fills these in
chroot "$root" dpkg-query -W -f '${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n' |
    LC_ALL=C sort > "$out/packages.tsv"
cut -f 1,2 "$out/packages.tsv" | tr '\t' '=' |
    APT_CONFIG=$MMDEBSTRAP_APT_CONFIG xargs apt-cache show --no-all-versions |
    awk '/^Package: /{p=$2} /^Version: /{v=$2} /^SHA256: /{print p "\t" v "\t" $2}' |
    LC_ALL=C sort -u > "$out/hashes.tsv"
cp "$root/usr/lib/os-release" "$out/os-release"

# The build machine's, or the archive's own at this hour.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/.pwd.lock" \
    "$root/etc/apt/apt.conf.d/99mmdebstrap" "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap" \
    "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* \
    "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed" "$root/var/log/bootstrap.log" \
    "$root"/var/lib/dpkg/*-old "$root"/etc/*- "$root/var/log/alternatives.log" "$root/var/log/dpkg.log"
find "$root/etc" -name '*.dpkg-dist' -delete
rm -rf "$root"/var/log/apt "$root"/var/cache/* "$root"/var/lib/apt/lists/* "$root"/tmp/* "$root"/run/*
: > "$root/etc/machine-id"
ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"

# Not `tar --delete` afterwards, which was seen to lose files next to an ACL's header.
tar -C "$firmware" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf "$out/firmware.tar" .
find "$firmware" -mindepth 1 -delete
