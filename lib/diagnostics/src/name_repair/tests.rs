use proptest::prelude::*;

use super::*;
use crate::{
    finding::{Code, Place},
    k3s_config,
    serving::{Observation, Silence},
    text_file::TextFile,
};

const FIRST: &str = "/etc/rancher/k3s/config.yaml";
const DIR: &str = "/etc/rancher/k3s/config.yaml.d";

fn effective(files: &[(&str, &str)]) -> Effective {
    let files: Vec<_> = files.iter().map(|(path, text)| TextFile::new(*path, *text)).collect();
    Effective { drop_ins: DIR.into(), ..k3s_config::merge(&files, &[]) }
}

fn seen(effective: &Effective, outcome: &HandshakeOutcome) -> Vec<ObservedName> {
    let (names, _) = wanted(&effective.tls_san, ServingStage::Serving);
    let observation = Observation { outcome: outcome.clone(), served: Vec::new() };
    names.into_iter().map(|name| (name, observation.clone())).collect()
}

fn step(
    progress: RepairProgress,
    effective: &Effective,
    outcome: &HandshakeOutcome,
    frozen: impl Into<Option<bool>>,
) -> RepairStep {
    let frozen = frozen.into().ok_or("no answer");
    let seen = seen(effective, outcome);
    next(progress, &RepairState { preflight: &[], effective, drop_in: None, seen: &seen, frozen })
}

fn words(step: RepairStep) -> String {
    let RepairStep::GiveUp(why) = step else { panic!("{step:?}") };
    why
}

#[test]
fn the_plan_goes_step_by_step_and_no_further_than_needed() {
    use RepairProgress::{Ground, Restarted, Rotated};
    let wanted = effective(&[(FIRST, "tls-san: [pi]")]);
    for (progress, outcome, want) in [
        (Ground, HandshakeOutcome::Proven, RepairStep::Done),
        (Ground, HandshakeOutcome::NotServed, RepairStep::Restart),
        (Restarted, HandshakeOutcome::Proven, RepairStep::Done),
        (Restarted, HandshakeOutcome::NotServed, RepairStep::Rotate),
        (Rotated, HandshakeOutcome::Proven, RepairStep::Done),
        // k3s renews at its start; a new certificate would have the dates of the same clock.
        (Ground, HandshakeOutcome::Dates("d".to_owned()), RepairStep::Restart),
    ] {
        assert_eq!(step(progress, &wanted, &outcome, false), want, "{progress:?} {outcome:?}");
    }
    assert!(
        words(step(Rotated, &wanted, &HandshakeOutcome::NotServed, false))
            .starts_with("pi is still not proven")
    );
    assert!(
        words(step(Restarted, &wanted, &HandshakeOutcome::Dates("d".to_owned()), false))
            .contains("still not proven")
    );
    assert!(
        words(step(Restarted, &wanted, &HandshakeOutcome::NotServed, None))
            .contains("unknown whether the certificate is frozen: no answer")
    );
    let frozen = words(step(Restarted, &wanted, &HandshakeOutcome::NotServed, true));
    assert!(frozen.contains("annotate secret k3s-serving listener.cattle.io/static-`"), "{frozen}");
}

#[test]
fn nothing_is_restarted_that_would_not_come_back_or_is_not_ours() {
    let wanted = effective(&[(FIRST, "tls-san: [pi]")]);
    let bad = [Finding::new(Code::MemoryCgroupAbsent, "no controller")];
    let seen = seen(&wanted, &HandshakeOutcome::NotServed);
    let state =
        RepairState { preflight: &bad, effective: &wanted, drop_in: None, seen: &seen, frozen: Ok(false) };
    let why = words(next(RepairProgress::Ground, &state));
    assert!(why.contains("would not start again (N-01") && why.contains("no controller"), "{why}");
    for (progress, outcome, want) in [
        (
            RepairProgress::Ground,
            HandshakeOutcome::Untrusted("another CA".to_owned()),
            "another server answers, not this cluster's k3s: another CA",
        ),
        (
            RepairProgress::Ground,
            HandshakeOutcome::Unreachable(Silence::Refused("refused".to_owned())),
            "k3s does not answer (refused)",
        ),
        (
            RepairProgress::Rotated,
            HandshakeOutcome::Unreachable(Silence::Refused("refused".to_owned())),
            "k3s did not come back: refused",
        ),
    ] {
        let why = words(step(progress, &wanted, &outcome, false));
        assert!(why.contains(want), "{why}");
    }
}

#[test]
fn shadowed_names_get_a_drop_in_that_adds_to_all_others() {
    let files = [
        (FIRST, "tls-san: [pi, pi.lan]"),
        ("/etc/rancher/k3s/config.yaml.d/50-more.yaml", "tls-san: [other]"),
        ("/etc/rancher/k3s/config.yaml.d/zz-weaver-names.yaml", "tls-san+: [earlier]"),
    ];
    let wanted = effective(&files);
    let RepairStep::Configure(change) =
        step(RepairProgress::Ground, &wanted, &HandshakeOutcome::Proven, false)
    else {
        panic!()
    };
    assert_eq!(change.file, "/etc/rancher/k3s/config.yaml.d/zz-weaver-names.yaml");
    let after = effective(&[files[0], files[1], (change.file.as_str(), change.to.as_str())]);
    let names: Vec<_> = after.tls_san.iter().map(|setting| setting.value.as_str()).collect();
    assert_eq!(names, ["other", "earlier", "pi", "pi.lan"]);
    assert_eq!(after.shadowed, []);
    assert_eq!(
        step(RepairProgress::Configured, &after, &HandshakeOutcome::Proven, false),
        RepairStep::Restart
    );

    // What replaces the names behind the drop-in would replace those of the drop-in, too.
    let later =
        effective(&[(FIRST, "tls-san: [pi]"), ("/etc/rancher/k3s/config.yaml.d/zzz.yaml", "tls-san: [x]")]);
    let why = words(step(RepairProgress::Ground, &later, &HandshakeOutcome::Proven, false));
    assert!(why.contains("zzz.yaml:1:10 replaces the names of all files before it"), "{why}");
}

#[test]
fn which_names_are_stale_and_which_may_go() {
    let wanted = effective(&[(FIRST, "tls-san: [Pi.lan]")]);
    let own = OwnNames { names: vec!["raspi".to_owned()] };
    let served: Vec<_> = [
        "pi.lan",
        "raspi",
        "RASPI",
        "old.lan",
        "kubernetes.default.svc",
        "localhost",
        "10.43.0.1",
        "::1",
        "*.lan",
    ]
    .map(str::to_owned)
    .into();
    assert_eq!(stale(&served, &wanted, &own), ["old.lan", "*.lan"]);
    for (name, want) in [
        ("old.lan", None),
        ("192.168.1.9", None),
        ("PI.LAN", Some("remove it from /etc/rancher/k3s/config.yaml:1:11 first")),
        ("raspi", Some("k3s adds itself")),
        ("kubernetes", Some("k3s adds itself")),
    ] {
        let refused = may_be_removed(name, &wanted, &own).err();
        assert_eq!(refused.is_some(), want.is_some(), "{name} {refused:?}");
        assert!(refused.unwrap_or_default().contains(want.unwrap_or_default()));
    }
    assert_eq!(wanted.tls_san[0].origin, Place::at(FIRST, 1, 11));
}

proptest! {
    /// Wherever the plan begins and whatever is seen, it ends, after three steps at most.
    #[test]
    fn the_plan_ends(outcomes in prop::collection::vec(0..5usize, 8), shadowed: bool, frozen: bool) {
        let more = if shadowed { "tls-san: [other]" } else { "" };
        let wanted = effective(&[(FIRST, "tls-san: [pi]"), ("/etc/rancher/k3s/config.yaml.d/50.yaml", more)]);
        let kinds = [
            HandshakeOutcome::Proven, HandshakeOutcome::NotServed, HandshakeOutcome::Dates("d".into()),
            HandshakeOutcome::Untrusted("u".into()), HandshakeOutcome::Unreachable(Silence::Unanswered("x".into())),
        ];
        let mut progress = RepairProgress::Ground;
        for outcome in outcomes {
            let step = step(progress, &wanted, &kinds[outcome], frozen);
            let Some(reached) = step.progress() else { return Ok(()) };
            prop_assert!(reached > progress);
            progress = reached;
        }
        prop_assert!(false, "no end");
    }
}
