//! `weaver sync`: ConfigMapSyncs; and `explain`, why one of these or a ResourceSync is as it is, by the rights of
//! the user.
//!
//! To explain, the same code decides here as in the operator; nothing is written but what `--grant` asks for,
//! and of content only the names of keys are shown.

pub mod any_sync;
pub mod copies;
pub mod planned;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::json;
use weaver_api::ownership::SYNC_NOW_ANNOTATION;
use weaver_api::validate::ValidSync;
use weaver_copies::rights::{self, EXPLAINED};
use weaver_tenant::Account;

use crate::grant::GrantObject;
use crate::missing::{self, CopyTargets, MissingRights, Tell};
use crate::resource::kind::Kind;
use crate::resource::{self, sync_flags};
use crate::stdout::{agree, say, show};
use crate::{connection, grant};
use any_sync::AnySync;
use planned::{PlannedCopy, Show};

#[derive(Subcommand)]
pub enum SyncVerb {
    /// Create a ConfigMapSync, or with --kind a ResourceSync, from flags or from a manifest; never overwrites one
    Create(Box<sync_flags::SyncFlags>),
    #[command(flatten)]
    Resource(resource::ResourceVerb),
    /// Compare desired and actual copies, and name missing rights
    Explain {
        /// Name of the ConfigMapSync or ResourceSync
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

pub async fn run(verb: SyncVerb) -> anyhow::Result<ExitCode> {
    match verb {
        SyncVerb::Create(options) => sync_flags::run(&options).await,
        SyncVerb::Resource(verb) => resource::run(Kind::ConfigMapSync, verb).await,
        SyncVerb::Explain { name, namespace, grant, yes } => {
            explain(&name, namespace, grant.then_some(yes)).await.map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn explain(name: &str, namespace: Option<String>, grants: Option<bool>) -> anyhow::Result<()> {
    let client = connection::client().await?;
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    for sync in AnySync::find(&client, &namespace, name).await? {
        for condition in &sync.conditions {
            let first = condition.message.lines().next().unwrap_or_default();
            say(format_args!("{}={} ({}) {first}", condition.type_, condition.status, condition.reason));
        }
        // Notes on the way are part of the answer.
        let tell: Tell<'_> = &|line: &str| say(line);
        let show_copy: Show<'_> = &|copy: PlannedCopy| say(copy);
        let Some(compared) = compare(&client, &sync, tell, show_copy).await else { continue };
        match grants {
            Some(yes) => mend(&client, &compared, name, yes, tell).await?,
            None => {
                if let Some(role) = name_missing(&client, &compared, tell).await? {
                    show(role);
                }
            }
        }
    }
    Ok(())
}

/// A resource that was compared with its copies.
pub struct Compared {
    pub account: Account,
    pub kind: Kind,
    spec: ValidSync,
    targets: CopyTargets,
}

/// Prints the state of the resource, with the rights of the user, and what will be done with each copy; `None` where
/// the spec breaks a rule, which is printed instead.
pub async fn compare(client: &Client, sync: &AnySync, tell: Tell<'_>, show: Show<'_>) -> Option<Compared> {
    let compared = read(client, sync, tell).await?;
    copies::Comparison { client, sync, spec: &compared.spec, targets: &compared.targets, tell, show }
        .run()
        .await;
    Some(compared)
}

/// What it asks for; `None` where the spec breaks a rule, which is said instead.
pub async fn read(client: &Client, sync: &AnySync, tell: Tell<'_>) -> Option<Compared> {
    match &sync.spec {
        Ok(spec) => {
            let account = Account { namespace: sync.owner().namespace, name: spec.account.clone() };
            let targets = missing::targets(client, &account.namespace, spec, tell).await;
            Some(Compared { account, kind: sync.kind, spec: spec.clone(), targets })
        }
        Err(faults) => {
            for fault in faults {
                tell(fault);
            }
            None
        }
    }
}

/// Says whether rights are missing; returns which, and the Role that grants them.
pub async fn name_missing(
    client: &Client,
    compared: &Compared,
    tell: Tell<'_>,
) -> anyhow::Result<Option<String>> {
    let Compared { account, spec, targets, .. } = compared;
    let asked = targets.all.iter().take(EXPLAINED).cloned().collect();
    let MissingRights { rights, exist, any } = missing::named(client, account, spec, &asked, tell).await?;
    let there = part_of(targets.all.len());
    let lacks = lacks_besides(client, account).await;
    for line in &lacks {
        tell(line);
    }
    if !any && lacks.is_empty() {
        tell(&format!("{account} holds every right that is needed{there}"));
    } else if !there.is_empty() {
        tell(&format!("rights were checked{there}"));
    }
    Ok((!rights.is_empty()).then(|| rights::explain(account, &rights, exist)))
}

/// Why the account's rights cannot be used, whatever they are. What the user may not ask is left out.
async fn lacks_besides(client: &Client, account: &Account) -> Vec<String> {
    if matches!(grant::exists(client, account).await, Ok(false)) {
        return vec![format!("{account} does not exist")];
    }
    let may_mint = grant::may_mint(client, &account.namespace, Some(&account.name)).await;
    let line = || format!("the operator may not request tokens for {account}, so it cannot use its rights");
    matches!(may_mint, Ok(false)).then(line).into_iter().collect()
}

/// In which of so many targets rights are checked, if not in all.
fn part_of(targets: usize) -> String {
    if targets > EXPLAINED {
        format!(" in the first {EXPLAINED} of {targets} targets")
    } else {
        String::new()
    }
}

/// The objects to create for the account.
pub async fn lacking(
    client: &Client,
    compared: &Compared,
    tell: Tell<'_>,
) -> anyhow::Result<Vec<GrantObject>> {
    let Compared { account, spec, targets, .. } = compared;
    let missing = missing::to_grant(client, account, spec, targets, tell).await?;
    grant::lacking(client, account, &missing).await
}

/// Has the operator retry the resource at once.
///
/// # Errors
/// The API server refuses it; the operator retries by itself after a while.
pub async fn retry(client: &Client, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<()> {
    let syncs: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource());
    let now = json!({"metadata": {"annotations": {SYNC_NOW_ANNOTATION: Timestamp::now().to_string()}}});
    let asked = syncs.patch_metadata(name, &PatchParams::default(), &Patch::Merge(now)).await;
    asked.with_context(|| format!("asking the operator to retry {namespace}/{name} at once"))?;
    Ok(())
}

/// Creates what the account lacks, and has the operator retry. The author of the spec chose source and targets, and
/// need not be the user who grants: so that is shown and confirmed.
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
    grant::make(client, &parts).await?;
    retry(client, compared.kind, &account.namespace, name).await?;
    say("the operator retries now");
    Ok(())
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
