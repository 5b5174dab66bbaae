//! One reconciliation of a sync, as its tenant: look at everything, plan, act, say what came of it.
//!
//! Level-triggered: a reconciliation never asks why it was called. Failures of one target do not touch the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use weaver_api::convert;
use weaver_api::ownership::Owner;
use weaver_api::v1beta1::{ConflictPolicy, ImmutablePolicy, Merge};
use weaver_api::validate::{Sources, ValidSync};
use weaver_client::call::CallError;
use weaver_tenant::review::missing;
use weaver_tenant::{Account, TenantClient};

use super::Context;
use super::declared::{Declares, NamedKind};
use super::execute::{LONGEST_PASS, Mode, TargetState, in_time};
use super::fan_out::{CONCURRENCY, CopyJob, fan_out, in_order, written};
use super::kinds::NoKind;
use super::merging::{MergedSources, merge};
use super::needed::{needed_rights, tells};
use super::outcome::{
    Rights, Selection, SourceState, SourceWork, StaleCopies, SyncOutcome, SyncWork, Unlisted, WatchGaps,
    copied,
};
use super::sources::{ListedSources, READS, SourceRead, Versions, copy, list, read};
use super::stale_copies;
use super::state::{JustCopied, ResumeAt, SyncState};
use super::watches::{Joined, SyncWatches};
use crate::controller::pause::Pause;
use crate::controller::state::StateEntry;
use crate::watch::{Consent, ResourceRef};
use weaver_copies::copy::{DesiredCopy, owner};
use weaver_copies::finalizers::is_taken;
use weaver_copies::namespace::{is_candidate, selects};
use weaver_copies::object::{ObjectKey, resource};
use weaver_copies::plan::{TakeOver, Takes, is_kept};
use weaver_copies::rights::Right;
use weaver_copies::sources::WantedCopies;

/// What was written comes back as an event within so long.
const MOMENT: Duration = Duration::from_secs(5);

/// Works on `sync` once; read-only, unless it has our finalizer. `None`, if it ended in the middle: the source or the
/// spec changed, and what is left of the work is not worth doing, or it took too long, and the next pass continues.
pub async fn work<K: Declares>(
    context: &Context<K>,
    entry: &StateEntry<SyncState>,
    state: &mut SyncState,
    sync: &K,
) -> Option<SyncOutcome> {
    if let Some(fault) = convert::lost(sync.meta()) {
        return Some(SyncOutcome::InvalidSpec(vec![fault]));
    }
    let declared = match sync.valid() {
        Ok(declared) => declared,
        Err(faults) => return Some(SyncOutcome::InvalidSpec(faults)),
    };
    if state.forgiven != entry.forgiven() {
        state.forgiven = entry.forgiven();
        state.backoffs.forget();
    }
    if declared.is_suspended() {
        state.watches = SyncWatches::default();
        return Some(SyncOutcome::Suspended);
    }
    let owner = owner(sync);
    let account = Account { namespace: owner.namespace.clone(), name: declared.account().to_owned() };
    entry.uses(&account);
    let tenant = match context.tenants.client(&account).await {
        Ok(tenant) => tenant,
        Err(error) => return Some(SyncOutcome::NoToken(error)),
    };
    if std::mem::take(&mut state.asks_again) {
        // All of it: what is asked again must not depend on what the tenant may not see.
        tenant.access.ask_again();
    }
    let named = declared.kind.clone();
    let spec = match context.own.kinds.find(&tenant.client(), &named).await {
        Ok(kind) => declared.of(kind),
        Err(why) => return Some(why.outcome()),
    };
    state.turns_to(spec.source_kind);
    let mode = match (spec.dry_run, is_taken(sync.meta())) {
        (true, _) => Mode::Try,
        (false, true) => Mode::Write,
        (false, false) => Mode::Look,
    };
    let pass = SyncRun { context, tenant: &tenant, sync, named, owner, spec, mode, began: Instant::now() };
    let worked = pass.work(&entry.resource, state).await?;
    Some(worked.map_or_else(NoKind::outcome, |work| SyncOutcome::Worked(Box::new(work))))
}

/// One pass over sources, targets and stale copies.
struct SyncRun<'a, K: Declares> {
    context: &'a Context<K>,
    tenant: &'a TenantClient,
    sync: &'a K,
    named: NamedKind,
    owner: Owner,
    spec: ValidSync,
    mode: Mode,
    began: Instant,
}

/// What became of the sources and their copies.
struct CopiedSources {
    sources: BTreeMap<String, SourceWork>,
    merged: Option<SourceWork>,
    /// Was all of it done? Not, if the sources or the spec became outdated before the end.
    is_whole: bool,
}

impl<K: Declares> SyncRun<'_, K> {
    /// `None`, if it became outdated before its end.
    async fn work(self, resource: &ResourceRef, state: &mut SyncState) -> Option<Result<SyncWork, NoKind>> {
        let Self { context, tenant, spec, mode, began, .. } = &self;
        let (selection, asked) = select(context, tenant, spec).await;
        let waiting = context.permits.waiting_of(K::WORD, &tenant.account.namespace);
        let set = (&context.watches, waiting);
        let Joined { refused, beyond, blind } =
            state.watches.join(set, &context.namespaces, resource, tenant, spec, &selection.desired).await;
        let ListedSources { names, unlisted } =
            list(tenant, spec).await.bounded(spec, selection.desired.len());
        let CopiedSources { sources, merged, is_whole } =
            if let (Some(how), Some(name)) = (&spec.merge, spec.merged_name()) {
                self.merged(state, how, name, &names, &selection.desired).await
            } else {
                self.sources(state, &names, &selection.desired).await
            };
        self.note_copies(state, &sources, merged.as_ref());
        is_whole.then_some(())?;
        let copies = || copied(&sources, merged.as_ref());
        let is_gone = |source: &SourceWork| source.state == SourceState::Missing;
        let may_be_unserved =
            if names.is_empty() { unlisted.is_some() } else { sources.values().all(is_gone) };
        // Of a kind that is not served any more there is no source either, but that says nothing of the copies.
        if may_be_unserved && let Err(why) = context.own.kinds.find_again(&tenant.client(), &self.named).await
        {
            return Some(Err(why));
        }
        let stale_copies = self.clean_up(state, &sources, unlisted.as_ref(), &asked).await;
        // Someone took our finalizer away: then the copies would outlive the resource.
        let unheld = *mode == Mode::Look
            && (!(state.stale_copies.is_empty() && state.verified.is_empty())
                || copies().flat_map(|source| source.targets.values()).any(TargetState::is_synced));
        let rights = self
            .rights(
                state,
                needed_rights(
                    spec,
                    (&sources, merged.as_ref()),
                    unlisted.as_ref(),
                    &stale_copies.kept,
                    &refused,
                ),
            )
            .await;
        let beyond = beyond.iter().filter(|key| tells(key, &sources, merged.as_ref())).count();
        Some(Ok(SyncWork {
            account: tenant.account.clone(),
            sources,
            merged,
            unlisted,
            selection,
            stale: stale_copies,
            rights,
            watched: WatchGaps { blind, beyond },
            unheld,
            first_due: state.backoffs.first_due(*began, Instant::now()),
            spec: self.spec,
        }))
    }

    /// Reads each source and copies it, but for those that were copied a moment ago.
    async fn sources(
        &self,
        state: &mut SyncState,
        names: &BTreeSet<String>,
        desired: &BTreeSet<String>,
    ) -> CopiedSources {
        let mut sources = BTreeMap::new();
        let mut is_whole = true;
        for copied in std::mem::take(&mut state.just_copied) {
            if names.contains(&copied.source)
                && let Some(unmoved) = self.unmoved(state, &copied, desired)
            {
                sources.insert(copied.source.clone(), unmoved);
                state.just_copied.push(copied);
            }
        }
        let mut order = in_order(names, state.resume_at.as_ref().map(|at| at.source.as_str()));
        order.retain(|name| !sources.contains_key(name));
        // As after a start. An edit is read from the database: an API server may need a second to see what another wrote.
        let is_first = state.verified.is_empty() && self.spec.source_kind.is_of_config_map_sync();
        'all: for some in order.chunks(READS) {
            if !sources.is_empty() && self.takes_too_long() {
                let source = some.first().cloned().unwrap_or_default();
                state.resume_at = Some(ResumeAt { source, namespace: String::new() });
                is_whole = false;
                break;
            }
            let shown: Vec<_> =
                some.iter().map(|name| state.watches.source_version(&self.spec, name)).collect();
            let reads = some.iter().zip(&shown).map(|(name, shown)| {
                let shown = shown.as_deref().filter(|version| is_first && !version.is_empty());
                read(self.tenant, &self.spec, name, shown)
            });
            let reads = join_all(reads).await;
            for ((name, shown), read) in some.iter().zip(shown).zip(reads) {
                let SourceRead { source, version, absent_keys, content } = read;
                let mut targets = BTreeMap::new();
                if let Some(content) = content {
                    let copy = copy(&self.spec, &self.owner, name, content);
                    let versions = vec![(name.clone(), [shown, version.clone()])];
                    (targets, is_whole) = self.fan_out(state, name, &copy, desired, &versions).await;
                    if let Some(version) = version
                        && targets.values().any(|target| written(target).is_some())
                    {
                        state.just_copied.push(JustCopied {
                            source: name.clone(),
                            version,
                            digest: copy.digest,
                            absent_keys: absent_keys.clone(),
                            account: self.tenant.uid.clone(),
                            generation: self.sync.meta().generation,
                            at: Instant::now(),
                        });
                    }
                }
                let copy_name = self.spec.copy_name(name);
                sources.insert(name.clone(), SourceWork { state: source, absent_keys, copy_name, targets });
                if !is_whole {
                    break 'all;
                }
            }
        }
        CopiedSources { sources, merged: None, is_whole }
    }

    /// What became of a source and its copies, where their watches show what was copied a moment ago. Most of these
    /// passes are caused by the events of those very writes.
    fn unmoved(
        &self,
        state: &SyncState,
        copied: &JustCopied,
        desired: &BTreeSet<String>,
    ) -> Option<SourceWork> {
        let Self { context, tenant, sync, owner, spec, .. } = self;
        let shown = state.watches.source_version(spec, &copied.source)?;
        let is_same = shown == copied.version
            && tenant.uid == copied.account
            && sync.meta().generation == copied.generation;
        if !is_same || copied.at.elapsed() > MOMENT {
            return None;
        }
        let copy_name = spec.copy_name(&copied.source);
        let kept = |namespace: &String| {
            let key = ObjectKey::of_copy(spec, namespace, &copy_name);
            let known = state.verified.get(&key)?;
            let consent =
                context.namespaces.consent(namespace, &tenant.account.namespace, &spec.source_namespace);
            let stays = context.namespaces.serves(namespace)
                && consent == Consent::Given
                && is_kept(owner, spec.source_kind, &copied.digest, &state.watches.see(&key), known);
            stays.then(|| (namespace.clone(), TargetState::Synced(known.clone(), None)))
        };
        let targets = desired.iter().map(kept).collect::<Option<BTreeMap<_, _>>>()?;
        let absent_keys = copied.absent_keys.clone();
        Some(SourceWork { state: SourceState::Found, absent_keys, copy_name, targets })
    }

    /// Reads all sources and copies what they make together.
    async fn merged(
        &self,
        state: &mut SyncState,
        how: &Merge,
        copy_name: &str,
        names: &BTreeSet<String>,
        desired: &BTreeSet<String>,
    ) -> CopiedSources {
        let Self { tenant, spec, owner, .. } = self;
        let order: Vec<String> = match &spec.sources {
            Sources::Listed(names) => names.clone(),
            Sources::Named(_) | Sources::Selected(_) => names.iter().cloned().collect(),
        };
        let MergedSources { sources, versions, copy } =
            merge(tenant, spec, how, (owner, copy_name), &state.watches, &order, || self.takes_too_long())
                .await;
        let mut is_whole = true;
        let mut merged = SourceWork {
            state: SourceState::Found,
            absent_keys: Vec::new(),
            copy_name: copy_name.to_owned(),
            targets: BTreeMap::new(),
        };
        match copy {
            Ok(copy) => {
                (merged.targets, is_whole) = self.fan_out(state, copy_name, &copy, desired, &versions).await;
            }
            Err(why) => merged.state = why,
        }
        CopiedSources { sources, merged: Some(merged), is_whole }
    }

    /// What follows from what became of the copies for the next reconciliation.
    fn note_copies(
        &self,
        state: &mut SyncState,
        sources: &BTreeMap<String, SourceWork>,
        merged: Option<&SourceWork>,
    ) {
        let copies = || {
            copied(sources, merged).flat_map(|source| {
                source.targets.iter().map(move |(namespace, copy)| (namespace, &source.copy_name, copy))
            })
        };
        if copies().any(|(_, _, copy)| written(copy).is_some()) {
            state.common.rate_limit.spend();
        }
        let conflicts = copies().filter(|(_, _, copy)| matches!(copy, TargetState::Conflict(_)));
        let keys = conflicts.map(|(namespace, name, _)| ObjectKey::of_copy(&self.spec, namespace, name));
        state.watches.wait_for(&keys.collect::<Vec<_>>());
    }

    /// Copies what was made of the sources of these `versions`.
    async fn fan_out(
        &self,
        state: &mut SyncState,
        source: &str,
        copy: &DesiredCopy,
        desired: &BTreeSet<String>,
        versions: &Versions,
    ) -> (BTreeMap<String, TargetState>, bool) {
        let takes = Takes {
            upstreams: TakeOver::of(&self.spec, self.sync.meta()),
            unlabeled: self.spec.conflict_policy == ConflictPolicy::Adopt,
            immutable: self.spec.immutable_policy == ImmutablePolicy::Replace,
        };
        let job = CopyJob {
            tenant: self.tenant,
            source,
            source_namespace: &self.spec.source_namespace,
            copy,
            takes,
            mode: self.mode,
        };
        let outdated = |watches: &SyncWatches, begun: usize| {
            // The watch may still show what was before, or already what was read.
            let has_changed = |(name, versions): &(String, [Option<String>; 2])| {
                let now = watches.source_version(&self.spec, name);
                now.is_some() && versions.iter().all(|before| now != *before)
            };
            // A source that changes faster than it can be read would be copied never.
            (versions.iter().any(has_changed) && begun >= CONCURRENCY)
                || (self.takes_too_long() && begun > 0)
                || is_outdated(self.context, self.sync)
        };
        fan_out(self.context, state, self.sync, job, desired, outdated).await
    }

    /// Is the rest left to the next pass? Each request is answered or given up within seconds, but there may be ten
    /// thousand of them, and how long each takes a tenant can decide. Whatever came before it, each pass makes a copy.
    fn takes_too_long(&self) -> bool {
        self.began.elapsed() >= LONGEST_PASS
    }

    /// Removes copies that are not wanted any more. In a namespace that is `asked` for, one still is, also
    /// where the tenant may not know of it any more.
    async fn clean_up(
        &self,
        state: &mut SyncState,
        sources: &BTreeMap<String, SourceWork>,
        unlisted: Option<&Unlisted>,
        asked: &BTreeSet<String>,
    ) -> StaleCopies {
        let Self { context, tenant, spec, owner, mode, .. } = self;
        let search_failed = stale_copies::search(context, state, tenant, self.sync, spec.source_kind).await;
        // One that was selected and went meanwhile is gone when it is selected no more.
        let is_selected = matches!(spec.sources, Sources::Selected(_)) && spec.merge.is_none();
        let is_there = |source: &&SourceWork| source.state != SourceState::Missing || is_selected;
        let names = sources.values().filter(is_there).map(|source| source.copy_name.clone());
        let names = unlisted.is_none().then(|| names.collect());
        let wanted = WantedCopies { spec, namespaces: asked, names };
        let swept = match *mode {
            Mode::Look => StaleCopies::default(),
            mode => stale_copies::sweep(context, state, tenant, &wanted, owner, mode).await,
        };
        StaleCopies { search_failed, ..swept }
    }

    /// Which of the `needed` rights the account lacks. Watches whose rights it has by now are tried again.
    async fn rights(&self, state: &SyncState, (needed, unexplained): (Vec<Right>, usize)) -> Rights {
        let missing = if needed.is_empty() {
            Ok(BTreeSet::new())
        } else {
            missing(&self.tenant.client(), needed).await.map_err(|error| error.to_string())
        };
        if let Ok(missing) = &missing
            && unexplained == 0
        {
            state.watches.try_again(missing);
        }
        Rights { missing, unexplained }
    }
}

/// Does a pass over `sync` work on a spec that is not the last one any more, or that is paused by now?
fn is_outdated<K: Declares>(context: &Context<K>, sync: &K) -> bool {
    let meta = sync.meta();
    let reference = ObjectRef::new(&sync.name_any()).within(&sync.namespace().unwrap_or_default());
    let version = |of: &ObjectMeta| of.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok());
    context.store.get(&reference).is_none_or(|shown| {
        // What was read by its name may be newer than what the watch shows, which then says nothing.
        let now = if version(shown.meta()) < version(meta) { meta } else { shown.meta() };
        now.uid != meta.uid
            || now.generation != meta.generation
            || now.deletion_timestamp.is_some()
            || Pause::of(now, &context.namespaces).is_some()
    })
}

/// The namespaces that a spec asks for, as far as the tenant may know of them; and all of them.
async fn select<K: Declares>(
    context: &Context<K>,
    tenant: &TenantClient,
    spec: &ValidSync,
) -> (Selection, BTreeSet<String>) {
    let named = Selection { desired: spec.targets.clone(), ..Selection::default() };
    if !spec.has_selection() {
        return (named, spec.targets.clone());
    }
    let selected = context.namespaces.active(|name, traits| selects(spec, name, traits));
    let asked = spec.targets.iter().chain(&selected).cloned().collect();
    let candidates = context.namespaces.active(|_, traits| is_candidate(spec, traits));
    let touched = touched(tenant, spec, candidates);
    let selection = match in_time("the review of the account's rights", touched).await {
        Ok((touched, hidden)) => {
            let touched = selected.into_iter().filter(|name| touched.contains(name));
            Selection { desired: named.desired.into_iter().chain(touched).collect(), hidden, failed: None }
        }
        Err(error) => Selection { hidden: true, failed: Some(error.to_string()), ..named },
    };
    (selection, asked)
}

/// Those of the `candidates` of which the tenant may know; and may there be others? The same is asked, and the same
/// answered, whether there are or not.
async fn touched(
    tenant: &TenantClient,
    spec: &ValidSync,
    candidates: Vec<String>,
) -> Result<(BTreeSet<String>, bool), CallError> {
    let kind = resource(spec.source_kind);
    let everywhere = tenant.access.sees_all(&kind, None).await?;
    Ok((tenant.access.touched(&kind, candidates).await?, !everywhere))
}
