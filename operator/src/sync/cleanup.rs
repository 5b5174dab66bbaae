//! A deleted sync: its copies go first, then the finalizers. [`super::cleanup_verdict`] decides how long it waits.
//!
//! What stays behind is reported where it is known: where this process wrote it, or the tenant's identity saw our
//! ownership labels. An object key that the spec only names, and where the tenant is refused, counts as empty. What
//! stays keeps its ownership labels, by which it can be found later.
//!
//! A resource with only the upstream operator's finalizer never had a copy of ours: it waits for nothing.
//! Upstream's copies stay, and those that were seen are named.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::{info, warn};
use weaver_api::conditions::bounded;
use weaver_api::convert;
use weaver_api::kind::ObjectKind;
use weaver_api::validate::ValidSync;
use weaver_client::call::CallError;
use weaver_tenant::token::MintError;
use weaver_tenant::{Account, TenantClient};

use super::Context;
use super::cleanup_verdict::{
    Circumstances, CleanupResult, CleanupVerdict, Left, Waited, named_copies, verdict,
};
use super::declared::{Declares, NamedKind};
use super::events;
use super::execute::Mode;
use super::kinds::NoKind;
use super::outcome::Unlisted;
use super::remove::{Hindrance, RemainingCopy, Removal};
use super::sources;
use super::stale_copies;
use super::state::{StaleCopySearch, SyncState};
use crate::controller::kind::Guarded;
use crate::controller::pause::Pause;
use crate::log_code;
use crate::metrics::CopyWrite;
use crate::watch::ResourceRef;
use weaver_copies::copy::owner;
use weaver_copies::finalizers::{is_taken, is_upgrading, leaves_copies};
use weaver_copies::object::{ObjectKey, resource};
use weaver_copies::sources::SpecSource;

/// Removes the copies of a deleted resource.
///
/// # Errors
/// Why the resource has to wait, in words.
pub async fn cleanup<K: Declares>(
    context: &Context<K>,
    state: &mut SyncState,
    guarded: &Guarded<K>,
) -> Result<(), String> {
    let begins = state.deleting_since.is_none();
    let since = *state.deleting_since.get_or_insert_with(Instant::now);
    if begins {
        state.obstructed.clear();
    }
    // A search of before saw only where the account might list then.
    if begins && !guarded.0.as_ref().is_ok_and(stale_copies::are_none) {
        state.search = StaleCopySearch::Due;
    }
    let shown = std::mem::take(&mut state.watches);
    state.stale_copies.extend(shown.copies_of(&owner(guarded)));
    let pass = match &guarded.0 {
        // Its deletionPolicy may be among what is lost.
        _ if convert::lost(guarded.meta()).is_some() => {
            CleanupResult::Hindered("its spec was lost in an earlier conversion".into())
        }
        Err(odd) => {
            CleanupResult::Hindered(format!("the object cannot be parsed: {}", bounded(&odd.error, 300)))
        }
        Ok(sync) => match leaves_copies(sync.meta(), sync.asked().as_deref()) {
            Some(by) => CleanupResult::NotWanted(by),
            None => pass(context, state, sync).await,
        },
    };
    // It may have been cut short by that, and then it says nothing of what is left.
    if Pause::of_all(&context.namespaces).is_some() {
        return Err("everything is paused".to_owned());
    }
    let circumstances = Circumstances {
        taken: is_taken(guarded.meta()),
        namespace_goes: context.namespaces.is_terminating(&ResourceRef::of(guarded).namespace),
        waited: Waited::of(since.elapsed(), context.options.cleanup_patience),
    };
    if matches!(pass, CleanupResult::Failed(_)) {
        state.deleting_since = Some(Instant::now());
    }
    match verdict(&pass, circumstances) {
        CleanupVerdict::Wait(why) => return Err(why),
        CleanupVerdict::Release => log_release(guarded, &pass),
        CleanupVerdict::ReleaseWithOrphans(left) => {
            let refused = matches!(pass, CleanupResult::Refused(_));
            announce_orphans(context, &state.stale_copies.keys().cloned().collect(), guarded, refused, &left)
                .await;
        }
    }
    Ok(())
}

fn log_release<K: Declares>(guarded: &Guarded<K>, pass: &CleanupResult) {
    let kind = K::kind(&());
    let sync = ResourceRef::of(guarded);
    match pass {
        CleanupResult::NotWanted(field) => {
            let uid = guarded.uid().unwrap_or_default();
            info!(
                code = log_code::RELEASED, %sync, %uid, %field,
                "removed the finalizer of a deleted {kind}; its copies stay, as its spec says"
            );
        }
        CleanupResult::Clean(upstream) => {
            info!(code = log_code::RELEASED, %sync, "removed the finalizer of a deleted {kind}; all its copies are deleted");
            name_upstreams(&sync, upstream);
        }
        CleanupResult::Refused(_) | CleanupResult::Hindered(_) | CleanupResult::Failed(_) => {}
    }
}

/// Of what may stay behind: to the log, and as Events to those in whose namespaces it is.
async fn announce_orphans<K: Declares>(
    context: &Context<K>,
    known: &BTreeSet<ObjectKey>,
    guarded: &Guarded<K>,
    refused: bool,
    left: &str,
) {
    let kind = K::kind(&());
    let sync = ResourceRef::of(guarded);
    if refused && known.is_empty() {
        info!(
            code = log_code::RELEASED, %sync, refused = %left,
            "removed the finalizer of a deleted {kind}; no copies are known to be left"
        );
    } else {
        let uid = guarded.uid().unwrap_or_default();
        warn!(
            code = log_code::ORPHANS_LEFT, %sync, %uid, %left,
            "removed the finalizer of a deleted {kind}; copies may be left: `weaver orphans list`"
        );
    }
    if is_taken(guarded.meta()) {
        events::report_orphans::<K>(&context.events, &sync, known).await;
    }
    // Named are those alone that were seen: who wrote the spec may name what is another's.
    if is_upgrading(guarded.meta()) {
        warn!(
            code = log_code::UPSTREAM_COPIES_STAY, %sync,
            "objects that the upstream operator may have made for a deleted resource stay: not all of them \
             could be looked at"
        );
    }
}

fn name_upstreams(sync: &ResourceRef, object_keys: &BTreeSet<ObjectKey>) {
    let names: Vec<String> = object_keys.iter().map(ToString::to_string).collect();
    for copies in names.chunks(50) {
        warn!(
            code = log_code::UPSTREAM_COPIES_STAY, %sync, copies = %copies.join(", "),
            "objects that the upstream operator made for a deleted resource stay"
        );
    }
}

/// What is known to be left afterwards stays noted in `state`.
async fn pass<K: Declares>(context: &Context<K>, state: &mut SyncState, sync: &K) -> CleanupResult {
    let owner = owner(sync);
    // Taken from the spec as it is: it may have become invalid since the copies were made.
    let spec = sync.asked().map(Cow::into_owned).unwrap_or_default();
    state.forget_verified();
    let account = spec.service_account.as_ref().and_then(|account| account.name.clone());
    let Some(name) = account.filter(|name| !name.is_empty()) else {
        return CleanupResult::Hindered("the spec names no account to remove copies with".into());
    };
    let account = Account { namespace: owner.namespace.clone(), name };
    let tenant = match context.tenants.client(&account).await {
        Ok(tenant) => tenant,
        Err(error @ MintError::Failed { .. }) => return CleanupResult::Failed(error.to_string()),
        Err(error) => return CleanupResult::Hindered(error.to_string()),
    };
    let kind = match kind_of(context, &tenant, &sync.names_kind()).await {
        Ok(kind) => kind,
        Err(pass) => return pass,
    };
    state.turns_to(kind);
    if state.search == StaleCopySearch::Due {
        // What is known of its rights may be older than the rights that it was given back. Many resources of one
        // account that are deleted together ask once.
        tenant.access.forget(Duration::from_secs(5));
        let namespaces = context.namespaces.active(|_, _| true);
        match stale_copies::find(&tenant, &owner, kind, &namespaces).await {
            Ok(found) => state.stale_copies.extend(found),
            Err(CallError::Forbidden(status) | CallError::Rejected(status)) => {
                return CleanupResult::Hindered(status.message);
            }
            Err(error) => return unanswered(&error),
        }
        state.search = StaleCopySearch::Done(tenant.uid.clone());
    }
    let mut left = Left::default();
    let selected = match sync.valid().map(|declared| declared.of(kind)) {
        Ok(valid) if valid.source_names().is_empty() && valid.merge.is_none() => {
            selected_names(&tenant, &valid, &mut left).await
        }
        _ => BTreeSet::new(),
    };
    let named = named_copies(kind, &spec, &selected);
    let source = SpecSource::of(kind, &spec.source.unwrap_or_default());
    let known = std::mem::take(&mut state.stale_copies);
    // A copy that lost its label is found by its object key and recognised by its annotation.
    let object_keys = in_turn(known.keys().cloned().chain(named).collect(), &state.obstructed);
    let mut upstream = BTreeSet::new();
    for (key, removal) in
        stale_copies::remove(context, &tenant, &owner, &source, object_keys, Mode::Write).await
    {
        match removal {
            Ok(Removal::Removed) => context.metrics.wrote(CopyWrite::Removed),
            Ok(Removal::Nothing) => {}
            Ok(Removal::UpstreamStays) => drop(upstream.insert(key)),
            Err(kept) => {
                let kept = noted(kept, &key, &mut state.obstructed);
                left.kept(&key, &kept);
                let source = known.get(&key).cloned();
                if kept.marked || source.is_some() {
                    state.stale_copies.insert(key, source.flatten());
                }
            }
        }
    }
    left.pass(upstream)
}

/// The keys, those last of which the removal failed before: each has its turn, however many hang for as long as a pass
/// may take.
fn in_turn(object_keys: BTreeSet<ObjectKey>, obstructed: &BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
    let (last, first): (Vec<_>, Vec<_>) = object_keys.into_iter().partition(|key| obstructed.contains(key));
    first.into_iter().chain(last).collect()
}

/// Why the copy stays. One that had no turn now, and failed when it had one, is no reason to wait for the next pass.
fn noted(mut kept: RemainingCopy, key: &ObjectKey, obstructed: &mut BTreeSet<ObjectKey>) -> RemainingCopy {
    if matches!(kept.why, Hindrance::Obstructed(_)) {
        obstructed.insert(key.clone());
    } else if kept.why == Hindrance::Untried && obstructed.contains(key) {
        kept.why =
            Hindrance::Obstructed("its removal failed before, and this time others took too long".into());
    }
    kept
}

/// Names of the sources that are selected now, which name copies. Copies of sources that are gone are found by the
/// search, if the account may list.
async fn selected_names(tenant: &TenantClient, spec: &ValidSync, left: &mut Left) -> BTreeSet<String> {
    let listed = sources::list(tenant, spec).await.bounded(spec, spec.targets.len());
    if let Some(why) = listed.unlisted
        && !may_find_all(tenant, spec).await
    {
        let text = |why: &str| format!("its sources in {}: {why}", spec.source_namespace);
        match why {
            Unlisted::Forbidden(why) => left.refused.push(text(&why)),
            Unlisted::Failed(why) => left.failed.push(text(&why)),
            Unlisted::TooMany | Unlisted::TooManyCopies { .. } => {
                left.hindered.push(text("too many to look for"));
            }
        }
    }
    listed.names
}

/// A call that failed. Someone can mend a conversion webhook of the copied kind, and need not.
fn unanswered(error: &CallError) -> CleanupResult {
    let text = error.to_string();
    if error.is_failed_conversion() { CleanupResult::Hindered(text) } else { CleanupResult::Failed(text) }
}

/// The kind of the copies, at a version at which they are served; or how the pass ends without it.
async fn kind_of<K: Declares>(
    context: &Context<K>,
    tenant: &TenantClient,
    named: &NamedKind,
) -> Result<ObjectKind, CleanupResult> {
    // At a version that is not served any more, each of them would be taken for gone.
    match context.own.kinds.find_again(&tenant.client(), named).await {
        Ok(kind) => Ok(kind),
        Err(NoKind::OtherVersions(_, others)) if !others.is_empty() => Ok(others[0]),
        // Then none was ever made.
        Err(NoKind::Never(_)) => Err(CleanupResult::Clean(BTreeSet::new())),
        Err(NoKind::Unknown(error)) => Err(CleanupResult::Failed(error.to_string())),
        Err(NoKind::NotServed(name) | NoKind::OtherVersions(name, _)) => {
            // Its objects go with a definition, so there is nothing to wait for but one that is just being made again.
            Err(CleanupResult::Refused(format!(
                "the API server serves no {} of {}",
                name.kind,
                name.api_version()
            )))
        }
    }
}

/// May the tenant list in each namespace that the spec names, so that the search has found what is there?
async fn may_find_all(tenant: &TenantClient, spec: &ValidSync) -> bool {
    let named: Vec<String> = spec.targets.iter().cloned().collect();
    let listable = tenant.access.listable(&resource(spec.source_kind), named).await;
    listable.is_ok_and(|listable| spec.targets.iter().all(|name| listable.contains(name)))
}
