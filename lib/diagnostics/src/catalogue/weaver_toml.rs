//! Boot: `weaver.toml`.

macro_rules! weaver_toml_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    WeaverToml {
        WeaverTomlInForce = "B-00" "weaver-toml-in-force" Ok {
            title: "What `weaver.toml` asks for is in force.",
            cause: "Each of its settings was made.",
        }
        WeaverTomlInvalid = "B-01" "weaver-toml-invalid" Warn {
            title: "`weaver.toml` has faults, so nothing of it was taken.",
            cause: "A line of it is no setting, or has no value that it can have.",
            remedy: "mend the lines that are named and reboot; until then the last good settings stay",
            commands: ["sudo nano /boot/firmware/weaver.toml", "sudo reboot"],
        }
        WeaverTomlUnreadable = "B-02" "weaver-toml-unreadable" Warn {
            title: "`weaver.toml`, or the partition that it lies on, could not be read.",
            cause: "The boot partition is not mounted, or damaged.",
            remedy: "check it",
            commands: ["findmnt /boot/firmware", "sudo fsck.vfat -n /dev/disk/by-label/WEAVERBOOT"],
        }
        UserDataClash = "B-03" "user-data-clash" Warn {
            title: "`weaver.toml` and cloud-init's `user-data` or `network-config`, or a netplan file, want \
                different things.",
            cause: "Raspberry Pi Imager's settings, or a file in /etc/netplan, and weaver.toml name \
                different values. weaver.toml wins, where the finding does not say otherwise.",
            remedy: "remove one of the two",
        }
        TokenLeftOnCard = "B-04" "token-left-on-card" Warn {
            title: "The imported token, or the Wi-Fi's password, is still readable in `weaver.toml`, or may \
                be in a copy of it.",
            cause: "The secret was imported, and the file could not be written again; or an editor or file \
                manager left a copy of the file, which only its owner can delete.",
            remedy: "overwrite it in weaver.toml, or delete the copy that the finding names",
            commands: ["sudo nano /boot/firmware/weaver.toml"],
        }
        HostNotConfigured = "B-05" "host-not-configured" Warn {
            title: "A file or setting that `weaver.toml` asks for could not be made.",
            cause: "A file could not be written, or a service refused the setting.",
            remedy: "the finding names it",
            commands: ["journalctl -u weaver-boot-config"],
        }
        BootConfigUnknown = "B-06" "boot-config-unknown" Unknown {
            title: "What boot-config found could not be read.",
            cause: "The report of the boot is missing or damaged.",
            remedy: "read its log",
            commands: ["journalctl -u weaver-boot-config"],
        }
        JoinUnproven = "B-07" "join-unproven" Warn {
            title: "A node joins a server without proof that it is the one meant.",
            cause: "The token is the password alone. k3s takes it, and hands it to whichever server answers \
                at the address.",
            remedy: "write the whole token into weaver.toml: it begins with K10 and the hash of the server's \
                CA. On the server",
            commands: ["sudo cat /var/lib/rancher/k3s/server/node-token"],
            links: [K3S_TOKEN],
        }
    }
    }};
}
