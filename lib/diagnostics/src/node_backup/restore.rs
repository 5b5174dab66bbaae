//! Whether a backup may be restored on this card.

use super::manifest::{BackupManifest, printed};
use crate::k3s_upgrade::Role;
use crate::k3s_upgrade::plan::UpgradeRefusal;
use crate::k3s_upgrade::version::{Skew, Version};

/// What is known of the card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreTarget {
    /// Why the one who runs this may not restore.
    pub may_not_write: Option<UpgradeRefusal>,
    pub role: Role,
    /// The name of its node.
    pub node: Option<String>,
    /// Whether it shall get the name of the backup's node.
    pub takes_name: bool,
    /// The k3s that is installed, or why it does not tell.
    pub installed: Result<Version, String>,
    /// The data directory of its k3s.
    pub data_dir: String,
    /// What cannot be renamed, and why: a link, or something is mounted there.
    pub not_movable: Vec<String>,
    /// Why its datastore cannot be replaced by a file of SQLite.
    pub other_datastore: Option<String>,
    /// Bytes that the backup takes, and bytes that are free.
    pub needed: u64,
    pub free: Option<u64>,
}

/// All reasons against it. What is not known refuses nothing.
pub fn refusals(card: &RestoreTarget, backup: &BackupManifest) -> Vec<UpgradeRefusal> {
    let mut refusals: Vec<_> = card.may_not_write.iter().cloned().collect();
    let mut refuse = |what: String, remedy: String| refusals.push(UpgradeRefusal::new(what, remedy));
    if card.role == Role::Agent {
        refuse(
            "this node has joined another's cluster, whose state is on its server".to_owned(),
            "restore on the server; a node that joins needs no backup but its weaver.toml".to_owned(),
        );
    }
    let node = printed(&backup.node);
    if let Some(own) = card.node.as_ref().filter(|own| **own != backup.node && !card.takes_name) {
        refuse(
            format!("the backup is of the node {node}, and this one is {own}"),
            format!(
                "write `hostname = \"{node}\"` into weaver.toml and reboot, or add --take-name to have this node become {node}"
            ),
        );
    }
    if let Some(why) = &card.other_datastore {
        refuse(why.clone(), "restore it with the tools of that datastore".to_owned());
    }
    if card.data_dir != backup.data_dir {
        let shown = printed(&backup.data_dir);
        refuse(
            format!("k3s of the backup keeps its data in {shown}, and this one in {}", card.data_dir),
            format!("set `data-dir: {shown}` in /etc/rancher/k3s/config.yaml, and start k3s once"),
        );
    }
    for what in &card.not_movable {
        refuse(what.clone(), "unmount it, or replace the link by what it leads to".to_owned());
    }
    of_the_version(card, backup, &mut refuse);
    if let Some(free) = card.free.filter(|free| *free < card.needed) {
        let what = format!(
            "{} MiB are needed next to the present state, and {} MiB are free",
            card.needed.div_ceil(1 << 20),
            free >> 20
        );
        refuse(what, "make room on this card, or use a larger one".to_owned());
    }
    refusals
}

fn of_the_version(card: &RestoreTarget, backup: &BackupManifest, refuse: &mut impl FnMut(String, String)) {
    let installed = match &card.installed {
        Ok(installed) => installed,
        Err(why) => {
            return refuse(
                format!("the installed k3s does not tell its version: {why}"),
                "install k3s first".to_owned(),
            );
        }
    };
    let Some(made_by) = backup.k3s.as_ref().and_then(|version| version.parse::<Version>().ok()) else {
        return;
    };
    match installed.after(&made_by) {
        Ok(()) => {}
        Err(Skew::Down | Skew::AheadOfServer) => refuse(
            format!(
                "the backup is of k3s {made_by}, and the installed {installed} cannot read what it has stored"
            ),
            format!("`sudo weaver node upgrade --k3s {made_by}` first"),
        ),
        Err(Skew::TooFar { next }) => refuse(
            format!(
                "the backup is of k3s {made_by}, and the installed {installed} is more than one minor version ahead"
            ),
            format!("use a card with k3s {made_by} or {next}, and upgrade it after the restore"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::finding_text::is_unprintable;
    use crate::node_backup::left_out::LeftOut;
    use crate::node_backup::manifest::FORMAT;

    fn card() -> RestoreTarget {
        RestoreTarget {
            may_not_write: None,
            role: Role::Server,
            node: Some("raspi".to_owned()),
            takes_name: false,
            installed: Ok("v1.36.4+k3s1".parse().unwrap()),
            data_dir: "/var/lib/rancher/k3s".to_owned(),
            not_movable: Vec::new(),
            other_datastore: None,
            needed: 5,
            free: Some(5),
        }
    }

    fn backup(node: &str, k3s: Option<&str>) -> BackupManifest {
        BackupManifest {
            format: FORMAT,
            node: node.to_owned(),
            k3s: k3s.map(str::to_owned),
            data_dir: "/var/lib/rancher/k3s".to_owned(),
            made: String::new(),
            revision: 1,
            rows: 1,
            volumes: false,
            left_out: LeftOut::default(),
            members: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_refused_and_why() {
        let same = Some("v1.36.4+k3s1");
        let other = || Some("etcd".to_owned());
        let no_root =
            || Some(UpgradeRefusal { what: "/x cannot be written".to_owned(), remedy: "sudo".to_owned() });
        for (card, backup, want) in [
            (card(), backup("raspi", same), None),
            (card(), backup("raspi", None), None),
            (card(), backup("raspi", Some("v1.36.9+k3s1")), None),
            (card(), backup("raspi", Some("v1.35.9+k3s1")), None),
            (card(), backup("raspi", Some("v1.37.0+k3s1")), Some("cannot read what it has stored")),
            (card(), backup("raspi", Some("v1.34.0+k3s1")), Some("more than one minor version ahead")),
            (card(), backup("attic", same), Some("of the node attic, and this one is raspi")),
            (RestoreTarget { takes_name: true, ..card() }, backup("attic", same), None),
            (RestoreTarget { node: None, ..card() }, backup("attic", same), None),
            (
                RestoreTarget { role: Role::Agent, ..card() },
                backup("raspi", same),
                Some("joined another's cluster"),
            ),
            (
                RestoreTarget { installed: Err("no".to_owned()), ..card() },
                backup("raspi", same),
                Some("does not tell"),
            ),
            (RestoreTarget { other_datastore: other(), ..card() }, backup("raspi", same), Some("etcd")),
            (
                RestoreTarget { data_dir: "/mnt/k3s".to_owned(), ..card() },
                backup("raspi", same),
                Some("keeps its data in"),
            ),
            (
                RestoreTarget { not_movable: vec!["/x is a link".to_owned()], ..card() },
                backup("raspi", same),
                Some("/x is"),
            ),
            (RestoreTarget { free: Some(4), ..card() }, backup("raspi", same), Some("1 MiB are needed")),
            (RestoreTarget { free: None, ..card() }, backup("raspi", same), None),
            (
                RestoreTarget { may_not_write: no_root(), ..card() },
                backup("raspi", same),
                Some("/x cannot be written"),
            ),
        ] {
            let refusals = refusals(&card, &backup);
            assert_eq!(refusals.len(), usize::from(want.is_some()), "{card:?} {backup:?} {refusals:?}");
            assert!(
                refusals.iter().all(|refusal| refusal.what.contains(want.unwrap_or_default())),
                "{refusals:?}"
            );
        }
    }

    #[test]
    fn what_a_foreign_manifest_says_is_shown_and_not_obeyed() {
        let hostile = "\u{1b}[2J\nrestored\u{202e}";
        let backup = BackupManifest { data_dir: hostile.to_owned(), ..backup(hostile, None) };
        let refusals = refusals(&card(), &backup);
        assert_eq!(refusals.len(), 2);
        for refusal in refusals {
            let shown = refusal.to_string();
            assert!(!shown.contains(is_unprintable) && shown.contains("\\u{1b}[2J\\nrestored"), "{shown:?}");
        }
    }

    #[test]
    fn all_reasons_at_once() {
        let card = RestoreTarget { role: Role::Agent, free: Some(0), ..card() };
        assert_eq!(refusals(&card, &backup("attic", Some("v1.37.0+k3s1"))).len(), 4);
    }
}
