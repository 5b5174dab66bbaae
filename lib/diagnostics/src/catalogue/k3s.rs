//! k3s' files and start, and weaver.toml.

use super::Entry;
use super::table::{CHECK, K3S_CONFIGURATION, K3S_REQUIREMENTS, RESTART_K3S, known};
use crate::finding::Severity::{Fail, Ok, Unknown, Warn};

pub(super) const K3S_CONFIG_INVALID: Entry = known(
    Fail,
    "A file of /etc/rancher/k3s is no valid YAML.",
    "mend it at the line that is named",
    &[CHECK],
    &[K3S_CONFIGURATION],
);

pub(super) const K3S_CONFIG_WRONG_TYPE: Entry = known(
    Fail,
    "A setting has a list where a text is wanted, or the other way round.",
    "write it as its documentation has it",
    &[CHECK],
    &[K3S_CONFIGURATION],
);

pub(super) const K3S_FILE_UNREADABLE: Entry = known(
    Fail,
    "Its permissions or the file system keep the agent from reading it.",
    "run the check as root; look for errors of the card",
    &[CHECK, "sudo dmesg --level err"],
    &[],
);

pub(super) const K3S_NOT_ANSWERING: Entry = known(
    Fail,
    "k3s hangs while it starts, or has given up.",
    "its log says why",
    &["weaver explain --journal k3s", "systemctl status k3s"],
    &[],
);

pub(super) const PORT_TAKEN: Entry = known(
    Warn,
    "Another Kubernetes, a web server, or a k3s that was started by hand has the port.",
    "see who it is, and end it; for the API's own port another `https-listen-port` will do",
    &[],
    &[K3S_REQUIREMENTS],
);

pub(super) const VERSION_NOT_SUPPORTED: Entry = known(
    Warn,
    "What is new in Kubernetes may change what the operator relies on; what is old may lack it.",
    "use a k3s of that range: the card names its own in image/k3s.lock",
    &["k3s --version"],
    &["https://docs.k3s.io/release-notes/v1.36.X"],
);

pub(super) const WEAVER_TOML_IN_FORCE: Entry = known(Ok, "Each of its settings was made.", "", &[], &[]);

pub(super) const WEAVER_TOML_INVALID: Entry = known(
    Warn,
    "A line of it is no setting, or has no value that it can have.",
    "mend the lines that are named and reboot; until then the last good settings stay",
    &["sudo nano /boot/firmware/weaver.toml", "sudo reboot"],
    &[],
);

pub(super) const WEAVER_TOML_UNREADABLE: Entry = known(
    Warn,
    "The boot partition is not mounted, or damaged.",
    "check it",
    &["findmnt /boot/firmware", "sudo fsck.vfat -n /dev/disk/by-label/WEAVERBOOT"],
    &[],
);

pub(super) const USER_DATA_CLASH: Entry = known(
    Warn,
    "Raspberry Pi Imager's settings, or a file in /etc/netplan, and weaver.toml name different values. weaver.toml wins, where the finding does not say otherwise.",
    "remove one of the two",
    &[],
    &[],
);

pub(super) const TOKEN_LEFT_ON_CARD: Entry = known(
    Warn,
    "The secret was imported, and the file could not be written again; or an editor or file manager left a copy of the \
     file, which only its owner can delete.",
    "overwrite it in weaver.toml, or delete the copy that the finding names",
    &["sudo nano /boot/firmware/weaver.toml"],
    &[],
);

pub(super) const HOST_NOT_CONFIGURED: Entry = known(
    Warn,
    "A file could not be written, or a service refused the setting.",
    "the finding names it",
    &["journalctl -u weaver-boot-config"],
    &[],
);

pub(super) const BOOT_CONFIG_UNKNOWN: Entry = known(
    Unknown,
    "The report of the boot is missing or damaged.",
    "read its log",
    &["journalctl -u weaver-boot-config"],
    &[],
);

pub(super) const JOIN_UNPROVEN: Entry = known(
    Warn,
    "The token is the password alone. k3s takes it, and hands it to whichever server answers at the address.",
    "write the whole token into weaver.toml: it begins with K10 and the hash of the server's CA. On the server",
    &["sudo cat /var/lib/rancher/k3s/server/node-token"],
    &["https://docs.k3s.io/cli/token"],
);

pub(super) const SETTING_MISSPELLED: Entry = known(
    Warn,
    "k3s passes over keys that it does not know, with one line in its log.",
    "write the key as k3s does, and start k3s anew",
    &["sudo journalctl -b -u k3s | grep 'Unknown flag'", RESTART_K3S],
    &[K3S_CONFIGURATION],
);

pub(super) const UPGRADE_CUT_OFF: Entry = known(
    Warn,
    "The power went, or somebody ended it, while the new k3s was proven or the old one put back.",
    "go back to the old one, or repeat `weaver node upgrade`: it finishes that first",
    &["sudo weaver node rollback"],
    &[],
);
