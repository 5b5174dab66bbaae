//! A kind of namespaced objects, as the API server serves it: what a resource of ours copies.
//!
//! A [`ObjectKind`] is one word, so that the key of an object stays small. Each is kept once, for the life of the
//! process: there are as many as the API server has served kinds that resources name, and only its administrators add
//! to those.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::v1beta1::SourceKind;

/// The names that identify a kind.
#[derive(Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct KindNames {
    group: &'static str,
    kind: &'static str,
    version: &'static str,
    plural: &'static str,
}

/// A kind at one version.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectKind(&'static KindNames);

/// All kinds that were ever made.
static KNOWN: Mutex<BTreeSet<&'static KindNames>> = Mutex::new(BTreeSet::new());

impl ObjectKind {
    /// `ConfigMap`, of the core group.
    pub const CONFIG_MAP: Self =
        Self(&KindNames { group: "", kind: "ConfigMap", version: "v1", plural: "configmaps" });

    /// `Secret`, of the core group.
    pub const SECRET: Self = Self(&KindNames { group: "", kind: "Secret", version: "v1", plural: "secrets" });

    /// What a `ConfigMapSync` copies.
    pub const OF_CONFIG_MAP_SYNC: [Self; 2] = [Self::CONFIG_MAP, Self::SECRET];

    /// The kind that an API server serves under these names; `group` is empty for the core group.
    pub fn served(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let is_it = |known: &KindNames| {
            (known.group, known.version, known.kind, known.plural) == (group, version, kind, plural)
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = Self::OF_CONFIG_MAP_SYNC.iter().map(|kind| kind.0).chain(known.iter().copied());
        if let Some(names) = { all }.find(|known| is_it(known)) {
            return Self(names);
        }
        let kept = |text: &str| -> &'static str { Box::leak(text.into()) };
        let names = Box::leak(Box::new(KindNames {
            group: kept(group),
            kind: kept(kind),
            version: kept(version),
            plural: kept(plural),
        }));
        known.insert(names);
        Self(names)
    }

    /// The API group; empty for the core group.
    pub fn group(self) -> &'static str {
        self.0.group
    }

    /// The version at which its objects are read and written.
    pub fn version(self) -> &'static str {
        self.0.version
    }

    /// Its name in manifests.
    pub fn as_str(self) -> &'static str {
        self.0.kind
    }

    /// Its name in paths and Roles.
    pub fn plural(self) -> &'static str {
        self.0.plural
    }

    /// Group and version as manifests have them: `v1`, `apps/v1`.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// Are the same objects of both, be it at another version?
    pub fn is_same(self, other: Self) -> bool {
        (self.group(), self.as_str()) == (other.group(), other.as_str())
    }

    /// Does a `ConfigMapSync` copy it?
    pub fn is_of_config_map_sync(self) -> bool {
        Self::OF_CONFIG_MAP_SYNC.contains(&self)
    }

    /// Several of its objects, in words.
    pub fn several(self) -> String {
        match self.group() {
            "" if self.is_of_config_map_sync() => format!("{self}s"),
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }
}

impl From<SourceKind> for ObjectKind {
    fn from(kind: SourceKind) -> Self {
        match kind {
            SourceKind::ConfigMap => Self::CONFIG_MAP,
            SourceKind::Secret => Self::SECRET,
        }
    }
}

/// `KIND` of the core group, otherwise `KIND.GROUP`: `Secret`, `Deployment.apps`.
impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group().is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.as_str(), self.group())
    }
}

/// `APIVERSION KIND`, with the version that `Display` leaves out: `v1 Secret`, `apps/v1 Deployment`.
impl fmt::Debug for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_kept_once_and_its_versions_are_distinguished() {
        let of = |version| ObjectKind::served("apps", version, "Deployment", "deployments");
        assert!(std::ptr::eq(of("v1").0, of("v1").0));
        assert!(of("v1") != of("v1beta1") && of("v1").is_same(of("v1beta1")));
        assert!(!of("v1").is_same(ObjectKind::served("", "v1", "Deployment", "deployments")));
        assert_eq!(ObjectKind::served("", "v1", "Secret", "secrets"), ObjectKind::from(SourceKind::Secret));
        assert_eq!(
            format!("{} {:?} {}", of("v1"), of("v1"), of("v1").several()),
            "Deployment.apps apps/v1 Deployment deployments.apps"
        );
        assert_eq!(format!("{} {}", ObjectKind::SECRET, ObjectKind::SECRET.several()), "Secret Secrets");
    }
}
