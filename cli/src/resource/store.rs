//! The objects of one kind in a cluster, with the rights of the user.
//!
//! A refusal of the API server is reported in its own words, with the next step where there is one.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::core::{DynamicObject, Status};
use kube::{Api, Client};
use serde_json::{Value, json};
use weaver_client::{Error, Objects, Refusal, Why};
use weaver_diagnostics::finding_text::clean;

use super::kind::Kind;
use crate::connection;

/// The field manager of other writes: `apply` has its own, by which it knows the fields it once set.
const EDITOR: &str = "weaver-edit";
/// The same for applying.
const APPLIER: &str = "weaver";
/// For an answer: longer than the API server's own limit.
const DEADLINE: Duration = Duration::from_secs(70);

/// The objects of a kind in one namespace, or in all.
pub struct Store {
    pub kind: Kind,
    /// `None` means all.
    pub namespace: Option<String>,
    pub objects: Objects<DynamicObject>,
    client: Client,
}

impl Store {
    /// In `namespace`, else in that of the kubeconfig's context.
    pub async fn connect(kind: Kind, namespace: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self::by(&connection::client().await?, kind, namespace))
    }

    /// The same by this client.
    pub fn by(client: &Client, kind: Kind, namespace: Option<&str>) -> Self {
        let namespace = namespace.map_or_else(|| client.default_namespace().to_owned(), str::to_owned);
        Self::all(kind, client).at(kind, Some(&namespace))
    }

    /// All objects of the kind, in the cluster of this client.
    pub fn all(kind: Kind, client: &Client) -> Self {
        let resource = kind.resource();
        let objects = Objects::with(Api::all_with(client.clone(), &resource), EDITOR, &resource);
        Self { kind, namespace: None, objects: objects.deadline(DEADLINE), client: client.clone() }
    }

    /// The same cluster, another kind and namespace; `None` means all namespaces.
    pub fn at(&self, kind: Kind, namespace: Option<&str>) -> Self {
        let all = Self::all(kind, &self.client);
        Self { namespace: namespace.map(str::to_owned), objects: all.objects.within(namespace), ..all }
    }

    /// The objects, for a server-side apply.
    pub fn applier(&self) -> Objects<DynamicObject> {
        self.objects.clone().managed_by(APPLIER)
    }

    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The object as a sentence names it.
    pub fn object_key(&self, name: &str) -> String {
        self.kind.key(self.namespace.as_deref().unwrap_or("*"), name)
    }

    /// The object, or that there is none.
    pub async fn existing(&self, name: &str) -> anyhow::Result<DynamicObject> {
        let found = self.objects.get(name).await;
        let found =
            found.map_err(|error| self.said(error.why).context(format!("reading {}", self.object_key(name))));
        found?.ok_or_else(|| {
            let namespace = self.namespace.as_deref().unwrap_or_default();
            anyhow!(
                "there is no {}: `weaver {} list -n {namespace}{}` shows those there are",
                self.object_key(name),
                self.kind.noun(),
                connection::flags()
            )
        })
    }

    pub async fn list(&self, params: ListParams) -> anyhow::Result<Vec<DynamicObject>> {
        let listed = self.objects.list(params).await.map_err(|error| self.said(error.why));
        listed.with_context(|| format!("listing {}s", self.kind.name()))
    }

    /// Does the namespace exist? `None` if the user may not ask.
    pub async fn has_namespace(&self, namespace: &str) -> Option<bool> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.get_metadata_opt(namespace).await.ok().map(|found| found.is_some())
    }

    /// Creates a namespace; one that is there by now is as good.
    pub async fn create_namespace(&self, namespace: &str, dry_run: bool) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let params = PostParams { dry_run, field_manager: Some(EDITOR.into()) };
        match namespaces.create(&params, &self::namespace(namespace)).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => {
                Err(self.said(Why::from(error))).with_context(|| format!("creating namespace {namespace}"))
            }
            Ok(_) => Ok(()),
        }
    }

    /// The API server's message, for a user.
    pub fn said(&self, why: Why) -> anyhow::Error {
        match why {
            Why::Refused(status) => anyhow!("{}", text(self.kind, &status)),
            Why::Unanswered(error) => anyhow!("{error}").context(format!(
                "the API server gave no usable answer; `weaver doctor{}` finds the cause",
                connection::flags()
            )),
            other => anyhow!("{other}"),
        }
    }
}

/// Does the object break the rules of its kind?
pub fn is_invalid(error: &Error) -> bool {
    matches!(&error.why, Why::Refused(status) if status.code == 422)
}

/// The API server's message, and the next step.
fn text(kind: Kind, status: &Status) -> String {
    let (name, said, flags) = (kind.name(), clean(status.message.trim()), connection::flags());
    match Refusal::of(status) {
        Refusal::KindUnknown => format!(
            "this cluster does not know {name}s: `weaver crd diff{flags}` compares, `weaver crd install{flags}` installs \
             them"
        ),
        Refusal::FieldUnknown => {
            let kind = kind.resource().plural;
            format!(
                "{said}; `weaver crd explain {kind}.spec` lists the fields of this release, `weaver crd diff{flags}` says whether \
                 the cluster's CRDs are of an older one"
            )
        }
        Refusal::RightMissing => format!("{said}; `kubectl auth can-i --list{flags}` lists your rights"),
        _ => said,
    }
}

/// A namespace of this name and nothing else.
pub fn namespace(name: &str) -> Namespace {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace
}

/// Preconditions under which the API server changes only this object, as it was read.
pub fn exactly(object: &DynamicObject) -> Value {
    json!({"metadata": {"uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_reported_with_the_next_step() {
        let kind = Status::failure("404 page not found", "Failed to parse error data").with_code(404);
        assert!(text(Kind::ConfigMapSync, &kind).contains("does not know ConfigMapSyncs: `weaver crd diff`"));
        for (code, reason, said, next) in [
            (
                400,
                "BadRequest",
                "strict decoding error: unknown field \"spec.tragets\"",
                "`weaver crd explain servicetokens.spec`",
            ),
            (
                403,
                "Forbidden",
                "servicetokens is forbidden: User \"u\" cannot create resource",
                "`kubectl auth can-i --list`",
            ),
            (403, "Forbidden", "exceeded quota", "exceeded quota"),
        ] {
            let text = text(Kind::ServiceToken, &Status::failure(said, reason).with_code(code));
            assert!(text.starts_with(said) && text.contains(next), "{text}");
        }
    }
}
