//! What is kept of the objects that a watch shows, and whose resource is woken when one changes.
//!
//! Who may write an object decides how large its metadata is, up to 256 KiB. Kept whole is that of a copy which the
//! tenant's own resources made, and of a single object, up to [`WHOLE`]: an update is built from it. Of
//! everything else the ownership labels and annotations are kept: they say whose an object is, and before a
//! write it is read.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{
    LONGEST_MARK, Owner, SOURCE_ANNOTATION, SYNC_ANNOTATION, SYNC_UID_LABEL, TOKEN_ANNOTATION,
    is_service_token,
};
use weaver_tenant::watch::{Concerned, Consumer, Sight, Triggers, WatchKey, WatchLimits, WatchSelector};

use super::resource::ResourceRef;
use weaver_copies::object::Object;
use weaver_copies::plan::SeenCopy;

/// Metadata up to this size is kept whole; that of an ordinary copy is a tenth of it.
const WHOLE: usize = 4 * 1_024;

/// What an object costs besides its metadata.
const EACH: usize = 256;

/// What the watches of one controller may use for one tenant namespace; there are three controllers.
pub const LIMITS: WatchLimits = WatchLimits {
    // One resource with all its thousand targets in namespaces that each grant their Role, a thousand resources with a
    // source each, or 32 that merge 32 sources each. With its resource a watch at rest takes some 14 KiB.
    watches: 1_024,
    // Eighteen thousand copies, and an eighth of the memory that deploy/kubernetes gives the operator.
    bytes: 16 << 20,
    // Eleven thousand copies.
    bytes_each: 10 << 20,
    lists: 4,
};

/// The watches of a controller of ours, on copies and sources.
pub struct CopyWatches {
    triggers: Triggers<ResourceRef>,
}

impl CopyWatches {
    /// Resources are woken by these `triggers`.
    pub fn new(triggers: Triggers<ResourceRef>) -> Self {
        Self { triggers }
    }

    /// All that carry our label.
    pub fn selector() -> WatchSelector {
        WatchSelector::Labels(SYNC_UID_LABEL.to_owned())
    }
}

impl Consumer for CopyWatches {
    type Object = Object;
    type Kept = WatchedObject;
    type User = ResourceRef;

    /// Whole only what an update may be built from: a copy that a resource of this tenant made, and the one
    /// object that is watched by its name.
    fn keep(&self, watch: &WatchKey<ObjectKind>, meta: ObjectMeta) -> WatchedObject {
        let is_ours = || Owner::of(&meta).is_some_and(|owner| owner.namespace == watch.account.namespace);
        let may_be_whole = matches!(watch.selector, WatchSelector::Name(_)) || is_ours();
        WatchedObject::of(meta, may_be_whole)
    }

    fn bytes(&self, held: &WatchedObject) -> usize {
        held.bytes()
    }

    /// Whom a copy's ownership labels and annotations name; all, where it is a source. Where all objects of a namespace
    /// are watched for the sake of some, those who wait for this one.
    fn concerned(&self, watch: &WatchKey<ObjectKind>, held: &WatchedObject) -> Concerned<ResourceRef> {
        match watch.selector {
            WatchSelector::All => return Concerned::These(Vec::new()),
            _ if is_on_sources(watch) => return Concerned::All,
            _ => {}
        }
        let owner = Owner::of(&held.meta());
        let owner = owner.map(|owner| ResourceRef { namespace: owner.namespace, name: owner.name });
        Concerned::These(owner.into_iter().collect())
    }

    fn wake(&self, resource: ResourceRef) {
        self.triggers.fire(resource);
    }
}

/// Is it on sources, and not on copies?
pub fn is_on_sources(watch: &WatchKey<ObjectKind>) -> bool {
    watch.selector != CopyWatches::selector()
}

/// What is kept of an object: its metadata as JSON, one text in the place of many.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedObject {
    json: Arc<str>,
    whole: bool,
    /// Of the text that says whose copy it is: found among ten thousand without a look at each text.
    owner: u64,
}

impl WatchedObject {
    /// Of the object with this metadata.
    pub fn of(meta: ObjectMeta, may_be_whole: bool) -> Self {
        let owner = meta.annotations.as_ref().and_then(|all| all.get(SYNC_ANNOTATION));
        let owner = hash(owner.map_or("", String::as_str));
        let all = Some(json(&meta)).filter(|all| may_be_whole && all.len() <= WHOLE);
        let whole = all.is_some();
        Self { json: all.unwrap_or_else(|| json(&ownership_only(meta))).into(), whole, owner }
    }

    /// What is kept of the metadata.
    #[expect(clippy::expect_used, reason = "it was written by the same types")]
    pub fn meta(&self) -> ObjectMeta {
        serde_json::from_str(&self.json).expect("metadata is read as it was written")
    }

    /// Which objects may be copies of this owner? All others are none.
    pub fn may_be_of(owner: &Owner) -> impl Fn(&Self) -> bool + use<> {
        let owner = hash(&owner.to_string());
        move |held| held.owner == owner
    }

    fn seen(&self) -> SeenCopy {
        let meta = Arc::new(self.meta());
        if self.whole { SeenCopy::Object(meta) } else { SeenCopy::Metadata(meta) }
    }

    fn bytes(&self) -> usize {
        EACH + self.json.len()
    }
}

/// What a watch shows of an object.
pub fn seen(sight: &Sight<WatchedObject>) -> SeenCopy {
    match sight {
        Sight::Unknown => SeenCopy::Unknown,
        Sight::Absent => SeenCopy::Nothing,
        Sight::Present(held) => held.seen(),
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[expect(clippy::expect_used, reason = "metadata has no key that is not a string")]
fn json(meta: &ObjectMeta) -> String {
    serde_json::to_string(meta).expect("metadata is JSON")
}

/// Enough to tell which state of which object it is, and whose.
fn ownership_only(meta: ObjectMeta) -> ObjectMeta {
    let kept = |map: Option<BTreeMap<String, String>>, keys: &[&str]| {
        let mut map = map?;
        map.retain(|key, value| keys.contains(&key.as_str()) && value.len() <= LONGEST_MARK);
        Some(map)
    };
    let token = |owners: Vec<_>| owners.into_iter().find(is_service_token);
    ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        deletion_timestamp: meta.deletion_timestamp,
        labels: kept(meta.labels, &[SYNC_UID_LABEL]),
        annotations: kept(meta.annotations, &[SYNC_ANNOTATION, SOURCE_ANNOTATION, TOKEN_ANNOTATION]),
        owner_references: meta.owner_references.and_then(token).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
