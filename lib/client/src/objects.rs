//! The objects of one kind, in one namespace or in all: create, read, list, update, apply, delete.
//!
//! What [`Api`] does well stays there ([`Objects::api`]): logs, scale, subresources. Added here: a deadline on
//! each request, strict field validation on each write, errors that name the object, and an update that repeats
//! a pure change on a newer object.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, Request, request};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::call::{DEADLINE, no_answer};
use crate::error::{Error, Refusal, Why};
use crate::requests::strict;

/// Attempts at a change while others write.
pub(crate) const ATTEMPTS: u32 = 6;

/// Whether a write is persisted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WriteMode {
    /// The write is persisted.
    #[default]
    Persist,
    /// No: the API server judges it, admission included, and answers as for a real write.
    DryRun,
    /// After a dry run. What the dry run refuses is then known to be not done, whatever the code of the refusal.
    Rehearsed,
}

/// What a server-side apply does about fields that another field manager owns.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Conflicts {
    /// It is refused ([`Refusal::FieldsOwned`]).
    #[default]
    Refuse,
    /// It takes them over.
    Force,
}

/// What an update did.
#[derive(Clone, Debug, PartialEq)]
pub enum Updated<K> {
    /// The object is this one now.
    Changed(K),
    /// There was nothing to change.
    Unchanged(K),
}

impl<K> Updated<K> {
    /// The object as it is now.
    pub fn into_object(self) -> K {
        match self {
            Self::Changed(object) | Self::Unchanged(object) => object,
        }
    }
}

/// The objects of a kind in one namespace, in all, or cluster-scoped, as the [`Api`] has it.
///
/// Cheap to clone. Nothing is cached: each call is one request, or as many as it says.
#[derive(Clone)]
pub struct Objects<K> {
    api: Api<K>,
    resource: ApiResource,
    manager: String,
    deadline: Duration,
}

impl<K: Resource> Objects<K> {
    /// For a kind known at compile time. `manager` is the field manager that the API server notes with each write.
    #[must_use]
    pub fn new(api: Api<K>, manager: &str) -> Self
    where
        K::DynamicType: Default,
    {
        Self::with(api, manager, &K::DynamicType::default())
    }

    /// For a kind known at run time, such as a [`DynamicObject`] and its [`ApiResource`].
    #[must_use]
    pub fn with(api: Api<K>, manager: &str, kind: &K::DynamicType) -> Self {
        let resource = ApiResource::erase::<K>(kind);
        Self { api, resource, manager: manager.to_owned(), deadline: DEADLINE }
    }

    /// The same objects, written as another field manager.
    #[must_use]
    pub fn managed_by(mut self, manager: &str) -> Self {
        manager.clone_into(&mut self.manager);
        self
    }

    /// The same objects; a request without an answer after `deadline` has failed ([`DEADLINE`] unless this is called).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same kind in `namespace`; `None` means all, in which objects can only be listed and watched.
    #[must_use]
    pub fn within(mut self, namespace: Option<&str>) -> Self
    where
        K::Scope: kube::core::NamespaceScope,
    {
        self.api = match namespace {
            Some(namespace) => self.api.constrain(namespace),
            None => self.api.unconstrain(),
        };
        self
    }

    /// The same objects without their type: nothing that the type does not know is lost.
    #[must_use]
    pub fn untyped(&self) -> Objects<DynamicObject>
    where
        K: Clone,
    {
        let client = self.api.clone().into_client();
        let api = match self.api.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        };
        Objects {
            api,
            resource: self.resource.clone(),
            manager: self.manager.clone(),
            deadline: self.deadline,
        }
    }

    /// For what is not offered here.
    #[must_use]
    pub fn api(&self) -> &Api<K> {
        &self.api
    }

    /// The object as errors name it: `ConfigMap team-a/settings`.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        let kind = &self.resource.kind;
        match self.api.namespace() {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        }
    }

    pub(crate) fn manager(&self) -> &str {
        &self.manager
    }

    pub(crate) fn error(&self, doing: &'static str, name: &str, why: Why) -> Error {
        Error { doing, object: self.key(name), why, is_write: false }
    }

    pub(crate) fn not_listed(&self, why: Why) -> Error {
        Error { doing: "listing", object: format!("{}s", self.resource.kind), why, is_write: false }
    }
}

impl<K: Resource + Clone + DeserializeOwned + Debug> Objects<K> {
    /// Reads an object; `None` if there is no such object.
    ///
    /// # Errors
    /// If the API server refuses, for instance because it does not know the kind, or does not answer.
    pub async fn get(&self, name: &str) -> Result<Option<K>, Error> {
        match self.read(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() && error.refusal() != Some(Refusal::KindUnknown) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads an object that has to be there.
    ///
    /// # Errors
    /// As [`Self::get`], and if there is no such object ([`Error::is_not_found`]).
    pub async fn read(&self, name: &str) -> Result<K, Error> {
        self.within_deadline(self.api.get(name)).await.map_err(|why| self.error("reading", name, why))
    }

    /// Creates an object. `object` is a `K`, or what serialises to one, such as a manifest: a field that the
    /// kind does not have is refused by the API server and never dropped.
    ///
    /// # Errors
    /// If there is one of this name ([`Refusal::Exists`]), or the API server refuses otherwise or does not answer.
    pub async fn create(&self, name: &str, object: &impl Serialize, how: WriteMode) -> Result<K, Error> {
        let of = Request::new(self.api.resource_url());
        let request = |dry_run| strict(object, |body| of.create(&self.posted(dry_run), body));
        self.write("creating", name, how, request).await
    }

    /// Replaces the object whose `resourceVersion` this one has.
    ///
    /// # Errors
    /// If it has another one by now ([`Error::is_conflict`]), or the API server refuses otherwise or does not answer.
    pub async fn replace(&self, name: &str, object: &impl Serialize, how: WriteMode) -> Result<K, Error> {
        let of = Request::new(self.api.resource_url());
        let request = |dry_run| strict(object, |body| of.replace(name, &self.posted(dry_run), body));
        self.write("replacing", name, how, request).await
    }

    /// Changes an object that was read: `change` says what it shall be, or `None` where it is so already. After a
    /// conflict it is called again with the newer object, up to six times, so it must be a pure function of what it is
    /// given. Only the object with the uid of `seen` is changed.
    ///
    /// Beware of types that do not know every field of their kind: what they do not know is lost in a replace. Work on
    /// [`Self::untyped`] objects then.
    ///
    /// ```
    /// # use kube::ResourceExt as _;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use weaver_client::{Error, Objects, Updated, WriteMode};
    /// async fn label(maps: &Objects<ConfigMap>, name: &str) -> Result<Updated<ConfigMap>, Error> {
    ///     let seen = maps.read(name).await?;
    ///     maps.update(seen, WriteMode::Persist, |map| {
    ///         let mut map = map.clone();
    ///         let before = map.labels_mut().insert("tier".into(), "dev".into());
    ///         Ok((before.as_deref() != Some("dev")).then_some(map))
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// That of `change`; [`Why::Replaced`], [`Why::Contended`]; and those of [`Self::replace`] and [`Self::read`].
    pub async fn update<S: Serialize, E: From<Error>>(
        &self,
        seen: K,
        how: WriteMode,
        mut change: impl FnMut(&K) -> Result<Option<S>, E>,
    ) -> Result<Updated<K>, E> {
        let (name, uid) = (seen.name_any(), seen.uid());
        let mut current = seen;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                pause(attempt).await;
                current = self.read(&name).await?;
                if current.uid() != uid {
                    return Err(self.error("changing", &name, Why::Replaced).into());
                }
            }
            let Some(wanted) = change(&current)? else { return Ok(Updated::Unchanged(current)) };
            let wanted = exactly(&wanted, &current).map_err(|why| self.error("changing", &name, why))?;
            match self.replace(&name, &wanted, how).await {
                Ok(object) => return Ok(Updated::Changed(object)),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.error("changing", &name, Why::Contended(ATTEMPTS)).into())
    }

    /// Changes an object by a JSON merge patch; with `metadata.resourceVersion` in it, only the object that has it.
    ///
    /// # Errors
    /// If there is no such object, or the API server refuses otherwise or does not answer.
    pub async fn merge(&self, name: &str, change: &impl Serialize, how: WriteMode) -> Result<K, Error> {
        self.patch("changing", name, &Patch::Merge(change), how, Conflicts::Refuse).await
    }

    /// Server-side apply: creates the object or changes the fields that `object` names, which then belong to the field
    /// manager; fields that it named before and does not name now are removed.
    ///
    /// # Errors
    /// If fields belong to others ([`Refusal::FieldsOwned`]), or the API server refuses otherwise or does not answer.
    pub async fn apply(
        &self,
        name: &str,
        object: &impl Serialize,
        how: WriteMode,
        conflicts: Conflicts,
    ) -> Result<K, Error> {
        self.patch("applying", name, &Patch::Apply(object), how, conflicts).await
    }

    /// Deletes the very object that was seen (by uid, unless the parameters have preconditions of their own).
    /// One that is gone by now is as good. It may still be there when this returns: see [`Self::gone`].
    ///
    /// # Errors
    /// If another object has its name ([`Error::is_conflict`]), or the API server refuses or does not answer.
    pub async fn delete(&self, seen: &K, mut params: DeleteParams) -> Result<(), Error> {
        let name = seen.name_any();
        params.preconditions.get_or_insert_with(|| Preconditions { uid: seen.uid(), resource_version: None });
        let how = if params.dry_run { WriteMode::DryRun } else { WriteMode::Persist };
        let request = |_| Request::new(self.api.resource_url()).delete(&name, &params);
        match self.write::<Value>("deleting", &name, how, request).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn patch(
        &self,
        doing: &'static str,
        name: &str,
        patch: &Patch<&impl Serialize>,
        how: WriteMode,
        conflicts: Conflicts,
    ) -> Result<K, Error> {
        let params = |dry_run| PatchParams {
            dry_run,
            force: conflicts == Conflicts::Force,
            ..PatchParams::apply(&self.manager).validation_strict()
        };
        let request = |dry_run| Request::new(self.api.resource_url()).patch(name, &params(dry_run), patch);
        self.write(doing, name, how, request).await
    }

    fn posted(&self, dry_run: bool) -> PostParams {
        PostParams { dry_run, field_manager: Some(self.manager.clone()) }
    }

    /// Sends what `request` makes for a dry run or a write.
    async fn write<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        name: &str,
        how: WriteMode,
        request: impl Fn(bool) -> Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<T, Error> {
        let client = self.api.clone().into_client();
        let send = async |dry_run: bool| {
            let failed = |why| Error { is_write: !dry_run, ..self.error(doing, name, why) };
            let request = request(dry_run).map_err(|error| failed(Why::Unsendable(error.to_string())))?;
            self.within_deadline(client.request(request)).await.map_err(failed)
        };
        if how == WriteMode::Rehearsed {
            send(true).await?;
        }
        send(how == WriteMode::DryRun).await
    }

    pub(crate) async fn within_deadline<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Why> {
        match timeout(self.deadline, request).await {
            Ok(answer) => answer.map_err(Why::from),
            Err(_) => Err(Why::Unanswered(no_answer(self.deadline))),
        }
    }
}

/// Waits before an attempt: not before the first, and longer before each later one.
pub(crate) async fn pause(attempt: u32) {
    sleep(Duration::from_millis(50) * attempt).await;
}

/// `wanted` as the replacement of exactly the object that `current` is.
fn exactly(wanted: &impl Serialize, current: &impl Resource) -> Result<Value, Why> {
    let mut wanted =
        serde_json::to_value(wanted).map_err(|_| Why::Unsendable("it is not valid JSON".into()))?;
    if !wanted["metadata"].is_object() {
        return Err(Why::Unsendable("it has no metadata".into()));
    }
    wanted["metadata"]["uid"] = json!(current.meta().uid);
    wanted["metadata"]["resourceVersion"] = json!(current.meta().resource_version);
    Ok(wanted)
}
