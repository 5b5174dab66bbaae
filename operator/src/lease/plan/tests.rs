use proptest::prelude::*;

use super::*;

fn record(holder: Option<&str>, renewal: u64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.map(str::to_owned),
        is_released: holder.is_none(),
        renewal: renewal.to_string(),
        expiry: None,
        transitions: 0,
        version: None,
        priority: 0,
        program_version: None,
        candidates: Vec::new(),
    }
}

fn me() -> Me {
    Me { name: "me".into(), priority: 0, version: String::new() }
}

fn candidate(holder: &str, priority: i32) -> Candidacy {
    Candidacy { holder: holder.into(), priority, at: "2026-01-01T00:00:00Z".into() }
}

#[test]
fn what_is_free_is_left_to_a_candidate_of_higher_priority_for_a_few_looks() {
    let (timing, mut waiting) = (Timing::of(seconds(60)), Candidate::default());
    let free = LeaseRecord { candidates: vec![candidate("laptop", 10)], ..record(None, 1) };
    let mut at = |now, gone: bool| waiting.judge(Some(&free), &me(), |_| gone, seconds(now), &timing);
    assert_eq!(at(0, false), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(29, false), LeaseStep::Wait(seconds(1)));
    assert_eq!(at(29, true), LeaseStep::Take(TakeoverReason::Released), "it is gone");
    assert_eq!(at(30, false), LeaseStep::Take(TakeoverReason::Expired), "it does not come");
    let laptop = Me { name: "laptop".into(), priority: 10, ..me() };
    let step = Candidate::default().judge(Some(&free), &laptop, |_| false, seconds(0), &timing);
    assert_eq!(step, LeaseStep::Take(TakeoverReason::Released));
}

#[test]
fn a_leader_yields_to_the_highest_and_never_to_its_equal() {
    let all = [candidate("a", 0), candidate("b", 5), candidate("c", 9), candidate("d", -1)];
    let to = |priority, gone: &'static str| {
        let me = Me { priority, ..me() };
        outranking(&all, &me, |holder| holder == gone).map(|other| other.holder.clone())
    };
    assert_eq!(to(0, ""), Some("c".into()));
    assert_eq!(to(0, "c"), Some("b".into()));
    assert_eq!(to(9, ""), None);
    assert_eq!(to(i32::MAX, ""), None);
    // Nor to itself, whatever it said before.
    assert_eq!(outranking(&[candidate("me", 7)], &me(), |_| false), None);
}

#[test]
fn a_state_that_is_older_than_what_was_seen_is_known_by_its_version() {
    let of = |version| LeaseRecord { version, ..record(Some("me"), 1) };
    for (known, found, expected) in [
        (Some(500), Some(300), true),
        (Some(500), Some(500), false),
        (Some(500), Some(501), false),
        (None, Some(300), false),
        (Some(500), None, false),
    ] {
        assert_eq!(went_back(&of(known), &of(found)), expected, "{known:?} {found:?}");
    }
}

#[test]
fn a_list_holds_who_waits_and_loses_who_leads_is_gone_or_did_not_come() {
    let all = [candidate("me", 0), candidate("gone", 0), candidate("absent", 3), candidate("other", 0)];
    assert_eq!(staying(&all, &me(), |holder| holder == "gone"), [candidate("other", 0)]);
    let mine = candidate("me", 0);
    assert_eq!(announced(&all, &mine, false), None);
    assert_eq!(announced(&all, &mine, true).unwrap().len(), 4);
    assert_eq!(announced(&all[1..], &mine, false).unwrap().last(), Some(&mine));
    let raised = announced(&all, &candidate("me", 4), false).unwrap();
    assert_eq!(raised.iter().filter(|other| other.holder == "me").count(), 1);
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_minute_has_the_parts_that_an_sd_card_can_keep() {
    let timing = Timing::of(seconds(60));
    let parts = [timing.renew, timing.retry, timing.fence, timing.deadline].map(|part| part.as_secs());
    assert_eq!(parts, [40, 10, 55, 5]);
}

#[test]
fn what_is_free_is_taken_at_once() {
    let timing = Timing::of(seconds(60));
    let judge = |found: Option<&LeaseRecord>, gone| {
        Candidate::default().judge(found, &me(), |_| gone, seconds(5), &timing)
    };
    assert_eq!(judge(None, false), LeaseStep::Take(TakeoverReason::Absent));
    assert_eq!(judge(Some(&record(None, 1)), false), LeaseStep::Take(TakeoverReason::Released));
    assert_eq!(judge(Some(&record(Some("me"), 1)), false), LeaseStep::Take(TakeoverReason::Mine));
    assert_eq!(judge(Some(&record(Some("other"), 1)), true), LeaseStep::Take(TakeoverReason::Gone));
    assert_eq!(judge(Some(&record(Some("other"), 1)), false), LeaseStep::Wait(seconds(10)));
}

#[test]
fn what_is_held_is_taken_after_its_whole_time_without_a_change() {
    let (timing, mut candidate) = (Timing::of(seconds(60)), Candidate::default());
    let mut at = |now: u64, version: u64| {
        candidate.judge(Some(&record(Some("other"), version)), &me(), |_| false, seconds(now), &timing)
    };
    assert_eq!(at(1_000, 1), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(1_055, 1), LeaseStep::Wait(seconds(5)));
    assert_eq!(at(1_059, 2), LeaseStep::Wait(seconds(10)), "it was renewed, or changed by anyone");
    assert_eq!(at(1_118, 2), LeaseStep::Wait(seconds(1)));
    assert_eq!(at(1_119, 2), LeaseStep::Take(TakeoverReason::Expired));
}

#[test]
fn one_that_someone_deleted_or_emptied_is_not_free_before_its_holder_must_have_seen_it() {
    let (timing, mut candidate) = (Timing::of(seconds(60)), Candidate::default());
    let mut at =
        |found: Option<&LeaseRecord>, now| candidate.judge(found, &me(), |_| false, seconds(now), &timing);
    assert_eq!(at(Some(&record(Some("leader"), 1)), 0), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(None, 10), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(None, 69), LeaseStep::Wait(seconds(1)));
    let emptied = LeaseRecord { is_released: false, ..record(None, 2) };
    assert_eq!(at(Some(&emptied), 69), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(Some(&emptied), 129), LeaseStep::Take(TakeoverReason::Expired));
    assert_eq!(at(None, 130), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(None, 190), LeaseStep::Take(TakeoverReason::Expired));
}

#[test]
fn a_holder_with_a_longer_time_has_it() {
    let (timing, mut candidate) = (Timing::of(seconds(60)), Candidate::default());
    let slow = LeaseRecord { expiry: Some(seconds(120)), ..record(Some("other"), 1) };
    let quick = LeaseRecord { expiry: Some(seconds(1)), ..record(Some("other"), 2) };
    let mut at =
        |found: &LeaseRecord, now| candidate.judge(Some(found), &me(), |_| false, seconds(now), &timing);
    assert_eq!(at(&slow, 0), LeaseStep::Wait(seconds(10)));
    assert_eq!(at(&slow, 119), LeaseStep::Wait(seconds(1)));
    assert_eq!(at(&slow, 120), LeaseStep::Take(TakeoverReason::Expired));
    assert_eq!(at(&quick, 121), LeaseStep::Wait(seconds(10)), "and one with a shorter time is not hurried");
}

proptest! {
    /// A leader stops writing before any candidate takes over, whenever each of them looks.
    #[test]
    fn no_one_takes_over_while_the_leader_may_write(
        expiry in 10_u64..600, renewals in proptest::collection::vec(1_u64..600, 0..20), looks in 1_u64..40,
    ) {
        let timing = Timing::of(seconds(expiry));
        let mut candidate = Candidate::default();
        let (mut renewed, mut version, mut now) = (seconds(0), 1, seconds(0));
        let mut renewals = renewals.into_iter();
        let mut next = renewals.next().map(|pause| renewed + seconds(pause));
        for _ in 0..2_000 {
            now += Duration::from_millis(looks * 250);
            // The leader renews while it still may; one that is late has stopped.
            while let Some(at) = next.filter(|at| *at <= now && *at < renewed + timing.fence) {
                (renewed, version) = (at, version + 1);
                next = renewals.next().map(|pause| at + seconds(pause));
            }
            let found = record(Some("leader"), version);
            if let LeaseStep::Take(_) = candidate.judge(Some(&found), &me(), |_| false, now, &timing) {
                // A write that was begun at the last moment is over, too.
                prop_assert!(now >= renewed + timing.fence + timing.deadline);
                return Ok(());
            }
        }
    }
}
