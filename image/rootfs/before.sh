#!/bin/sh
# mmdebstrap's setup hook, run with the new root as $1 before any package is unpacked: what packages read while
# they are installed.
set -eu
root=$1

mkdir -p "$root/etc/default" "$root/etc/initramfs-tools/conf.d" \
    "$root/usr/lib/sysusers.d"

# Asked of the build machine, the hook of raspi-firmware would write its root device, `cma=64M` (which may keep a
# Pi 4 from booting) and its consoles into cmdline.txt.
cat > "$root/etc/default/raspi-firmware" << 'EOF'
ROOTPART=LABEL=weaver-root
CMA=0
CONSOLES="ttyS1,115200 tty0"
EOF
# Copied to the end of config.txt.
cat > "$root/etc/default/raspi-firmware-custom" << 'EOF'

[cm4]
device_tree=bcm2711-rpi-cm4-io.dtb
[all]
EOF

# Asked of the build machine, it would find no type, and no fsck would ever check the root.
echo 'FSTYPE=ext4' > "$root/etc/initramfs-tools/conf.d/10-weaver"
