//! A `ConfigMapSync` that keeps all rules, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::kind::ObjectKind;
use crate::pattern;
use crate::v1beta1::{
    ConflictPolicy, DeletionPolicy, ImmutablePolicy, Keys, Merge, Selector, SourceDeletionPolicy,
};

/// A spec that keeps all rules, in the form that the operator executes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidSync {
    /// `ServiceAccount` of the resource's own namespace.
    pub account: String,
    /// Kind of the source, and of the copies.
    pub source_kind: ObjectKind,
    /// Namespace of the source.
    pub source_namespace: String,
    /// What is copied of that kind and namespace.
    pub sources: Sources,
    /// What the copies are called.
    pub copy_names: CopyNames,
    /// Namespaces that get a copy because they are named: without the excluded ones and, where the copy would
    /// be a source itself, without the source's own. Patterns and selector may add others.
    pub targets: BTreeSet<String>,
    /// The source's own namespace was left out of [`Self::targets`]: the object of that name there *is* the
    /// source, or may become one, and a source is never written.
    pub names_source_namespace: bool,
    /// Namespaces whose names match one of these get a copy too.
    pub patterns: BTreeSet<String>,
    /// Namespaces with these labels get a copy too.
    pub selector: Option<Selector>,
    /// Namespaces that get none, whatever patterns and selector say.
    pub exclude: BTreeSet<String>,
    /// Labels that the copies carry besides the source's; none is reserved.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the copies carry besides the source's; none is reserved.
    pub annotations: BTreeMap<String, String>,
    /// Which keys are copied and under what names. Of the keys mentioned no two get one name; where `include`
    /// is empty, a key of the source that is not mentioned may still have the name that another one is given.
    pub keys: Keys,
    /// All sources make one copy, whose name is fixed.
    pub merge: Option<Merge>,
    /// What happens where an unlabeled object of that name exists.
    pub conflict_policy: ConflictPolicy,
    /// What happens to a copy that cannot be updated, because it is immutable; that of a `ConfigMapSync` is replaced.
    pub immutable_policy: ImmutablePolicy,
    /// What happens to the copies when the source is deleted.
    pub source_deletion_policy: SourceDeletionPolicy,
    /// What happens to the copies when the resource is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Time after which everything is compared again: 60 s to a day, in steps of 10 s.
    pub resync: Duration,
    /// Nothing is written.
    pub suspend: bool,
    /// Nothing is written, only reported.
    pub dry_run: bool,
}

/// The sources: one by name, several by their names, or all with certain labels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sources {
    /// The object of this name.
    Named(String),
    /// The objects of these names, of which there is at least one, in their order. They are merged.
    Listed(Vec<String>),
    /// Those with these labels, of which there is at least one, that are no copies themselves.
    Selected(Selector),
}

/// What copies are called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CopyNames {
    /// Every copy has this name.
    Fixed(String),
    /// Like the source, between these two, which may be empty.
    Around(String, String),
}

impl ValidSync {
    /// Name of the source, where it is named.
    pub fn source_name(&self) -> Option<&str> {
        match &self.sources {
            Sources::Named(name) => Some(name),
            Sources::Listed(_) | Sources::Selected(_) => None,
        }
    }

    /// Names of the sources, where they are named; else none.
    pub fn source_names(&self) -> &[String] {
        match &self.sources {
            Sources::Named(name) => std::slice::from_ref(name),
            Sources::Listed(names) => names,
            Sources::Selected(_) => &[],
        }
    }

    /// Is a merged copy made without a source that does not exist? One that is selected and gone does not count, nor does
    /// one that is named where what came of it is to go with it.
    pub fn merges_without_missing(&self) -> bool {
        matches!(self.sources, Sources::Selected(_))
            || self.source_deletion_policy == SourceDeletionPolicy::Delete
    }

    /// Name of the copy that all sources make together.
    pub fn merged_name(&self) -> Option<&str> {
        match (&self.merge, &self.copy_names) {
            (Some(_), CopyNames::Fixed(name)) => Some(name),
            _ => None,
        }
    }

    /// Name of the copies of the source `name`. It may be longer than a name may be.
    pub fn copy_name(&self, name: &str) -> String {
        match &self.copy_names {
            CopyNames::Fixed(copy) => copy.clone(),
            CopyNames::Around(prefix, suffix) => format!("{prefix}{name}{suffix}"),
        }
    }

    /// Name of the source whose copies have the name `copy`, if there can be one.
    pub fn source_of<'a>(&'a self, copy: &'a str) -> Option<&'a str> {
        let source = match &self.copy_names {
            CopyNames::Fixed(_) => self.source_name()?,
            CopyNames::Around(prefix, suffix) => copy.strip_prefix(&**prefix)?.strip_suffix(&**suffix)?,
        };
        let is_named = self.source_name().is_none_or(|name| name == source);
        (is_named && !source.is_empty() && self.copy_name(source) == copy).then_some(source)
    }

    /// Does the source's own namespace never get a copy? Not where a copy would be the source; nor, of sources that
    /// labels select, where a copy with the source's labels could be taken for one.
    pub fn spares_own_namespace(&self) -> bool {
        let is_source = |name: &String| self.copy_name(name) == *name;
        matches!(self.sources, Sources::Selected(_)) || self.source_names().iter().any(is_source)
    }

    /// Are there targets that it does not name?
    pub fn has_selection(&self) -> bool {
        self.selector.is_some() || !self.patterns.is_empty()
    }

    /// Does a pattern match this name?
    pub fn matches(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern::matches(pattern, name))
    }
}
