//! The files on the boot partition, above all `weaver.toml`, and what became of them at the boot.

macro_rules! weaver_toml_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    WeaverToml {
        WeaverTomlInForce = "B-00" "weaver-toml-in-force" Ok {
            title: "The settings of `weaver.toml` are in force.",
            cause: "Each of them was applied.",
        }
        WeaverTomlInvalid = "B-01" "weaver-toml-invalid" Warn {
            title: "`weaver.toml` is not valid, so none of it was applied.",
            cause: "A line is not a setting, or its value is not allowed.",
            remedy: "correct the lines that the finding names and reboot; until then the last valid settings stay",
            commands: ["sudo nano /boot/firmware/weaver.toml", "sudo reboot"],
        }
        WeaverTomlUnreadable = "B-02" "weaver-toml-unreadable" Warn {
            title: "`weaver.toml` or its partition could not be read.",
            cause: "The boot partition is not mounted, or is damaged.",
            remedy: "check the partition",
            commands: ["findmnt /boot/firmware", "sudo fsck.vfat -n /dev/disk/by-label/WEAVERBOOT"],
        }
        NetworkConfigFault = "B-08" "network-config-fault" Warn {
            title: "cloud-init's `network-config` has a setting that can leave the card unreachable.",
            cause: "For example an SSID that is encoded twice, an address without a prefix length, two default \
                routes, or no Wi-Fi country.",
            remedy: "correct the line that the finding names; cloud-init reads the file only at the first boot, so \
                write the card again or run `sudo cloud-init clean`",
            commands: ["weaver config check weaver.toml"],
        }
        UserDataFault = "B-09" "user-data-fault" Warn {
            title: "A part of cloud-init's `user-data`, or a file for another operating system, has no effect, and \
                you may not be able to log in.",
            cause: "The first line is not `#cloud-config`, ssh keys are for a user that does not exist, or \
                the boot partition has a file that only Raspberry Pi OS, DietPi or Armbian reads, such as \
                `userconf.txt` or `custom.toml`.",
            remedy: "correct what the finding names; cloud-init takes user-data at the first start",
            commands: ["weaver config check weaver.toml"],
        }
        CardManifestRefused = "B-10" "card-manifest-refused" Warn {
            title: "A file in `manifests/` on the boot partition is not applied.",
            cause: "It does not contain Kubernetes objects in YAML or JSON, k3s does not accept its name, or this \
                card joins another server. The other files are applied; objects that this file created earlier stay.",
            remedy: "correct the line that the finding names; the next start applies it",
            commands: ["kubectl create --dry-run=client -f /boot/firmware/manifests/FILE"],
        }
        CardImageRefused = "B-11" "card-image-refused" Warn {
            title: "An archive in `images/` on the boot partition is not imported.",
            cause: "It is damaged or no archive of container images, its images are for another processor, or the \
                disk of k3s' data has too little space. The other archives are imported.",
            remedy: "write the archive again, for this card's processor, and start again",
            commands: ["docker pull --platform linux/arm64 IMAGE", "docker save -o FILE.tar IMAGE"],
        }
        DataOnDisk = "B-12" "data-on-disk" Ok {
            title: "The data of k3s is on the disk that `weaver.toml` named.",
            cause: "It was moved there, and the disk is mounted.",
        }
        UserDataClash = "B-03" "user-data-clash" Warn {
            title: "`weaver.toml` contradicts cloud-init's `user-data` or `network-config`, or a netplan file.",
            cause: "Settings of Raspberry Pi Imager, or a file in /etc/netplan, have other values. \
                weaver.toml wins unless the finding says otherwise.",
            remedy: "remove one of the two settings that the finding names",
            commands: ["sudo nano /boot/firmware/weaver.toml"],
        }
        TokenLeftOnCard = "B-04" "token-left-on-card" Warn {
            title: "The imported token or Wi-Fi password is still readable in `weaver.toml` or in a copy of it.",
            cause: "The secret was imported, but the file could not be rewritten; or an editor or file \
                manager left a copy of the file, which only its owner can delete.",
            remedy: "write `token = \"\"` and `password = \"\"` in weaver.toml, or delete the copy that the finding names",
            commands: ["sudo nano /boot/firmware/weaver.toml"],
        }
        HostNotConfigured = "B-05" "host-not-configured" Warn {
            title: "A setting of `weaver.toml` could not be applied.",
            cause: "A file could not be written, or a service refused the setting.",
            remedy: "correct the setting that the finding names; the log says why it was refused",
            commands: ["journalctl -u weaver-boot-config"],
        }
        BootConfigUnknown = "B-06" "boot-config-unknown" Unknown {
            title: "The result of boot-config could not be read.",
            cause: "The report of this boot is missing or damaged.",
            remedy: "read its log",
            commands: ["journalctl -u weaver-boot-config"],
        }
        JoinUnproven = "B-07" "join-unproven" Warn {
            title: "The node joins a server whose identity is not verified.",
            cause: "The token is only the password. k3s accepts it and sends it to any server that answers at the address.",
            remedy: "write the complete token into weaver.toml: it begins with K10 and the hash of the \
                server's CA. The server prints it with the command below",
            commands: ["sudo cat /var/lib/rancher/k3s/server/node-token"],
            links: [K3S_TOKEN],
        }
    }
    }};
}
