//! The host: power, card, clock, route, identity.

macro_rules! host_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Host {
        NoDefaultRoute = "H-01" "no-default-route" Fail {
            title: "There is no default route, and k3s does not start without one.",
            cause: "k3s takes the node's address from the default route, even if the node needs no network.",
            remedy: "connect the network; without one, a dummy interface is enough until the next boot",
            commands: [
                "sudo ip link add dummy0 type dummy",
                "sudo ip addr add 203.0.113.254/31 dev dummy0",
                "sudo ip link set dummy0 up",
                "sudo ip route add default via 203.0.113.255 dev dummy0 metric 1000",
                RESTART_K3S,
            ],
            links: [K3S_AIRGAP],
        }
        UnderVoltage = "H-02" "under-voltage" Warn {
            title: "The power supply is too weak, or the board is too hot.",
            cause: "The supply or its cable delivers less than 4.63 V under load, which can corrupt writes \
                to the card; or the board is not cooled.",
            remedy: "use the official power supply and a short cable; improve the cooling. The command shows what the \
                firmware has recorded",
            commands: ["vcgencmd get_throttled"],
            links: ["https://github.com/raspberrypi/linux/issues/2367"],
        }
        DiskPressure = "H-03" "disk-pressure" Fail {
            title: "The root file system is nearly full.",
            cause: "Images, logs or data of pods have filled it.",
            remedy: "remove unused images; then find what is large, and delete what is not needed",
            commands: ["sudo k3s crictl rmi --prune", "df -h /", "sudo du -xh / | sort -h | tail -n 20"],
        }
        OutOfMemory = "H-17" "out-of-memory" Fail {
            title: "The kernel killed a process because memory ran out.",
            cause: "All processes together need more memory than the board has, or a container needs more than its limit.",
            remedy: "find out what uses the memory; run less on this board, or raise the memory limit of the container",
            commands: ["free -m", "sudo dmesg | grep -i oom", "kubectl top pods -A"],
        }
        PodEvicted = "H-18" "pod-evicted" Warn {
            title: "The kubelet evicted a pod because the node was low on memory or disk.",
            cause: "Evicted pods stay in the list as Failed, but use no memory and no disk.",
            remedy: "free memory or disk, or set requests so that the pod is scheduled where there is enough",
            commands: ["kubectl describe node NODE", "df -h /", "free -m"],
        }
        CardFailing = "H-07" "card-failing" Fail {
            title: "The card is failing, or is mounted read-only.",
            cause: "The kernel could not read or write the card and mounted it read-only to protect the data.",
            remedy: "save the state of k3s to another disk and replace the card, and the power supply if it is weak",
            commands: [
                "sudo weaver node backup /mnt/usb --volumes",
                "sudo dmesg --level err,warn",
                "findmnt /",
            ],
        }
        ClockBeforeFloor = "H-04" "clock-before-1980" Fail {
            title: "The clock is set to a date before 1980, and k3s exits at such a date.",
            cause: "A Pi has no battery for its clock, and k3s exits if the date is before 1980.",
            remedy: "set the clock: through the network, or by hand",
            commands: ["timedatectl", "sudo date -s 'YYYY-MM-DD hh:mm:ss'", RESTART_K3S],
        }
        ClockNotSynchronised = "H-05" "clock-not-synchronised" Warn {
            title: "The clock is not synchronised.",
            cause: "No time server has answered. Certificates issued now may have wrong dates.",
            remedy: "check whether the time server can be reached",
            commands: ["timedatectl timesync-status"],
        }
        OverrideNotACode = "H-06" "override-not-a-code" Warn {
            title: "A line of the override file is not a code.",
            cause: "/boot/firmware/weaver-override contains a line that is not a code of a finding.",
            remedy: "write one code per line, such as N-01",
            commands: ["cat /boot/firmware/weaver-override"],
        }
        ClocksDiffer = "H-08" "clocks-differ" Warn {
            title: "The clocks of the two machines differ.",
            cause: "A Pi has no battery for its clock, and a laptop's clock may be behind after sleep. \
                With a wrong clock, valid certificates and tokens are rejected.",
            remedy: "check on both machines whether the clock is synchronised",
            commands: ["timedatectl", "timedatectl timesync-status"],
        }
        SwapOnCard = "H-09" "swap-on-card" Warn {
            title: "Swap is on the card.",
            cause: "Many systems create a small swap file on the card by default. It wears out the card and \
                slows down the database of k3s.",
            remedy: "turn it off; compressed swap in memory (zram) is fine. `data = \"LABEL=NAME\"` below [storage] in \
                weaver.toml moves the data of k3s off the card too",
            commands: [
                "sudo swapoff PATH",
                "sudo systemctl disable --now dphys-swapfile",
                "grep swap /etc/fstab",
            ],
        }
        CardSlow = "H-10" "card-slow" Warn {
            title: "The storage under k3s is too slow.",
            cause: "The database of k3s waits until each small write is on the card, which takes long on many cards.",
            remedy: "use an SSD and write `data = \"LABEL=NAME\"` below [storage] in weaver.toml, which moves the data of k3s to \
                it; or an A2 card, by `weaver node backup` and `restore`. Move other writers off the card",
            commands: ["sudo weaver-node-agent check --disk", "sudo weaver node backup /mnt/usb --volumes"],
            links: [
                "https://docs.k3s.io/reference/resource-profiling",
                "https://github.com/k3s-io/k3s/issues/1850",
            ],
        }
        ModuleMissing = "H-11" "module-missing" Warn {
            title: "The kernel lacks a module that k3s needs.",
            cause: "The distribution ships it in a separate package, or the running kernel was upgraded and \
                its modules were removed. Pods then have no network.",
            remedy: "reboot after an upgrade; on Ubuntu 21.10 to 23.10 install the package with the extra modules",
            commands: ["sudo reboot", "sudo apt-get install linux-modules-extra-raspi"],
            links: ["https://github.com/k3s-io/k3s/issues/5355"],
        }
        IdentityDrift = "H-12" "identity-drift" Warn {
            title: "The node would start under a different name from the one it registered with.",
            cause: "The hostname or `node-name` has changed. Pods stay bound to the old node, and k3s waits \
                for a node that does not come back.",
            remedy: "keep the old name; or start with the new one and then delete the old node",
            commands: [
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'node-name: OLD' | sudo tee /etc/rancher/k3s/config.yaml.d/93-node-name.yaml",
                "# or:",
                "sudo k3s kubectl delete node OLD",
            ],
            links: ["https://github.com/k3s-io/k3s/issues/5787"],
        }
        OwnNameNotFound = "H-13" "own-name-not-found" Warn {
            title: "The host cannot resolve its own name.",
            cause: "Neither /etc/hosts nor a module in nsswitch.conf knows the hostname. sudo then waits \
                for DNS each time, and without a network nothing resolves it.",
            remedy: "add the hostname to /etc/hosts, as Debian does by default",
            commands: ["echo '127.0.1.1 NAME' | sudo tee -a /etc/hosts"],
            links: ["https://www.debian.org/doc/manuals/debian-reference/ch05.en.html"],
        }
        IptablesMixed = "H-14" "iptables-mixed" Unknown {
            title: "Both nft and legacy iptables rules may be active.",
            cause: "Another program, or rules from before an upgrade, may use legacy iptables. Packets pass \
                through both sets of rules.",
            remedy: "check whether these commands print rules; if so, switch the program that makes them to nft, then reboot",
            commands: ["sudo iptables-legacy-save", "sudo ip6tables-legacy-save"],
            links: ["https://github.com/k3s-io/k3s/issues/703", "https://wiki.debian.org/nftables"],
        }
        BootPartitionUnwritable = "H-15" "boot-partition-unwritable" Warn {
            title: "The boot partition is not writable.",
            cause: "It is full, read-only after a file system error, or missing. The node keeps running, \
                but repairs and NODE-STATUS.txt cannot be written, and if the partition is missing the \
                board does not boot again.",
            remedy: "free space on it, check the card in another computer, or remount it writable with the second command",
            commands: [
                "df -h /boot/firmware",
                "sudo mount -o remount,rw \"$(findmnt -no SOURCE /boot/firmware)\" /boot/firmware",
            ],
        }
        NodeOverloaded = "H-19" "node-overloaded" Warn {
            title: "The node is overloaded and answers slowly.",
            cause: "Processor, memory or disk cannot keep up: images are being pulled and unpacked, many pods start \
                at once, or the card is slow. Nothing is broken.",
            remedy: "wait: it usually takes a few minutes after a start. If it does not end, find the program that \
                uses the node, run less on it, or use an SSD (`[storage]` in weaver.toml). If /proc/pressure does not exist, add `psi=1` to the \
                end of the single line in /boot/firmware/cmdline.txt and reboot",
            commands: ["uptime", "top -b -n 1 | head -n 15", "grep . /proc/pressure/*"],
            links: ["https://docs.kernel.org/accounting/psi.html"],
        }
        StaleLocalhostNode = "H-20" "stale-localhost-node" Warn {
            title: "A Node named localhost is left from a start under that name.",
            cause: "k3s was started before the host had its name. The Node stays when k3s starts under the right \
                one; its pods wait for it, and its volumes are bound to it.",
            remedy: "first copy the data that you need from its local volumes, then delete the Node; that also \
                removes its node password",
            commands: [
                "sudo k3s kubectl get pods,pv -A -o wide | grep localhost",
                "sudo k3s kubectl delete node localhost",
            ],
            links: ["https://docs.k3s.io/architecture"],
        }
        OfflineStart = "H-16" "offline-start" Warn {
            title: "k3s was started without a network, with an address set by the card.",
            cause: "There was no network, and k3s does not start without an address. The card set \
                203.0.113.254 on the interface weaver0 until the next boot.",
            remedy: "without a network no action is needed; with one, restart k3s or reboot to use its address",
            commands: [RESTART_K3S],
            links: [K3S_AIRGAP],
        }
        MemoryPressure = "H-24" "memory-pressure" Warn {
            title: "The node is short of memory.",
            cause: "Free memory is below the eviction threshold of the kubelet. It evicts pods, and the scheduler \
                places no BestEffort pods (pods without requests) on this node.",
            remedy: "find out what uses the memory; set requests and limits, and run less on this board",
            commands: ["free -m", "kubectl top pods -A --sort-by=memory", "kubectl describe node NODE"],
        }
        CardWorn = "H-25" "card-worn" Warn {
            title: "The card or disk is worn out.",
            cause: "Flash memory can be written only so many times, and the database of k3s writes all the time.",
            remedy: "save the state of k3s to another disk and move its data to an SSD with `[storage]` in weaver.toml, or \
                replace the card with a high-endurance one; move logs and databases off the card",
            commands: [
                "sudo mmc extcsd read /dev/mmcblk0 | grep -i life   # eMMC only; package mmc-utils",
                "sudo smartctl -a /dev/sda   # package smartmontools",
                "sudo weaver node backup /mnt/usb --volumes",
            ],
        }
        UsbDiskFails = "H-26" "usb-disk-fails" Fail {
            title: "A USB disk does not answer, or was unplugged.",
            cause: "The disk needs more current than the port supplies, its adapter does not work with UAS, the \
                cable is bad, or the disk is failing.",
            remedy: "use a powered hub or another cable; if that does not help, turn UAS off for the adapter: put \
                its vendor and product ID, as lsusb prints them, into the parameter below and reboot",
            commands: [
                "lsusb",
                "sudo dmesg --level err,warn | grep -iE 'usb|uas|sd[a-z]'",
                "# at the end of the single line in /boot/firmware/cmdline.txt:",
                "# usb-storage.quirks=VENDOR:PRODUCT:u",
            ],
            links: ["https://github.com/raspberrypi/linux/issues/3070"],
        }
        WifiRefused = "H-27" "wifi-refused" Fail {
            title: "The node does not get into its Wi-Fi network.",
            cause: "The passphrase is wrong, no network of that name is in range, the radio is switched off until a \
                country is set, or the access point accepts only WPA3, which the Wi-Fi chip does not support.",
            remedy: "correct section [wifi] of weaver.toml and reboot; on a host without weaver.toml, correct it in \
                NetworkManager or netplan",
            commands: [
                "sudo nano /boot/firmware/weaver.toml",
                "sudo nmcli --ask device wifi connect SSID",
                "sudo netplan apply",
            ],
        }
        WatchesExhausted = "H-28" "watches-exhausted" Warn {
            title: "The inotify limit of the kernel is reached.",
            cause: "Programs that watch files use inotify instances and watches; the limit applies to all containers \
                of a user together. `kubectl logs -f` and programs that reload their configuration then fail, with \
                \"too many open files\" or \"no space left on device\".",
            remedy: "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches",
            commands: [
                "sudo sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=524288",
                "printf 'fs.inotify.max_user_instances=512\\nfs.inotify.max_user_watches=524288\\n' | sudo tee /etc/sysctl.d/90-inotify.conf",
            ],
        }
        PageSizeUnsupported = "H-21" "page-size-unsupported" Fail {
            title: "A program does not run with the page size of this kernel.",
            cause: "The kernel of a Pi 5 has pages of 16 KiB, and some programs were built for 4 KiB, such as databases that \
                use jemalloc.",
            remedy: "use a newer image of the program; or boot the kernel with pages of 4 KiB, with the second command and a reboot",
            commands: [
                "getconf PAGESIZE",
                "printf '[all]\\nkernel=kernel8.img\\n' | sudo tee -a /boot/firmware/config.txt",
                "sudo reboot",
            ],
            links: ["https://www.raspberrypi.com/documentation/computers/config_txt.html#kernel"],
        }
        PackagesHalfInstalled = "H-22" "packages-half-installed" Warn {
            title: "An installation of packages was interrupted.",
            cause: "The power failed, or the process was killed, while dpkg unpacked or configured packages. Until it is \
                completed, nothing else can be installed.",
            remedy: "complete it; if dpkg names a file that is damaged, look for errors of the card (H-07)",
            commands: ["sudo dpkg --configure -a", "sudo apt-get install --fix-broken", "sudo dpkg --audit"],
            links: ["https://manpages.debian.org/dpkg"],
        }
        PackagesLocked = "H-29" "packages-locked" Warn {
            title: "Another program is installing packages.",
            cause: "Only one of apt, dpkg and unattended-upgrades runs at a time. After a start, or once a day, security updates \
                are installed, which takes a Pi many minutes.",
            remedy: "wait until it has finished, and try again. Do not remove the lock file: two at a time damage the list of \
                packages",
            commands: ["sudo lslocks --notruncate", "journalctl -u apt-daily-upgrade -n 20"],
            links: ["https://wiki.debian.org/UnattendedUpgrades"],
        }
        BackupOverdue = "H-23" "backup-overdue" Warn {
            title: "A scheduled backup was not made.",
            cause: "Its disk is not mounted, is full or read-only, or the timer does not run. Or a volume has content \
                that cannot be saved, and the backup has all but that.",
            remedy: "fix what the message names, then make a backup, which clears the warning",
            commands: [
                "findmnt --real",
                "sudo systemctl restart weaver-backup.timer",
                "sudo systemctl start weaver-backup",
                "journalctl -u weaver-backup -n 20",
            ],
        }
        DataNotMoved = "H-30" "data-not-moved" Warn {
            title: "The data of k3s was not moved to the disk that `weaver.toml` names.",
            cause: "The disk is missing, is not the only one of its name, has no ext4, is too small, or already holds \
                data of k3s; or it failed during the move. k3s runs on, with its data where it was.",
            remedy: "do what the finding says and reboot: the next boot tries again",
            commands: ["lsblk -f", "journalctl -b -u weaver-data-disk", "sudo reboot"],
        }
        DataDiskMissing = "H-31" "data-disk-missing" Fail {
            title: "The disk with the data of k3s is missing.",
            cause: "The data was moved to a disk, as `[storage]` in `weaver.toml` asked, and this boot did not find \
                it; or /etc/fstab mounts a disk above `data-dir`, and it is not mounted. k3s is not started: on an \
                empty directory it would begin a new cluster. `weaver-override` does not start it without the disk of \
                `[storage]` either.",
            remedy: "plug the disk in and reboot",
            commands: ["lsblk -f", "systemctl status var-lib-rancher.mount", "sudo reboot"],
        }
        SecurityUpdatesMissing = "H-32" "security-updates-missing" Warn {
            title: "Security updates of Debian are not installed.",
            cause: "`security = true` asks for them, and unattended-upgrades failed, does not run, or finds no list of \
                updates. Or it leaves them to you: packages from which the board boots, and those of which you changed a \
                file in /etc.",
            remedy: "read its log; then run it by hand, which clears the warning",
            commands: [
                "journalctl -u apt-daily -u apt-daily-upgrade -n 20",
                "sudo tail -n 40 /var/log/unattended-upgrades/unattended-upgrades.log",
                "sudo unattended-upgrade --verbose",
            ],
            links: ["https://wiki.debian.org/UnattendedUpgrades"],
        }
        RebootPending = "H-33" "reboot-pending" Warn {
            title: "A reboot is pending.",
            cause: "An update has replaced the kernel, or a library that running programs still use: what it fixes is not \
                in force before they start again.",
            remedy: "reboot; on a card, `reboot` in section [update] of weaver.toml sets a time of the night for that",
            commands: ["cat /run/reboot-required /run/reboot-required.pkgs", "sudo reboot"],
        }
    }
    }};
}
