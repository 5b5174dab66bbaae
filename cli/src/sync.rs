//! `weaver sync`: ConfigMapSyncs; and `explain`, why one is as it is, looked at with the rights of the person
//! who types.
//!
//! To explain, the same code decides here as in the operator; nothing is written but what `--grant` asks for, and of content
//! only the names of keys are shown.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use weaver_api::marks::SYNC_NOW_ANNOTATION;
use weaver_api::names::SUBDOMAIN_MAX;
use weaver_api::v1beta1::{ConfigMapSync, ConflictPolicy, Selector};
use weaver_api::validate::{Sources, ValidSync, validate};
use weaver_copies::content::Content;
use weaver_copies::copy::owner;
use weaver_copies::copy::{Desired, source_reference};
use weaver_copies::metadata::Metadata;
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{Before, CopyStep, Takes, by_object};
use weaver_copies::rights::{self, EXPLAINED};
use weaver_copies::sources::{MAX_SOURCES, may_be_source, query};
use weaver_tenant::Account;

use crate::grant::Part;
use crate::missing::{self, Missing, Targets, Tell};
use crate::resource::kind::Kind;
use crate::resource::{self, sync_flags};
use crate::stdout::{agree, say, show};
use crate::{connection, grant};

/// So many more are listed than may be selected, since some may be copies.
const PAGE: u32 = 100;

/// Copies that are compared one after the other.
const MAX_COMPARED: usize = 1_000;

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
        /// Grant the missing rights, using your own, and make the operator retry; asks first
        #[arg(long)]
        grant: bool,
        /// Grant without asking
        #[arg(long, requires = "grant")]
        yes: bool,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Create(options) => sync_flags::run(&options).await,
        Verb::Resource(verb) => resource::run(Kind::Sync, verb).await,
        Verb::Explain { name, namespace, grant, yes } => {
            explain(&name, namespace, grant.then_some(yes)).await.map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn explain(name: &str, namespace: Option<String>, grants: Option<bool>) -> anyhow::Result<()> {
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
    // What is found on the way is part of the answer.
    let tell: Tell<'_> = &|line: &str| say(line);
    let Some(compared) = compare(&client, &sync, tell).await else { return Ok(()) };
    if let Some(yes) = grants {
        return mend(&client, &compared, name, yes, tell).await;
    }
    if let Some(role) = name_missing(&client, &compared, tell).await? {
        show(role);
    }
    Ok(())
}

/// A ConfigMapSync of which it was said what there is.
pub struct Compared {
    pub account: Account,
    spec: ValidSync,
    targets: Targets,
}

/// Says what there is, with the rights of the person; `None` where the spec breaks a rule, which is said instead.
pub async fn compare(client: &Client, sync: &ConfigMapSync, tell: Tell<'_>) -> Option<Compared> {
    let compared = read(client, sync, tell).await?;
    tell_copies(client, sync, &compared.spec, &compared.targets.all, tell).await;
    Some(compared)
}

/// What it asks for; `None` where the spec breaks a rule, which is said instead.
pub async fn read(client: &Client, sync: &ConfigMapSync, tell: Tell<'_>) -> Option<Compared> {
    match validate(sync.desired()) {
        Ok(spec) => {
            let namespace = sync.namespace().unwrap_or_default();
            let account = Account { namespace, name: spec.account.clone() };
            let targets = missing::targets(client, &account.namespace, &spec, tell).await;
            Some(Compared { account, spec, targets })
        }
        Err(faults) => {
            for fault in faults {
                tell(&fault.to_string());
            }
            None
        }
    }
}

async fn tell_copies(
    client: &Client,
    sync: &ConfigMapSync,
    spec: &ValidSync,
    targets: &BTreeSet<String>,
    tell: Tell<'_>,
) {
    let names = match &spec.sources {
        Sources::Named(name) => vec![name.clone()],
        Sources::Selected(selector) => selected(client, spec, selector, tell).await,
    };
    let fitting = (MAX_COMPARED / targets.len().max(1)).max(1);
    if names.len() > fitting {
        tell(&format!("of these the first {fitting} are compared"));
    }
    for name in names.iter().take(fitting) {
        tell_copies_of(client, sync, spec, (name, targets), tell).await;
    }
}

/// Names of the sources that are selected. Says how many there are, and why there are none.
async fn selected(client: &Client, spec: &ValidSync, selector: &Selector, tell: Tell<'_>) -> Vec<String> {
    let ValidSync { source_kind: kind, source_namespace: namespace, .. } = spec;
    let objects: Api<Object> = Api::namespaced_with(client.clone(), namespace, kind);
    let most = u32::try_from(MAX_SOURCES).unwrap_or(u32::MAX).saturating_add(PAGE);
    let params = ListParams::default().labels(&query(selector)).limit(most);
    let found = match objects.list_metadata(&params).await {
        Ok(found) => found,
        Err(error) => {
            tell(&format!("{kind}s in {namespace} could not be listed with your rights: {error}"));
            return Vec::new();
        }
    };
    let is_whole = found.metadata.continue_.as_deref().unwrap_or_default().is_empty();
    let sources = found.items.into_iter().filter(|object| may_be_source(&object.metadata));
    let names: Vec<String> = sources.filter_map(|object| object.metadata.name).collect();
    let those = format!("{kind}s in {namespace} that spec.source.selector selects");
    if names.len() > MAX_SOURCES {
        let at_least = if is_whole { "" } else { "at least " };
        tell(&format!(
            "{at_least}{} {those}: nothing is copied, since at most {MAX_SOURCES} are allowed; ask for more labels, or \
             divide them among several ConfigMapSyncs",
            names.len()
        ));
        return Vec::new();
    }
    tell(&format!("{} {those}", names.len()));
    names
}

async fn tell_copies_of(
    client: &Client,
    sync: &ConfigMapSync,
    spec: &ValidSync,
    (name, targets): (&str, &BTreeSet<String>),
    tell: Tell<'_>,
) {
    let owner = owner(sync);
    let (place, copy_name) = (ObjectKey::of_source(spec, name), spec.copy_name(name));
    if copy_name.len() > SUBDOMAIN_MAX {
        tell(&format!(
            "source {place} is not copied: the name of its copies would have {} characters, and at most \
             {SUBDOMAIN_MAX} are allowed",
            copy_name.len()
        ));
        return;
    }
    let objects: Api<Object> = Api::namespaced_with(client.clone(), &place.namespace, &place.kind);
    match objects.get_opt(&place.name).await {
        Ok(Some(source)) => {
            tell(&format!("source {place} exists"));
            match Content::of(&source).chosen(&spec.keys) {
                Ok(content) => {
                    let metadata = Metadata::new(&owner, &source_reference(&place), &source.metadata, spec);
                    let copy = Desired::new(owner, place.kind, &copy_name, metadata, content);
                    for target in targets {
                        let state = of_target(client, &copy, spec, target).await;
                        tell(&format!("{}: {state}", copy.place(target)));
                    }
                }
                Err(clash) => tell(&clash.to_string()),
            }
        }
        Ok(None) => tell(&format!("source {place} does not exist")),
        Err(error) => tell(&format!("source {place} could not be read with your rights: {error}")),
    }
}

/// Says whether rights are missing; returns which, and the Role that grants them.
///
/// # Errors
/// The API server cannot be asked, or does not let the person ask.
pub async fn name_missing(
    client: &Client,
    compared: &Compared,
    tell: Tell<'_>,
) -> anyhow::Result<Option<String>> {
    let Compared { account, spec, targets } = compared;
    let asked = targets.all.iter().take(EXPLAINED).cloned().collect();
    let Missing { rights, exist, any } = missing::named(client, account, spec, &asked, tell).await?;
    let there = part_of(targets.all.len());
    if !any {
        tell(&format!("{account} holds every right that is needed{there}"));
    } else if !there.is_empty() {
        tell(&format!("rights were checked{there}"));
    }
    Ok((!rights.is_empty()).then(|| rights::explain(account, &rights, exist)))
}

/// In which of so many targets rights are checked, if not in all.
fn part_of(targets: usize) -> String {
    if targets > EXPLAINED {
        format!(" in the first {EXPLAINED} of {targets} targets")
    } else {
        String::new()
    }
}

/// What is to be made for the account, as objects.
///
/// # Errors
/// The selected namespaces are not known, or the API server cannot be asked.
pub async fn lacking(client: &Client, compared: &Compared, tell: Tell<'_>) -> anyhow::Result<Vec<Part>> {
    let Compared { account, spec, targets } = compared;
    let missing = missing::to_grant(client, account, spec, targets, tell).await?;
    grant::lacking(client, account, &missing).await
}

/// Makes these objects, and has the operator retry the ConfigMapSync at once.
///
/// # Errors
/// The API server refuses one; those before it are there.
pub async fn make(client: &Client, namespace: &str, name: &str, parts: &[Part]) -> anyhow::Result<()> {
    grant::make(client, parts).await?;
    let syncs: Api<ConfigMapSync> = Api::namespaced(client.clone(), namespace);
    let now = json!({"metadata": {"annotations": {SYNC_NOW_ANNOTATION: Timestamp::now().to_string()}}});
    let asked = syncs.patch_metadata(name, &PatchParams::default(), &Patch::Merge(now)).await;
    asked.with_context(|| format!("asking the operator to retry {namespace}/{name} at once"))?;
    Ok(())
}

/// Makes what the account lacks, and has the operator look again. Who wrote the spec chose source and targets, and need
/// not be who grants: so that is shown and asked.
async fn mend(
    client: &Client,
    compared: &Compared,
    name: &str,
    yes: bool,
    tell: Tell<'_>,
) -> anyhow::Result<()> {
    let parts = lacking(client, compared, tell).await?;
    let account = &compared.account;
    if parts.is_empty() {
        say(format_args!("{account} lacks no right"));
        return Ok(());
    }
    say(format_args!("{account} would be granted:"));
    grant::show(&parts);
    agree(yes)?;
    make(client, &account.namespace, name, &parts).await?;
    say("the operator retries now");
    Ok(())
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
        CopyStep::Keep => "holds the copy".into(),
        CopyStep::Create => "does not exist".into(),
        CopyStep::Update(Before::Ours, _) => format!("is a copy and differs: {}", differs()),
        CopyStep::Update(..) => "is not a copy yet and would be adopted".into(),
        CopyStep::Replace(_) => {
            format!("is a copy that can only be deleted and created again: {}", differs())
        }
        CopyStep::Refuse(foreign) => format!("is not touched: {foreign}"),
        CopyStep::Inspect => "was not checked".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_not_all_targets_are_checked_it_is_said() {
        assert_eq!(part_of(EXPLAINED), "");
        assert_eq!(part_of(70), " in the first 50 of 70 targets");
    }
}
