//! `weaver node`: what is done on a node itself, as root. This calls the node agent, which does it.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use weaver_host::platform::{CAN_BE_NODE, run_instead};

/// The program that knows the node.
const AGENT: &str = "weaver-node-agent";

#[derive(Subcommand)]
pub enum NodeVerb {
    /// Install another k3s version, verify it, and roll back automatically if it fails
    ///
    /// First checks hash, architecture, version, disk space and the state of k3s. Then saves that state as
    /// `weaver node backup` does, into /var/lib/weaver/backups, where the last two stay; keeps the old program,
    /// installs the new one and restarts k3s; pods keep running. The upgrade is verified if the unit is active,
    /// the API server is ready and reports that version, and every name served before is served again. If not
    /// in time, restores and verifies the old program. An interrupted upgrade is finished by the next run.
    ///
    /// For a VERSION, the program and its list of hashes come from the same server, so only TLS protects them.
    /// To check more, pass `--sha256` with a hash from another source.
    ///
    /// Exit status: 0 the version runs; 1 not started; 2 wrong usage; 10 refused, nothing changed; 12 rolled back;
    /// 13 rolled back, but the old version could not be verified (the message says what to type).
    #[command(verbatim_doc_comment)]
    Upgrade(NodeUpgradeArgs),
    /// Reinstall the k3s version that ran before the last upgrade, with the same checks
    ///
    /// Exit status: 0 the earlier version runs; 1 not started; 2 wrong usage; 10 refused, nothing changed; 12 failed, and
    /// the version that ran is back; 13 failed, and that version could not be verified (the message says what to type).
    #[command(verbatim_doc_comment)]
    Rollback(VersionChangeOptions),
    /// Save the state of k3s to one file while it runs: datastore, CA, token, settings, weaver.toml
    ///
    /// Copies the datastore with SQLite's online backup, checks the copy, writes one tar archive that only root can
    /// read, and reads it back from disk. Refuses an unencrypted backup on the boot partition, which any computer can
    /// read. What cannot be saved of a volume is left out, and listed with the reason; the name then ends in
    /// `-incomplete.tar`, and a complete backup of the name that you gave stays.
    ///
    /// Exit status: 0 done; 1 failed, nothing was written; 2 wrong usage; 10 refused, or the shown backup is damaged;
    /// 14 written without parts of volumes, which the message names.
    #[command(verbatim_doc_comment)]
    Backup(NodeBackupArgs),
    /// Replace the state of k3s with that of a backup, and keep the current state
    ///
    /// Reads and checks the whole backup first and unpacks it next to the current state. Then stops k3s, swaps the
    /// two, starts k3s and verifies that its API server is ready. The previous state stays next to the restored one
    /// under names that end in `.before-restore`. An interrupted restore is completed by the next boot of a card, or
    /// with `--resume`.
    ///
    /// Exit status: 0 done; 1 failed; 2 wrong usage; 10 refused, nothing changed, or restored and not verified; the
    /// message says which.
    #[command(verbatim_doc_comment)]
    Restore(Restore),
    /// Install newer packages of Config Weaver by apt, verify them, and roll back automatically if they fail
    ///
    /// Shows the installed version, the new one and its source, and asks for confirmation. Keeps the installed
    /// packages in /var/lib/weaver/packages and your changes in /etc. The update is verified when the units that ran
    /// before are active, the node agent has reported, and k3s serves every name that it served before. If that takes
    /// too long, reinstalls and verifies the old packages. The next run completes an interrupted update.
    ///
    /// On a card, `[update]` in weaver.toml names the source; elsewhere apt's own files do.
    ///
    /// With `--kernel`, on a Raspberry Pi: starts the newer kernel that apt has once on trial, installs it if it is
    /// verified as above, and else starts the old one again. The trial is completed by the boot itself.
    ///
    /// Exit status: 0 installed, or nothing newer; 1 not started; 2 wrong usage; 10 refused, nothing changed;
    /// 12 rolled back; 13 not rolled back, or the old version could not be verified (the message says what to
    /// type).
    #[command(verbatim_doc_comment)]
    Update(Update),
}

#[derive(Args)]
pub struct NodeBackupArgs {
    /// File, or directory in which the file is named after node and date
    #[arg(value_name = "FILE|DIR", required_unless_present = "show")]
    target: Option<OsString>,
    /// Show the contents of a backup and verify every hash
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "volumes", "keep", "must_be_mounted"])]
    show: Option<OsString>,
    /// Include the local-path volumes, as they are while pods write to them
    #[arg(long)]
    volumes: bool,
    /// Keep only this many backups of this node in the directory; remove older ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    /// Fail if nothing is mounted at the directory (it is on the file system of `/`)
    #[arg(long)]
    must_be_mounted: bool,
    /// Encrypt for this age recipient (age1…); only those who have its identity file can read the backup (repeatable)
    #[arg(long = "recipient", value_name = "AGE1…", conflicts_with_all = ["show", "passphrase_file"])]
    recipients: Vec<String>,
    #[command(flatten)]
    keys: DecryptionFlags,
}

#[derive(Args)]
pub struct DecryptionFlags {
    /// File with the passphrase of an encrypted backup
    #[arg(long, value_name = "FILE", conflicts_with = "identity")]
    passphrase_file: Option<OsString>,
    /// File with the age identity (AGE-SECRET-KEY-1…) of an encrypted backup
    #[arg(long, value_name = "FILE")]
    identity: Option<OsString>,
}

impl DecryptionFlags {
    fn args(self) -> impl Iterator<Item = OsString> {
        let keys = [("--passphrase-file", self.passphrase_file), ("--identity", self.identity)];
        keys.into_iter().filter_map(|(flag, file)| Some([flag.into(), file?])).flatten()
    }
}

#[derive(Args)]
pub struct Restore {
    /// Backup to restore
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<OsString>,
    /// Complete a restore that was interrupted
    #[arg(long, conflicts_with_all = ["file", "take_name"])]
    resume: bool,
    /// Rename this node to the node of the backup
    #[arg(long)]
    take_name: bool,
    #[command(flatten)]
    keys: DecryptionFlags,
    /// Show the steps without doing them
    #[arg(long)]
    dry_run: bool,
    /// Time limit for k3s to be verified
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
}

#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Update {
    /// Version to install, which may be older [default: the newest that apt has]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// Start the newer kernel that apt has once on trial, and install it if it is verified; restarts this node
    #[arg(long, conflicts_with_all = ["to", "one_way", "no_backup"])]
    kernel: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Allow a version that stores objects in a form that the installed version cannot read: no way back
    #[arg(long)]
    one_way: bool,
    /// Do not save the state of k3s first
    #[arg(long)]
    no_backup: bool,
    #[command(flatten)]
    how: VersionChangeOptions,
}

#[derive(Args)]
pub struct NodeUpgradeArgs {
    /// New k3s: a file, or a released version such as v1.36.4+k3s1
    #[arg(long, value_name = "FILE|VERSION")]
    k3s: OsString,
    /// Expected SHA-256 [default: from the release's sha256sum-ARCH.txt]
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// Do not save the state of k3s first
    #[arg(long)]
    no_backup: bool,
    #[command(flatten)]
    how: VersionChangeOptions,
}

#[derive(Args)]
pub struct VersionChangeOptions {
    /// Show the steps without doing them
    #[arg(long)]
    dry_run: bool,
    /// Time limit for the new version to be verified, and again for the old one after a failure
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
}

/// Becomes the agent, so that exit status and signals are the agent's.
pub fn run(verb: NodeVerb) -> anyhow::Result<ExitCode> {
    let elsewhere =
        || anyhow!("{AGENT} is not on this machine: run this on the node, `ssh NODE sudo weaver node …`");
    if !CAN_BE_NODE {
        return Err(elsewhere());
    }
    let error = run_instead(Command::new(AGENT).args(args(verb)));
    Err(match error.kind() {
        io::ErrorKind::NotFound => elsewhere(),
        _ => anyhow!(error).context(format!("cannot run {AGENT}")),
    })
}

fn args(verb: NodeVerb) -> Vec<OsString> {
    let (mut args, how): (Vec<OsString>, _) = match verb {
        NodeVerb::Upgrade(NodeUpgradeArgs { k3s, sha256, no_backup, how }) => {
            let hash = sha256.into_iter().flat_map(|hash| ["--sha256".into(), hash.into()]);
            let flag = no_backup.then(|| "--no-backup".into());
            (["upgrade".into(), "--k3s".into(), k3s].into_iter().chain(hash).chain(flag).collect(), how)
        }
        NodeVerb::Rollback(how) => (vec!["rollback".into()], how),
        NodeVerb::Backup(backup) => return backup.args(),
        NodeVerb::Restore(Restore { file, resume, take_name, keys, dry_run, wait }) => {
            let flags = [("--resume", resume), ("--take-name", take_name)];
            let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into());
            (
                ["restore".into()].into_iter().chain(flags).chain(keys.args()).chain(file).collect(),
                VersionChangeOptions { dry_run, wait },
            )
        }
        NodeVerb::Update(Update { to, kernel, yes, one_way, no_backup, how }) => {
            let to = to.into_iter().flat_map(|version| ["--to".into(), version.into()]);
            let flags =
                [("--kernel", kernel), ("--yes", yes), ("--one-way", one_way), ("--no-backup", no_backup)];
            let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into());
            ([OsString::from("update")].into_iter().chain(to).chain(flags).collect(), how)
        }
    };
    let VersionChangeOptions { dry_run, wait } = how;
    args.extend(["--wait".into(), wait.to_string().into()]);
    if dry_run {
        args.push("--dry-run".into());
    }
    args
}

impl NodeBackupArgs {
    fn args(self) -> Vec<OsString> {
        let Self { target, show, volumes, keep, must_be_mounted, recipients, keys } = self;
        let flags = [("--volumes", volumes), ("--must-be-mounted", must_be_mounted)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into());
        let show = show.into_iter().flat_map(|file| ["--show".into(), file]);
        let keep = keep.into_iter().flat_map(|keep| ["--keep".into(), keep.to_string().into()]);
        let recipients =
            recipients.into_iter().flat_map(|recipient| ["--recipient".into(), recipient.into()]);
        let args = ["backup".into()].into_iter().chain(flags).chain(recipients).chain(keys.args());
        args.chain(show).chain(keep).chain(target).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{Args, Verb};

    #[test]
    fn what_is_typed_is_what_the_agent_is_asked() {
        for (typed, asked) in [
            ("upgrade --k3s k3s-arm64", "upgrade --k3s k3s-arm64 --wait 300"),
            (
                "upgrade --k3s v1.36.4+k3s1 --sha256 ab --dry-run",
                "upgrade --k3s v1.36.4+k3s1 --sha256 ab --wait 300 --dry-run",
            ),
            ("rollback --wait 60", "rollback --wait 60"),
            ("upgrade --k3s k3s --no-backup", "upgrade --k3s k3s --no-backup --wait 300"),
            ("backup /mnt/usb --keep 7 --volumes", "backup --volumes --keep 7 /mnt/usb"),
            ("backup --must-be-mounted /mnt/usb", "backup --must-be-mounted /mnt/usb"),
            ("backup --show b.tar", "backup --show b.tar"),
            (
                "backup b.tar.age --recipient age1a --recipient age1b",
                "backup --recipient age1a --recipient age1b b.tar.age",
            ),
            ("backup --show b --passphrase-file p", "backup --passphrase-file p --show b"),
            ("restore b --identity i", "restore --identity i b --wait 300"),
            ("restore b.tar", "restore b.tar --wait 300"),
            ("restore b.tar --take-name --dry-run --wait 9", "restore --take-name b.tar --wait 9 --dry-run"),
            ("restore --resume", "restore --resume --wait 300"),
            ("update", "update --wait 300"),
            ("update --kernel --yes", "update --kernel --yes --wait 300"),
            (
                "update --to 0.1.0 --yes --one-way --no-backup --dry-run",
                "update --to 0.1.0 --yes --one-way --no-backup --wait 300 --dry-run",
            ),
        ] {
            let parsed = Args::parse_from(["weaver", "node"].into_iter().chain(typed.split(' ')));
            let Verb::Node(verb) = parsed.verb else { panic!("{typed}") };
            assert_eq!(args(verb).join(" ".as_ref()), asked);
        }
    }
}
