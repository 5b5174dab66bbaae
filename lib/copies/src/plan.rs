//! What to do with one target, and with one stale copy. Pure: the whole of the product's promise not to
//! touch what is not ours is in this file.
//!
//! A target is judged twice. First by the metadata from the watch, which in the steady state and after an
//! edit of the source is enough. Where it is not (nothing seen, or content not known), the object itself is
//! read and judged. Every step that writes names the state it was decided on, and the write has that as its
//! precondition.
//!
//! While a resource still has the finalizer of the upstream operator, copies which that operator made for it
//! are taken over ([`TakeOver`]). Nothing is ever deleted because of upstream's ownership labels.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{
    Owner, Ownership, SOURCE_ANNOTATION, UPSTREAM_SOURCE_ANNOTATION, bears_uid, made_by_upstream, ownership,
};
use weaver_api::validate::ValidSync;

use super::copy::{DesiredCopy, is_own_source};
use crate::finalizers::is_upgrading;
use crate::metadata::is_adopted;
use crate::object::Object;
use crate::sources::SpecSource;

/// A state of a copy whose content is known to be that of `digest`, because we wrote or read it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verified {
    pub uid: String,
    pub resource_version: String,
    /// Digest of the desired copy that it equalled then.
    pub digest: String,
    /// Its source, as the copy names it.
    pub source: String,
    /// The resourceVersion that our update replaced, where this is from an update.
    pub replaced: Option<String>,
}

impl Verified {
    /// `meta` is known to match `desired`, after an update of the state `replaced` if there was one.
    pub fn new(meta: &ObjectMeta, desired: &DesiredCopy, replaced: Option<String>) -> Option<Self> {
        Some(Self {
            replaced,
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
            digest: desired.digest.clone(),
            source: desired.source().to_owned(),
        })
    }

    fn is_of(&self, meta: &ObjectMeta) -> bool {
        meta.uid.as_ref() == Some(&self.uid) && meta.resource_version.as_ref() == Some(&self.resource_version)
    }

    /// Is that what our update replaced? Then the watch is late, and the event of the update follows.
    fn has_replaced(&self, meta: &ObjectMeta) -> bool {
        meta.uid.as_ref() == Some(&self.uid)
            && self.replaced.is_some()
            && self.replaced == meta.resource_version
    }

    /// Is that what a watch shows of it, be it late?
    fn is_shown_by(&self, meta: &ObjectMeta) -> bool {
        self.is_of(meta) || self.has_replaced(meta)
    }
}

/// What to do with a target.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyStep {
    /// It is as it should be.
    Keep,
    /// Nothing is there: create, and only create.
    Create,
    /// It is ours, or becomes ours: write over exactly this state of it.
    Update(PreviousOwner, Arc<ObjectMeta>),
    /// It is ours and can only be replaced: delete exactly this state, then create.
    Replace(Arc<ObjectMeta>),
    /// Read the object, then judge again.
    Inspect,
    /// It is not ours. It stays as it is, to the byte.
    Refuse(Foreign),
}

/// Whose an object was that is written over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PreviousOwner {
    Ours,
    /// The upstream operator made it for this resource.
    Upstreams,
    /// Someone else's, with no mark; the spec says `Adopt`.
    Theirs,
}

/// What may become ours. Never a copy of another `ConfigMapSync`, not even of one that is gone: that was asked to leave
/// its copies, or could not remove them, and whether it is gone was never reported to the tenant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes<'a> {
    /// Copies that the upstream operator made for this resource.
    pub upstreams: Option<TakeOver<'a>>,
    /// Whatever carries no mark (`conflictPolicy: Adopt`).
    pub unlabeled: bool,
    /// A copy of ours that the API server does not let be updated may be deleted and made again.
    pub immutable: bool,
}

/// Whose an object is that is in the way.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Foreign {
    /// Made by a user or another tool.
    #[error("an object of this name exists and was not made by this sync")]
    Unlabeled,
    /// The same, and it could only be deleted and made again, which is never done to what is not ours.
    #[error(
        "an object of this name exists, was not made by this sync, and cannot become its copy: \
         it is immutable, or a Secret of another type"
    )]
    Unfit,
    /// Held by another `ConfigMapSync`.
    #[error("it is a copy of {holder}")]
    Other {
        /// The other, in words.
        holder: String,
        uid: String,
    },
    /// It is filled by a `ServiceToken`.
    #[error("it holds the tokens of {0}")]
    Tokens(String),
    /// A source with the ownership labels of its own copies, because it was restored from one.
    #[error("it is labelled as the source of copies")]
    Source,
}

/// An upgrade from the upstream operator that is not finished: exists only while the resource still has its
/// finalizer, and only while the source is the one that upstream has copied.
#[derive(Clone, Copy, Debug)]
pub struct TakeOver<'a>(&'a ValidSync);

impl<'a> TakeOver<'a> {
    /// The upgrade of the resource with this metadata, if there is one.
    pub fn of(spec: &'a ValidSync, resource: &ObjectMeta) -> Option<Self> {
        let pinned = resource.annotations.as_ref()?.get(UPSTREAM_SOURCE_ANNOTATION)?;
        // Nor had it sources that labels select.
        let source = format!("{}/{}", spec.source_namespace, spec.source_name()?);
        // Upstream copied nothing but ConfigMaps.
        let same = spec.source_kind == ObjectKind::CONFIG_MAP && *pinned == source;
        (is_upgrading(resource) && same).then_some(Self(spec))
    }

    /// Did upstream make this object as a copy that the spec still asks for? Its ownership labels are on sources too,
    /// so the object key decides: never in the source's own namespace, and only where the spec wants a copy.
    fn covers(self, owner: &Owner, meta: &ObjectMeta) -> bool {
        let Self(spec) = self;
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { return false };
        let copy = spec.source_name().map(|name| spec.copy_name(name));
        spec.targets.contains(namespace)
            && *namespace != spec.source_namespace
            && Some(name) == copy.as_ref()
            && made_by_upstream(owner, meta)
    }
}

/// What a watch shows of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum SeenCopy {
    /// Nothing reliable: there is no watch, or it is not established.
    Unknown,
    /// No object of ours.
    Nothing,
    Object(Arc<ObjectMeta>),
    /// An object with more metadata than the watch keeps: its identity, and its ownership labels and annotations.
    /// Nothing that is written is built from it.
    Metadata(Arc<ObjectMeta>),
}

impl SeenCopy {
    /// The state that is shown.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Unknown | Self::Nothing => None,
            Self::Object(meta) | Self::Metadata(meta) => meta.resource_version.as_deref(),
        }
    }
}

/// Judges a target by what the watch has seen of it and by what is known of its content.
pub fn by_metadata(desired: &DesiredCopy, seen: &SeenCopy, known: Option<&Verified>) -> CopyStep {
    let meta = match seen {
        SeenCopy::Unknown => return CopyStep::Inspect,
        SeenCopy::Nothing => return CopyStep::Create,
        SeenCopy::Object(meta) | SeenCopy::Metadata(meta) => meta,
    };
    match whose(&desired.owner, desired.kind, meta) {
        Ok(()) => {}
        // The watch shows objects with our label only; what became of this one is judged by itself.
        Err(Foreign::Unlabeled) => return CopyStep::Inspect,
        Err(foreign) => return CopyStep::Refuse(foreign),
    }
    if known.is_some_and(|known| known.digest == desired.digest && known.is_shown_by(meta)) {
        return CopyStep::Keep;
    }
    match known.filter(|known| known.is_of(meta)) {
        Some(_) if matches!(seen, SeenCopy::Metadata(_)) => CopyStep::Inspect,
        // Of other kinds a part of what is there has to stay.
        Some(_) if !desired.kind.is_of_config_map_sync() => CopyStep::Inspect,
        // An immutable copy would refuse the update; then the object is read and replaced.
        Some(_) => CopyStep::Update(PreviousOwner::Ours, meta.clone()),
        None => CopyStep::Inspect,
    }
}

/// Is the target kept as a copy of this digest? As [`by_metadata`], for those who have not read the source.
pub fn is_kept(owner: &Owner, kind: ObjectKind, digest: &str, seen: &SeenCopy, known: &Verified) -> bool {
    let (SeenCopy::Object(meta) | SeenCopy::Metadata(meta)) = seen else { return false };
    whose(owner, kind, meta).is_ok() && known.digest == digest && known.is_shown_by(meta)
}

/// Judges a target by the object itself.
pub fn by_object(desired: &DesiredCopy, takes: Takes<'_>, found: Option<&Object>) -> CopyStep {
    let Some(found) = found else { return CopyStep::Create };
    let fits = desired.fits(found);
    let seen = || Arc::new(found.metadata.clone());
    let is_upstreams =
        || takes.upstreams.is_some_and(|upgrade| upgrade.covers(&desired.owner, &found.metadata));
    match whose(&desired.owner, desired.kind, &found.metadata) {
        Ok(()) if desired.equals(found) => CopyStep::Keep,
        Ok(()) if fits => CopyStep::Update(PreviousOwner::Ours, seen()),
        // It was there before, and would be lost.
        Ok(()) if is_adopted(&found.metadata) => CopyStep::Refuse(Foreign::Unfit),
        Ok(()) => CopyStep::Replace(seen()),
        Err(Foreign::Unlabeled) if fits && is_upstreams() => {
            CopyStep::Update(PreviousOwner::Upstreams, seen())
        }
        Err(Foreign::Unlabeled) if fits && takes.unlabeled => CopyStep::Update(PreviousOwner::Theirs, seen()),
        Err(Foreign::Unlabeled) if takes.unlabeled => CopyStep::Refuse(Foreign::Unfit),
        Err(foreign) => CopyStep::Refuse(foreign),
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StaleCopy {
    /// A copy of ours, to be removed.
    Ours,
    /// The upstream operator made it for this resource. It stays, and is worth a word.
    Upstreams,
    /// Not ours. It stays.
    Others,
}

/// Judges an object of `kind` at a key where `owner` no longer wants a copy. A `source` that the spec names is never
/// removed, whatever labels someone put on it; where the spec selects sources by label, no object is removed that does
/// not name the source it is a copy of.
pub fn stale_copy(owner: &Owner, source: &SpecSource, kind: ObjectKind, meta: &ObjectMeta) -> StaleCopy {
    let says_of_which = || meta.annotations.iter().flatten().any(|(key, _)| key == SOURCE_ANNOTATION);
    let may_be_selected = source.is_selected
        && !says_of_which()
        && kind.is_same(source.kind)
        && meta.namespace == source.namespace;
    let is_source = source.names(kind, meta) || may_be_selected;
    // In the source's namespace upstream made no copies, it only marked the source.
    let may_be_upstreams = kind == ObjectKind::CONFIG_MAP && meta.namespace != source.namespace;
    match whose(owner, kind, meta) {
        // One of the same name that is gone may have been asked to leave it.
        Ok(()) if !is_source && bears_uid(owner, meta) => StaleCopy::Ours,
        Err(Foreign::Unlabeled) if may_be_upstreams && made_by_upstream(owner, meta) => StaleCopy::Upstreams,
        _ => StaleCopy::Others,
    }
}

/// Why a copy that cannot be updated is not deleted to be made again, whatever its policy says.
pub fn keeps_from_replacing(desired: &DesiredCopy, seen: &ObjectMeta) -> Option<&'static str> {
    if is_adopted(seen) || !bears_uid(&desired.owner, seen) {
        return Some("it was there before this resource, so it is not replaced");
    }
    let is_claim = (desired.kind.group(), desired.kind.as_str()) == ("", "PersistentVolumeClaim");
    is_claim.then_some("its data would be lost, so it is not replaced")
}

/// Is it ours by our ownership labels; and if not, who owns it?
fn whose(owner: &Owner, kind: ObjectKind, meta: &ObjectMeta) -> Result<(), Foreign> {
    if is_own_source(kind, meta) {
        return Err(Foreign::Source);
    }
    match ownership(owner, meta) {
        Ownership::Ours => Ok(()),
        Ownership::Unlabeled => Err(Owner::of_tokens(meta).map_or(Foreign::Unlabeled, |owner| {
            Foreign::Tokens(format!("ServiceToken {}/{}", owner.namespace, owner.name))
        })),
        Ownership::Other { holder, uid } => Err(Foreign::Other { holder, uid }),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod take_over_tests;
