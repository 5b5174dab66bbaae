//! The host: power, card, clock, route, identity.

macro_rules! host_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Host {
        NoDefaultRoute = "H-01" "no-default-route" Fail {
            title: "There is no default route, and k3s does not start without one.",
            cause: "k3s takes its address from the default route, also where there is no network to route \
                to.",
            remedy: "connect the network; without one, a dummy interface is enough, until the next boot",
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
            title: "The board gets too little power, or is too hot.",
            cause: "The supply or its cable gives less than 4.63 V under load, and writes to the card may \
                fail then; or nothing takes the heat away.",
            remedy: "use the supply made for the board and a short cable; give the board air; where \
                `vcgencmd` is installed, `vcgencmd get_throttled` says what the firmware knows",
            links: ["https://github.com/raspberrypi/linux/issues/2367"],
        }
        DiskPressure = "H-03" "disk-pressure" Fail {
            title: "The root file system is nearly full.",
            cause: "Images, logs or what pods write have filled the file system.",
            remedy: "remove what is not used",
            commands: ["df -h /", "sudo k3s crictl rmi --prune"],
        }
        CardFails = "H-07" "card-fails" Fail {
            title: "The card fails, or is mounted read-only.",
            cause: "The kernel could not read or write the card, and has mounted it read-only to save what \
                is there.",
            remedy: "copy what you need, and use another card and supply",
            commands: ["sudo dmesg --level err,warn", "findmnt /"],
        }
        ClockBeforeFloor = "H-04" "clock-before-1980" Fail {
            title: "The clock stands before a date at which k3s ends itself.",
            cause: "A Pi has no battery for its clock, and k3s ends itself before 1980.",
            remedy: "let the clock be set: by a network, or by hand",
            commands: ["timedatectl", "sudo date -s 'YYYY-MM-DD hh:mm:ss'", RESTART_K3S],
        }
        ClockNotSynchronised = "H-05" "clock-not-synchronised" Warn {
            title: "Nothing says that the clock is right.",
            cause: "No time server has answered; certificates made now may be of a wrong date.",
            remedy: "see whether one can be reached",
            commands: ["timedatectl timesync-status"],
        }
        OverrideNotACode = "H-06" "override-not-a-code" Warn {
            title: "A line of the override file is no code.",
            cause: "/boot/firmware/weaver-override has a line that is no code.",
            remedy: "write one code per line, such as N-01",
            commands: ["cat /boot/firmware/weaver-override"],
        }
        ClocksDiffer = "H-08" "clocks-differ" Warn {
            title: "The clocks of two machines differ.",
            cause: "A Pi has no battery for its clock, and a laptop that slept may be behind. Certificates \
                and tokens are judged by it.",
            remedy: "see on both machines whether the clock is synchronised",
            commands: ["timedatectl", "timedatectl timesync-status"],
        }
        SwapOnCard = "H-09" "swap-on-card" Warn {
            title: "There is swap on the card.",
            cause: "A small swap file on the card is what many systems begin with. It wears the card, and \
                k3s' database waits behind it.",
            remedy: "turn it off; swap in compressed memory (zram) does no harm",
            commands: [
                "sudo swapoff PATH",
                "sudo systemctl disable --now dphys-swapfile",
                "grep swap /etc/fstab",
            ],
        }
        CardSlow = "H-10" "card-slow" Warn {
            title: "How fast the storage under k3s is.",
            cause: "k3s' database waits until each small write is on the card, and many cards take long over \
                that.",
            remedy: "use an SSD, or a card of class A2; take other writers off the card",
            commands: ["sudo weaver-node-agent check --disk"],
            links: [
                "https://docs.k3s.io/reference/resource-profiling",
                "https://github.com/k3s-io/k3s/issues/1850",
            ],
        }
        ModuleMissing = "H-11" "module-missing" Warn {
            title: "The kernel has not a module that k3s needs.",
            cause: "The distribution keeps it in a package of its own, or the running kernel was upgraded \
                and its modules are gone. Pods then have no network.",
            remedy: "reboot after an upgrade; on Ubuntu 21.10 to 23.10 install the package with the rest of \
                the modules",
            commands: ["sudo reboot", "sudo apt-get install linux-modules-extra-raspi"],
            links: ["https://github.com/k3s-io/k3s/issues/5355"],
        }
        IdentityDrift = "H-12" "identity-drift" Warn {
            title: "The node would start under another name than it registered with.",
            cause: "The host name has changed, or `node-name` has. What runs on the old node stays with it, \
                and k3s waits for a node that does not come back.",
            remedy: "keep the old name; or let it go, and delete the old node when the new one is there",
            commands: [
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'node-name: OLD' | sudo tee /etc/rancher/k3s/config.yaml.d/93-node-name.yaml",
                "# or:",
                "sudo k3s kubectl delete node OLD",
            ],
            links: ["https://github.com/k3s-io/k3s/issues/5787"],
        }
        OwnNameNotFound = "H-13" "own-name-not-found" Warn {
            title: "The host does not find its own name.",
            cause: "Neither /etc/hosts nor a module of nsswitch.conf knows the host's name: sudo waits for a \
                name server at each call, and without a network nothing knows it.",
            remedy: "give it the line that Debian gives every host",
            commands: ["echo '127.0.1.1 NAME' | sudo tee -a /etc/hosts"],
            links: ["https://www.debian.org/doc/manuals/debian-reference/ch05.en.html"],
        }
        IptablesMixed = "H-14" "iptables-mixed" Unknown {
            title: "Rules of both kinds of iptables may be in force.",
            cause: "Another program, or one from before an upgrade, may have made rules of the older kind; \
                packets pass both sets.",
            remedy: "see whether these print rules; if they do and Services work by chance, have the program \
                that makes them take the newer kind, too, and restart",
            commands: ["sudo iptables-legacy-save", "sudo ip6tables-legacy-save"],
            links: ["https://github.com/k3s-io/k3s/issues/703", "https://wiki.debian.org/nftables"],
        }
        BootPartitionUnwritable = "H-15" "boot-partition-unwritable" Warn {
            title: "The boot partition cannot be written.",
            cause: "It is full, the kernel has made it read-only after a fault of its file system, or it is \
                lost. What runs goes on; a repair and the report for a laptop have no place, and from a lost \
                one the board does not start again.",
            remedy: "make room; check the card in another computer; or mount it for writing again, by its \
                device",
            commands: [
                "df -h /boot/firmware",
                "sudo mount -o remount,rw \"$(findmnt -no SOURCE /boot/firmware)\" /boot/firmware",
            ],
        }
        OfflineStart = "H-16" "offline-start" Warn {
            title: "k3s was started without a network, with an address that the card gave itself.",
            cause: "There was no network when k3s was to start, and k3s does not start without an address. \
                The card has given it one of its own, 203.0.113.254 on the interface weaver0, until the next \
                boot.",
            remedy: "without a network all is well; when one is there, have k3s take its address from it, or \
                reboot",
            commands: [RESTART_K3S],
            links: [K3S_AIRGAP],
        }
    }
    }};
}
