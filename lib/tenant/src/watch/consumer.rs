//! What a program makes of its watches.

use std::fmt::Debug;
use std::hash::Hash;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicResourceScope;
use serde::de::DeserializeOwned;

use super::key::WatchKey;

/// Type of what distinguishes kinds: `ApiResource` for a `DynamicObject`.
pub type KindOf<C> = <<C as Consumer>::Object as Resource>::DynamicType;

/// Who is woken by a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Concerned<U> {
    /// Each user of the watch.
    All,
    /// Those of its users that are among these.
    These(Vec<U>),
}

/// What is kept of the objects that a [`WatchSet`](super::WatchSet) shows, and who is woken when one changes.
pub trait Consumer: Send + Sync + 'static {
    /// What is watched: `kube::core::DynamicObject`, or a type of the program's own. Only metadata is read.
    type Object: Resource<Scope = DynamicResourceScope, DynamicType: Clone + Debug + Eq + Hash + Send + Sync>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static;
    /// What is kept of an object. A change that leaves it as it was wakes no user.
    type Kept: Clone + PartialEq + Send + 'static;
    /// Who uses watches: the key of what a controller reconciles.
    type User: Clone + Ord + Send + 'static;

    /// What is kept of an object that `watch` shows. Who may write the object decides how large its metadata is, up to
    /// 256 KiB: keep what is needed.
    fn keep(&self, watch: &WatchKey<KindOf<Self>>, meta: ObjectMeta) -> Self::Kept;

    /// What that takes of memory, in bytes, with all that belongs to it.
    fn bytes(&self, kept: &Self::Kept) -> usize;

    /// Whom a change of the object concerns. Asked of what it was and of what it is now.
    fn concerned(&self, watch: &WatchKey<KindOf<Self>>, kept: &Self::Kept) -> Concerned<Self::User> {
        let _ = (watch, kept);
        Concerned::All
    }

    /// Has `user` reconciled. Called under a lock: it only takes note, as
    /// [`Triggers::fire`](super::Triggers::fire) does.
    fn wake(&self, user: Self::User);
}
