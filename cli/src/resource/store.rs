//! The objects of one kind in a cluster, with the rights of the person who types.
//!
//! Thin: each call is one request, writes with strict field validation. What the API server refuses is told in its own
//! words, with the next step where there is one.

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, Request, Status};
use kube::{Api, Client};
use serde_json::{Value, json};
use weaver_api::requests;
use weaver_diagnostics::finding_text::clean;

use super::kind::{Kind, name};
use crate::connection;

/// Who the API server's record of changes says it was: `apply` has its own, by which it knows what it once wrote.
const EDITOR: &str = "weaver-edit";
/// The same for applying.
const APPLIER: &str = "weaver";
/// Objects of one answer to a list.
pub const PAGE: u32 = 500;

/// The objects of a kind in one namespace, or in all.
pub struct Store {
    pub kind: Kind,
    /// `None` stands for all.
    pub namespace: Option<String>,
    client: Client,
}

impl Store {
    /// In `namespace`, else in that of the kubeconfig's context.
    pub async fn connect(kind: Kind, namespace: Option<&str>) -> anyhow::Result<Self> {
        let client = connection::client(None).await?;
        let namespace = namespace.map_or_else(|| client.default_namespace().to_owned(), str::to_owned);
        Ok(Self { kind, namespace: Some(namespace), client })
    }

    /// All objects of the kind, in the cluster of this client.
    pub fn all(kind: Kind, client: &Client) -> Self {
        Self { kind, namespace: None, client: client.clone() }
    }

    /// The same cluster, another kind and namespace; `None` stands for all namespaces.
    pub fn at(&self, kind: Kind, namespace: Option<&str>) -> Self {
        Self { kind, namespace: namespace.map(str::to_owned), client: self.client.clone() }
    }

    /// The object as a sentence names it.
    pub fn place(&self, name: &str) -> String {
        format!("{} {}/{name}", self.kind.name(), self.namespace.as_deref().unwrap_or("*"))
    }

    /// For a watch.
    pub fn api(&self) -> Api<DynamicObject> {
        let resource = self.kind.resource();
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn requests(&self) -> Request {
        Request::new(self.api().resource_url())
    }

    pub async fn get(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let request = self.requests().get(name, &GetParams::default())?;
        match self.client.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if is_absent(&status, name) => Ok(None),
            Err(error) => Err(self.said(error)).with_context(|| format!("reading {}", self.place(name))),
        }
    }

    /// The object, or that there is none.
    pub async fn existing(&self, name: &str) -> anyhow::Result<Value> {
        self.get(name).await?.ok_or_else(|| {
            let namespace = self.namespace.as_deref().unwrap_or_default();
            anyhow!(
                "there is no {}: `weaver {} list -n {namespace}` shows those there are",
                self.place(name),
                self.kind.noun()
            )
        })
    }

    /// All objects that are selected, page by page. A list that changes so fast that its pages expire is begun again.
    pub async fn list(&self, mut params: ListParams) -> anyhow::Result<Vec<Value>> {
        let mut objects = Vec::new();
        loop {
            let page: Value = match self.client.request(self.requests().list(&params)?).await {
                Err(kube::Error::Api(status)) if status.code == 410 && params.continue_token.is_some() => {
                    params.continue_token = None;
                    objects.clear();
                    continue;
                }
                page => page
                    .map_err(|error| self.said(error))
                    .with_context(|| format!("listing {}s", self.kind.name()))?,
            };
            objects.extend(page["items"].as_array().cloned().unwrap_or_default());
            match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token.to_owned()),
                None => return Ok(objects),
            }
        }
    }

    /// Creates; the error is kube's, since it is also the answer to whether the namespace is there.
    pub async fn create(&self, object: &Value, dry_run: bool) -> Result<Value, kube::Error> {
        let request = requests::create(&self.requests().url_path, object, &written(dry_run));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Replaces the object whose resourceVersion this one carries; the error is kube's, since a conflict is one.
    pub async fn replace(&self, object: &Value, dry_run: bool) -> Result<Value, kube::Error> {
        let request = requests::replace(&self.requests().url_path, name(object), object, &written(dry_run));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Server-side apply; `force` takes fields over from others.
    pub async fn apply(&self, object: &Value, dry_run: bool, force: bool) -> Result<Value, kube::Error> {
        let params = PatchParams { dry_run, force, ..PatchParams::apply(APPLIER).validation_strict() };
        self.patch(name(object), &Patch::Apply(object), &params).await
    }

    /// Merges `change` into the object; with a resourceVersion in it, only into the one that has it.
    pub async fn merge(&self, name: &str, change: &Value) -> Result<Value, kube::Error> {
        let params = PatchParams { field_manager: Some(EDITOR.into()), ..PatchParams::default() };
        self.patch(name, &Patch::Merge(change), &params.validation_strict()).await
    }

    async fn patch(
        &self,
        name: &str,
        patch: &Patch<&Value>,
        params: &PatchParams,
    ) -> Result<Value, kube::Error> {
        let request = self.requests().patch(name, params, patch).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<(), kube::Error> {
        let request = self.requests().delete(name, params).map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(|_| ())
    }

    /// Does the namespace exist? `None` if the person may not ask.
    pub async fn has_namespace(&self, namespace: &str) -> Option<bool> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.get_metadata_opt(namespace).await.ok().map(|found| found.is_some())
    }

    /// Creates a namespace; one that is there by now is as good.
    pub async fn create_namespace(&self, namespace: &str, dry_run: bool) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.to_owned());
        match namespaces.create(&written(dry_run), &object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(self.said(error)).with_context(|| format!("creating namespace {namespace}")),
            Ok(_) => Ok(()),
        }
    }

    /// What the API server said, for a person.
    pub fn said(&self, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) => anyhow!("{}", words(self.kind, &status)),
            other => anyhow::Error::from(other).context(
                "the API server gave no answer that can be used; `weaver doctor` says whose fault it is",
            ),
        }
    }
}

fn written(dry_run: bool) -> PostParams {
    PostParams { dry_run, field_manager: Some(EDITOR.into()) }
}

/// Is it the object that is not there, rather than its kind?
fn is_absent(status: &Status, name: &str) -> bool {
    status.is_not_found() && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// Is it the namespace that is not there?
pub fn lacks_namespace(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.is_not_found() && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}

/// Was somebody else faster?
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Does the object not keep the rules of its kind?
pub fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

/// Is the object of that name gone?
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// The API server's words, and the next step.
fn words(kind: Kind, status: &Status) -> String {
    let (name, said) = (kind.name(), clean(status.message.trim()));
    let names_nothing = status.details.as_ref().is_none_or(|details| details.name.is_empty());
    // By the code: of an API that it does not serve, the server says so in plain text, without a reason.
    if status.code == 404 && names_nothing {
        return format!(
            "this cluster does not know {name}s: `weaver crd diff` compares, `weaver crd install` puts them there"
        );
    }
    if said.contains("unknown field") || said.contains("field not declared in schema") {
        let kind = kind.resource().plural;
        return format!("{said}; `weaver crd explain {kind}.spec` says which fields there are");
    }
    if status.is_forbidden() && said.contains(" cannot ") {
        return format!("{said}; `kubectl auth can-i --list` says what you may do");
    }
    said
}

/// A condition under which the API server deletes or changes nothing but this object, as it was seen.
pub fn exactly(object: &Value) -> Value {
    json!({"metadata": {
        "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"],
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str, details: &Value) -> Status {
        serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
        }))
        .unwrap()
    }

    #[test]
    fn an_absent_object_an_absent_namespace_and_an_absent_kind_are_told_apart() {
        let object = status(404, "NotFound", "not found", &json!({"name": "a", "kind": "configmapsyncs"}));
        let namespace = status(404, "NotFound", "not found", &json!({"name": "b", "kind": "namespaces"}));
        let kind = Status::failure("404 page not found", "Failed to parse error data").with_code(404);
        assert!(is_absent(&object, "a") && !is_absent(&namespace, "a") && !is_absent(&kind, "a"));
        let lacks = |status: &Status| lacks_namespace(&kube::Error::Api(Box::new(status.clone())));
        assert!(lacks(&namespace) && !lacks(&object) && !lacks(&kind));
        assert!(words(Kind::Sync, &kind).contains("does not know ConfigMapSyncs: `weaver crd diff`"));
        assert_eq!(words(Kind::Sync, &object), "not found");
    }

    #[test]
    fn a_refusal_is_told_with_the_next_step() {
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
            let words = words(Kind::Token, &status(code, reason, said, &json!({"name": "a"})));
            assert!(words.starts_with(said) && words.contains(next), "{words}");
        }
    }
}
