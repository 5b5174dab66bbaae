//! What is replaced, and each reason against it.

use super::*;
use crate::package_update::apt::AptCandidate;

fn installed(name: &str, version: &str) -> InstalledPackage {
    InstalledPackage { name: name.to_owned(), version: version.to_owned(), is_whole: true, kib: 1024 }
}

fn known(name: &str, candidate: &str, versions: &[&str]) -> AptPackage {
    let offer = |version: &&str| AptCandidate {
        version: (*version).to_owned(),
        sources: vec!["file:/srv/apt".to_owned()],
    };
    let candidate = Some(candidate.to_owned()).filter(|candidate| !candidate.is_empty());
    AptPackage { name: name.to_owned(), candidate, offers: versions.iter().map(offer).collect() }
}

/// Two packages at 0.1.0, and a source that has 0.2.0 and 0.1.0 of both.
fn facts() -> UpdateFacts {
    UpdateFacts {
        installed: vec![installed("weaver", "0.1.0"), installed("config-weaver", "0.1.0")],
        known: vec![
            known("config-weaver", "0.2.0", &["0.2.0", "0.1.0"]),
            known("weaver", "0.2.0", &["0.2.0", "0.1.0"]),
        ],
        architecture: "arm64".to_owned(),
        free: Some(1024 * 1024),
        ..UpdateFacts::default()
    }
}

fn changes(plan: UpdatePlan) -> Vec<(String, String, String)> {
    match plan {
        UpdatePlan::Go(changes) => {
            changes.into_iter().map(|change| (change.name, change.to, change.source)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn refusals(facts: &UpdateFacts) -> Vec<String> {
    match plan(facts) {
        UpdatePlan::Refused(refusals) => refusals.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_are_installed_go_to_one_version() {
    let to =
        |name: &str, version: &str, source: &str| (name.to_owned(), version.to_owned(), source.to_owned());
    let source = "file:/srv/apt";
    assert_eq!(
        changes(plan(&facts())),
        [to("config-weaver", "0.2.0", source), to("weaver", "0.2.0", source)]
    );
    let half = UpdateFacts {
        installed: vec![installed("config-weaver", "0.1.0"), installed("weaver", "0.2.0")],
        ..facts()
    };
    assert_eq!(changes(plan(&half)), [to("config-weaver", "0.2.0", source)]);
    let alone = UpdateFacts { installed: vec![installed("weaver", "0.1.0")], ..facts() };
    assert_eq!(changes(plan(&alone)), [to("weaver", "0.2.0", source)]);
    let kept = ["config-weaver", "weaver"]
        .map(|name| PackageVersion { name: name.to_owned(), version: "0.0.9".to_owned() });
    let back = UpdateFacts { asked: Some("0.0.9".to_owned()), kept: kept.to_vec(), ..facts() };
    let planned = plan(&back);
    assert!(matches!(&planned, UpdatePlan::Go(changes) if is_downgrade(changes)), "{planned:?}");
    assert_eq!(changes(planned), [to("config-weaver", "0.0.9", KEPT), to("weaver", "0.0.9", KEPT)]);
}

#[test]
fn nothing_is_newer() {
    let newest = UpdateFacts {
        installed: vec![installed("config-weaver", "0.2.0"), installed("weaver", "0.2.0")],
        ..facts()
    };
    let nothing =
        UpdatePlan::Nothing { version: "0.2.0".to_owned(), source: Some("file:/srv/apt".to_owned()) };
    assert_eq!(plan(&newest), nothing);
    let asked = UpdateFacts { asked: Some("0.1.0".to_owned()), known: Vec::new(), ..facts() };
    assert_eq!(plan(&asked), UpdatePlan::Nothing { version: "0.1.0".to_owned(), source: None });
}

#[test]
fn each_thing_that_stands_against_it_is_named() {
    let all = facts();
    let refusal = UpgradeRefusal::new("apt is locked", "wait");
    for (facts, want) in [
        (
            UpdateFacts { installed: Vec::new(), ..facts() },
            &["no package of Config Weaver is installed here"][..],
        ),
        (
            UpdateFacts { known: Vec::new(), ..facts() },
            &["no apt source has a package of Config Weaver for arm64"],
        ),
        (
            UpdateFacts {
                known: vec![known("config-weaver", "0.1.0", &[]), known("weaver", "0.1.0", &[])],
                ..facts()
            },
            &["no apt source has a package of Config Weaver for arm64"],
        ),
        (
            UpdateFacts {
                known: vec![all.known[0].clone(), known("weaver", "0.1.0", &["0.1.0"])],
                ..facts()
            },
            &["no source has weaver 0.2.0 for arm64: there is 0.1.0"],
        ),
        (
            UpdateFacts { known: vec![all.known[0].clone()], ..facts() },
            &["no source has weaver 0.2.0 for arm64: the source is incomplete"],
        ),
        (
            UpdateFacts { asked: Some("0.3.0".to_owned()), ..facts() },
            &[
                "no source has config-weaver 0.3.0 for arm64: there is 0.2.0, 0.1.0",
                "no source has weaver 0.3.0",
            ],
        ),
        (
            UpdateFacts {
                known: vec![
                    known("config-weaver", "0.0.9", &["0.0.9"]),
                    known("weaver", "0.0.9", &["0.0.9"]),
                ],
                ..facts()
            },
            &["apt prefers 0.0.9, which is older than what is installed"],
        ),
        (
            UpdateFacts { free: Some(1024), ..facts() },
            &["1 MiB are free below /var/lib/weaver, and 70 are needed"],
        ),
        (
            UpdateFacts {
                installed: vec![
                    installed("weaver", "0.1.0"),
                    InstalledPackage { is_whole: false, ..installed("config-weaver", "0.1.0") },
                ],
                refusals: vec![refusal],
                ..facts()
            },
            &["apt is locked: wait", "the package config-weaver is only partly installed"],
        ),
    ] {
        let found = refusals(&facts);
        assert_eq!(found.len(), want.len(), "{found:?}");
        for (found, want) in found.iter().zip(want) {
            assert!(found.contains(want), "{found} has no {want}");
        }
    }
}

#[test]
fn what_one_release_stores_and_the_other_does_not_know_stands_against_it() {
    let lost = ["configmapsyncs as v1".to_owned()];
    let of = |from: &str, to: &str| {
        let (name, source) = ("config-weaver".to_owned(), String::new());
        vec![PackageChange { name, from: from.to_owned(), to: to.to_owned(), source }]
    };
    assert_eq!(stored_refusal(&of("0.1.0", "0.2.0"), &[]), None);
    let forward = stored_refusal(&of("0.1.0", "0.2.0"), &lost).unwrap().to_string();
    assert!(
        forward.contains("0.2.0 stores configmapsyncs as v1") && forward.contains("--one-way"),
        "{forward}"
    );
    let back = stored_refusal(&of("0.2.0", "0.1.0"), &lost).unwrap().to_string();
    assert!(back.contains("which 0.1.0 does not know: ") && back.contains("restore a backup"), "{back}");
}

#[test]
fn what_is_kept_of_all_needs_no_source() {
    let kept = |names: &[&str]| {
        names
            .iter()
            .map(|name| PackageVersion { name: (*name).to_owned(), version: "0.1.0".to_owned() })
            .collect()
    };
    let both = ["config-weaver", "weaver"];
    let newer = || vec![installed("weaver", "0.2.0"), installed("config-weaver", "0.2.0")];
    let half = || vec![installed("weaver", "0.1.0"), installed("config-weaver", "0.2.0")];
    let card = || [newer(), vec![installed("config-weaver-card", "0.2.0")]].concat();
    for (asked, installed, names, want) in [
        (Some("0.1.0"), newer(), &both[..], true),
        (Some("0.1.0"), half(), &both[..1], true),
        (Some("0.1.0"), newer(), &both[..1], false),
        (Some("0.1.0"), card(), &both[..], false),
        (Some("0.1.1"), newer(), &both[..], false),
        (Some("0.1.0"), Vec::new(), &both[..], false),
        (None, newer(), &both[..], false),
    ] {
        let asked_for = asked.map(str::to_owned);
        let facts = UpdateFacts { asked: asked_for, installed, kept: kept(names), ..UpdateFacts::default() };
        assert_eq!(needs_no_source(&facts), want, "{asked:?} {names:?}");
    }
}
