//! Rewrites every stored object at the version that is stored today, then takes the older versions out of the
//! definition's `status.storedVersions`, without which no release can ever drop one.
//!
//! The API server writes an object that is patched with nothing but its own resourceVersion, if it was stored in
//! another form than it would be now, and does nothing otherwise. So a run that was killed is repeated at the
//! price of reading. A version stays in the status as long as one object could not be rewritten.
//!
//! An object that the stored version would not accept is written through an older one: the API server validates
//! the version that a request names, and stores at today's whichever that is.

use std::fmt;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::time::{sleep, timeout};
use weaver_client::call::{CallError, call, lookup};

use super::plan::stored_versions;
use super::write::MANAGER;

/// Objects in one answer of the API server; anyone who may write one decides how large its metadata is, with its managed
/// fields up to 3 MiB, and of an answer 64 MiB are read.
const PAGE: u32 = 20;
/// For one page: the API server converts its objects one by one.
const PAGE_LIMIT: Duration = Duration::from_mins(1);
/// Objects being rewritten at a time.
const AT_ONCE: usize = 8;
/// Tries for one object or definition that others change too, and for a list that grew too old.
const TRIES: usize = 5;
/// Before another try, where the API server gave no answer.
const PAUSE: Duration = Duration::from_millis(500);
/// Objects named in an error.
const NAMED: usize = 10;

/// What became of the objects of one definition; [`fmt::Display`] is a line for people.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Migrated {
    /// `<plural>.<group>`.
    pub name: String,
    /// Versions at which nothing is stored any more.
    pub dropped: Vec<String>,
    /// Objects that were written again.
    pub rewritten: usize,
    /// Objects that were stored as they should be.
    pub unchanged: usize,
    /// Objects that were deleted meanwhile.
    pub gone: usize,
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, dropped, rewritten, unchanged, gone } = self;
        if dropped.is_empty() {
            return write!(f, "{name}: nothing to do, one version is stored");
        }
        write!(f, "{name}: {rewritten} objects rewritten, {unchanged} were already")?;
        if *gone > 0 {
            write!(f, ", {gone} were deleted meanwhile")?;
        }
        write!(f, "; nothing is stored at {} any more", dropped.join(", "))
    }
}

/// After each page of objects; [`fmt::Display`] is a line for people.
#[derive(Clone, Copy, Debug)]
pub struct MigrationProgress<'a> {
    /// `<plural>.<group>`.
    pub name: &'a str,
    pub done: usize,
    /// Objects that remain, where the API server says so.
    pub remaining: Option<i64>,
}

impl fmt::Display for MigrationProgress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} objects done", self.name, self.done)?;
        self.remaining.map_or(Ok(()), |remaining| write!(f, ", {remaining} to go"))
    }
}

/// Why an older version is still stored.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// No connection, or no right.
    #[error("{what}: {cause}")]
    Api {
        /// What was asked of the API server.
        what: String,
        cause: CallError,
    },
    /// There is no such definition.
    #[error("{0} is not installed: run `weaver crd install` first")]
    NotInstalled(String),
    /// Objects are written at another version than this release would have it.
    #[error(
        "{name} stores {installed}, and this release {ours}: run `weaver crd install` first, or migrate \
         with the release that installed it"
    )]
    OtherStorage {
        name: String,
        /// The version that is stored, or nothing.
        installed: String,
        ours: String,
    },
    /// No version of it can be read or written.
    #[error("{0} serves no version: run `weaver crd install` first")]
    NotServed(String),
    /// Some objects could not be rewritten.
    #[error(
        "{name}: {} of its objects could not be rewritten, so {} stays in its storedVersions:{}\nFix or \
         delete them, then run it again", failed.len(), kept.join(", "), some(failed)
    )]
    Objects {
        name: String,
        /// The versions that are still stored.
        kept: Vec<String>,
        /// Each object, with the API server's words.
        failed: Vec<(String, String)>,
    },
    /// The definition was changed while its objects were rewritten.
    #[error("{0} was changed meanwhile; its storedVersions were not changed: run this again")]
    Changed(String),
}

impl MigrateError {
    /// Did the API server only take too long?
    pub const fn is_late(&self) -> bool {
        matches!(self, Self::Api { cause: CallError::Late(_), .. })
    }
}

/// The first few, a line each.
fn some(failed: &[(String, String)]) -> String {
    let mut lines: Vec<String> =
        failed.iter().take(NAMED).map(|(object, text)| format!("\n  {object}: {text}")).collect();
    if failed.len() > NAMED {
        lines.push(format!("\n  and {} more", failed.len() - NAMED));
    }
    lines.concat()
}

/// Migrates all definitions, one after the other, and reports to `progress` after each page of objects.
///
/// # Errors
/// The first definition that cannot be migrated to the end; those before it are done.
pub async fn migrate(
    client: &Client,
    mut progress: impl FnMut(MigrationProgress<'_>),
) -> Result<Vec<Migrated>, MigrateError> {
    let mut report = Vec::new();
    for definition in weaver_api::crds::all() {
        report.push(migrate_one(client, &definition, &mut progress).await?);
    }
    Ok(report)
}

/// The resource of an installed definition, at the version at which its objects are written.
pub(super) fn stored_resource(installed: &CustomResourceDefinition) -> Option<ApiResource> {
    stored(installed).map(|version| resource(installed, version))
}

fn resource(installed: &CustomResourceDefinition, version: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk(&installed.spec.group, version, &installed.spec.names.kind);
    ApiResource::from_gvk_with_plural(&kind, &installed.spec.names.plural)
}

/// The resource at each version at which its objects can be written, today's first.
fn writable(installed: &CustomResourceDefinition) -> Vec<ApiResource> {
    let mut versions: Vec<_> = installed.spec.versions.iter().filter(|version| version.served).collect();
    versions.sort_by_key(|version| !version.storage);
    versions.into_iter().map(|version| resource(installed, &version.name)).collect()
}

fn stored(definition: &CustomResourceDefinition) -> Option<&str> {
    definition.spec.versions.iter().find(|version| version.storage).map(|version| version.name.as_str())
}

/// The versions to get rid of, if objects are written at `ours` today.
fn to_drop(installed: &CustomResourceDefinition, ours: &str) -> Result<Vec<String>, MigrateError> {
    let now = stored(installed).unwrap_or_default();
    if now != ours {
        let (name, installed, ours) = (installed.name_any(), now.to_owned(), ours.to_owned());
        return Err(MigrateError::OtherStorage { name, installed, ours });
    }
    Ok(stored_versions(installed).into_iter().filter(|version| version != now).collect())
}

async fn migrate_one(
    client: &Client,
    definition: &CustomResourceDefinition,
    progress: &mut impl FnMut(MigrationProgress<'_>),
) -> Result<Migrated, MigrateError> {
    let name = definition.name_any();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let installed = lookup(definitions.get(&name)).await.map_err(failed(format!("reading {name}")))?;
    let installed = installed.ok_or_else(|| MigrateError::NotInstalled(name.clone()))?;
    let dropped = to_drop(&installed, stored(definition).unwrap_or_default())?;
    let mut migrated = Migrated { name: name.clone(), dropped, ..Migrated::default() };
    if migrated.dropped.is_empty() {
        return Ok(migrated);
    }
    let outcomes = rewrite_all(client, &writable(&installed), &name, progress).await?;
    let mut refused = Vec::new();
    for outcome in outcomes {
        match outcome {
            Rewrite::Done => migrated.rewritten += 1,
            Rewrite::Unneeded => migrated.unchanged += 1,
            Rewrite::Gone => migrated.gone += 1,
            Rewrite::Failed(object, text) => refused.push((object, text)),
        }
    }
    if !refused.is_empty() {
        return Err(MigrateError::Objects { name, kept: migrated.dropped, failed: refused });
    }
    trim(&definitions, installed).await?;
    Ok(migrated)
}

/// What became of one object.
#[derive(Debug, Eq, PartialEq)]
enum Rewrite {
    Done,
    Unneeded,
    Gone,
    Failed(String, String),
}

async fn rewrite_all(
    client: &Client,
    resources: &[ApiResource],
    name: &str,
    progress: &mut impl FnMut(MigrationProgress<'_>),
) -> Result<Vec<Rewrite>, MigrateError> {
    let Some(resource) = resources.first() else { return Err(MigrateError::NotServed(name.to_owned())) };
    let all: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    let mut outcomes = Vec::new();
    let mut expired = 0;
    loop {
        let page = match within(PAGE_LIMIT, all.list_metadata(&params)).await {
            Ok(page) => page,
            // The list is older than what the API server remembers. What was rewritten costs no second write.
            Err(CallError::Rejected(status)) if status.code == 410 && expired < TRIES => {
                expired += 1;
                params.continue_token = None;
                outcomes.clear();
                continue;
            }
            Err(cause) => return Err(failed(format!("listing the objects of {name}"))(cause)),
        };
        // Collected first: rustc cannot tell that a future with this closure inside may move between threads.
        let rewrites: Vec<_> = page.items.iter().map(|object| rewrite(client, resources, object)).collect();
        outcomes.extend(stream::iter(rewrites).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await);
        progress(MigrationProgress {
            name,
            done: outcomes.len(),
            remaining: page.metadata.remaining_item_count,
        });
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(outcomes);
        }
    }
}

async fn rewrite(
    client: &Client,
    resources: &[ApiResource],
    object: &PartialObjectMeta<DynamicObject>,
) -> Rewrite {
    let name = object.name_any();
    let shown = object.namespace().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
    let mut refused = None;
    for resource in resources {
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
            None => Api::all_with(client.clone(), resource),
        };
        match rewrite_at(&api, &name, object.resource_version()).await {
            Ok(outcome) => return outcome,
            // The first answer is about the version that matters.
            Err(CallError::Rejected(status)) => refused = refused.or(Some(status.message)),
            Err(error) => return Rewrite::Failed(shown, error.to_string()),
        }
    }
    Rewrite::Failed(shown, refused.unwrap_or_default())
}

async fn rewrite_at(
    api: &Api<DynamicObject>,
    name: &str,
    mut version: Option<String>,
) -> Result<Rewrite, CallError> {
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let mut tries = 0;
    loop {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}}));
        match call(api.patch_metadata(name, &params, &patch)).await {
            Ok(written) if written.resource_version() == version => return Ok(Rewrite::Unneeded),
            Ok(_) => return Ok(Rewrite::Done),
            Err(CallError::NotFound(_)) => return Ok(Rewrite::Gone),
            Err(CallError::Conflict(_)) if tries < TRIES => tries += 1,
            Err(CallError::Late(_) | CallError::Transient(_)) if tries < TRIES => {
                tries += 1;
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
        // Someone else wrote it, at today's version most likely; looking again makes sure.
        match lookup(api.get_metadata(name)).await {
            Ok(Some(current)) => version = current.resource_version(),
            Ok(None) => return Ok(Rewrite::Gone),
            Err(CallError::Late(_) | CallError::Transient(_)) if tries < TRIES => {
                tries += 1;
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes all versions but today's out of the status, if the spec is the one under which everything was rewritten.
async fn trim(
    definitions: &Api<CustomResourceDefinition>,
    mut installed: CustomResourceDefinition,
) -> Result<(), MigrateError> {
    let name = installed.name_any();
    let spec = installed.metadata.generation;
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    for _ in 0..TRIES {
        if installed.metadata.generation != spec {
            break;
        }
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": installed.resource_version()},
            "status": {"storedVersions": [stored(&installed)]},
        }));
        let what = || format!("writing the status of {name}");
        match call(definitions.patch_status(&name, &params, &patch)).await {
            Ok(_) => return Ok(()),
            Err(CallError::Conflict(_)) => {}
            Err(cause) => return Err(failed(what())(cause)),
        }
        installed = call(definitions.get(&name)).await.map_err(failed(what()))?;
    }
    Err(MigrateError::Changed(name))
}

async fn within<T>(limit: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    let late = |_| CallError::Late(format!("no answer within {} s", limit.as_secs()));
    Ok(timeout(limit, request).await.map_err(late)??)
}

fn failed(what: String) -> impl FnOnce(CallError) -> MigrateError {
    move |cause| MigrateError::Api { what, cause }
}

#[cfg(test)]
mod tests;
