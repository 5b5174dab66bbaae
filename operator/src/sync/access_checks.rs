//! Which resources are reconciled when a namespace changes.
//!
//! A tenant sees when its resource is reconciled. If every change of a namespace caused that, a tenant could name a
//! namespace, or select it by a label, and learn that it exists, changes or goes, although its account has no right there.
//! So the account is asked first, by a review: only if it has a right in the namespace is the resource reconciled and its
//! backoff reset. Otherwise nothing happens that would not happen without the namespace, and a right that is granted later
//! is found by the next retry, as before.
//!
//! Checks of one tenant run one after the other, so that one tenant does not delay another; [`CONCURRENCY`] run at once. A
//! check that cannot be made is repeated a few times, then left to the retry. It never causes a reconciliation: a tenant
//! can make its own requests fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;
use tracing::debug;
use weaver_api::v1beta1::{ConfigMapSync, SourceKind};

use super::reconcile::Context;
use super::targets::{Reaction, reaction};
use crate::controller::backoff;
use crate::tenant::call::CallError;
use crate::tenant::{Account, MintError};
use crate::watch::{NamespaceChange, ResourceRef};

/// Checks at once, each of another tenant.
const CONCURRENCY: usize = 16;

/// Failures in a row after which a check is left to the ordinary retry.
const TRIES: u32 = 5;

/// Has this account a right on objects of this kind in this namespace?
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Check {
    /// As whom.
    pub account: Account,
    /// On what.
    pub kind: SourceKind,
    /// Where.
    pub namespace: String,
}

/// Why a check is made.
#[derive(Default)]
struct Due {
    /// The namespace does not exist any more, and neither do the Roles in it.
    is_gone: bool,
    /// To be reconciled if it has.
    resources: BTreeSet<ResourceRef>,
}

/// Checks that are due, by tenant namespace. Bounded by the accounts in use and the namespaces that change.
pub struct AccessChecks {
    due: Mutex<BTreeMap<String, BTreeMap<Check, Due>>>,
    added: Notify,
    permits: Semaphore,
}

impl Default for AccessChecks {
    fn default() -> Self {
        Self { due: Mutex::default(), added: Notify::new(), permits: Semaphore::new(CONCURRENCY) }
    }
}

impl AccessChecks {
    /// Has `resource` reconciled if the account has the right. `is_gone`: the namespace was deleted.
    pub fn add(&self, check: Check, is_gone: bool, resource: ResourceRef) {
        let mut due = self.lock();
        let due = due.entry(check.account.namespace.clone()).or_default().entry(check).or_default();
        due.is_gone = is_gone;
        due.resources.insert(resource);
        self.added.notify_one();
    }

    /// Makes the checks, for ever.
    pub async fn run(&self, context: &Context) {
        let (mut running, mut tenants) = (BTreeSet::new(), FuturesUnordered::new());
        loop {
            let waiting: Vec<String> =
                self.lock().keys().filter(|tenant| !running.contains(*tenant)).cloned().collect();
            for tenant in waiting {
                running.insert(tenant.clone());
                tenants.push(self.of_tenant(context, tenant));
            }
            tokio::select! {
                () = self.added.notified() => {}
                Some(tenant) = tenants.next() => drop(running.remove(&tenant)),
            }
        }
    }

    /// Makes the checks of one tenant until none is left; returns whose they were.
    async fn of_tenant(&self, context: &Context, tenant: String) -> String {
        let (mut last, mut failures) = (None, 0);
        while let Some((check, due)) = self.next(&tenant, last.as_ref()) {
            let permit = self.permits.acquire().await;
            let answer = is_allowed(context, &check, due.is_gone).await;
            drop(permit);
            match answer {
                Ok(allowed) => {
                    failures = 0;
                    for resource in due.resources.into_iter().filter(|_| allowed) {
                        context.reconcile_now(resource);
                    }
                }
                Err(error) => {
                    failures += 1;
                    debug!(?check, %error, failures, "asking about the rights of an account");
                    if failures < TRIES {
                        self.put_back(&check, due);
                    }
                    sleep(backoff::pause(failures, context.options.retry, fastrand::f64())).await;
                    failures %= TRIES;
                }
            }
            last = Some(check);
        }
        tenant
    }

    /// The check that follows the `last` one, in a circle: no namespace that keeps changing comes always first.
    fn next(&self, tenant: &str, last: Option<&Check>) -> Option<(Check, Due)> {
        let mut all = self.lock();
        let due = all.get_mut(tenant)?;
        let after = last.and_then(|last| due.range::<Check, _>((Excluded(last), Unbounded)).next());
        let check = after.or_else(|| due.first_key_value()).map(|(check, _)| check.clone());
        let next = check.and_then(|check| due.remove_entry(&check));
        if next.is_none() {
            all.remove(tenant);
        }
        next
    }

    /// What came meanwhile is newer.
    fn put_back(&self, check: &Check, failed: Due) {
        let mut all = self.lock();
        let due = all.entry(check.account.namespace.clone()).or_default();
        due.entry(check.clone())
            .or_insert(Due { is_gone: failed.is_gone, ..Due::default() })
            .resources
            .extend(failed.resources);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<Check, Due>>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what a change of a namespace is to cause for `sync`.
pub fn react(context: &Context, sync: &ConfigMapSync, change: NamespaceChange<'_>) {
    // What the first list shows is no change: everything is reconciled after it.
    if !context.namespaces.is_synced() {
        return;
    }
    match reaction(sync, change) {
        Reaction::None => {}
        Reaction::Reconcile => context.reconcile_now(ResourceRef::of(sync)),
        Reaction::ReconcileIfAllowed(account, kind) => {
            let check = Check { account, kind, namespace: change.name.to_owned() };
            context.access_checks.add(check, change.now.is_none(), ResourceRef::of(sync));
        }
    }
}

async fn is_allowed(context: &Context, check: &Check, is_gone: bool) -> Result<bool, CallError> {
    let tenant = match context.tenants.client(&check.account).await {
        Ok(tenant) => tenant,
        Err(error @ MintError::Failed { .. }) => return Err(error.into()),
        // Its reconciliation says so, and is repeated.
        Err(_) => return Ok(false),
    };
    if is_gone && tenant.reach.touched_before(check.kind, &check.namespace) {
        return Ok(true);
    }
    tenant.reach.touches(&tenant, check.kind, &check.namespace).await
}

#[cfg(test)]
#[path = "access_checks_tests.rs"]
mod tests;
