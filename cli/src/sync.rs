//! `weaver sync`: ConfigMapSyncs; and `explain`, why one is as it is, looked at with the rights of the person
//! who types.
//!
//! To explain, the same code decides here as in the operator; nothing is written, and of content only the names of keys
//! are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use weaver_api::v1beta1::{ConfigMapSync, ConflictPolicy};
use weaver_api::validate::{ValidSync, validate};
use weaver_copies::content::Content;
use weaver_copies::copy::owner;
use weaver_copies::copy::{Desired, source_reference};
use weaver_copies::metadata::Metadata;
use weaver_copies::namespace::{Traits, selects};
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{Before, Step, Takes, by_object};
use weaver_copies::rights::{self, EXPLAINED, Right, for_source, for_target};
use weaver_tenant::Account;
use weaver_tenant::review::denied;

use crate::resource::kind::Kind;
use crate::resource::{self, sync_flags};
use crate::stdout::{say, show};
use crate::{connection, review};

#[derive(Subcommand)]
pub enum Verb {
    /// Create a ConfigMapSync from flags or from a manifest; never overwrites one
    Create(sync_flags::SyncFlags),
    #[command(flatten)]
    Resource(resource::Verb),
    /// Compare desired and actual copies, and name missing rights
    Explain {
        /// Name of the ConfigMapSync
        name: String,
        /// Namespace (default: that of the kubeconfig's context)
        #[arg(short, long)]
        namespace: Option<String>,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Create(options) => sync_flags::run(&options).await,
        Verb::Resource(verb) => resource::run(Kind::Sync, verb).await,
        Verb::Explain { name, namespace } => explain(&name, namespace).await.map(|()| ExitCode::SUCCESS),
    }
}

async fn explain(name: &str, namespace: Option<String>) -> anyhow::Result<()> {
    let client = connection::client().await?;
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let syncs: Api<ConfigMapSync> = Api::namespaced(client.clone(), &namespace);
    let sync =
        syncs.get_opt(name).await.with_context(|| format!("reading ConfigMapSync {namespace}/{name}"))?;
    let sync = sync.ok_or_else(|| anyhow!("there is no ConfigMapSync {namespace}/{name}"))?;
    for condition in sync.status.iter().flat_map(|status| &status.conditions) {
        let first = condition.message.lines().next().unwrap_or_default();
        say(format_args!("{}={} ({}) {first}", condition.type_, condition.status, condition.reason));
    }
    match validate(sync.desired()) {
        Ok(spec) => compare(&client, &sync, &spec).await,
        Err(faults) => {
            for fault in faults {
                say(fault);
            }
            Ok(())
        }
    }
}

async fn compare(client: &Client, sync: &ConfigMapSync, spec: &ValidSync) -> anyhow::Result<()> {
    let owner = owner(sync);
    let account = Account { namespace: owner.namespace.clone(), name: spec.account.clone() };
    let targets = targets(client, spec).await;
    let place = ObjectKey::of_source(spec);
    let objects: Api<Object> = Api::namespaced_with(client.clone(), &place.namespace, &place.kind);
    match objects.get_opt(&place.name).await {
        Ok(Some(source)) => {
            say(format_args!("source {place} exists"));
            match Content::of(&source).chosen(&spec.keys) {
                Ok(content) => {
                    let metadata = Metadata::new(&owner, &source_reference(&place), &source.metadata, spec);
                    let copy = Desired::new(owner, place.kind, &spec.copy_name, metadata, content);
                    for target in &targets {
                        say(format_args!(
                            "{}: {}",
                            copy.place(target),
                            of_target(client, &copy, spec, target).await
                        ));
                    }
                }
                Err(clash) => say(clash),
            }
        }
        Ok(None) => say(format_args!("source {place} does not exist")),
        Err(error) => say(format_args!("source {place} could not be read with your rights: {error}")),
    }
    let missing = denied(needed(spec, &targets), |right| review::allowed(client, &account, right)).await?;
    if missing.is_empty() {
        say(format_args!("{account} holds every right that is needed"));
        return Ok(());
    }
    let presence = presence(client, &missing).await;
    for (namespace, presence) in &presence {
        match presence {
            Presence::There => {}
            Presence::Absent => say(format_args!(
                "namespace {namespace} does not exist: create it, or take it out of the spec; there is nothing to grant in it"
            )),
            Presence::Hidden(why) => {
                say(format_args!("it is unknown whether namespace {namespace} exists: {why}"));
            }
        }
    }
    let (grantable, exist) = grantable(missing, &presence);
    if !grantable.is_empty() {
        show(rights::explain(&account, &grantable, exist));
    }
    Ok(())
}

/// A namespace, as the person who types may see it.
#[derive(Debug, Eq, PartialEq)]
enum Presence {
    There,
    Absent,
    /// The API server does not say. Why.
    Hidden(String),
}

/// Each namespace in which a right is missing.
async fn presence(client: &Client, missing: &BTreeSet<Right>) -> BTreeMap<String, Presence> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let names: BTreeSet<&String> = missing.iter().map(|right| &right.namespace).collect();
    let mut presence = BTreeMap::new();
    for name in names {
        let seen = match namespaces.get_metadata_opt(name).await {
            Ok(Some(_)) => Presence::There,
            Ok(None) => Presence::Absent,
            Err(error) => Presence::Hidden(error.to_string()),
        };
        presence.insert(name.clone(), seen);
    }
    presence
}

/// Those of the `missing` rights that a Role can grant, since a namespace that does not exist holds none; and
/// do all the others' namespaces exist for certain?
fn grantable(missing: BTreeSet<Right>, presence: &BTreeMap<String, Presence>) -> (BTreeSet<Right>, bool) {
    let of = |right: &Right| presence.get(&right.namespace);
    let grantable: BTreeSet<Right> =
        missing.into_iter().filter(|right| of(right) != Some(&Presence::Absent)).collect();
    let exist = grantable.iter().all(|right| of(right) == Some(&Presence::There));
    (grantable, exist)
}

/// Named and, as far as who types may list namespaces, selected ones.
async fn targets(client: &Client, spec: &ValidSync) -> BTreeSet<String> {
    let mut targets = spec.targets.clone();
    if spec.selector.is_none() {
        return targets;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.list_metadata(&ListParams::default()).await {
        Ok(list) => {
            let selected = list.iter().filter(|namespace| {
                let traits = Traits::of(&namespace.metadata);
                !traits.terminating && selects(spec, &namespace.name_any(), &traits)
            });
            targets.extend(selected.map(kube::ResourceExt::name_any));
        }
        Err(error) => {
            say(format_args!("the selected namespaces could not be listed with your rights: {error}"));
        }
    }
    targets
}

async fn of_target(client: &Client, copy: &Desired, spec: &ValidSync, namespace: &str) -> String {
    let objects: Api<Object> = Api::namespaced_with(client.clone(), namespace, &copy.kind);
    let found = match objects.get_opt(&copy.name).await {
        Ok(found) => found,
        Err(error) => return format!("could not be read with your rights: {error}"),
    };
    let takes = Takes { unmarked: spec.conflict_policy == ConflictPolicy::Adopt, ..Takes::default() };
    let differs = || found.as_ref().map(|found| copy.differences(found).join(", ")).unwrap_or_default();
    match by_object(copy, takes, found.as_ref()) {
        Step::Keep => "holds the copy".into(),
        Step::Create => "does not exist".into(),
        Step::Update(Before::Ours, _) => format!("is a copy and differs: {}", differs()),
        Step::Update(..) => "is not a copy yet and would be adopted".into(),
        Step::Replace(_) => format!("is a copy that can only be deleted and created again: {}", differs()),
        Step::Refuse(foreign) => format!("is not touched: {foreign}"),
        Step::Inspect => "was not checked".into(),
    }
}

fn needed(spec: &ValidSync, targets: &BTreeSet<String>) -> Vec<Right> {
    let source = for_source(spec.source_kind, &spec.source_namespace, &spec.source_name);
    let targets = targets.iter().take(EXPLAINED).flat_map(|target| for_target(spec.source_kind, target));
    source.into_iter().chain(targets).collect()
}

#[cfg(test)]
mod tests {
    use weaver_api::v1beta1::SourceKind;

    use super::*;

    #[test]
    fn no_role_is_printed_for_a_namespace_that_does_not_exist() {
        let missing = || -> BTreeSet<Right> {
            ["there", "absent", "hidden"]
                .into_iter()
                .flat_map(|name| for_target(SourceKind::ConfigMap, name))
                .collect()
        };
        let presence = |hidden: Presence| -> BTreeMap<String, Presence> {
            [("there", Presence::There), ("absent", Presence::Absent), ("hidden", hidden)]
                .map(|(name, presence)| (name.to_owned(), presence))
                .into()
        };
        for (hidden, printed, known) in [
            (Presence::Hidden("403".into()), vec!["hidden", "there"], false),
            (Presence::There, vec!["hidden", "there"], true),
            (Presence::Absent, vec!["there"], true),
        ] {
            let (grantable, exist) = grantable(missing(), &presence(hidden));
            let names: BTreeSet<&str> = grantable.iter().map(|right| right.namespace.as_str()).collect();
            assert_eq!((names.into_iter().collect::<Vec<_>>(), exist), (printed, known));
        }
    }
}
