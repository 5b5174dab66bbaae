use k8s_openapi::jiff::Timestamp;
use weaver_diagnostics::finding::Place;

use super::*;

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn found(severity: Severity, code: Code, message: &str) -> Finding {
    Finding::new(code, message).milder(severity)
}

fn conditions(facts: &NodeFacts, findings: &[Finding]) -> Vec<(String, String, String)> {
    let status = status(&NodeReportStatus::default(), facts, None, findings, &at(1));
    status.conditions.into_iter().map(|c| (c.type_, c.status, c.reason)).collect()
}

#[test]
fn each_condition_from_what_was_found() {
    use Code::*;
    use Severity::{Fail, Ok, Unknown, Warn};
    let seen =
        NodeFacts { clock_is_set: true, storage_is_seen: true, power_is_seen: true, ..NodeFacts::default() };
    for (index, findings, facts, want, reason) in [
        (0, vec![(Ok, MemoryCgroupOk)], &seen, "True", "MemoryCgroupOk"),
        (0, vec![(Fail, MemoryCgroupAbsent)], &seen, "False", "MemoryCgroupAbsent"),
        // Overridden by the owner: k3s may start, and the controller is still not there.
        (0, vec![(Warn, MemoryCgroupAbsent)], &seen, "False", "MemoryCgroupAbsent"),
        (0, vec![(Warn, MemoryCgroupLostAtBoot)], &seen, "True", "MemoryCgroupLostAtBoot"),
        (0, vec![(Unknown, MemoryCgroupUnknown)], &seen, "Unknown", "MemoryCgroupUnknown"),
        (0, vec![], &seen, "Unknown", "NotSeen"),
        (1, vec![(Ok, ServingNamesOk)], &seen, "True", "ServingNamesOk"),
        (1, vec![(Ok, ServingNamesOk), (Fail, NameNotServed)], &seen, "False", "NameNotServed"),
        (1, vec![(Ok, ServingNamesOk), (Warn, NameInvalid)], &seen, "False", "NameInvalid"),
        (1, vec![(Ok, ServingNamesOk), (Unknown, K3sFileUnreadable)], &seen, "Unknown", "K3sFileUnreadable"),
        (1, vec![(Ok, ServingNamesOk), (Fail, K3sConfigWrongType)], &seen, "Unknown", "K3sConfigWrongType"),
        // Of another setting, such as a card that flannel is to use.
        (1, vec![(Ok, ServingNamesOk), (Warn, K3sConfigWrongType)], &seen, "True", "ServingNamesOk"),
        (1, vec![(Ok, ServingNamesOk), (Warn, K3sFileUnreadable)], &seen, "True", "ServingNamesOk"),
        (1, vec![(Unknown, ServingNamesUnknown)], &seen, "Unknown", "ServingNamesUnknown"),
        (2, vec![], &seen, "True", "NothingFound"),
        (
            2,
            vec![(Fail, ClockBeforeFloor), (Unknown, ClockNotSynchronised)],
            &seen,
            "False",
            "ClockBeforeFloor",
        ),
        (2, vec![(Unknown, ClockNotSynchronised)], &seen, "Unknown", "ClockNotSynchronised"),
        (3, vec![], &seen, "True", "NothingFound"),
        (3, vec![(Warn, DiskPressure)], &seen, "False", "DiskPressure"),
        (3, vec![(Fail, CardFailing)], &seen, "False", "CardFailing"),
        (4, vec![(Warn, UnderVoltage)], &seen, "False", "UnderVoltage"),
        // A Pi whose kernel has no reader.
        (4, vec![(Unknown, UnderVoltage)], &NodeFacts::default(), "Unknown", "UnderVoltage"),
        (4, vec![], &NodeFacts::default(), "Unknown", "NotSeen"),
        (2, vec![], &NodeFacts::default(), "Unknown", "NotSeen"),
        (3, vec![], &NodeFacts::default(), "Unknown", "NotSeen"),
    ] {
        let list: Vec<_> = findings.iter().map(|(severity, code)| found(*severity, *code, "m")).collect();
        let (kind, status, because) = conditions(facts, &list)[index].clone();
        assert_eq!((status.as_str(), because.as_str()), (want, reason), "{kind} {findings:?}");
    }
}

#[test]
fn findings_that_share_a_code_are_one_entry() {
    let one = found(Severity::Fail, Code::NameNotServed, "a is not served")
        .saw(Place::line("/c", 1), "tls-san a")
        .remedy(Remedy::new("mend").command("repair"));
    let two = found(Severity::Fail, Code::NameNotServed, "b is not served")
        .saw(Place::line("/c", 2), "tls-san b")
        .remedy(Remedy::new("mend").command("repair"));
    let other = found(Severity::Ok, Code::MemoryCgroupOk, "fine");
    let entries = by_code(&[one, other, two]);
    assert_eq!(entries.iter().map(|entry| entry.code.as_str()).collect::<Vec<_>>(), ["N-00", "T-02"]);
    assert_eq!(entries[1].message, "a is not served\nb is not served");
    assert_eq!(entries[1].evidence, ["/c:1: tls-san a", "/c:2: tls-san b"]);
    assert_eq!(entries[1].remedy, "mend\n$ repair");
}

#[test]
fn what_was_seen_besides_is_no_news() {
    let full = |free: &str| {
        let finding = found(Severity::Warn, Code::DiskPressure, "nearly full").saw(Place::file("/"), free);
        status(&NodeReportStatus::default(), &NodeFacts::default(), None, &[finding], &at(1))
    };
    assert_ne!(full("7 MiB"), full("6 MiB"));
    assert!(says_the_same(&full("7 MiB"), &full("6 MiB")));
    let of_names =
        |why: &str| vec![found(Severity::Fail, Code::NameNotServed, "a").saw(Place::file("/c"), why)];
    assert!(!are_the_same(&of_names("older"), &of_names("newer")), "there it says why");
    let before = full("7 MiB");
    let later = status(&before, &NodeFacts::default(), None, &[], &at(2));
    assert!(!says_the_same(&before, &later));
    let unmoved =
        before.conditions.iter().zip(&later.conditions).filter(|(one, other)| one.status == other.status);
    assert!(
        unmoved.clone().count() == 4 && unmoved.clone().all(|(one, other)| one == other),
        "no time moves"
    );
}

#[test]
fn a_measurement_is_news_where_it_is_another_when_rounded() {
    let measured = |load_percent| {
        let system = Some(node_report::NodeSystem { load_percent: Some(load_percent), ..Default::default() });
        NodeFacts { system, ..NodeFacts::default() }
    };
    let before = status(&NodeReportStatus::default(), &measured(120), None, &[], &at(1));
    for (load, is_news) in [(120, false), (137, false), (138, true)] {
        let after = status(&before, &measured(load), None, &[], &at(2));
        assert_eq!(!says_the_same(&before, &after), is_news, "{load}");
    }
}

#[test]
fn news_are_what_turned_bad_and_what_is_known_to_be_gone() {
    use Severity::{Fail, Ok, Unknown, Warn};
    let entries = |findings: &[(Severity, Code)]| {
        by_code(&findings.iter().map(|(severity, code)| found(*severity, *code, "m")).collect::<Vec<_>>())
    };
    let (slow, full, name) = (Code::MemoryCgroupAbsent, Code::DiskPressure, Code::NameNotServed);
    for (before, after, want) in [
        (vec![], vec![(Ok, Code::MemoryCgroupOk), (Unknown, Code::ClockNotSynchronised)], vec![]),
        (vec![], vec![(Fail, slow)], vec![(true, "N-01: m")]),
        (vec![(Fail, slow)], vec![(Fail, slow)], vec![]),
        // Overridden, and no longer so: the finding is another, and not gone.
        (vec![(Fail, slow)], vec![(Warn, slow)], vec![(true, "N-01: m")]),
        (vec![(Warn, full)], vec![(Unknown, full)], vec![]),
        (vec![(Warn, full)], vec![], vec![(false, "H-03 disk-pressure: resolved")]),
        // k3s restarts: nothing is known of its names.
        (vec![(Warn, Code::NameStale)], vec![(Unknown, Code::ServingNamesUnknown)], vec![]),
        (vec![(Fail, name)], vec![(Unknown, Code::ServingNamesUnknown)], vec![]),
        (
            vec![(Fail, name)],
            vec![(Ok, Code::ServingNamesOk)],
            vec![(false, "T-02 name-not-served: resolved")],
        ),
        (
            vec![(Warn, full)],
            vec![(Fail, slow)],
            vec![(true, "N-01: m"), (false, "H-03 disk-pressure: resolved")],
        ),
    ] {
        let mut known = severities(&entries(&before));
        let news = news(&mut known, &entries(&after));
        let news: Vec<_> = news.iter().map(|news| (news.is_bad, news.note.as_str())).collect();
        assert_eq!(news, want, "{before:?} -> {after:?}");
    }
    // It stays reported while nothing is known, and is neither reported again nor forgotten.
    let mut known = severities(&entries(&[(Fail, name)]));
    for (now, count) in
        [(vec![(Unknown, Code::ServingNamesUnknown)], 0), (vec![(Fail, name)], 0), (vec![], 1), (vec![], 0)]
    {
        assert_eq!(news(&mut known, &entries(&now)).len(), count, "{now:?}");
    }
    let foreign = node_report::Finding {
        code: "Z-99".into(),
        severity: node_report::Severity::Fail,
        ..Default::default()
    };
    assert_eq!(news(&mut severities(&[foreign]), &[]), []);
}

#[test]
fn the_health_is_the_worst_and_not_what_no_kernel_tells() {
    use Severity::{Fail, Ok, Unknown, Warn};
    let good = [(Ok, Code::MemoryCgroupOk), (Ok, Code::ServingNamesOk)];
    for (more, want) in [
        (vec![], Ok),
        (vec![(Unknown, Code::UnderVoltage), (Unknown, Code::NameNotFound)], Ok),
        (vec![(Unknown, Code::ServingNamesUnknown)], Unknown),
        (vec![(Warn, Code::SwapOnCard), (Unknown, Code::UnderVoltage)], Warn),
        (vec![(Warn, Code::SwapOnCard), (Fail, Code::CardFailing)], Fail),
    ] {
        let findings: Vec<_> =
            good.iter().chain(&more).map(|(severity, code)| found(*severity, *code, "m")).collect();
        let status = status(&NodeReportStatus::default(), &NodeFacts::default(), None, &findings, &at(1));
        assert_eq!(health(&findings, &status.conditions), want, "{more:?}");
    }
    assert_eq!(health(&[], &[]), Unknown);
}

#[test]
fn a_status_takes_no_more_than_the_api_does() {
    let evidence = |finding: Finding| {
        (0..40).fold(finding, |finding, n| finding.saw(Place::line("/f", n), "x".repeat(9_000)))
    };
    let long: Vec<_> =
        Code::ALL.iter().map(|code| evidence(found(Severity::Fail, *code, &"ä".repeat(90_000)))).collect();
    let status = status(&NodeReportStatus::default(), &NodeFacts::default(), None, &long, &at(1));
    assert!(status.findings.len() <= 128);
    assert!(status.findings.iter().all(|finding| finding.evidence.len() <= 16));
    assert!(status.conditions.iter().all(|condition| condition.message.len() < 32_768));
    // The size limit of etcd, and of kine, for one object.
    assert!(serde_json::to_vec(&status).unwrap().len() < 1_500_000);
}

#[test]
fn where_there_are_more_codes_than_a_report_takes_the_worst_are_in_it() {
    let mixed: Vec<_> = Code::ALL
        .iter()
        .enumerate()
        .map(|(n, code)| found(if n < 20 { Severity::Unknown } else { Severity::Fail }, *code, "m"))
        .collect();
    let status = status(&NodeReportStatus::default(), &NodeFacts::default(), None, &mixed, &at(1));
    let reported = |code: &Code| status.findings.iter().any(|finding| finding.code == code.id());
    assert_eq!(status.findings.len(), Code::ALL.len().min(128));
    let (kept, left_out): (Vec<_>, Vec<_>) = mixed.iter().partition(|finding| reported(&finding.code));
    let mildest = kept.iter().map(|finding| finding.severity()).min().unwrap();
    assert!(left_out.iter().all(|finding| finding.severity() <= mildest), "{left_out:?}");
    let is_fault = |code: &&Code| code.row().severity >= Severity::Fail;
    assert!(Code::ALL.iter().skip(20).filter(is_fault).all(reported));
    assert!(status.findings.is_sorted_by_key(|finding| finding.code.clone()));
}
