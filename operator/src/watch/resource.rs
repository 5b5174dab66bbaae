//! Resources of ours, as our watches take and wake them.

use std::fmt;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use weaver_tenant::watch::Triggers;

/// A resource of ours, named.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceRef {
    pub namespace: String,
    pub name: String,
}

impl ResourceRef {
    pub fn of(resource: &impl Resource) -> Self {
        Self::of_meta(resource.meta())
    }

    /// The reference to the resource with this metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        Self { namespace: part(&meta.namespace), name: part(&meta.name) }
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is due, forever, in the form that kube's `Controller` takes.
pub fn due<K>(triggers: &Triggers<ResourceRef>) -> impl Stream<Item = ObjectRef<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + 'static,
{
    triggers.stream().map(|due| ObjectRef::new(&due.name).within(&due.namespace))
}
