#!/usr/bin/env bash
# Boots a root file system: its systemd is process 1 of namespaces of its own, without a network. Ends with the process
# that started it.
#
#   unshare --mount --pid --fork --kill-child --uts --ipc --net --cgroup tests/devstack/boot_root.sh ROOT
set -euo pipefail
root=$1

mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
# The second version also where this machine has the first: then it has no controllers, and systemd does without.
mount -t tmpfs tmpfs sys/fs/cgroup
umount sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
for directory in dev run tmp; do mount -t tmpfs tmpfs $directory; done
while read -r name major minor; do mknod -m 666 "dev/$name" c "$major" "$minor"; done <<EOF
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
EOF
mkdir dev/pts dev/shm mnt/outside
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
pivot_root . mnt/outside
cd /
umount -l /mnt/outside
rmdir /mnt/outside
ip link set lo up
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console
