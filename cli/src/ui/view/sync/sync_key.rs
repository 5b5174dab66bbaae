//! Which sync a page is about.

use std::fmt;

use crate::resource::kind::Kind;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SyncKind {
    ConfigMap,
    Resource,
}

impl From<SyncKind> for Kind {
    fn from(kind: SyncKind) -> Self {
        match kind {
            SyncKind::ConfigMap => Self::ConfigMapSync,
            SyncKind::Resource => Self::ResourceSync,
        }
    }
}

impl SyncKind {
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Resource];

    pub fn of(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == kind)
    }

    pub fn name(self) -> &'static str {
        Kind::from(self).name()
    }

    /// The first part of the address of its page.
    pub fn path(self) -> &'static str {
        match self {
            Self::ConfigMap => "syncs",
            Self::Resource => "resources",
        }
    }
}

/// Which sync: there may be one of each kind in a namespace under one name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SyncKey {
    pub kind: SyncKind,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for SyncKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
