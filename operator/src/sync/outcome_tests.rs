use serde_json::{Value, json};
use weaver_api::v1beta1::ConfigMapSyncSpec;
use weaver_api::validate::validate;
use weaver_tenant::token::MintError;

use super::super::execute::CopyChange;
use super::*;
use crate::scope::OperatorScope;
use weaver_copies::content::Content;
use weaver_copies::object::Object;
use weaver_copies::plan::{Foreign, PreviousOwner, Verified};

pub fn account() -> Account {
    Account { namespace: "team-a".into(), name: "sync".into() }
}

pub fn synced() -> TargetState {
    let verified = Verified {
        uid: "u".into(),
        resource_version: "1".into(),
        digest: "d".into(),
        source: "s".into(),
        replaced: None,
    };
    TargetState::Synced(verified, None)
}

pub fn forbidden() -> TargetState {
    TargetState::Forbidden("exceeded quota".into())
}

/// A plain spec with these targets.
pub fn spec(targets: &[&str]) -> Value {
    json!({
        "serviceAccount": {"name": "sync"},
        "source": {"namespace": "team-a", "name": "settings"},
        "targets": {"namespaces": targets},
    })
}

pub fn valid(spec: Value) -> ValidSync {
    validate(Some(&serde_json::from_value::<ConfigMapSyncSpec>(spec).unwrap())).unwrap()
}

/// The source of [`spec`], which has these targets.
fn source(targets: &[(&str, TargetState)]) -> SourceWork {
    SourceWork {
        state: SourceState::Found,
        absent_keys: Vec::new(),
        copy_name: "settings".into(),
        targets: targets.iter().map(|(namespace, state)| ((*namespace).to_owned(), state.clone())).collect(),
    }
}

/// What a reconciliation of [`spec`] found whose source is in this state.
pub fn without_copies(state: SourceState) -> SyncWork {
    let mut work = work(&[]);
    if let Some(source) = work.sources.get_mut("settings") {
        source.state = state;
    }
    work
}

/// What a reconciliation of [`spec`] found.
pub fn work(targets: &[(&str, TargetState)]) -> SyncWork {
    let names: Vec<&str> = targets.iter().map(|(namespace, _)| *namespace).collect();
    let spec = valid(spec(if names.is_empty() { &["foo"] } else { &names }));
    SyncWork {
        account: account(),
        selection: Selection { desired: spec.targets.clone(), ..Selection::default() },
        spec,
        sources: [("settings".to_owned(), source(targets))].into(),
        merged: None,
        unlisted: None,
        stale: StaleCopies::default(),
        rights: Rights { missing: Ok(BTreeSet::new()), unexplained: 0 },
        watched: WatchGaps::default(),
        unheld: false,
        first_due: None,
    }
}

/// One source: name, state, and what became of its copies.
pub type Selected<'a> = (&'a str, SourceState, &'a [(&'a str, TargetState)]);

/// What a reconciliation found whose sources, all in team-a, labels select; their copies are called `x-…`.
pub fn selected(sources: &[Selected<'_>]) -> SyncWork {
    let mut raw = spec(&["foo", "bar"]);
    raw["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": {"share": "true"}}});
    raw["targets"]["namePrefix"] = json!("x-");
    let sources = sources.iter().map(|(name, state, targets)| {
        let (state, copy_name) = (state.clone(), format!("x-{name}"));
        ((*name).to_owned(), SourceWork { state, copy_name, ..source(targets) })
    });
    let sources = sources.collect();
    SyncWork { spec: valid(raw), sources, ..work(&[("foo", synced()), ("bar", synced())]) }
}

/// As from a source that has the keys a and b.
pub fn clash() -> Clash {
    let source = Object {
        data: Some(["a", "b"].map(|key| (key.to_owned(), String::new())).into()),
        ..Object::default()
    };
    let keys = serde_json::from_value(json!({"rename": {"a": "b"}})).unwrap();
    Content::of(&source).chosen(&keys).err().unwrap()
}

fn worked(targets: &[(&str, TargetState)]) -> SyncOutcome {
    SyncOutcome::Worked(Box::new(work(targets)))
}

#[test]
fn an_upgrade_ends_when_each_target_is_settled() {
    let conflict = || TargetState::Conflict(Foreign::Unlabeled);
    for (state, settled) in [
        (synced(), true),
        (TargetState::NamespaceMissing, true),
        (TargetState::NamespaceTerminating, true),
        (TargetState::NotServed, true),
        (conflict(), true),
        (TargetState::WithoutFinalizer, false),
        (TargetState::Planned(CopyChange::Update(PreviousOwner::Upstreams)), false),
        (forbidden(), false),
        (TargetState::Rejected("x".into()), false),
        (TargetState::Failed("x".into()), false),
    ] {
        assert_eq!(worked(&[("foo", state.clone())]).ends_upgrade(), settled, "{state:?}");
        assert_eq!(worked(&[("bar", synced()), ("foo", state.clone())]).ends_upgrade(), settled, "{state:?}");
    }
}

#[test]
fn an_upgrade_does_not_end_while_nothing_could_be_looked_at_or_nothing_is_to_be_written() {
    let without_source = without_copies(SourceState::Missing);
    let clashing = without_copies(SourceState::Clash(clash()));
    let mut dry = work(&[("foo", synced())]);
    dry.spec.dry_run = true;
    for reconciled in [
        SyncOutcome::Worked(Box::new(dry)),
        SyncOutcome::Worked(Box::new(without_source)),
        SyncOutcome::Worked(Box::new(clashing)),
        SyncOutcome::ParseFailed(Vec::new()),
        SyncOutcome::InvalidSpec(validate(None).unwrap_err()),
        SyncOutcome::Suspended,
        SyncOutcome::NoToken(MintError::AccountMissing(account())),
    ] {
        assert!(!reconciled.ends_upgrade(), "{reconciled:?}");
    }
}

#[test]
fn the_spec_says_how_often_it_is_compared() {
    let mut often = work(&[("foo", synced())]);
    let mut plain = spec(&["foo"]);
    plain["resyncSeconds"] = json!(60);
    often.spec = valid(plain);
    let options = |resync: Option<Duration>| RunOptions {
        namespaces: OperatorScope::Everywhere,
        kubeconfig: None,
        resync,
        watch: Duration::from_mins(5),
        retry: Duration::from_mins(1),
        cleanup_patience: Duration::ZERO,
        metrics: weaver_host::metrics_page::MetricsAddress(None),
        token_lifetime: Duration::from_hours(1),
        service_token_age: None,
        lease: Duration::from_mins(1),
        standalone: false,
        priority: 0,
    };
    let (day, minute, five) = (Duration::from_hours(24), Duration::from_mins(1), Duration::from_mins(5));
    let polled = SyncWork { watched: WatchGaps { blind: true, beyond: 0 }, ..work(&[("foo", synced())]) };
    let mut hidden = work(&[("foo", synced())]);
    hidden.selection.hidden = true;
    for (reconciled, by_itself, by_flag) in [
        (SyncOutcome::Worked(Box::new(often)), minute, day),
        (worked(&[("foo", synced())]), Duration::from_mins(10), day),
        (SyncOutcome::Suspended, Duration::from_mins(10), day),
        (SyncOutcome::Worked(Box::new(hidden)), five, five),
        (SyncOutcome::Worked(Box::new(polled)), minute, minute),
        (worked(&[("foo", synced()), ("bar", TargetState::NamespaceTerminating)]), minute, minute),
    ] {
        let found = (reconciled.resync(&options(None)), reconciled.resync(&options(Some(day))));
        assert_eq!(found, (by_itself, by_flag), "{reconciled:?}");
        assert!(!reconciled.wants_retry(), "{reconciled:?}");
    }
}
