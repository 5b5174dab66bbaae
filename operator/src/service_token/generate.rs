//! Makes, changes and removes generated accounts, as the writer of the resource.
//!
//! Each request carries its own precondition: what is made was not there (409 if it is: then it is someone
//! else's), what is changed or removed is what was seen, by uid and resourceVersion. Killed at any point, the
//! next reconciliation finds by the label what was made.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use tracing::info;
use weaver_api::ownership::{Owner, TOKEN_UID_LABEL, is_made_by};
use weaver_api::validate::ValidAccount;
use weaver_client::call::{CallError, call};
use weaver_client::pages::each_page;
use weaver_tenant::TenantClient;

use super::accounts::{self, AccountPlan};
use super::fill::FIELD_MANAGER;
use super::plan::AccountState;
use crate::log_code;

/// Bytes of labels and annotations that are kept of all accounts of a resource: anyone who may write them
/// must not fill the operator's memory.
const KEPT: usize = 4 << 20;

/// Requests in flight at once.
const CONCURRENT: usize = 8;

/// The accounts of one resource.
pub struct Accounts<'a> {
    pub tenant: &'a TenantClient,
    pub owner: &'a Owner,
    /// The resource, as owner.
    pub reference: &'a OwnerReference,
    /// Names that the spec uses as its writer or in its list of tokens.
    pub used: &'a BTreeSet<String>,
}

/// What is known of them after they were made.
#[derive(Default)]
pub struct MadeAccounts {
    /// Each that is wanted, or why it is not there.
    pub accounts: BTreeMap<String, Result<AccountState, String>>,
    /// Those that were there before, or are there now; `None` where that is not known.
    pub there: Option<usize>,
    /// Those that are still to be removed.
    pub surplus: Vec<ObjectMeta>,
    /// Accounts whose request was refused for want of rights, it seems.
    pub refused: BTreeSet<String>,
    /// A list was refused.
    pub unlisted: bool,
    /// Why it is not known which are there, or why one could not be changed.
    pub troubles: Vec<String>,
    /// Something was written, or tried.
    pub sent: bool,
}

/// What became of those that are not wanted any more.
#[derive(Default)]
pub struct Removed {
    pub count: usize,
    /// What is in the way of the others.
    pub not_removed: Vec<(String, CallError)>,
    /// Those that stay until their token has left the Secret.
    pub kept: Vec<String>,
}

impl Accounts<'_> {
    /// Sees to it that those that are `wanted` are there.
    pub async fn make(&self, wanted: &[ValidAccount]) -> MadeAccounts {
        match self.list(wanted).await {
            Ok(found) => self.carry_out(accounts::plan(self.owner, wanted, self.used, &found)).await,
            Err(error) => {
                let unknown = |account: &ValidAccount| (account.name.clone(), Err(error.to_string()));
                let unlisted = matches!(error, CallError::Forbidden(_));
                let troubles = vec![format!("the accounts could not be listed: {error}")];
                MadeAccounts {
                    accounts: wanted.iter().map(unknown).collect(),
                    unlisted,
                    troubles,
                    ..MadeAccounts::default()
                }
            }
        }
    }

    async fn carry_out(&self, plan: AccountPlan) -> MadeAccounts {
        let sent = !plan.make.is_empty() || !plan.mark.is_empty();
        let there = plan.ready.len() + plan.going.len() + plan.surplus.len();
        let mut made = MadeAccounts { sent, surplus: plan.surplus, ..MadeAccounts::default() };
        let ready = plan.ready.into_iter().map(|(name, uid)| (name, Ok(AccountState::Allowed { uid })));
        made.accounts.extend(ready);
        made.accounts.extend(plan.foreign.into_iter().map(|name| (name, Ok(AccountState::Foreign))));
        let going = "it is being deleted, and is made again once it is gone";
        made.accounts.extend(plan.going.into_iter().map(|name| (name, Err(going.to_owned()))));
        let created: Vec<_> = plan.make.into_iter().map(|meta| self.create(meta)).collect();
        let created: Vec<_> = stream::iter(created).buffer_unordered(CONCURRENT).collect().await;
        let count = created.iter().filter(|(_, answer)| answer.is_ok()).count();
        for (name, answer) in created {
            made.take(name, answer);
        }
        made.there = Some(there + count);
        let marked: Vec<_> = plan.mark.iter().map(|(name, patch)| self.mark(name, patch)).collect();
        let marked: Vec<_> = stream::iter(marked).buffer_unordered(CONCURRENT).collect().await;
        // It is there all the same, and its token is renewed.
        for (name, answer) in marked {
            let Err(error) = answer else { continue };
            if matches!(error, CallError::Forbidden(_)) {
                made.refused.insert(name.clone());
            }
            made.troubles.push(format!("{name} could not be changed: {error}"));
        }
        if count > 0 {
            info!(code = log_code::ACCOUNTS_CHANGED, service_token = %self.owner.name, namespace = %self.owner.namespace, made = count, "made accounts");
        }
        made
    }

    /// All with the label of the resource that are its own or in the way of one that is wanted.
    async fn list(&self, wanted: &[ValidAccount]) -> Result<Vec<ObjectMeta>, CallError> {
        let names: BTreeSet<&str> = wanted.iter().map(|account| account.name.as_str()).collect();
        let label = format!("{TOKEN_UID_LABEL}={}", self.owner.uid);
        let (mut found, mut kept) = (Vec::new(), 0);
        let take = |page: Vec<ObjectMeta>| {
            for mut meta in page {
                let is_wanted = meta.name.as_deref().is_some_and(|name| names.contains(name));
                if !is_wanted && !is_made_by(self.owner, &meta) {
                    continue;
                }
                if !is_wanted {
                    let mark = (TOKEN_UID_LABEL.to_owned(), self.owner.uid.clone());
                    (meta.labels, meta.annotations) = (Some([mark].into()), None);
                }
                kept += size(&meta);
                found.push(meta);
            }
            if kept > KEPT { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        each_page(&self.api(), &label, take).await?;
        if kept > KEPT { Err(CallError::TooLarge) } else { Ok(found) }
    }

    async fn create(&self, mut meta: ObjectMeta) -> (String, Result<AccountState, CallError>) {
        let name = meta.name.clone().unwrap_or_default();
        meta.owner_references = Some(vec![self.reference.clone()]);
        let account = ServiceAccount { metadata: meta, ..ServiceAccount::default() };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let answer = match call(self.api().create(&params, &account)).await {
            Ok(made) => Ok(AccountState::Allowed { uid: made.metadata.uid.unwrap_or_default() }),
            // Another conflict is one of a quota, which is counted at the same time.
            Err(CallError::Conflict(status)) if status.reason == "AlreadyExists" => Ok(AccountState::Foreign),
            Err(error) => Err(error),
        };
        (name, answer)
    }

    async fn mark(&self, name: &str, patch: &serde_json::Value) -> (String, Result<AccountState, CallError>) {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let answer = call(self.api().patch_metadata(name, &params, &Patch::Merge(patch))).await;
        (
            name.to_owned(),
            answer.map(|one| AccountState::Allowed { uid: one.metadata.uid.unwrap_or_default() }),
        )
    }

    /// Removes those that are not wanted any more, except those that are `held`.
    pub async fn remove(&self, surplus: &[ObjectMeta], held: &BTreeSet<&str>) -> Removed {
        let is_held = |meta: &&ObjectMeta| meta.name.as_deref().is_some_and(|name| held.contains(name));
        let (kept, surplus): (Vec<_>, Vec<_>) = surplus.iter().partition(is_held);
        let kept = kept.into_iter().filter_map(|meta| meta.name.as_deref());
        let kept = kept.map(|name| format!("{name} stays: its token is still in the Secret")).collect();
        let removed: Vec<_> = surplus.into_iter().map(|meta| self.delete(meta)).collect();
        let removed: Vec<_> = stream::iter(removed).buffer_unordered(CONCURRENT).collect().await;
        let count = removed.iter().filter(|(_, answer)| answer.is_ok()).count();
        if count > 0 {
            info!(code = log_code::ACCOUNTS_CHANGED, service_token = %self.owner.name, namespace = %self.owner.namespace, removed = count, "removed accounts");
        }
        let not_removed = removed.into_iter().filter_map(|(name, answer)| Some((name, answer.err()?)));
        Removed { count, not_removed: not_removed.collect(), kept }
    }

    async fn delete(&self, seen: &ObjectMeta) -> (String, Result<(), CallError>) {
        let name = seen.name.clone().unwrap_or_default();
        let preconditions =
            Preconditions { uid: seen.uid.clone(), resource_version: seen.resource_version.clone() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let answer = match call(self.api().delete(&name, &params)).await {
            Ok(_) | Err(CallError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        };
        (name, answer)
    }

    fn api(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.tenant.client(), &self.owner.namespace)
    }
}

/// Bytes of what others write on an account, and something for the rest.
fn size(meta: &ObjectMeta) -> usize {
    let maps = [&meta.labels, &meta.annotations].into_iter().flatten().flatten();
    let owners = meta.owner_references.as_ref().map_or(0, Vec::len);
    256 * (1 + owners) + maps.map(|(key, value)| key.len() + value.len()).sum::<usize>()
}

impl MadeAccounts {
    fn take(&mut self, name: String, answer: Result<AccountState, CallError>) {
        if matches!(answer, Err(CallError::Forbidden(_))) {
            self.refused.insert(name.clone());
        }
        self.accounts.insert(name, answer.map_err(|error| error.to_string()));
    }
}
