use super::*;
use proptest::prelude::*;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// A healthy server, and a new program that everything speaks for.
fn fine() -> Facts {
    Facts {
        may_not_write: None,
        unit: Some(K3sUnit { role: Role::Server, active: true }),
        held_back: None,
        ready: Some(Ok(())),
        installed: Ok(version("v1.36.3+k3s1")),
        server: None,
        candidate: UpgradeCandidate {
            shown: "/tmp/k3s-arm64".to_owned(),
            kind: Some(Ok(())),
            hash: Hash::Right,
            asked: None,
            version: Some(Ok(version("v1.36.4+k3s1"))),
            size: Some(70 << 20),
        },
        free_space: FreeSpace { program: Some(2 << 30), data: Some(2 << 30), shared: true },
    }
}

fn not_root() -> UpgradeRefusal {
    UpgradeRefusal { what: "it cannot be written".to_owned(), remedy: "put `sudo` in front".to_owned() }
}

fn with(candidate: impl FnOnce(&mut UpgradeCandidate)) -> Facts {
    let mut facts = fine();
    candidate(&mut facts.candidate);
    facts
}

fn refusals(facts: &Facts, request: UpgradeRequest) -> Vec<String> {
    match plan(facts, request) {
        UpgradePlan::Refused(refusals) => refusals.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_healthy_node_goes_forward() {
    assert_eq!(plan(&fine(), UpgradeRequest::Upgrade), UpgradePlan::Go(Role::Server, &FORWARD));
    let agent = Facts {
        unit: Some(K3sUnit { role: Role::Agent, active: true }),
        ready: None,
        server: Some(version("v1.36.4+k3s1")),
        ..fine()
    };
    assert_eq!(plan(&agent, UpgradeRequest::Upgrade), UpgradePlan::Go(Role::Agent, &FORWARD));
    // No one has looked yet.
    let early = with(|new| {
        (new.kind, new.hash, new.version, new.size) = (None, Hash::Unknown, None, None);
    });
    assert_eq!(plan(&early, UpgradeRequest::Upgrade), UpgradePlan::Go(Role::Server, &FORWARD));
}

#[test]
fn the_same_version_is_nothing_to_do_whatever_else_is_so() {
    let same = version("v1.36.3+k3s1");
    for facts in [
        with(|new| new.version = Some(Ok(version("v1.36.3+k3s1")))),
        with(|new| (new.asked, new.version) = (Some(version("v1.36.3+k3s1")), None)),
        Facts {
            may_not_write: Some(not_root()),
            ..with(|new| new.version = Some(Ok(version("v1.36.3+k3s1"))))
        },
    ] {
        assert_eq!(plan(&facts, UpgradeRequest::Upgrade), UpgradePlan::Nothing(same.clone()));
    }
}

#[test]
fn the_same_version_of_a_k3s_that_does_not_work_is_not_called_fine() {
    let same = |change: fn(&mut Facts)| {
        let mut facts = with(|new| new.version = Some(Ok(version("v1.36.3+k3s1"))));
        change(&mut facts);
        facts
    };
    for facts in [
        same(|facts| facts.ready = Some(Err("refused".to_owned()))),
        same(|facts| facts.unit = facts.unit.map(|unit| K3sUnit { active: false, ..unit })),
    ] {
        assert!(matches!(plan(&facts, UpgradeRequest::Upgrade), UpgradePlan::Refused(_)), "{facts:?}");
        assert!(matches!(plan(&facts, UpgradeRequest::RollBack), UpgradePlan::Nothing(_)), "{facts:?}");
    }
}

#[test]
fn each_thing_that_stands_against_it_is_reported_with_what_to_do() {
    let asked = |to: &str| with(|new| new.version = Some(Ok(version(to))));
    for (facts, want) in [
        (Facts { may_not_write: Some(not_root()), ..fine() }, "it cannot be written: put `sudo` in front"),
        (
            Facts { unit: None, ..fine() },
            "neither k3s.service nor k3s-agent.service runs or is enabled: `sudo systemctl enable",
        ),
        (
            Facts { unit: Some(K3sUnit { role: Role::Server, active: false }), ..fine() },
            "k3s.service does not run, so nothing",
        ),
        (
            Facts { ready: Some(Err("refused".to_owned())), ..fine() },
            "not ready now, so nothing could be verified afterwards (refused)",
        ),
        (
            Facts { held_back: Some("N-01".to_owned()), ..fine() },
            "once stopped, k3s would not start again: N-01",
        ),
        (Facts { installed: Err("it hangs".to_owned()), ..fine() }, "does not report its version (it hangs)"),
        (
            Facts { server: Some(version("v1.35.9+k3s1")), ..fine() },
            "newer than the server, which runs v1.35.9+k3s1: upgrade the server first",
        ),
        (
            with(|new| new.kind = Some(Err("it is a script, not a program".to_owned()))),
            "/tmp/k3s-arm64: it is a script",
        ),
        (with(|new| new.hash = Hash::Missing { list: "sha256sum-arm64.txt".to_owned() }), "--sha256 HEX"),
        (
            with(|new| new.hash = Hash::Wrong { wanted: "a".to_owned(), found: "b".to_owned() }),
            "has SHA-256 b and should have a: do not use it",
        ),
        (
            with(|new| new.version = Some(Err("`--version` hangs".to_owned()))),
            "is not accepted as k3s: `--version` hangs",
        ),
        (
            with(|new| new.asked = Some(version("v1.36.5+k3s1"))),
            "reports that it is v1.36.4+k3s1: do not use it",
        ),
        (
            asked("v1.35.9+k3s1"),
            "from v1.36.3+k3s1 down to v1.35.9+k3s1: the older one may not read the present database",
        ),
        (asked("v1.38.0+k3s1"), "is more than one minor version: upgrade to v1.37 first"),
        (
            Facts { free_space: FreeSpace { program: Some(413 << 20), data: None, shared: true }, ..fine() },
            "413 MiB are free next to k3s, and 414 are needed",
        ),
        (
            Facts { free_space: FreeSpace { program: Some(133 << 20), ..FreeSpace::default() }, ..fine() },
            "133 MiB are free next to k3s, and 134 are needed",
        ),
        (
            Facts { free_space: FreeSpace { program: None, data: Some(343 << 20), shared: false }, ..fine() },
            "343 MiB are free for k3s' data, and 344 are needed",
        ),
    ] {
        let reported = refusals(&facts, UpgradeRequest::Upgrade);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains(want), "{reported:?} {want}");
    }
}

#[test]
fn room_that_is_enough_is_enough() {
    for free_space in [
        FreeSpace { program: Some(414 << 20), data: Some(0), shared: true },
        FreeSpace { program: Some(134 << 20), data: Some(344 << 20), shared: false },
        FreeSpace::default(),
    ] {
        assert_eq!(refusals(&Facts { free_space, ..fine() }, UpgradeRequest::Upgrade), Vec::<String>::new());
    }
}

/// What does not run cannot be proven after an upgrade, and is a reason to go back.
#[test]
fn who_goes_back_need_not_have_a_k3s_that_works() {
    let broken = Facts {
        unit: Some(K3sUnit { role: Role::Server, active: false }),
        ready: Some(Err("refused".to_owned())),
        installed: Err("it does not start".to_owned()),
        ..fine()
    };
    assert_eq!(plan(&broken, UpgradeRequest::RollBack), UpgradePlan::Go(Role::Server, &FORWARD));
    assert_eq!(refusals(&broken, UpgradeRequest::Upgrade).len(), 2);
    // And not across a minor version, as an upgrade would not.
    let across = with(|new| new.version = Some(Ok(version("v1.35.1+k3s1"))));
    let reported = refusals(&across, UpgradeRequest::RollBack);
    assert!(reported[0].contains("restore the database"), "{reported:?}");
}

proptest! {
    #[test]
    fn nothing_is_done_that_a_check_speaks_against(
        root in any::<bool>(), active in any::<bool>(), ready in any::<bool>(), held in any::<bool>(),
        kind in any::<bool>(), right in any::<bool>(), minor in 34..40u32, free in 0..1000u64,
    ) {
        let facts = Facts {
            may_not_write: (!root).then(not_root),
            unit: Some(K3sUnit { role: Role::Server, active }),
            ready: Some(if ready { Ok(()) } else { Err("no".to_owned()) }),
            held_back: held.then(|| "no".to_owned()),
            free_space: FreeSpace { program: Some(free << 20), data: None, shared: true },
            ..with(|new| {
                new.kind = Some(if kind { Ok(()) } else { Err("no".to_owned()) });
                new.hash = if right { Hash::Right } else { Hash::Wrong { wanted: "a".to_owned(), found: "b".to_owned() } };
                new.version = Some(Ok(version(&format!("v1.{minor}.9+k3s1"))));
            })
        };
        let fits = root && active && ready && !held && kind && right && (36..=37).contains(&minor) && free >= 414;
        let goes = matches!(plan(&facts, UpgradeRequest::Upgrade), UpgradePlan::Go(..));
        prop_assert_eq!(goes, fits);
        if !goes {
            prop_assert!(!refusals(&facts, UpgradeRequest::Upgrade).is_empty());
        }
    }
}
