//! The files on a host that the programs read and write.
//!
//! A path is the constant of the module that uses it, wherever that has the whole path.

use weaver_diagnostics::data_disk::{KEPT, mount_unit};
use weaver_diagnostics::host::network::OFFLINE_RECORD;
use weaver_diagnostics::memory_cgroup::EXTRA_CMDLINE;
use weaver_diagnostics::name_repair::DROP_IN;
use weaver_diagnostics::weaver_toml::plan;
use weaver_node_agent::files::{FAILURE, RECORD, ROOT_GROWN, STATE_DIR};
use weaver_node_agent::publish::html;

/// A section of the page: what its files have in common, and a row for each.
pub(super) struct FileGroup {
    pub title: &'static str,
    pub before: &'static str,
    /// Heading of the second column.
    pub column: &'static str,
    pub rows: Vec<FileRow>,
    pub after: &'static str,
}

/// Files of one kind, and what they are.
pub(super) struct FileRow {
    /// The first is absolute; one in the same directory has its name only.
    pub paths: Vec<String>,
    /// More about the paths, in Markdown.
    pub which: &'static str,
    pub what: &'static str,
}

fn row(paths: &[&str], what: &'static str) -> FileRow {
    described(paths, "", what)
}

fn described(paths: &[&str], which: &'static str, what: &'static str) -> FileRow {
    FileRow { paths: paths.iter().map(|path| (*path).to_owned()).collect(), which, what }
}

/// In the order of the page.
pub(super) fn groups() -> Vec<FileGroup> {
    vec![edited(), forecast(), boot_config(), agent(), operations()]
}

fn edited() -> FileGroup {
    FileGroup {
        title: "Files that you edit",
        before: "",
        column: "what",
        rows: vec![
            row(
                &["/boot/firmware/weaver.toml"],
                "the host's configuration; only its secrets are blanked ([weaver.toml](weaver-toml.md))",
            ),
            row(&["/boot/firmware/weaver-override"], "codes that do not keep k3s from starting"),
            row(
                &["/boot/firmware/manifests/"],
                "objects that k3s applies ([Run applications from the card](../how-to/manifests-on-the-card.md))",
            ),
            row(
                &["/boot/firmware/images/"],
                "archives of images that k3s imports ([Run applications from the card](../how-to/manifests-on-the-card.md#images))",
            ),
            row(&["/boot/firmware/user-data", "network-config"], "Raspberry Pi Imager's settings, read"),
            row(
                &["/etc/rancher/k3s/config.yaml", "config.yaml.d/"],
                "k3s' configuration, read; our files are those below",
            ),
            row(&["/etc/netplan/"], "netplan's files, read; ours is below"),
        ],
        after: "",
    }
}

fn forecast() -> FileGroup {
    FileGroup {
        title: "Read to forecast the next boot",
        before: "",
        column: "what decides in it",
        rows: vec![
            row(&["/boot/firmware/autoboot.txt"], "`boot_partition`, `tryboot_a_b`"),
            described(
                &["/boot/firmware/config.txt", "tryboot.txt"],
                "and what they include",
                "`cmdline`, `os_prefix`, `kernel`, `device_tree`, `upstream_kernel`, `armstub`, `boot_ramdisk`",
            ),
            row(&["/boot/firmware/*/state"], "whether piboot-try tries that directory"),
            described(
                &["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"],
                "or the file that `config.txt` names",
                "its first line",
            ),
            row(&[EXTRA_CMDLINE], "what Debian appends"),
            row(
                &["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/loader/entries/"],
                "the lines that start a kernel",
            ),
            row(&["/etc/default/grub", "grub.d/"], "whether GRUB's files are only to be written again"),
            row(&["/oem/grubenv", "/etc/cos/bootargs.cfg"], "Kairos' parameters"),
            row(&["/boot/extlinux/extlinux.conf", "/etc/default/u-boot"], "U-Boot's default entry"),
            row(&["/boot/armbianEnv.txt", "/boot/boot.cmd", "/boot/boot.scr"], "Armbian's parameters"),
            row(&["/proc/device-tree/chosen/bootloader/"], "this boot's partition, mode and trial"),
            row(
                &["/proc/self/mountinfo"],
                "of a Pi with no `config.txt` and no `cmdline.txt` in `/boot/firmware` and `/boot`: the only FAT outside of \
                 `/run` that has both",
            ),
            row(
                &["/sys/block/", "/dev/disk/", "/proc/cmdline"],
                "whether that FAT is this machine's: in the slot, or on the disk of `/`",
            ),
        ],
        after: "[How they decide](../explanation/boot-order.md#which-command-line-the-next-boot-takes). `repair` changes the \
                `cmdline.txt` files and\n`raspi-extra-cmdline`; the file before is next to each, as `.weaver-before`, and in \
                `/var/lib/weaver/repairs.json`.",
    }
}

fn boot_config() -> FileGroup {
    let state = |name: &str| format!("{STATE_DIR}/{name}");
    let keys = format!("{}/USER", plan::KEYS_DIR);
    FileGroup {
        title: "Written by weaver-boot-config",
        before: "Removed when `weaver.toml` no longer asks for them.",
        column: "what",
        rows: vec![
            described(
                &[plan::HOSTNAME_FILE, plan::HOSTS_FILE],
                "(one marked line of `hosts`)",
                "the host's name",
            ),
            row(&[plan::K3S], "names, node name, token file, options"),
            row(
                &[plan::REGISTRIES],
                "mirrors of registries and their certificates; a file of your own there stays",
            ),
            row(&[plan::TOKEN_FILE, plan::AGENT_TOKEN_FILE], "the imported token, of a server or an agent"),
            row(&[plan::WIFI_PASSWORD_FILE], "the imported password"),
            row(&[plan::NETPLAN], "wired network and Wi-Fi"),
            row(&[plan::IN_ITS_PLACE], "Imager's networks without its Wi-Fi, where `[wifi]` replaces it"),
            row(&[plan::CLOUD_INIT], "keeps cloud-init from changing the name"),
            row(&[plan::TIMESYNCD], "time servers"),
            described(
                &["server/manifests/weaver-card/"],
                "in k3s' data directory",
                "the manifests of the card; emptied, not removed, when they leave it",
            ),
            described(
                &["agent/images/weaver-card-*"],
                "in k3s' data directory",
                "links to the archives of the card",
            ),
            row(&[plan::DATA_DISK], "the disk to which the data of k3s is moved"),
            row(&[plan::BACKUP], "where the timer's backups go, and how often"),
            row(&[plan::UPDATE], "how often the timer installs updates"),
            row(
                &[plan::AGENT_ENVIRONMENT],
                "settings of the node agent; your own, in `/etc/weaver/node-agent.env`, count after them",
            ),
            row(
                &[plan::PAGE_OFF, plan::PAGE_ENVIRONMENT],
                "that the card shows no page; the addresses at which it does",
            ),
            row(&[plan::AGENT_ROLE], "the role: which unit of k3s starts"),
            row(&[&keys], "ssh keys"),
            row(&[plan::UPDATE_SOURCE, plan::UPDATE_KEY], "the apt source of updates and its key"),
            row(&[plan::SECURITY_UPDATES], "Debian's security updates, and when the card reboots for them"),
            row(&[EXTRA_CMDLINE], "what was appended to `cmdline.txt`"),
            row(&[&state("report.json")], "what came of the last run"),
            row(&[&state("node-name"), &state("agent-name")], "names of the node as server and as agent"),
            row(&[&state("last-good.toml")], "the last file without a fault, its secrets blanked"),
            row(&[&state("imported-cmdline")], "what was passed on from `cmdline.txt`"),
        ],
        after: "A `FSCK*.REC` on the boot partition that holds one of the secrets is removed. Where a file of netplan's has \
                changed, netplan\napplies it.",
    }
}

fn agent() -> FileGroup {
    let names = format!("/etc/rancher/k3s/config.yaml.d/{DROP_IN}");
    FileGroup {
        title: "Written by preflight and the node agent",
        before: "",
        column: "what",
        rows: vec![
            row(&["/run/weaver/report.json", "node-status.txt"], "the last report ([Reports](reports.md))"),
            row(&["/boot/firmware/NODE-STATUS.txt", "node-status.json"], "the same, for a laptop"),
            row(&["/run/issue.d/50-weaver.issue"], "the console's banner"),
            row(
                &[html::FILE, html::STATE_FILE],
                "the [card's page](../how-to/look-at-the-card.md), where there is one; the state in a word",
            ),
            row(
                &[plan::ANNOUNCEMENT],
                "what avahi [announces](../how-to/find-a-card.md#what-a-card-announces); boot-config removes it when it \
                 is not wanted",
            ),
            row(&["/run/weaver/k3s.blocked"], "keeps k3s from starting; says why"),
            row(&[OFFLINE_RECORD], "the address with which k3s starts without a network"),
            row(&[ROOT_GROWN], "the root file system fills the card: `weaver-grow-root` does not start"),
            row(&["/run/weaver/operator.kubeconfig"], "the operator's token and CA"),
            row(
                &[
                    "/run/systemd/system/weaver-{webhook.socket,webhook.service,operator.service}.d/50-k3d.conf",
                ],
                "with a k3d cluster: the webhook's socket at the gateway of its network, and that network allowed",
            ),
            row(&["/var/lib/weaver/webhook/"], "CA and certificate of the conversion webhook"),
            row(&[&names], "names that `repair names` added"),
        ],
        after: "",
    }
}

fn operations() -> FileGroup {
    FileGroup {
        title: "Written by an upgrade, a backup, a restore, a move or an update",
        before: "",
        column: "what",
        rows: vec![
            row(&["/usr/local/bin/k3s.previous"], "the k3s before the last upgrade"),
            row(
                &["/var/lib/weaver/node.lock"],
                "what changes the node now, while a process holds it; any other is refused",
            ),
            row(&["/var/lib/weaver/k3s-upgrade.json"], "an upgrade under way"),
            row(&["/var/lib/weaver/backups/"], "the last two backups that upgrades made first"),
            row(&["/var/lib/weaver/backup.json"], "when the timer made the last backup, or why not"),
            row(&["/var/lib/weaver/restore.json"], "a restore under way"),
            described(
                &["*.before-restore"],
                "next to what was restored; of `weaver.toml` in `/var/lib/weaver`",
                "what the card had before a restore",
            ),
            row(&[RECORD], "the disk with the data of k3s; with it k3s does not start without that disk"),
            row(&[mount_unit::PATH, mount_unit::LINK], "mount that disk"),
            row(&[KEPT], "the data that the card had before it was moved"),
            row(&[FAILURE], "why this boot did not move it"),
            row(&["/var/lib/weaver/packages/old/"], "the packages before the last update that succeeded"),
            row(&["/var/lib/weaver/packages/replaced/"], "the packages before an update under way"),
            row(&["/var/lib/weaver/update.json"], "an update under way"),
            row(&["/var/lib/weaver/kernel.json"], "a trial of a kernel under way, or how the last one ended"),
            row(&["/boot/firmware/weaver-kernel/", "/boot/firmware/tryboot.txt"], "the kernel on trial"),
            row(&["/var/lib/weaver/packages/boot/"], "what hooks of a kernel wrote while it was installed"),
            row(&["/var/lib/weaver/update-timer.json"], "when the timer made the last update, or why not"),
        ],
        after: "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_boot_config_writes_and_removes_is_on_the_page() {
        let paths: Vec<String> = boot_config().rows.into_iter().flat_map(|row| row.paths).collect();
        let missing: Vec<_> = plan::OWN.iter().filter(|own| !paths.iter().any(|path| path == *own)).collect();
        assert!(plan::OWN.len() > 10 && missing.is_empty(), "{missing:?}");
    }
}
