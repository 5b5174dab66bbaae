//! Which of the rights that some work needs are missing, asked by a `SelfSubjectAccessReview` for each.
//!
//! A review explains a refusal that has happened, or spares one. It allows nothing: the API server judges each request
//! again. It is asked as the account itself, so no answer tells a tenant more than it could find out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use weaver_client::call::{CallError, call};

/// Questions in flight at once.
const CONCURRENCY: usize = 8;

/// A resource as rules of RBAC name it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, in lower case.
    pub resource: String,
}

impl GroupResource {
    /// Group and plural of `kind`, as the API server lists them.
    #[must_use]
    pub fn of<K: Resource>(kind: &K::DynamicType) -> Self {
        Self { group: K::group(kind).into_owned(), resource: K::plural(kind).into_owned() }
    }
}

/// Shown as RBAC messages do: `secrets`, `networkpolicies.networking.k8s.io`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.resource, self.group)
    }
}

/// A verb on a resource.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Access {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: Cow<'static, str>,
    /// Resource on which the verb acts.
    pub resource: GroupResource,
    /// In which namespace; `None`: in all of them.
    pub namespace: Option<String>,
    /// On the object of this name; `None`: on all of them.
    pub name: Option<String>,
}

impl From<&Access> for ResourceAttributes {
    fn from(access: &Access) -> Self {
        Self {
            group: Some(access.resource.group.clone()),
            resource: Some(access.resource.resource.clone()),
            // Empty, both mean all.
            namespace: Some(access.namespace.clone().unwrap_or_default()),
            name: access.name.clone(),
            verb: Some(access.verb.clone().into_owned()),
            ..Self::default()
        }
    }
}

/// `list secrets in namespace foo`, `get configmaps "settings" in all namespaces`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => f.write_str(" in all namespaces"),
        }
    }
}

/// Those of `needed` that the client's own identity does not have, in a stable order. Whatever is known as
/// [`ResourceAttributes`] can be asked for: [`Access`], or a program's own type.
///
/// # Errors
/// If the API server cannot be asked.
pub async fn missing<R>(client: &Client, needed: Vec<R>) -> Result<BTreeSet<R>, CallError>
where
    R: Ord,
    for<'a> ResourceAttributes: From<&'a R>,
{
    let reviews: &Api<SelfSubjectAccessReview> = &Api::all(client.clone());
    denied(needed, |attributes| async move {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = call(reviews.create(&PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    })
    .await
}

/// Those of `needed` of which `ask` says that they are not allowed, in a stable order. For who asks in another way, as
/// by a `SubjectAccessReview` about someone else.
///
/// # Errors
/// The first of `ask`'s.
pub async fn denied<R, E, F>(needed: Vec<R>, ask: impl Fn(ResourceAttributes) -> F) -> Result<BTreeSet<R>, E>
where
    R: Ord,
    for<'a> ResourceAttributes: From<&'a R>,
    F: Future<Output = Result<bool, E>>,
{
    stream::iter(needed)
        .map(|access| {
            let allowed = ask(ResourceAttributes::from(&access));
            async move { Ok((!allowed.await?).then_some(access)) }
        })
        .buffer_unordered(CONCURRENCY)
        .try_filter_map(|access| async move { Ok(access) })
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

    use super::*;

    fn access(verb: &'static str, namespace: Option<&str>, name: Option<&str>) -> Access {
        let policies =
            ApiResource::from_gvk(&GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy"));
        Access {
            verb: verb.into(),
            resource: GroupResource::of::<DynamicObject>(&policies),
            namespace: namespace.map(Into::into),
            name: name.map(Into::into),
        }
    }

    #[tokio::test]
    async fn what_is_denied_is_named_in_a_stable_order() {
        let needed = vec![
            access("watch", Some("foo"), None),
            access("list", None, None),
            access("get", Some("foo"), Some("a")),
        ];
        let denied = denied(needed, |attributes| async move {
            assert_eq!(attributes.group.as_deref(), Some("networking.k8s.io"));
            Ok::<_, CallError>(attributes.verb.as_deref() == Some("watch"))
        });
        let denied: Vec<String> = denied.await.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            denied,
            [
                "get networkpolicies.networking.k8s.io \"a\" in namespace foo",
                "list networkpolicies.networking.k8s.io in all namespaces",
            ]
        );
    }
}
