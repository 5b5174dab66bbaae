//! The host: power, card, clock, route, identity.

use super::Entry;
use super::table::{K3S_AIRGAP, RESTART_K3S, known};
use crate::finding::Severity::{Fail, Unknown, Warn};

pub(super) const SWAP_ON_CARD: Entry = known(
    Warn,
    "A small swap file on the card is what many systems begin with. It wears the card, and k3s' database waits behind it.",
    "turn it off; swap in compressed memory (zram) does no harm",
    &["sudo swapoff PATH", "sudo systemctl disable --now dphys-swapfile", "grep swap /etc/fstab"],
    &[],
);

pub(super) const CARD_SLOW: Entry = known(
    Warn,
    "k3s' database waits until each small write is on the card, and many cards take long over that.",
    "use an SSD, or a card of class A2; take other writers off the card",
    &["sudo weaver-node-agent check --disk"],
    &["https://docs.k3s.io/reference/resource-profiling", "https://github.com/k3s-io/k3s/issues/1850"],
);

pub(super) const MODULE_MISSING: Entry = known(
    Warn,
    "The distribution keeps it in a package of its own, or the running kernel was upgraded and its modules are gone. \
     Pods then have no network.",
    "reboot after an upgrade; on Ubuntu 21.10 to 23.10 install the package with the rest of the modules",
    &["sudo reboot", "sudo apt-get install linux-modules-extra-raspi"],
    &["https://github.com/k3s-io/k3s/issues/5355"],
);

pub(super) const IDENTITY_DRIFT: Entry = known(
    Warn,
    "The host name has changed, or `node-name` has. What runs on the old node stays with it, and k3s waits for a node \
     that does not come back.",
    "keep the old name; or let it go, and delete the old node when the new one is there",
    &[
        "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
        "echo 'node-name: OLD' | sudo tee /etc/rancher/k3s/config.yaml.d/93-node-name.yaml",
        "# or:",
        "sudo k3s kubectl delete node OLD",
    ],
    &["https://github.com/k3s-io/k3s/issues/5787"],
);

pub(super) const CLOCKS_DIFFER: Entry = known(
    Warn,
    "A Pi has no battery for its clock, and a laptop that slept may be behind. Certificates and tokens are judged by it.",
    "see on both machines whether the clock is synchronised",
    &["timedatectl", "timedatectl timesync-status"],
    &[],
);

pub(super) const NO_DEFAULT_ROUTE: Entry = known(
    Fail,
    "k3s takes its address from the default route, also where there is no network to route to.",
    "connect the network; without one, a dummy interface is enough, until the next boot",
    &[
        "sudo ip link add dummy0 type dummy",
        "sudo ip addr add 203.0.113.254/31 dev dummy0",
        "sudo ip link set dummy0 up",
        "sudo ip route add default via 203.0.113.255 dev dummy0 metric 1000",
        RESTART_K3S,
    ],
    &[K3S_AIRGAP],
);

pub(super) const OFFLINE_START: Entry = known(
    Warn,
    "There was no network when k3s was to start, and k3s does not start without an address. The card has given it one of \
     its own, 203.0.113.254 on the interface weaver0, until the next boot.",
    "without a network all is well; when one is there, have k3s take its address from it, or reboot",
    &[RESTART_K3S],
    &[K3S_AIRGAP],
);

pub(super) const UNDER_VOLTAGE: Entry = known(
    Warn,
    "The supply or its cable gives less than 4.63 V under load, and writes to the card may fail then; or nothing takes \
     the heat away.",
    "use the supply made for the board and a short cable; give the board air; where `vcgencmd` is installed, \
     `vcgencmd get_throttled` says what the firmware knows",
    &[],
    &["https://github.com/raspberrypi/linux/issues/2367"],
);

pub(super) const DISK_PRESSURE: Entry = known(
    Fail,
    "Images, logs or what pods write have filled the file system.",
    "remove what is not used",
    &["df -h /", "sudo k3s crictl rmi --prune"],
    &[],
);

pub(super) const CARD_FAILS: Entry = known(
    Fail,
    "The kernel could not read or write the card, and has mounted it read-only to save what is there.",
    "copy what you need, and use another card and supply",
    &["sudo dmesg --level err,warn", "findmnt /"],
    &[],
);

pub(super) const CLOCK_BEFORE_FLOOR: Entry = known(
    Fail,
    "A Pi has no battery for its clock, and k3s ends itself before 1980.",
    "let the clock be set: by a network, or by hand",
    &["timedatectl", "sudo date -s 'YYYY-MM-DD hh:mm:ss'", RESTART_K3S],
    &[],
);

pub(super) const CLOCK_NOT_SYNCHRONISED: Entry = known(
    Warn,
    "No time server has answered; certificates made now may be of a wrong date.",
    "see whether one can be reached",
    &["timedatectl timesync-status"],
    &[],
);

pub(super) const OVERRIDE_NOT_A_CODE: Entry = known(
    Warn,
    "/boot/firmware/weaver-override has a line that is no code.",
    "write one code per line, such as N-01",
    &["cat /boot/firmware/weaver-override"],
    &[],
);

pub(super) const OWN_NAME_NOT_FOUND: Entry = known(
    Warn,
    "Neither /etc/hosts nor a module of nsswitch.conf knows the host's name: sudo waits for a name server at each \
     call, and without a network nothing knows it.",
    "give it the line that Debian gives every host",
    &["echo '127.0.1.1 NAME' | sudo tee -a /etc/hosts"],
    &["https://www.debian.org/doc/manuals/debian-reference/ch05.en.html"],
);

pub(super) const BOOT_PARTITION_UNWRITABLE: Entry = known(
    Warn,
    "It is full, the kernel has made it read-only after a fault of its file system, or it is lost. What runs goes on; a repair \
     and the report for a laptop have no place, and from a lost one the board does not start again.",
    "make room; check the card in another computer; or mount it for writing again, by its device",
    &[
        "df -h /boot/firmware",
        "sudo mount -o remount,rw \"$(findmnt -no SOURCE /boot/firmware)\" /boot/firmware",
    ],
    &[],
);

pub(super) const IPTABLES_MIXED: Entry = known(
    Unknown,
    "Another program, or one from before an upgrade, may have made rules of the older kind; packets pass both sets.",
    "see whether these print rules; if they do and Services work by chance, have the program that makes them take the newer \
     kind, too, and restart",
    &["sudo iptables-legacy-save", "sudo ip6tables-legacy-save"],
    &["https://github.com/k3s-io/k3s/issues/703", "https://wiki.debian.org/nftables"],
);
