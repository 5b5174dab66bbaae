//! Which watch it is, and how it is doing.

use weaver_api::v1beta1::SourceKind;

use crate::tenant::Account;

/// What a watch is on; always metadata.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum What {
    /// Everything there that carries our label.
    Copies,
    /// One object by name, so that a Role with `resourceNames` is enough.
    Object(String),
}

/// Identity of a watch. The account's uid is part of it: a recreated account gets new watches.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WatchKey {
    /// As whom.
    pub account: Account,
    /// Uid of that account.
    pub uid: String,
    /// On objects of this kind.
    pub kind: SourceKind,
    /// Where; `None`: in all namespaces.
    pub namespace: Option<String>,
    /// On which of them.
    pub what: What,
}

/// How a watch is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WatchState {
    /// Not answered yet.
    Opening,
    /// Established: what it knows is complete.
    Synced,
    /// 403: the tenant may not `list` or `watch` here.
    Refused,
    /// It shows more than the tenant's watches may keep. It keeps nothing, and is tried again after minutes.
    Full,
    /// Failing for another reason, tried again.
    Failing,
}
