//! Who copies from where to where: the ConfigMapSyncs by the account whose rights they use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::matrix::holds;
use super::sync::{SyncView, TargetView};

/// Which accounts are asked for.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Search {
    /// In the name of an account, of a source or of a target namespace.
    pub q: String,
}

/// An account that copies.
#[derive(Debug)]
pub struct AccountView {
    pub namespace: String,
    pub name: String,
    /// What it reads.
    pub sources: BTreeSet<String>,
    /// Where it writes, and how the worst of its copies there is.
    pub targets: Vec<TargetView>,
    /// Are there targets that no status names?
    pub is_truncated: bool,
    /// The ConfigMapSyncs that use it, in its own namespace.
    pub syncs: Vec<String>,
}

impl AccountView {
    pub fn has_problem(&self) -> bool {
        self.targets.iter().any(|target| target.state.is_problem())
    }
}

/// Those that are asked for, with problems first.
pub fn accounts(syncs: &[Arc<SyncView>], search: &Search) -> Vec<AccountView> {
    let mut of: BTreeMap<(&str, &str), Vec<&SyncView>> = BTreeMap::new();
    // Without an account nothing is copied.
    for sync in syncs.iter().filter(|sync| !sync.account.is_empty()) {
        of.entry((&sync.summary.namespace, &sync.account)).or_default().push(sync);
    }
    let mut accounts: Vec<AccountView> =
        of.into_iter().map(|((namespace, name), syncs)| account(namespace, name, &syncs)).collect();
    accounts.retain(|account| is_found(account, &search.q));
    accounts.sort_by_key(|account| !account.has_problem());
    accounts
}

fn account(namespace: &str, name: &str, syncs: &[&SyncView]) -> AccountView {
    let mut targets: BTreeMap<&str, &TargetView> = BTreeMap::new();
    for target in syncs.iter().flat_map(|sync| &sync.targets) {
        let worst = targets.entry(&target.namespace).or_insert(target);
        if target.state < worst.state {
            *worst = target;
        }
    }
    let mut targets: Vec<TargetView> = targets.into_values().cloned().collect();
    targets.sort_by_key(|target| target.state);
    AccountView {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        sources: syncs.iter().map(|sync| sync.source.clone()).filter(|source| !source.is_empty()).collect(),
        targets,
        is_truncated: syncs.iter().any(|sync| sync.is_truncated),
        syncs: syncs.iter().map(|sync| sync.summary.name.clone()).collect(),
    }
}

fn is_found(account: &AccountView, part: &str) -> bool {
    holds(&format!("{}/{}", account.namespace, account.name), part)
        || account.sources.iter().any(|source| holds(source, part))
        || account.targets.iter().any(|target| holds(&target.namespace, part))
}

#[cfg(test)]
mod tests {
    use super::super::sync::CopyState;
    use super::super::sync::tests::sync;
    use super::*;

    fn some() -> Vec<Arc<SyncView>> {
        let other = SyncView { account: "other".into(), ..sync("c", "True", &[("zoo", "Synced")]) };
        let none = SyncView { account: String::new(), ..sync("d", "False", &[]) };
        let syncs = [
            other,
            none,
            sync("a", "True", &[("foo", "Synced"), ("bar", "Synced")]),
            sync("b", "False", &[("foo", "Failed")]),
        ];
        syncs.map(Arc::new).to_vec()
    }

    #[test]
    fn an_account_has_its_sources_and_the_worst_state_of_each_namespace() {
        let found = accounts(&some(), &Search::default());
        let names: Vec<&str> = found.iter().map(|account| account.name.as_str()).collect();
        assert_eq!(names, ["copier", "other"], "the one with a problem comes first");
        let copier = &found[0];
        assert_eq!(copier.syncs, ["a", "b"]);
        let sources: Vec<&String> = copier.sources.iter().collect();
        assert_eq!(sources, ["ConfigMap team-a/a", "ConfigMap team-a/b"]);
        let states: Vec<_> =
            copier.targets.iter().map(|target| (target.namespace.as_str(), target.state)).collect();
        assert_eq!(states, [("foo", CopyState::Failed), ("bar", CopyState::Synced)]);
    }

    #[test]
    fn one_is_found_by_its_name_a_source_or_a_target() {
        let names = |q: &str| {
            let found = accounts(&some(), &Search { q: q.into() });
            found.iter().map(|account| account.name.clone()).collect::<Vec<_>>().join(" ")
        };
        for (q, expected) in [
            ("TEAM-A/other", "other"),
            ("zoo", "other"),
            ("bar", "copier"),
            ("team-a/b", "copier"),
            ("none", ""),
        ] {
            assert_eq!(names(q), expected, "{q}");
        }
    }
}
