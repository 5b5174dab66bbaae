//! Which resources are reconciled when a namespace changes.
//!
//! A tenant sees when its resource is reconciled. If every change of a namespace caused that, a tenant could
//! name a namespace, or select it by a label, and learn that it exists, changes or is deleted, although its account
//! has no right there. So the account is asked first, by a review: only if it has a right in the namespace is
//! the resource reconciled and its backoff reset. Otherwise nothing happens that would not happen without the
//! namespace, and a right that is granted later is found by the next retry, as before.
//!
//! Checks of one tenant run one after the other, so that one tenant does not delay another; sixteen run at once. A
//! check that cannot be made is repeated a few times, then left to the retry. It never causes a reconciliation:
//! a tenant can make its own requests fail.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;
use tracing::debug;
use weaver_tenant::token::MintError;

use super::Context;
use super::access_checks::AccessCheck;
use super::declared::Declares;
use super::targets::{Reaction, reaction};
use crate::watch::{NamespaceChange, ResourceRef};
use weaver_client::call::CallError;
use weaver_copies::object::resource;
use weaver_host::backoff;

/// Failures in a row after which a check is left to the ordinary retry.
const TRIES: u32 = 5;

/// Makes the checks, forever.
pub async fn run<K: Declares>(context: &Context<K>) {
    let (mut running, mut tenants) = (BTreeSet::new(), FuturesUnordered::new());
    loop {
        let waiting = context.own.checks.tenants();
        for tenant in waiting.into_iter().filter(|tenant| !running.contains(tenant)).collect::<Vec<_>>() {
            running.insert(tenant.clone());
            tenants.push(of_tenant(context, tenant));
        }
        tokio::select! {
            () = context.own.checks.added.notified() => {}
            Some(tenant) = tenants.next() => drop(running.remove(&tenant)),
        }
    }
}

/// Makes the checks of one tenant until none is left; returns whose they were.
async fn of_tenant<K: Declares>(context: &Context<K>, tenant: String) -> String {
    let (mut last, mut failures) = (None, 0);
    while let Some((check, due)) = context.own.checks.next(&tenant, last.as_ref()) {
        let permit = context.own.checks.permits.acquire().await;
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
                    context.own.checks.put_back(&check, due);
                }
                sleep(backoff::pause(failures, context.options.retry, fastrand::f64())).await;
                failures %= TRIES;
            }
        }
        last = Some(check);
    }
    tenant
}

/// Does what a change of a namespace is to cause for `sync`.
pub fn react<K: Declares>(context: &Context<K>, sync: &K, change: NamespaceChange<'_>) {
    match reaction(sync, &context.own.kinds, change) {
        Reaction::None => {}
        Reaction::Reconcile => context.reconcile_now(ResourceRef::of(sync)),
        Reaction::ReconcileIfAllowed(account, kind) => {
            let check = AccessCheck { account, kind, namespace: change.name.to_owned() };
            context.own.checks.add(check, change.now.is_none(), ResourceRef::of(sync));
        }
    }
}

async fn is_allowed<K: Declares>(
    context: &Context<K>,
    check: &AccessCheck,
    is_gone: bool,
) -> Result<bool, CallError> {
    let tenant = match context.tenants.client(&check.account).await {
        Ok(tenant) => tenant,
        Err(error @ MintError::Failed { .. }) => return Err(error.into()),
        // Its reconciliation says so, and is repeated.
        Err(_) => return Ok(false),
    };
    let kind = resource(check.kind);
    if is_gone && tenant.access.touched_before(&kind, &check.namespace) {
        return Ok(true);
    }
    tenant.access.touches(&kind, &check.namespace).await
}

#[cfg(test)]
#[path = "reactions_tests.rs"]
mod tests;
