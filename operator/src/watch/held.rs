//! What is kept of the objects that a watch shows, how many watches a tenant may have, and what all of them may keep together.
//!
//! Whoever may write an object decides how large its metadata is, up to 256 KiB. Kept whole is that of a copy which the
//! tenant's own resources made, and of a single object, up to [`WHOLE`]: an update is built from it. Of everything else the
//! ownership labels and annotations are kept: they say whose an object is, and before a write it is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::Semaphore;
use weaver_api::marks::{
    SOURCE_ANNOTATION, SYNC_ANNOTATION, SYNC_UID_LABEL, TOKEN_ANNOTATION, is_service_token,
};

use crate::sync::plan::Seen;

/// Namespace and name of an object.
pub type Spot = (String, String);

/// Metadata up to this size is kept whole; that of an ordinary copy is a tenth of it.
const WHOLE: usize = 4 * 1_024;

/// A longer value of an ownership annotation is none of ours: two names and a uid are 550 bytes.
const LONGEST_MARK: usize = 1_024;

/// What an object costs besides its texts.
const EACH: usize = 1_024;

/// What the watches of one tenant namespace may keep, in bytes: ten thousand copies, and an eighth of the memory that
/// deploy/kubernetes gives the operator.
pub const MOST_BYTES: usize = 16 << 20;

/// What one watch of them may keep: six thousand copies, about as many as fit into a list. Who may write where a tenant copies
/// decides how much a watch shows there; the rest is left for the tenant's other watches.
pub const MOST_BYTES_EACH: usize = 10 << 20;

/// Most watches of the accounts of one namespace: one resource with all its thousand targets in namespaces that each grant
/// their Role, or a thousand resources with a source each. A watch costs some 40 KiB.
pub const MOST_WATCHES: usize = 1_024;

/// Lists of one tenant namespace at once. Each may be as large as an answer may be, and is in memory twice while it is read.
const LISTS: usize = 4;

/// What all watches of one tenant namespace use together.
pub struct Share {
    bytes: AtomicUsize,
    /// How many watches there are.
    pub watches: AtomicUsize,
    /// One permit per list.
    pub lists: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            lists: Arc::new(Semaphore::new(LISTS)),
        }
    }
}

impl Share {
    /// Are there as many watches as there may be? Those that are refused count as well: each is tried again and again, and
    /// which ones a tenant asks for follows from its specs alone, so this tells it nothing of namespaces.
    #[must_use]
    pub fn has_most_watches(&self) -> bool {
        self.watches.load(Ordering::Relaxed) >= MOST_WATCHES
    }
}

/// What is kept of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Its metadata.
    pub meta: Arc<ObjectMeta>,
    whole: bool,
}

impl Held {
    /// Of the object with this metadata. `managedFields`, often half of it, is never read.
    #[must_use]
    pub fn of(mut meta: ObjectMeta, may_be_whole: bool) -> Self {
        meta.managed_fields = None;
        let whole = may_be_whole && size(&meta) <= WHOLE;
        Self { meta: Arc::new(if whole { meta } else { marks(meta) }), whole }
    }

    /// What a watch shows by it.
    #[must_use]
    pub fn seen(&self) -> Seen {
        if self.whole { Seen::Object(self.meta.clone()) } else { Seen::Marks(self.meta.clone()) }
    }

    fn bytes(&self) -> usize {
        EACH + size(&self.meta)
    }
}

/// Enough to tell which state of which object it is, and whose.
fn marks(meta: ObjectMeta) -> ObjectMeta {
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

/// Bytes of all texts of which there may be many.
fn size(meta: &ObjectMeta) -> usize {
    let maps = [&meta.labels, &meta.annotations].into_iter().flatten().flatten();
    let maps: usize = maps.map(|(key, value)| key.len() + value.len()).sum();
    let finalizers: usize = meta.finalizers.iter().flatten().map(String::len).sum();
    let owners = meta.owner_references.iter().flatten();
    let owners =
        owners.map(|owner| owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len());
    maps + finalizers + owners.sum::<usize>() + meta.generate_name.as_ref().map_or(0, String::len)
}

/// The tenant's watches hold as much as they may.
#[derive(Debug, PartialEq)]
pub struct TooMuch;

/// The objects of one watch. What they use of the share is given back when they go.
pub struct Objects {
    share: Arc<Share>,
    bytes: usize,
    held: BTreeMap<Spot, Held>,
}

impl Objects {
    /// None.
    #[must_use]
    pub fn new(share: Arc<Share>) -> Self {
        Self { share, bytes: 0, held: BTreeMap::new() }
    }

    /// Puts an object at its place; gives back what was there.
    ///
    /// # Errors
    /// If the share is used up, or the watch's part of it. What the objects use that these `replace` does not count.
    pub fn put(&mut self, spot: Spot, object: Held, replace: usize) -> Result<Option<Held>, TooMuch> {
        let before = self.remove(&spot);
        let bytes = object.bytes();
        let all = self.share.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes += bytes;
        self.held.insert(spot, object);
        let fits = all.saturating_sub(replace) <= MOST_BYTES && self.bytes <= MOST_BYTES_EACH;
        if fits { Ok(before) } else { Err(TooMuch) }
    }

    /// Takes an object away.
    pub fn remove(&mut self, spot: &Spot) -> Option<Held> {
        let before = self.held.remove(spot)?;
        self.give_back(before.bytes());
        Some(before)
    }

    /// What they use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The object at a place.
    #[must_use]
    pub fn get(&self, spot: &Spot) -> Option<&Held> {
        self.held.get(spot)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Takes all away.
    pub fn clear(&mut self) {
        self.held.clear();
        self.give_back(self.bytes);
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.share.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
