//! `weaver orphans`: copies whose ConfigMapSync or ResourceSync is gone, with the rights of the user.
//!
//! A resource may be deleted with `deletionPolicy: Orphan`, or be released because its tenant's rights were gone. Its
//! copies keep their ownership labels and annotations, which are read here. Each write names the state that was listed:
//! a copy that has changed since is not touched.
//!
//! Controllers pass labels and annotations on to the objects that they make, ours too where their own object is a copy.
//! An object that got them this way is no copy and is never touched ([`Marked::is_passed_on`]).

use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use clap::Subcommand;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use weaver_api::GROUP;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{Owner, SOURCE_ANNOTATION, SYNC_UID_LABEL};
use weaver_api::v1beta1::{ConfigMapSync, ResourceSync};
use weaver_client::call::CallError;
use weaver_client::pages::each_page;
use weaver_copies::copy::{is_own_source, source_reference, typed_reference};
use weaver_copies::metadata::{is_adopted, released};
use weaver_copies::object::{Object, ObjectKey};
use weaver_diagnostics::finding_text::clean;

use crate::connection;
use crate::copied_kinds;
use crate::resource::options::for_each;
use crate::stdout::{note, say};

#[derive(Subcommand)]
pub enum OrphansVerb {
    /// List orphans with their former owner and source
    List {
        /// Only in this namespace
        #[arg(short, long)]
        namespace: Option<String>,
    },
    /// Remove the ownership labels and annotations, which makes them ordinary objects
    Adopt(Which),
    /// Delete orphans
    Delete(Which),
}

#[derive(clap::Args)]
pub struct Which {
    /// Only in this namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// Objects as `weaver orphans list` shows them: KIND/NAMESPACE/NAME
    #[arg(required_unless_present = "all", value_name = "OBJECT")]
    objects: Vec<String>,
    /// All orphans
    #[arg(long, conflicts_with = "objects")]
    all: bool,
}

/// An object with our label.
pub struct Marked {
    pub key: ObjectKey,
    pub meta: ObjectMeta,
}

/// A copy whose resource is gone.
struct Orphan {
    copy: Marked,
    /// The resource whose copy it was.
    holder: String,
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&source_reference(&self.key)))
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.copy.fmt(f)
    }
}

impl Orphan {
    /// A line of the list. Any tenant may label and annotate an object of its own.
    fn line(&self) -> String {
        let annotations = self.copy.meta.annotations.as_ref();
        let source = annotations.and_then(|all| all.get(SOURCE_ANNOTATION)).map_or("?", String::as_str);
        format!("{self}\tcopy of {}\tfrom {}", clean(&self.holder), clean(source))
    }

    /// Why it is not deleted, and what to do instead.
    fn why_kept(&self) -> Option<String> {
        let flags = connection::flags();
        let by_hand = format!("`kubectl delete KIND NAME -n NAMESPACE{flags}`");
        let adopt = format!("`weaver orphans adopt {}{flags}`", typed_reference(&self.copy.key));
        if !self.copy.says_whose() {
            return Some(format!(
                "{self} does not say whose copy it was: look at it, then delete it with {by_hand}, or have {adopt} \
                 make it an ordinary object"
            ));
        }
        is_adopted(&self.copy.meta).then(|| {
            format!(
                "{self} existed before a sync adopted it: {adopt} makes it an ordinary object, which its owner can \
                 delete with {by_hand}"
            )
        })
    }
}

pub async fn run(verb: OrphansVerb) -> anyhow::Result<ExitCode> {
    let client = connection::client().await?;
    match verb {
        OrphansVerb::List { namespace } => {
            for orphan in find(&client, namespace.as_deref()).await? {
                say(orphan.line());
            }
            Ok(ExitCode::SUCCESS)
        }
        OrphansVerb::Adopt(which) => {
            let orphans = chosen(&client, &which).await?;
            let adopted = for_each(&orphans, async |orphan| {
                adopt(&client, &orphan.copy).await.with_context(|| orphan.to_string())?;
                say(format_args!("{orphan} is an ordinary object now"));
                Ok(())
            });
            Ok(adopted.await.1)
        }
        OrphansVerb::Delete(which) => {
            let orphans = chosen(&client, &which).await?;
            for why in orphans.iter().filter_map(Orphan::why_kept) {
                // Anyone may label an object of theirs: with --all it keeps none of the others.
                ensure!(which.all, "{why}; nothing was deleted");
                note!("left as it is: {why}");
            }
            let deleted = for_each(&orphans, async |orphan| {
                if orphan.why_kept().is_none() {
                    delete(&client, &orphan.copy).await.with_context(|| orphan.to_string())?;
                    say(format_args!("{orphan} is deleted"));
                }
                Ok(())
            });
            Ok(deleted.await.1)
        }
    }
}

async fn chosen(client: &Client, which: &Which) -> anyhow::Result<Vec<Orphan>> {
    let mut found = find(client, which.namespace.as_deref()).await?;
    if which.all {
        return Ok(found);
    }
    let mut chosen = Vec::new();
    for wanted in &which.objects {
        let index = found.iter().position(|orphan| orphan.to_string() == *wanted);
        let index = index.ok_or_else(|| {
            let flags = connection::flags();
            anyhow!("{wanted} is not an orphan: see `weaver orphans list{flags}`; nothing was changed")
        })?;
        chosen.push(found.remove(index));
    }
    Ok(chosen)
}

async fn find(client: &Client, namespace: Option<&str>) -> anyhow::Result<Vec<Orphan>> {
    // Before the resources: one that is made meanwhile has copies, and is seen.
    let found = all_marked(client, namespace).await?.into_iter();
    let (syncs, resources) = (living::<ConfigMapSync>(client).await?, living::<ResourceSync>(client).await?);
    let orphan = |copy: Marked| {
        let living = if copy.key.kind.is_of_config_map_sync() { &syncs } else { &resources };
        living.orphan(copy)
    };
    Ok(found.filter_map(orphan).collect())
}

/// Objects of all copied kinds with our label, in one namespace or in all. Kinds that could not be listed are reported.
///
/// # Errors
/// ConfigMaps or Secrets cannot be listed, for another reason than a missing right, or not in time.
pub async fn all_marked(client: &Client, namespace: Option<&str>) -> anyhow::Result<Vec<Marked>> {
    let (mut copies, mut unlisted) = (Vec::new(), 0);
    for kind in copied_kinds::all(client).await {
        let is_forbidden = |error: &CallError| matches!(error, CallError::Forbidden(_));
        match marked(client, kind, namespace).await {
            Ok(found) => copies.extend(found),
            // Few may list every kind.
            Err(error) if is_forbidden(&error) && !kind.is_of_config_map_sync() => unlisted += 1,
            // A user who may not read Secrets may still want to see the rest; a kind of another project may be broken.
            Err(error) if is_forbidden(&error) || !kind.is_of_config_map_sync() => {
                note!("{} could not be listed, and are left out: {error}", kind.several());
            }
            Err(error) => return Err(error).with_context(|| format!("listing {}", kind.several())),
        }
    }
    if unlisted > 0 {
        note!("{unlisted} more kinds could not be listed with your rights, and are left out");
    }
    Ok(copies)
}

impl Marked {
    /// Did a controller pass our ownership labels and annotations on to this object? It is owned by what made it, or
    /// names a source of another kind: a copy of ours has no such owner, unless it was adopted, and its source is of
    /// its own kind.
    pub fn is_passed_on(&self) -> bool {
        let Self { key, meta } = self;
        let source = meta.annotations.as_ref().and_then(|all| all.get(SOURCE_ANNOTATION));
        let kind = key.kind.to_string();
        let is_of_another = |source: &String| source.split('/').next() != Some(&*kind);
        let is_controlled =
            meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
        is_controlled && !is_adopted(meta) || source.is_some_and(is_of_another)
    }

    /// Do label and annotation name the same resource, as those of each copy do?
    fn says_whose(&self) -> bool {
        let label = self.meta.labels.as_ref().and_then(|labels| labels.get(SYNC_UID_LABEL));
        Owner::of(&self.meta).is_some_and(|owner| Some(&owner.uid) == label)
    }
}

/// The existing resources of this kind.
async fn living<K>(client: &Client) -> anyhow::Result<Living>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let resources: Api<K> = Api::all(client.clone());
    let mut living = Living { uids: BTreeSet::new(), names: BTreeSet::new() };
    let listed = each_page(&resources, "", |page| {
        for meta in page {
            living.uids.extend(meta.uid);
            living.names.insert((meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default()));
        }
        ControlFlow::Continue(())
    });
    match listed.await {
        Ok(()) => Ok(living),
        // After `weaver uninstall` the cluster does not know the kind any more, so none lives.
        Err(CallError::NotFound(_)) if !is_served(client, &K::plural(&())).await? => Ok(living),
        Err(error) => Err(error).with_context(|| format!("listing {}s", K::kind(&()))),
    }
}

/// Does the cluster serve these at any version? At another one than this program's they live all the same.
async fn is_served(client: &Client, plural: &str) -> anyhow::Result<bool> {
    let context = || format!("looking whether the cluster serves {plural}");
    let groups = client.list_api_groups().await.with_context(context)?.groups;
    for version in groups.into_iter().filter(|group| group.name == GROUP).flat_map(|group| group.versions) {
        let served = client.list_api_group_resources(&version.group_version).await.with_context(context)?;
        if served.resources.iter().any(|resource| resource.name == plural) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Objects of this kind with our label, in one namespace or in all.
pub async fn marked(
    client: &Client,
    kind: ObjectKind,
    namespace: Option<&str>,
) -> Result<Vec<Marked>, CallError> {
    let objects: Api<Object> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let mut marked = Vec::new();
    let listed = each_page(&objects, SYNC_UID_LABEL, |page| {
        marked.extend(
            page.into_iter().filter_map(|meta| Some(Marked { key: ObjectKey::of(kind, &meta)?, meta })),
        );
        ControlFlow::Continue(())
    });
    match listed.await {
        Ok(()) => Ok(marked),
        // Its definition was removed since the kinds were listed, and all objects with it.
        Err(CallError::NotFound(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The resources that there are.
struct Living {
    uids: BTreeSet<String>,
    names: BTreeSet<(String, String)>,
}

impl Living {
    /// Is it a copy whose resource is gone? A copy that names a living resource belongs to that one; and a source that
    /// was restored from one of its copies is no copy.
    fn orphan(&self, copy: Marked) -> Option<Orphan> {
        let meta = &copy.meta;
        if is_own_source(copy.key.kind, meta) || copy.is_passed_on() {
            return None;
        }
        let label = meta.labels.as_ref().and_then(|labels| labels.get(SYNC_UID_LABEL))?;
        let owner = Owner::of(meta);
        let lives = self.uids.contains(label)
            || owner.as_ref().is_some_and(|owner| {
                self.uids.contains(&owner.uid)
                    || self.names.contains(&(owner.namespace.clone(), owner.name.clone()))
            });
        let of = if copy.key.kind.is_of_config_map_sync() { "ConfigMapSync" } else { "ResourceSync" };
        let holder = owner.map_or_else(
            || format!("a {of} with uid {label}"),
            |owner| format!("{of} {}/{}", owner.namespace, owner.name),
        );
        (!lives).then_some(Orphan { copy, holder })
    }
}

/// Removes the ownership labels and annotations from the copy as it was listed.
pub async fn adopt(client: &Client, copy: &Marked) -> Result<(), kube::Error> {
    let ObjectKey { kind, namespace, name } = &copy.key;
    let api: Api<Object> = Api::namespaced_with(client.clone(), namespace, kind);
    let mut object = api.get(name).await?;
    // Its uid and resourceVersion are those that were listed.
    object.metadata = released(copy.meta.clone());
    api.replace(name, &PostParams::default(), &object).await?;
    Ok(())
}

/// Deletes the copy as it was listed.
pub async fn delete(client: &Client, copy: &Marked) -> Result<(), kube::Error> {
    let ObjectKey { kind, namespace, name } = &copy.key;
    let api: Api<Object> = Api::namespaced_with(client.clone(), namespace, kind);
    let (uid, resource_version) = (copy.meta.uid.clone(), copy.meta.resource_version.clone());
    let preconditions = Some(Preconditions { uid, resource_version });
    api.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
