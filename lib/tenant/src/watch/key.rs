//! Which watch it is, and how it is doing.

use crate::account::Account;

/// Which objects of a kind are watched.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WatchSelector {
    /// All objects of the kind.
    All,
    /// Those that a label selector selects, in the words of the API.
    Labels(String),
    /// The one of this name. A Role that grants `list` and `watch` with `resourceNames` is enough for it.
    Name(String),
}

impl WatchSelector {
    /// Bytes of a label selector, in the key of the watch and in its requests.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Labels(selector) => 2 * selector.len(),
            Self::All | Self::Name(_) => 0,
        }
    }
}

/// Identity of a watch. The account's uid is part of it: a recreated account gets new watches.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct WatchKey<D> {
    /// The account whose rights the watch has.
    pub account: Account,
    /// Uid of that account.
    pub uid: String,
    /// On objects of this kind.
    pub kind: D,
    /// Where; `None`: in all namespaces, or of a kind that has none.
    pub namespace: Option<String>,
    /// On which of them.
    pub selector: WatchSelector,
}

/// How a watch is doing.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WatchState {
    /// Its first list has not ended yet.
    Listing,
    /// What it shows is complete.
    Up,
    /// 403: the account may not `list` or `watch` here.
    Refused,
    /// There is more than may be kept, or than is read of one answer. It keeps nothing, and is tried again
    /// after minutes.
    TooLarge,
    /// It fails for another reason, and is tried again.
    Failed,
}

/// What an object is to a watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sight<T> {
    /// The watch is not up: what it knew last may be long gone.
    Unknown,
    /// There is none that it shows.
    Absent,
    /// This is kept of it.
    Present(T),
}
