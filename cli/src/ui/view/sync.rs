//! A ConfigMapSync or a ResourceSync on a page.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::{
    ConfigMapSync, ConfigMapSyncSpec, ConfigMapSyncStatus, Counts, ResourceSync, Source, SourceStatus,
    TargetStatus,
};
use weaver_api::validate::{KindName, validate_resource};
use weaver_diagnostics::finding_text::{clean, clean_lines, cut};

use super::health::{ResourceHealth, ResourceSummary};
use super::shared_texts::SharedTexts;

mod sync_key;

pub use self::sync_key::{SyncKey, SyncKind};

/// Characters of a reason: anyone who may write the status controls it.
const REASON: usize = 64;

#[derive(Clone, Debug)]
pub struct SyncView {
    pub kind: SyncKind,
    pub summary: ResourceSummary,
    /// Kind, namespace and name.
    pub source: String,
    pub source_namespace: String,
    /// What it copies: the kind, and the names of the sources unless labels select them.
    pub copies: Option<(KindName, Vec<String>)>,
    pub account: String,
    pub counts: Counts,
    /// For a selector: those with a problem first, as the status has them.
    pub sources: Vec<SourceView>,
    /// Those with a problem first, as the status has them.
    pub targets: Vec<TargetView>,
    /// Are there more targets than the status shows?
    pub is_truncated: bool,
    pub is_dry_run: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetView {
    pub namespace: Arc<str>,
    pub state: CopyState,
    pub reason: Arc<str>,
    pub message: Box<str>,
}

/// One source of several.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceView {
    pub name: String,
    pub synced: i32,
    pub failed: i32,
    pub conflicts: i32,
    pub reason: String,
    pub message: String,
}

impl SourceView {
    pub fn has_problem(&self) -> bool {
        self.failed > 0 || self.conflicts > 0 || !self.reason.is_empty()
    }
}

/// How a copy is, by the status of its ConfigMapSync; the worst first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CopyState {
    Failed,
    Conflict,
    Waiting,
    /// One that this version does not know.
    Other,
    Synced,
}

impl CopyState {
    fn of(state: &str) -> Self {
        let mut known = [Self::Failed, Self::Conflict, Self::Waiting, Self::Synced].into_iter();
        known.find(|known| known.label() == state).unwrap_or(Self::Other)
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::Conflict => "Conflict",
            Self::Waiting => "Waiting",
            Self::Other => "Unknown",
            Self::Synced => "Synced",
        }
    }

    pub fn is_problem(self) -> bool {
        self < Self::Other
    }
}

impl SyncView {
    pub fn of_config_maps(guard: &DeserializeGuard<ConfigMapSync>) -> Self {
        match &guard.0 {
            Ok(sync) => {
                let spec = sync.desired();
                let source = spec.and_then(|spec| spec.source.as_ref());
                let kind = source.map(|source| source.kind.as_str());
                let name = source.map(|source| ObjectKind::from(source.kind).into());
                Self {
                    copies: name.zip(source.map(names)),
                    ..Self::of(SyncKind::ConfigMap, &sync.metadata, kind, spec, sync.status.as_ref())
                }
            }
            Err(error) => Self::unreadable(SyncKind::ConfigMap, &error.metadata, &error.error),
        }
    }

    pub fn of_resources(guard: &DeserializeGuard<ResourceSync>) -> Self {
        match &guard.0 {
            Ok(sync) => {
                let spec = sync.desired();
                let kind = spec.and_then(|spec| spec.source.as_ref()?.kind.as_deref());
                // One that breaks a rule copies nothing.
                let name = validate_resource(spec).ok().map(|valid| valid.kind);
                let spec = spec.cloned().map(ConfigMapSyncSpec::from);
                let source = spec.as_ref().and_then(|spec| spec.source.as_ref());
                Self {
                    copies: name.zip(source.map(names)),
                    ..Self::of(SyncKind::Resource, &sync.metadata, kind, spec.as_ref(), sync.status.as_ref())
                }
            }
            Err(error) => Self::unreadable(SyncKind::Resource, &error.metadata, &error.error),
        }
    }

    /// The same without what only its own page shows: each of the 128 targets of a thousand may have its message. Texts
    /// that syncs have in common are kept once.
    #[must_use]
    pub fn brief(mut self, texts: &SharedTexts) -> Self {
        self.summary.conditions = Vec::new();
        self.sources = Vec::new();
        for target in &mut self.targets {
            target.message = Box::default();
            target.namespace = texts.of(&target.namespace);
            let is_said = *target.reason == *target.state.label();
            target.reason = texts.of(if is_said { "" } else { &target.reason });
        }
        self
    }

    /// One that this version cannot read, and why.
    fn unreadable(kind: SyncKind, metadata: &ObjectMeta, why: &str) -> Self {
        let pending = Self::of(kind, metadata, None, None, None);
        Self { summary: ResourceSummary::unreadable(metadata, why), ..pending }
    }

    fn of(
        kind: SyncKind,
        metadata: &ObjectMeta,
        copied: Option<&str>,
        spec: Option<&ConfigMapSyncSpec>,
        status: Option<&ConfigMapSyncStatus>,
    ) -> Self {
        let nothing = ConfigMapSyncStatus::default();
        let status = status.unwrap_or(&nothing);
        let source = spec.and_then(|spec| spec.source.as_ref());
        let text = |part: Option<&str>| part.map(clean).unwrap_or_default();
        let source_namespace = text(source.and_then(|source| source.namespace.as_deref()));
        let account = spec.and_then(|spec| spec.service_account.as_ref()?.name.as_deref());
        let copied = text(copied);
        let source_text = source.map(|source| match &source.name {
            Some(name) => format!("{copied} {source_namespace}/{}", clean(name)),
            None => format!("{copied} objects in {source_namespace} by labels"),
        });
        Self {
            kind,
            summary: ResourceSummary::of(metadata, status.observed_generation, &status.conditions),
            source: source_text.unwrap_or_default(),
            source_namespace,
            copies: None,
            account: text(account),
            counts: status.counts.unwrap_or_default(),
            sources: status.sources.iter().map(source_view).collect(),
            targets: status.targets.iter().map(target).collect(),
            is_truncated: status.truncated
                && status.counts.is_some_and(|counts| {
                    usize::try_from(counts.desired).is_ok_and(|desired| desired > status.targets.len())
                }),
            is_dry_run: spec.is_some_and(|spec| spec.dry_run),
        }
    }

    pub fn key(&self) -> (&str, &str) {
        (&self.summary.namespace, &self.summary.name)
    }

    pub fn sync_key(&self) -> SyncKey {
        let ResourceSummary { namespace, name, .. } = &self.summary;
        SyncKey { kind: self.kind, namespace: namespace.clone(), name: name.clone() }
    }

    pub fn has_problem(&self) -> bool {
        !matches!(self.summary.health, ResourceHealth::Ready | ResourceHealth::Paused)
            || self.targets.iter().any(|target| target.state.is_problem())
    }

    /// What is known of a target that the status does not name: those with a problem come first.
    pub fn unnamed(&self) -> Option<Unnamed> {
        let last_is_synced = self.targets.last().is_some_and(|last| last.state == CopyState::Synced);
        self.is_truncated.then_some(if last_is_synced { Unnamed::SyncedOrNone } else { Unnamed::NotKnown })
    }
}

/// How the copy is in a namespace that a full status does not name.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Unnamed {
    NotKnown,
    SyncedOrNone,
}

impl Unnamed {
    pub fn label(self) -> &'static str {
        match self {
            Self::NotKnown => "Not named by the status, which is full",
            Self::SyncedOrNone => "Synced, or no copy: the status is full, and names problems first",
        }
    }
}

/// The sources that a spec names.
fn names(source: &Source) -> Vec<String> {
    source.name.iter().chain(&source.names).cloned().collect()
}

fn source_view(source: &SourceStatus) -> SourceView {
    SourceView {
        name: clean(&source.name),
        synced: source.synced,
        failed: source.failed,
        conflicts: source.conflicts,
        reason: cut(&source.reason, REASON),
        message: clean_lines(source.message.trim_end()),
    }
}

fn target(target: &TargetStatus) -> TargetView {
    TargetView {
        namespace: clean(&target.namespace).into(),
        state: CopyState::of(&target.state),
        reason: cut(&target.reason, REASON).into(),
        message: clean_lines(target.message.trim_end()).into(),
    }
}

#[cfg(test)]
pub(in crate::ui) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The key of `team-a/NAME`.
    pub fn key(kind: SyncKind, name: &str) -> SyncKey {
        SyncKey { kind, namespace: "team-a".to_owned(), name: name.to_owned() }
    }

    /// A ConfigMapSync `team-a/NAME` with copies of these states.
    pub fn sync(name: &str, ready: &str, targets: &[(&str, &str)]) -> SyncView {
        let targets: Vec<Value> = targets
            .iter()
            .map(|(namespace, state)| {
                json!({"namespace": namespace, "state": state, "reason": "Why", "message": "m"})
            })
            .collect();
        SyncView::of_config_maps(&guard(json!({
            "metadata": {"name": name, "namespace": "team-a", "generation": 1, "uid": "u"},
            "spec": {"serviceAccount": {"name": "copier"}, "source": {"namespace": "team-a", "name": name},
                     "targets": {"namespaces": ["foo"]}},
            "status": {"observedGeneration": 1, "targets": targets, "conditions": [
                {"type": "Ready", "status": ready, "reason": "Reason", "message": "first\nsecond",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })))
    }

    fn guard(mut object: Value) -> DeserializeGuard<ConfigMapSync> {
        object["apiVersion"] = json!("weaver.example.com/v1beta1");
        object["kind"] = json!("ConfigMapSync");
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_sync_says_where_from_as_whom_and_how_each_copy_is() {
        let found = sync("settings", "False", &[("foo", "Failed"), ("bar", "Synced"), ("new", "Later")]);
        assert_eq!((found.source.as_str(), found.account.as_str()), ("ConfigMap team-a/settings", "copier"));
        let states: Vec<_> = found.targets.iter().map(|target| target.state).collect();
        assert_eq!(states, [CopyState::Failed, CopyState::Synced, CopyState::Other]);
        assert_eq!(found.summary.message, "first");
    }

    #[test]
    fn which_syncs_have_a_problem() {
        for (ready, targets, expected) in [
            ("True", vec![("foo", "Synced")], false),
            ("False", vec![("foo", "Synced")], true),
            ("True", vec![("foo", "Conflict")], true),
            ("True", vec![("foo", "Waiting")], true),
            ("True", vec![("foo", "Later")], false),
        ] {
            assert_eq!(sync("a", ready, &targets).has_problem(), expected, "{ready} {targets:?}");
        }
    }

    #[test]
    fn one_without_spec_and_one_that_cannot_be_read_are_shown_too() {
        let empty = SyncView::of_config_maps(&guard(json!({"metadata": {"name": "a", "namespace": "t"}})));
        assert_eq!((empty.source.as_str(), empty.summary.health), ("", ResourceHealth::Pending));
        let bad =
            guard(json!({"metadata": {"name": "a", "namespace": "t"}, "spec": {"resyncSeconds": "often"}}));
        let bad = SyncView::of_config_maps(&bad);
        assert_eq!((bad.summary.name.as_str(), bad.summary.health), ("a", ResourceHealth::Bad));
        assert!(bad.has_problem());
    }

    #[test]
    fn a_resource_sync_is_shown_alike_and_each_selected_source_says_why_it_fails() {
        let object = json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ResourceSync",
            "metadata": {"name": "policies", "namespace": "team-a", "generation": 1},
            "spec": {"serviceAccount": {"name": "copier"}, "targets": {"namespaces": ["foo"]},
                     "source": {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "namespace": "team-a",
                                "selector": {"matchLabels": {"a": "b"}}}},
            "status": {"observedGeneration": 1, "sources": [
                {"name": "deny", "synced": 0, "failed": 1, "conflicts": 0, "reason": "MissingRights", "message": "may not"},
                {"name": "dns", "synced": 1, "failed": 0, "conflicts": 0}]},
        });
        let found = SyncView::of_resources(&serde_json::from_value(object).unwrap());
        assert_eq!((found.kind, found.kind.path()), (SyncKind::Resource, "resources"));
        assert_eq!(
            (found.source.as_str(), found.account.as_str()),
            ("NetworkPolicy objects in team-a by labels", "copier")
        );
        let problems: Vec<_> =
            found.sources.iter().map(|source| (source.name.as_str(), source.has_problem())).collect();
        assert_eq!(problems, [("deny", true), ("dns", false)]);
        assert_eq!(SyncKind::of("ResourceSync"), Some(SyncKind::Resource));
        let (kind, names) = found.copies.unwrap();
        assert_eq!(
            (kind.api_version().as_str(), kind.kind.as_str()),
            ("networking.k8s.io/v1", "NetworkPolicy")
        );
        assert!(names.is_empty(), "labels select them");
    }

    #[test]
    fn what_a_full_status_does_not_name_is_synced_or_no_copy_where_its_last_target_is() {
        let full = |targets: &[(&str, &str)]| SyncView { is_truncated: true, ..sync("a", "True", targets) };
        assert_eq!(sync("a", "True", &[("foo", "Synced")]).unnamed(), None);
        assert_eq!(full(&[("a", "Failed"), ("foo", "Synced")]).unnamed(), Some(Unnamed::SyncedOrNone));
        assert_eq!(full(&[("foo", "Failed")]).unnamed(), Some(Unnamed::NotKnown));
    }

    #[test]
    fn what_is_kept_of_each_has_no_message_of_a_condition_source_or_target() {
        let texts = SharedTexts::default();
        let [brief, other] = ["a", "b"].map(|name| sync(name, "False", &[("foo", "Failed")]).brief(&texts));
        assert!(brief.summary.conditions.is_empty() && brief.targets[0].message.is_empty());
        assert_eq!((&*brief.targets[0].reason, brief.has_problem()), ("Why", true));
        assert!(
            Arc::ptr_eq(&brief.targets[0].namespace, &other.targets[0].namespace),
            "each text is kept once"
        );
    }
}
