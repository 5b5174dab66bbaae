//! Which account copies from where to where: the syncs by the account whose rights they use, and the ServiceTokens by
//! the account that writes their Secret, as a table of accounts and namespaces, of which one part is shown at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use weaver_api::kind::ObjectKind;
use weaver_api::validate::KindName;
use weaver_copies::rights::{Right, for_source, for_target, for_writer};

use super::health::ResourceHealth;
use super::matrix::{COLUMNS, PageRange, ROWS, holds};
use super::sync::{SyncView, TargetView, Unnamed};
use super::token::TokenView;

/// Which accounts are requested, and which part of the table; pages count from 0.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct AccountQuery {
    /// Part of the name of an account, of a source or of a target namespace.
    pub q: String,
    pub row: usize,
    pub column: usize,
}

#[derive(Debug)]
pub struct AccountView<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub sources: BTreeSet<&'a str>,
    pub source_namespaces: BTreeSet<&'a str>,
    /// Where it writes, and the worst state of its copies there; by namespace.
    pub targets: BTreeMap<&'a str, &'a TargetView>,
    /// What is known of a target that no status names, if there is one.
    pub unnamed: Option<Unnamed>,
    /// The syncs that use it, in its own namespace.
    pub syncs: Vec<&'a SyncView>,
    /// The ServiceTokens whose Secret it writes, in its own namespace.
    pub tokens: Vec<&'a TokenView>,
}

impl<'a> AccountView<'a> {
    pub fn has_problem(&self) -> bool {
        self.targets.values().any(|target| target.state.is_problem())
            || self.keeps().is_some_and(|health| health == ResourceHealth::Bad)
    }

    /// The worst state of its ServiceTokens.
    pub fn keeps(&self) -> Option<ResourceHealth> {
        self.tokens.iter().map(|token| token.summary.health).min()
    }

    /// Each namespace that it reads or writes in, as far as a status names it.
    pub fn namespaces(&self) -> BTreeSet<&'a str> {
        let own = (!self.tokens.is_empty()).then_some(&self.namespace);
        self.source_namespaces.iter().chain(self.targets.keys()).chain(own).copied().collect()
    }

    /// The kinds that its syncs read or write in a namespace, as far as a status names it.
    pub fn copied(&self, namespace: &str) -> BTreeSet<&'a KindName> {
        let is_there = |sync: &&&SyncView| sync.source_namespace == namespace || writes(sync, namespace);
        self.syncs.iter().filter(is_there).filter_map(|sync| Some(&sync.copies.as_ref()?.0)).collect()
    }

    /// The rights that its syncs and ServiceTokens need in a namespace, as far as a status names it, and their kind is
    /// among these.
    pub fn needed(&self, namespace: &str, kinds: &BTreeMap<KindName, ObjectKind>) -> BTreeSet<Right> {
        let mut rights = BTreeSet::new();
        for sync in &self.syncs {
            let Some((name, sources)) = &sync.copies else { continue };
            let Some(&kind) = kinds.get(name) else { continue };
            if sync.source_namespace == namespace {
                let named = sources.iter().map(|source| Some(source.as_str()));
                let selected = sources.is_empty().then_some(None);
                rights.extend(named.chain(selected).flat_map(|source| for_source(kind, namespace, source)));
            }
            if writes(sync, namespace) {
                rights.extend(for_target(kind, namespace));
            }
        }
        for token in self.tokens.iter().filter(|_| self.namespace == namespace) {
            if !token.secret.is_empty() {
                rights.extend(for_writer(namespace, &token.secret));
            }
        }
        rights
    }

    /// In the order of `CopyState`: what needs attention comes first.
    pub fn sorted_targets(&self) -> Vec<&TargetView> {
        let mut targets: Vec<&TargetView> = self.targets.values().copied().collect();
        targets.sort_by_key(|target| target.state);
        targets
    }
}

/// Does a status of the sync name this target?
fn writes(sync: &SyncView, namespace: &str) -> bool {
    sync.targets.iter().any(|target| *target.namespace == *namespace)
}

/// What of the accounts and namespaces is shown.
#[derive(Debug)]
pub struct AccountMatrix<'a> {
    pub rows: Vec<AccountRow<'a>>,
    /// Names of namespaces, those with problems first.
    pub columns: Vec<&'a str>,
    pub row_part: PageRange,
    pub column_part: PageRange,
}

#[derive(Debug)]
pub struct AccountRow<'a> {
    pub account: AccountView<'a>,
    pub cells: Vec<AccountCell<'a>>,
}

/// What an account does in a namespace.
#[derive(Debug)]
pub struct AccountCell<'a> {
    pub reads: bool,
    pub writes: Option<&'a TargetView>,
    /// What is known where no status names it.
    pub unnamed: Option<Unnamed>,
    /// It writes the Secret of a ServiceToken there; how the worst is.
    pub keeps: Option<ResourceHealth>,
}

pub fn account_matrix<'a>(
    syncs: &'a [Arc<SyncView>],
    tokens: &'a [Arc<TokenView>],
    search: &AccountQuery,
) -> AccountMatrix<'a> {
    let mut accounts = all(syncs, tokens);
    accounts.retain(|account| is_found(account, &search.q));
    accounts.sort_by_key(|account| !account.has_problem());
    let mut problems: BTreeMap<&'a str, usize> = BTreeMap::new();
    for account in &accounts {
        for name in &account.source_namespaces {
            problems.entry(name).or_default();
        }
        if account.keeps().is_some() {
            problems.entry(account.namespace).or_default();
        }
        for (name, target) in &account.targets {
            *problems.entry(name).or_default() += usize::from(target.state.is_problem());
        }
    }
    let mut columns: Vec<(&str, usize)> = problems.into_iter().collect();
    columns.sort_by_key(|(_, problems)| std::cmp::Reverse(*problems));
    let row_part = PageRange::of(search.row, accounts.len(), ROWS);
    let column_part = PageRange::of(search.column, columns.len(), COLUMNS);
    let shown = columns.into_iter().skip(column_part.page * COLUMNS).take(COLUMNS);
    let columns: Vec<&str> = shown.map(|(name, _)| name).collect();
    let rows = accounts.into_iter().skip(row_part.page * ROWS).take(ROWS);
    let rows = rows.map(|account| row(account, &columns)).collect();
    AccountMatrix { rows, columns, row_part, column_part }
}

fn row<'a>(account: AccountView<'a>, columns: &[&str]) -> AccountRow<'a> {
    let cell = |name: &&str| {
        let writes = account.targets.get(*name).copied();
        AccountCell {
            reads: account.source_namespaces.contains(*name),
            writes,
            unnamed: account.unnamed.filter(|_| writes.is_none()),
            keeps: account.keeps().filter(|_| account.namespace == *name),
        }
    };
    let cells = columns.iter().map(cell).collect();
    AccountRow { account, cells }
}

/// The account of this name, if a sync or a ServiceToken uses it.
pub fn account<'a>(
    syncs: &'a [Arc<SyncView>],
    tokens: &'a [Arc<TokenView>],
    namespace: &str,
    name: &str,
) -> Option<AccountView<'a>> {
    all(syncs, tokens).into_iter().find(|account| account.namespace == namespace && account.name == name)
}

/// What uses an account.
type Users<'a> = (Vec<&'a SyncView>, Vec<&'a TokenView>);

/// In order of their names.
fn all<'a>(syncs: &'a [Arc<SyncView>], tokens: &'a [Arc<TokenView>]) -> Vec<AccountView<'a>> {
    let mut of: BTreeMap<(&str, &str), Users<'_>> = BTreeMap::new();
    // Without an account nothing is copied, and no Secret is written.
    for sync in syncs.iter().filter(|sync| !sync.account.is_empty()) {
        of.entry((&sync.summary.namespace, &sync.account)).or_default().0.push(sync);
    }
    for token in tokens.iter().filter(|token| !token.writer.is_empty()) {
        of.entry((&token.summary.namespace, &token.writer)).or_default().1.push(token);
    }
    of.into_iter().map(|((namespace, name), (syncs, tokens))| made(namespace, name, syncs, tokens)).collect()
}

fn made<'a>(
    namespace: &'a str,
    name: &'a str,
    syncs: Vec<&'a SyncView>,
    tokens: Vec<&'a TokenView>,
) -> AccountView<'a> {
    let mut targets: BTreeMap<&str, &TargetView> = BTreeMap::new();
    for target in syncs.iter().flat_map(|sync| &sync.targets) {
        let worst = targets.entry(&target.namespace).or_insert(target);
        if target.state < worst.state {
            *worst = target;
        }
    }
    let texts = |of: fn(&SyncView) -> &str| -> BTreeSet<&'a str> {
        syncs.iter().map(|sync| of(sync)).filter(|text| !text.is_empty()).collect()
    };
    AccountView {
        namespace,
        name,
        sources: texts(|sync| &sync.source),
        source_namespaces: texts(|sync| &sync.source_namespace),
        targets,
        unnamed: syncs.iter().filter_map(|sync| sync.unnamed()).min(),
        syncs,
        tokens,
    }
}

fn is_found(account: &AccountView<'_>, part: &str) -> bool {
    holds(&format!("{}/{}", account.namespace, account.name), part)
        || account.sources.iter().any(|source| holds(source, part))
        || account.targets.keys().any(|name| holds(name, part))
}

#[cfg(test)]
mod tests;
