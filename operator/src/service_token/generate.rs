//! Makes, changes and removes generated accounts, as the writer of the resource.
//!
//! Each request carries its own precondition: what is made was not there (409 if it is: then it is someone else's), what
//! is changed or removed is what was seen, by uid and resourceVersion. Killed at any point, the next reconciliation finds
//! by the label what was made.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use tracing::info;
use weaver_api::marks::{Owner, TOKEN_UID_LABEL};
use weaver_api::validate::ValidAccount;
use weaver_client::call::{CallError, call};
use weaver_tenant::TenantClient;

use super::accounts::{self, AccountPlan};
use super::fill::FIELD_MANAGER;
use super::plan::Account;
use crate::code;

/// Accounts in one answer of a list.
const PAGE: u32 = 100;

/// Requests in flight at once.
const CONCURRENT: usize = 8;

/// The accounts of one resource.
pub struct Accounts<'a> {
    pub tenant: &'a TenantClient,
    pub owner: &'a Owner,
    /// The resource, as owner.
    pub reference: &'a OwnerReference,
}

/// What is known of them after they were made.
#[derive(Default)]
pub struct Made {
    /// Each that is wanted, or why it is not there.
    pub accounts: BTreeMap<String, Result<Account, String>>,
    /// Those that were there before, or are there now; `None` where that is not known.
    pub there: Option<usize>,
    /// Those that are still to be removed.
    pub surplus: Vec<ObjectMeta>,
    /// Accounts whose request was refused for want of rights, it seems.
    pub refused: BTreeSet<String>,
    /// A list was refused.
    pub unlisted: bool,
    /// Something was written, or tried.
    pub sent: bool,
}

/// What became of those that are not wanted any more.
#[derive(Default)]
pub struct Removed {
    pub count: usize,
    /// What is in the way of the others.
    pub not_removed: Vec<(String, CallError)>,
}

impl Accounts<'_> {
    /// Sees to it that those that are `wanted` are there.
    pub async fn make(&self, wanted: &[ValidAccount]) -> Made {
        match self.list().await {
            Ok(found) => self.carry_out(accounts::plan(self.owner, wanted, &found)).await,
            Err(error) => {
                let unknown = |account: &ValidAccount| (account.name.clone(), Err(error.to_string()));
                let unlisted = matches!(error, CallError::Forbidden(_));
                Made { accounts: wanted.iter().map(unknown).collect(), unlisted, ..Made::default() }
            }
        }
    }

    async fn carry_out(&self, plan: AccountPlan) -> Made {
        let sent = !plan.make.is_empty() || !plan.mark.is_empty();
        let there = plan.ready.len() + plan.going.len() + plan.surplus.len();
        let mut made = Made { sent, surplus: plan.surplus, ..Made::default() };
        let ready = plan.ready.into_iter().map(|(name, uid)| (name, Ok(Account::Willing { uid })));
        made.accounts.extend(ready);
        made.accounts.extend(plan.foreign.into_iter().map(|name| (name, Ok(Account::Foreign))));
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
        for (name, answer) in marked.into_iter().filter(|(_, answer)| answer.is_err()) {
            made.take(name, answer);
        }
        if count > 0 {
            info!(code = code::ACCOUNTS_CHANGED, service_token = %self.owner.name, namespace = %self.owner.namespace, made = count, "made accounts");
        }
        made
    }

    /// All with the label of the resource.
    async fn list(&self) -> Result<Vec<ObjectMeta>, CallError> {
        let label = format!("{TOKEN_UID_LABEL}={}", self.owner.uid);
        let mut params = ListParams::default().labels(&label).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = call(self.api().list_metadata(&params)).await?;
            found.extend(page.items.into_iter().map(|account| account.metadata));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(found);
            }
        }
    }

    async fn create(&self, mut meta: ObjectMeta) -> (String, Result<Account, CallError>) {
        let name = meta.name.clone().unwrap_or_default();
        meta.owner_references = Some(vec![self.reference.clone()]);
        let account = ServiceAccount { metadata: meta, ..ServiceAccount::default() };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let answer = match call(self.api().create(&params, &account)).await {
            Ok(made) => Ok(Account::Willing { uid: made.metadata.uid.unwrap_or_default() }),
            Err(CallError::Conflict(_)) => Ok(Account::Foreign),
            Err(error) => Err(error),
        };
        (name, answer)
    }

    async fn mark(&self, name: &str, patch: &serde_json::Value) -> (String, Result<Account, CallError>) {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let answer = call(self.api().patch_metadata(name, &params, &Patch::Merge(patch))).await;
        (name.to_owned(), answer.map(|one| Account::Willing { uid: one.metadata.uid.unwrap_or_default() }))
    }

    /// Removes those that are not wanted any more.
    pub async fn remove(&self, surplus: &[ObjectMeta]) -> Removed {
        let removed: Vec<_> = surplus.iter().map(|meta| self.delete(meta)).collect();
        let removed: Vec<_> = stream::iter(removed).buffer_unordered(CONCURRENT).collect().await;
        let count = removed.iter().filter(|(_, answer)| answer.is_ok()).count();
        if count > 0 {
            info!(code = code::ACCOUNTS_CHANGED, service_token = %self.owner.name, namespace = %self.owner.namespace, removed = count, "removed accounts");
        }
        let not_removed = removed.into_iter().filter_map(|(name, answer)| Some((name, answer.err()?)));
        Removed { count, not_removed: not_removed.collect() }
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

impl Made {
    fn take(&mut self, name: String, answer: Result<Account, CallError>) {
        if matches!(answer, Err(CallError::Forbidden(_))) {
            self.refused.insert(name.clone());
        }
        self.accounts.insert(name, answer.map_err(|error| error.to_string()));
    }
}
