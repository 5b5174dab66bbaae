//! A deleted `ConfigMapSync`: its copies go first, then the finalizer.
//!
//! Clean-up needs the tenant's rights, and a resource must never be stuck because they are gone. So: what can
//! be removed is; where the tenant's identity is refused, the resource waits a bounded time for the rights to
//! come back and is then released; where its own namespace is being deleted it is released after one pass. What
//! stays behind is named in the log and keeps its marks, by which it can be found later.

use kube::ResourceExt as _;
use tokio::time::Instant;
use tracing::{info, warn};
use weaver_api::names::dns_label;
use weaver_api::v1alpha1::ConfigMapSync;

use super::execute::{self, Kept};
use super::leftovers;
use super::reconcile::Context;
use super::state::SyncState;
use super::visit::owner;
use crate::tenant::call::CallError;
use crate::tenant::{Account, MintError};
use crate::watch::SyncRef;

/// How a pass over the copies ended.
#[derive(Debug, PartialEq)]
enum Pass {
    /// None is left that the tenant could see.
    Clean,
    /// The tenant's identity or a right is gone. What may be left, and why.
    Refused(String),
    /// Worth another try, however long it takes.
    Failed(String),
}

/// Removes the copies of `sync`.
///
/// # Errors
/// Why the resource has to wait, in words.
pub async fn cleanup(context: &Context, state: &mut SyncState, sync: &ConfigMapSync) -> Result<(), String> {
    let since = *state.deleting_since.get_or_insert_with(Instant::now);
    let reference = SyncRef::of(sync);
    state.watches.clear();
    let pass = pass(context, state, sync).await;
    let namespace_goes = context.namespaces.is_terminating(&reference.namespace);
    let patience_ends = since.elapsed() >= context.options.cleanup_patience;
    match verdict(&pass, namespace_goes, patience_ends) {
        Verdict::Release => {
            info!(sync = %reference, "removed the copies of a deleted resource");
            Ok(())
        }
        Verdict::ReleaseWithLeftovers(left) => {
            warn!(sync = %reference, uid = %sync.uid().unwrap_or_default(), %left, "released a deleted resource; copies may stay behind");
            Ok(())
        }
        Verdict::Wait(why) => Err(why),
    }
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Release,
    ReleaseWithLeftovers(String),
    Wait(String),
}

fn verdict(pass: &Pass, namespace_goes: bool, patience_ends: bool) -> Verdict {
    match pass {
        Pass::Clean => Verdict::Release,
        // In a Terminating namespace the account and its rights vanish in any order; waiting would only hold
        // the namespace.
        Pass::Refused(left) | Pass::Failed(left) if namespace_goes => {
            Verdict::ReleaseWithLeftovers(left.clone())
        }
        Pass::Refused(left) if patience_ends => Verdict::ReleaseWithLeftovers(left.clone()),
        Pass::Refused(why) | Pass::Failed(why) => Verdict::Wait(why.clone()),
    }
}

async fn pass(context: &Context, state: &SyncState, sync: &ConfigMapSync) -> Pass {
    let owner = owner(sync);
    // Taken from the spec as it is: it may have become invalid since the copies were made.
    let spec = sync.desired().cloned().unwrap_or_default();
    let Some(name) = spec.service_account.name.filter(|name| !name.is_empty()) else {
        return Pass::Refused("the spec names no account to remove copies with".into());
    };
    let account = Account { namespace: owner.namespace.clone(), name };
    let tenant = match context.tenants.client(&account).await {
        Ok(tenant) => tenant,
        Err(error @ MintError::Failed { .. }) => return Pass::Failed(error.to_string()),
        Err(error) => return Pass::Refused(error.to_string()),
    };
    let mut places = match leftovers::find(&tenant, &owner, context.namespaces.active()).await {
        Ok(found) => found,
        Err(CallError::Forbidden(status) | CallError::Rejected(status)) => {
            return Pass::Refused(status.message);
        }
        Err(error) => return Pass::Failed(error.to_string()),
    };
    places.extend(state.leftovers.iter().chain(state.verified.keys()).cloned());
    let source = spec.source.unwrap_or_default();
    // A copy that lost its label is found by its place and known by its annotation.
    if let Some(name) = &source.name {
        let targets = spec.sync_to_namespaces.iter().filter(|target| dns_label(target).is_ok());
        places.extend(targets.map(|namespace| (namespace.clone(), name.clone())));
    }

    let source = (source.namespace.as_deref(), source.name.as_deref());
    let (mut refused, mut failed) = (Vec::new(), Vec::new());
    for place in places {
        if let Err(kept) = execute::remove(&tenant, &owner, source, &place).await {
            let words = format!("{}/{}: {}", place.0, place.1, kept.words());
            match kept {
                Kept::Forbidden(_) | Kept::Rejected(_) => refused.push(words),
                Kept::Failed(_) => failed.push(words),
            }
        }
    }
    match (failed.is_empty(), refused.is_empty()) {
        (true, true) => Pass::Clean,
        (true, false) => Pass::Refused(refused.join("; ")),
        (false, _) => Pass::Failed([failed, refused].concat().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b24_a_resource_is_never_stuck_for_ever_because_rights_are_gone() {
        let refused = Pass::Refused("why".into());
        assert_eq!(verdict(&refused, false, false), Verdict::Wait("why".into()));
        assert_eq!(verdict(&refused, false, true), Verdict::ReleaseWithLeftovers("why".into()));
        assert_eq!(verdict(&refused, true, false), Verdict::ReleaseWithLeftovers("why".into()));
    }

    #[test]
    fn an_unreachable_server_never_makes_us_leave_copies_behind() {
        let failed = Pass::Failed("why".into());
        assert_eq!(verdict(&failed, false, true), Verdict::Wait("why".into()));
        assert_eq!(verdict(&failed, true, false), Verdict::ReleaseWithLeftovers("why".into()));
        assert_eq!(verdict(&Pass::Clean, false, false), Verdict::Release);
    }
}
