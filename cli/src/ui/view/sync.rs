//! A ConfigMapSync on a page.

use kube::core::DeserializeGuard;
use weaver_api::v1beta1::{ConfigMapSync, Counts, TargetStatus};
use weaver_diagnostics::finding_text::{clean, clean_lines};

use super::health::{Health, Summary};

#[derive(Clone, Debug)]
pub struct SyncView {
    pub summary: Summary,
    /// Kind, namespace and name.
    pub source: String,
    pub source_namespace: String,
    pub account: String,
    pub counts: Counts,
    /// Those with a problem first, as the status has them.
    pub targets: Vec<TargetView>,
    /// Are there more targets than the status shows?
    pub is_truncated: bool,
    pub is_dry_run: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetView {
    pub namespace: String,
    pub state: CopyState,
    pub reason: String,
    pub message: String,
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
        match state {
            "Synced" => Self::Synced,
            "Waiting" => Self::Waiting,
            "Conflict" => Self::Conflict,
            "Failed" => Self::Failed,
            _ => Self::Other,
        }
    }

    pub fn words(self) -> &'static str {
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
    pub fn of(guard: &DeserializeGuard<ConfigMapSync>) -> Self {
        match &guard.0 {
            Ok(sync) => Self::of_sync(sync),
            Err(error) => Self {
                summary: Summary::unreadable(&error.metadata, &error.error),
                source: String::new(),
                source_namespace: String::new(),
                account: String::new(),
                counts: Counts::default(),
                targets: Vec::new(),
                is_truncated: false,
                is_dry_run: false,
            },
        }
    }

    fn of_sync(sync: &ConfigMapSync) -> Self {
        let status = sync.status.clone().unwrap_or_default();
        let spec = sync.desired();
        let source = spec.and_then(|spec| spec.source.as_ref()).map(|source| {
            let part = |part: &Option<String>| part.as_deref().map(clean).unwrap_or_default();
            match &source.name {
                Some(name) => format!("{} {}/{}", source.kind, part(&source.namespace), clean(name)),
                None => format!("{}s in {} by labels", source.kind, part(&source.namespace)),
            }
        });
        let source_namespace = spec
            .and_then(|spec| spec.source.as_ref())
            .and_then(|source| source.namespace.as_deref())
            .map(clean);
        let account = spec
            .and_then(|spec| spec.service_account.as_ref())
            .and_then(|account| account.name.as_deref())
            .map(clean);
        Self {
            summary: Summary::of(&sync.metadata, status.observed_generation, &status.conditions),
            source: source.unwrap_or_default(),
            source_namespace: source_namespace.unwrap_or_default(),
            account: account.unwrap_or_default(),
            counts: status.counts.unwrap_or_default(),
            targets: status.targets.iter().map(target).collect(),
            is_truncated: status.truncated
                && status.counts.is_some_and(|counts| {
                    usize::try_from(counts.desired).is_ok_and(|desired| desired > status.targets.len())
                }),
            is_dry_run: spec.is_some_and(|spec| spec.dry_run),
        }
    }

    /// Is there something to look at?
    pub fn has_problem(&self) -> bool {
        !matches!(self.summary.health, Health::Ready | Health::Paused)
            || self.targets.iter().any(|target| target.state.is_problem())
    }
}

fn target(target: &TargetStatus) -> TargetView {
    TargetView {
        namespace: clean(&target.namespace),
        state: CopyState::of(&target.state),
        reason: clean(&target.reason),
        message: clean_lines(target.message.trim_end()),
    }
}

#[cfg(test)]
pub(in crate::ui) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A ConfigMapSync `team-a/NAME` with copies of these states.
    pub fn sync(name: &str, ready: &str, targets: &[(&str, &str)]) -> SyncView {
        let targets: Vec<Value> = targets
            .iter()
            .map(|(namespace, state)| {
                json!({"namespace": namespace, "state": state, "reason": "Why", "message": "m"})
            })
            .collect();
        SyncView::of(&guard(json!({
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
        let empty = SyncView::of(&guard(json!({"metadata": {"name": "a", "namespace": "t"}})));
        assert_eq!((empty.source.as_str(), empty.summary.health), ("", Health::Pending));
        let bad =
            guard(json!({"metadata": {"name": "a", "namespace": "t"}, "spec": {"resyncSeconds": "often"}}));
        let bad = SyncView::of(&bad);
        assert_eq!((bad.summary.name.as_str(), bad.summary.health), ("a", Health::Bad));
        assert!(bad.has_problem());
    }
}
