#!/bin/sh
# mmdebstrap's setup hook, run with the new root as $1 before any package is unpacked: what packages read while
# they are installed. More of it is uploaded from the tree of our own packages, see image/src/build/rootfs.rs.
set -eu
root=$1

mkdir -p "$root/etc/default" "$root/etc/dpkg/dpkg.cfg.d" "$root/etc/initramfs-tools/conf.d" \
    "$root/usr/lib/sysusers.d"

# Asked of the build machine, the hook of raspi-firmware would write its root device, `cma=64M` (which may keep a Pi 4
# from booting) and its consoles into cmdline.txt. Here and in no package of ours: it is a conffile of raspi-firmware.
cat > "$root/etc/default/raspi-firmware" << 'EOF'
ROOTPART=LABEL=weaver-root
CMA=0
CONSOLES="ttyS1,115200 tty0"
EOF
