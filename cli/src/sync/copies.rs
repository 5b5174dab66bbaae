//! The copies of a ConfigMapSync or ResourceSync as they are, compared with what they should be, with the rights of the
//! user. Nothing is written.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::Api;
use weaver_api::kind::ObjectKind;
use weaver_api::names::SUBDOMAIN_MAX;
use weaver_api::ownership::{SOURCE_ANNOTATION, SYNC_UID_LABEL};
use weaver_api::v1beta1::{ConflictPolicy, ImmutablePolicy, Merge, Selector};
use weaver_api::validate::{Sources, ValidSync};
use weaver_client::pages::each_page;
use weaver_copies::content::Content;
use weaver_copies::content::merge::{ContentMerger, reading_order};
use weaver_copies::copy::{DesiredCopy, source_reference};
use weaver_copies::kinds::metadata_of;
use weaver_copies::metadata::Metadata;
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{TakeOver, Takes};
use weaver_copies::sources::{MAX_SOURCES, WantedCopies, may_be_source, query};

use super::any_sync::AnySync;
use super::planned::{PlannedCopy, PlannedStep, Show};
use crate::missing::{CopyTargets, Tell};

/// The most copies that are compared, and the most stale ones of a kind that are listed.
const MAX_COMPARED: usize = 1_000;
/// Copies that are read at once.
const AT_ONCE: usize = 16;

/// What is compared, and where findings are printed.
pub struct Comparison<'a> {
    pub client: &'a Client,
    pub sync: &'a AnySync,
    pub spec: &'a ValidSync,
    pub targets: &'a CopyTargets,
    pub tell: Tell<'a>,
    pub show: Show<'a>,
}

impl Comparison<'_> {
    pub async fn run(&self) {
        let names = match &self.spec.sources {
            Sources::Named(_) | Sources::Listed(_) => Some(self.spec.source_names().to_vec()),
            Sources::Selected(selector) => self.selected(selector).await,
        };
        let Some(mut names) = names else { return };
        if self.spec.has_selection() {
            (self.tell)(
                "of the namespaces that are only selected, the operator passes over those in which the account has no right",
            );
        }
        if let (Some(how), Some(name)) = (&self.spec.merge, self.spec.merged_name()) {
            if matches!(self.spec.sources, Sources::Selected(_)) {
                names.sort();
            }
            let there = self.merged(how, name, &names).await;
            if self.targets.is_complete {
                self.stale(there).await;
            }
            return;
        }
        let fitting = (MAX_COMPARED / self.targets.all.len().max(1)).max(1);
        if names.len() > fitting {
            (self.tell)(&format!("of these the first {fitting} are compared"));
        }
        if self.targets.all.len() > MAX_COMPARED {
            (self.tell)(&format!(
                "of {} namespaces the first {MAX_COMPARED} are compared",
                self.targets.all.len()
            ));
        }
        let mut there: BTreeSet<String> = names.iter().map(|name| self.spec.copy_name(name)).collect();
        for name in names.iter().take(fitting) {
            let is_gone = self.copies_of(name).await;
            if is_gone {
                there.remove(&self.spec.copy_name(name));
            }
        }
        if self.targets.is_complete {
            self.stale(there).await;
        }
    }

    /// Names of the selected sources. Reports how many there are; where nothing is copied, why.
    async fn selected(&self, selector: &Selector) -> Option<Vec<String>> {
        let ValidSync { source_kind: kind, source_namespace: namespace, .. } = self.spec;
        let objects: Api<Object> = Api::namespaced_with(self.client.clone(), namespace, kind);
        let query = query(selector);
        let mut names: Vec<String> = Vec::new();
        let listed = each_page(&objects, &query, |page| {
            names.extend(page.into_iter().filter(may_be_source).filter_map(|meta| meta.name));
            if names.len() > MAX_SOURCES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Err(error) = listed.await {
            (self.tell)(&format!("{kind}s in {namespace} could not be listed with your rights: {error}"));
            return None;
        }
        let those = format!("{kind}s in {namespace} that spec.source.selector selects");
        if names.len() > MAX_SOURCES {
            (self.tell)(&format!(
                "at least {} {those}: nothing is copied, since at most {MAX_SOURCES} are allowed; ask for more labels, \
                 or divide them among several syncs",
                names.len()
            ));
            return None;
        }
        (self.tell)(&format!("{} {those}", names.len()));
        Some(names)
    }

    /// Shows each copy of what the sources make together; its name, if one is wanted.
    async fn merged(&self, how: &Merge, copy_name: &str, names: &[String]) -> BTreeSet<String> {
        let (spec, tell) = (self.spec, self.tell);
        let mut merging = ContentMerger::new(how, spec.source_kind);
        let (mut is_whole, mut gone) = (true, 0);
        for (at, name) in reading_order(how, names) {
            match self.read(name).await {
                Ok(Some((content, _))) => merging.add(at, name, content),
                Ok(None) => {
                    gone += 1;
                    is_whole &= spec.merges_without_missing();
                }
                Err(()) => is_whole = false,
            }
        }
        let is_gone = gone == names.len();
        if !is_whole || is_gone {
            tell("nothing is merged: a copy is made of all sources");
        } else {
            match merging.finish() {
                Ok(content) => {
                    self.compare(&DesiredCopy::merged(self.sync.owner(), spec, copy_name, content)).await;
                }
                Err(why) => tell(&why.to_string()),
            }
        }
        (!is_gone).then(|| copy_name.to_owned()).into_iter().collect()
    }

    /// What is copied of the source of this name, and its metadata; `None` where it does not exist, which is reported.
    ///
    /// # Errors
    /// It is not known, or nothing is copied, and the reason was reported.
    async fn read(&self, name: &str) -> Result<Option<(Content, ObjectMeta)>, ()> {
        let (spec, tell) = (self.spec, self.tell);
        let key = ObjectKey::of_source(spec, name);
        let objects: Api<Object> = Api::namespaced_with(self.client.clone(), &key.namespace, &key.kind);
        match objects.get_opt(&key.name).await {
            Ok(Some(source)) if source.is_account_token() => {
                tell(&format!("source {key} is the token of an account, which is never copied"));
                Err(())
            }
            Ok(Some(source)) => {
                tell(&format!("source {key} exists"));
                let content = Content::of(&source).chosen(&spec.keys);
                content
                    .map(|content| Some((content, metadata_of(&source).into_owned())))
                    .map_err(|clash| tell(&clash.to_string()))
            }
            Ok(None) => {
                tell(&format!("source {key} does not exist"));
                Ok(None)
            }
            Err(error) => {
                tell(&format!("source {key} could not be read with your rights: {error}"));
                Err(())
            }
        }
    }

    /// Shows this copy in each of its namespaces.
    async fn compare(&self, copy: &DesiredCopy) {
        let targets = self.targets.all.iter().take(MAX_COMPARED).cloned();
        let steps = stream::iter(targets).map(|target| async move {
            let step = self.step(copy, &target).await;
            PlannedCopy { copy: copy.object_key(&target), step }
        });
        let mut steps = std::pin::pin!(steps.buffered(AT_ONCE));
        while let Some(planned) = steps.next().await {
            (self.show)(planned);
        }
    }

    /// Shows each copy of this source. Returns whether the source does not exist.
    async fn copies_of(&self, name: &str) -> bool {
        let (spec, tell) = (self.spec, self.tell);
        let owner = self.sync.owner();
        let (key, copy_name) = (ObjectKey::of_source(spec, name), spec.copy_name(name));
        if copy_name.len() > SUBDOMAIN_MAX {
            tell(&format!(
                "source {key} is not copied: the name of its copies would have {} characters, and at most \
                 {SUBDOMAIN_MAX} are allowed",
                copy_name.len()
            ));
            return false;
        }
        let read = self.read(name).await;
        let is_gone = matches!(read, Ok(None));
        if let Ok(Some((content, meta))) = read {
            let metadata = Metadata::new(&owner, &source_reference(&key), &meta, spec);
            self.compare(&DesiredCopy::new(owner, key.kind, &copy_name, metadata, content)).await;
        }
        is_gone
    }

    async fn step(&self, copy: &DesiredCopy, namespace: &str) -> PlannedStep {
        if self.targets.closed.contains(namespace) {
            return PlannedStep::closed(&copy.owner.namespace, &self.spec.source_namespace);
        }
        let objects: Api<Object> = Api::namespaced_with(self.client.clone(), namespace, &copy.kind);
        match objects.get_opt(&copy.name).await {
            Ok(found) => {
                let takes = Takes {
                    upstreams: TakeOver::of(self.spec, &self.sync.meta),
                    unlabeled: self.spec.conflict_policy == ConflictPolicy::Adopt,
                    immutable: self.spec.immutable_policy == ImmutablePolicy::Replace,
                };
                PlannedStep::of(copy, takes, found.as_ref())
            }
            Err(error) => PlannedStep::Unknown(format!("could not be read with your rights: {error}")),
        }
    }

    /// Shows each copy that is not wanted any more, by the operator's own decision; `names` are those of the
    /// copies of sources that are there. Without the right to list objects everywhere none is shown.
    async fn stale(&self, names: BTreeSet<String>) {
        let wanted = WantedCopies { spec: self.spec, namespaces: &self.targets.all, names: Some(names) };
        let kind = self.spec.source_kind;
        let both = ObjectKind::OF_CONFIG_MAP_SYNC.to_vec();
        for kind in if kind.is_of_config_map_sync() { both } else { vec![kind] } {
            self.stale_of(kind, &wanted).await;
        }
    }

    async fn stale_of(&self, kind: ObjectKind, wanted: &WantedCopies<'_>) {
        let owner = self.sync.owner();
        let objects: Api<Object> = Api::all_with(self.client.clone(), &kind);
        let query = format!("{SYNC_UID_LABEL}={}", owner.uid);
        let mut seen = 0;
        let listed = each_page(&objects, &query, |page| {
            if seen >= MAX_COMPARED {
                (self.tell)(&format!(
                    "of its copies only the first {seen} {kind}s were looked at for what would be deleted"
                ));
                return ControlFlow::Break(());
            }
            seen += page.len();
            for meta in page {
                let Some(copy) = ObjectKey::of(kind, &meta) else { continue };
                let of = meta.annotations.as_ref().and_then(|all| all.get(SOURCE_ANNOTATION));
                if wanted.has(&copy, of.map(String::as_str)) {
                    continue;
                }
                if let Some(step) = PlannedStep::of_stale(&owner, &self.sync.source, &copy, &meta) {
                    (self.show)(PlannedCopy { copy, step });
                }
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = listed.await {
            (self.tell)(&format!("{kind}s that would be deleted are not all known: {error}"));
        }
    }
}
