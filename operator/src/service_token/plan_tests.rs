use proptest::prelude::*;
use weaver_tenant::claims::ObjectIdentity;

use super::*;

const HOUR: i64 = 3_600;
const OWN: &str = "https://kubernetes.default.svc";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn request(key: &str, account: &str) -> ValidToken {
    ValidToken {
        key: key.into(),
        account: account.into(),
        audiences: Vec::new(),
        lifetime: Duration::from_hours(1),
        not_before: None,
        generated: None,
    }
}

fn asked(tokens: Vec<ValidToken>) -> ValidServiceToken {
    ValidServiceToken {
        writer: "writer".into(),
        secret_name: None,
        tokens,
        generate: None,
        renew_at_percent: 80,
    }
}

/// Issued at 0, for an hour.
fn claims(account: &str) -> Claims {
    Claims {
        account: ObjectIdentity { name: account.into(), uid: format!("uid-of-{account}") },
        namespace: "team-a".into(),
        audiences: vec![OWN.into()],
        secret: Some(ObjectIdentity { name: "tokens".into(), uid: "secret-1".into() }),
        issued_at: at(0),
        expires_at: at(HOUR),
    }
}

fn seen(keys: &[(&str, Result<Claims, NotAToken>)]) -> SeenSecret {
    SeenSecret {
        uid: "secret-1".into(),
        is_ours: true,
        is_immutable: false,
        is_terminating: false,
        keys: keys.iter().map(|(key, claims)| ((*key).to_owned(), claims.clone())).collect(),
    }
}

fn willing(names: &[&str]) -> BTreeMap<String, AccountState> {
    let account = |name: &&str| ((*name).to_owned(), AccountState::Allowed { uid: format!("uid-of-{name}") });
    names.iter().map(account).collect()
}

struct Scene {
    asked: ValidServiceToken,
    secret: Option<SeenSecret>,
    accounts: BTreeMap<String, AccountState>,
    oldest: Option<Duration>,
    /// The writer's own token.
    own: Claims,
    now: i64,
}

impl Scene {
    /// One token of `robot` under `a`, as it should be, ten minutes old.
    fn new() -> Self {
        Self {
            asked: asked(vec![request("a", "robot")]),
            secret: Some(seen(&[("a", Ok(claims("robot")))])),
            accounts: willing(&["robot"]),
            oldest: None,
            own: claims("writer"),
            now: 600,
        }
    }

    fn plan(&self) -> SecretPlan {
        plan(&TokenFacts {
            asked: &self.asked,
            uid: "resource-1",
            secret: self.secret.as_ref(),
            accounts: &self.accounts,
            own: Some(&self.own),
            oldest: self.oldest,
            now: at(self.now),
        })
    }

    #[track_caller]
    fn work(&self) -> SecretWork {
        match self.plan() {
            SecretPlan::Act(work) => work,
            SecretPlan::Refuse(refusal) => panic!("{refusal:?}"),
        }
    }

    #[track_caller]
    fn verdict(&self) -> TokenVerdict {
        self.work().tokens.remove(0).1
    }

    fn claims(&mut self) -> &mut Claims {
        self.secret.as_mut().unwrap().keys.get_mut("a").unwrap().as_mut().unwrap()
    }
}

#[test]
fn a_token_that_is_as_it_should_be_stays() {
    let scene = Scene::new();
    let work = scene.work();
    assert!(!work.changes_content());
    let (_, TokenVerdict::Fresh { renewed_at }) = work.tokens[0] else { panic!("{work:?}") };
    // At 80 % of its hour, and up to 5 % of that earlier.
    assert!((at(HOUR * 75 / 100)..=at(HOUR * 80 / 100)).contains(&renewed_at), "{renewed_at}");
    assert_eq!(work.next, Some(renewed_at));
}

#[test]
fn each_case_but_the_review_in_which_a_token_is_issued_again() {
    type Edit = fn(&mut Scene);
    let cases: [(Edit, MintReason); 10] = [
        (|scene| scene.secret = None, MintReason::Missing),
        (|scene| scene.secret.as_mut().unwrap().keys.clear(), MintReason::Missing),
        (
            |scene| drop(scene.secret.as_mut().unwrap().keys.insert("a".into(), Err(NotAToken))),
            MintReason::NotAToken,
        ),
        (|scene| scene.claims().account.name = "other".into(), MintReason::OtherAccount),
        (|scene| scene.claims().account.uid = "an-older-one".into(), MintReason::AccountRecreated),
        (|scene| scene.claims().audiences = vec!["vault".into()], MintReason::OtherAudiences),
        (|scene| scene.asked.tokens[0].audiences = vec!["vault".into()], MintReason::OtherAudiences),
        (|scene| scene.secret.as_mut().unwrap().uid = "secret-2".into(), MintReason::OtherSecret),
        (|scene| scene.now = HOUR * 80 / 100, MintReason::Due),
        (|scene| scene.now = HOUR, MintReason::Expired),
    ];
    for (edit, why) in cases {
        let mut scene = Scene::new();
        edit(&mut scene);
        assert_eq!(scene.verdict(), TokenVerdict::Mint(why));
        assert_eq!(scene.work().to_mint().collect::<Vec<_>>(), ["a"]);
    }
    let mut scene = Scene::new();
    scene.claims().secret = None;
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::OtherSecret));
}

#[test]
fn the_api_servers_own_audiences_may_change() {
    let mut scene = Scene::new();
    let both = || vec![OWN.to_owned(), "new".to_owned()];
    // Ours is later than the writer's own, and has more: it is what the API server gives now.
    scene.claims().audiences = both();
    scene.claims().issued_at = at(1);
    assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }));
    scene.own.issued_at = at(2);
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::OtherAudiences));
    scene.own.audiences = both();
    assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }));
    // And one that was asked for others is not for the API server at all.
    scene.claims().audiences = vec!["vault".into()];
    scene.claims().issued_at = at(3);
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::OtherAudiences));
}

#[test]
fn audiences_are_a_set() {
    let mut scene = Scene::new();
    scene.asked.tokens[0].audiences = vec!["b".into(), "a".into()];
    scene.claims().audiences = vec!["a".into(), "b".into()];
    assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }));
}

#[test]
fn the_other_keys_stay_and_what_is_not_asked_for_leaves() {
    let mut scene = Scene::new();
    scene.asked.tokens.push(request("b", "gone"));
    scene.asked.tokens.push(request("c", "shy"));
    scene.asked.tokens.push(request("d", "robot"));
    scene.accounts.insert("gone".into(), AccountState::Missing);
    scene.accounts.insert("shy".into(), AccountState::NotAllowed);
    let keys = &mut scene.secret.as_mut().unwrap().keys;
    keys.extend([("c".to_owned(), Ok(claims("shy"))), ("old".to_owned(), Ok(claims("robot")))]);
    let work = scene.work();
    let verdicts: Vec<_> = work.tokens.iter().map(|(_, verdict)| verdict.clone()).collect();
    assert!(matches!(verdicts[0], TokenVerdict::Fresh { .. }));
    assert_eq!(
        verdicts[1..],
        [
            TokenVerdict::Refused(Because::NoAccount),
            TokenVerdict::Refused(Because::AccountNotOptedIn),
            TokenVerdict::Mint(MintReason::Missing)
        ]
    );
    assert_eq!(
        work.removed,
        ["c".to_owned(), "old".to_owned()].into(),
        "an account that withdraws takes its token"
    );
}

#[test]
fn what_cannot_be_known_changes_nothing() {
    let mut scene = Scene::new();
    for account in [Some(AccountState::Unknown), None] {
        scene.accounts.clear();
        scene.accounts.extend(account.map(|account| ("robot".to_owned(), account)));
        let work = scene.work();
        assert_eq!((work.tokens[0].1.clone(), work.removed.len()), (TokenVerdict::Unknown, 0));
    }
}

#[test]
fn a_token_waits_for_its_time_and_an_older_one_stays_until_it_is_due() {
    let mut scene = Scene::new();
    scene.asked.tokens[0].not_before = Some(at(5_000));
    assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }));
    scene.now = HOUR * 80 / 100;
    assert_eq!(scene.verdict(), TokenVerdict::NotDue { until: at(5_000), stays: true });
    assert_eq!((scene.work().next, scene.work().removed.len()), (Some(at(5_000)), 0));
    let early = scene.asked.clone();
    scene.now = 600;
    scene.claims().account.name = "other".into();
    assert_eq!(scene.verdict(), TokenVerdict::NotDue { until: at(5_000), stays: false });
    assert_eq!(scene.work().removed, ["a".to_owned()].into(), "another account's does not stay for the wait");
    scene.claims().account.name = "robot".into();
    scene.asked = early;
    scene.now = 5_000;
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::Expired));
}

#[test]
fn a_shorter_life_counts_at_once_and_a_longer_one_from_the_next_token_on() {
    let mut scene = Scene::new();
    scene.asked.tokens[0].lifetime = Duration::from_mins(10);
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::Due));
    scene.asked.tokens[0].lifetime = Duration::from_hours(24);
    assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }));
}

#[test]
fn two_that_are_due_within_a_moment_are_one_write() {
    let mut scene = Scene::new();
    scene.asked.tokens.extend([request("b", "robot"), request("c", "robot")]);
    let later = |seconds: i64| {
        Ok(Claims { issued_at: at(seconds), expires_at: at(HOUR + seconds), ..claims("robot") })
    };
    scene.secret = Some(seen(&[("a", later(0)), ("b", later(60)), ("c", later(1_000))]));
    scene.now = HOUR * 80 / 100;
    let work = scene.work();
    assert_eq!(work.tokens[0].1, TokenVerdict::Mint(MintReason::Due));
    assert_eq!(work.tokens[1].1, TokenVerdict::Mint(MintReason::Due), "a minute early");
    assert!(matches!(work.tokens[2].1, TokenVerdict::Fresh { .. }));
    scene.asked.tokens[1].not_before = Some(at(9_000));
    assert!(!matches!(scene.work().tokens[1].1, TokenVerdict::Mint(_)), "not before its time");
}

#[test]
fn an_early_share_of_a_short_life_makes_no_storm() {
    for percent in [1, 5, 99] {
        let mut scene = Scene::new();
        scene.asked.renew_at_percent = percent;
        scene.asked.tokens[0].lifetime = Duration::from_mins(10);
        scene.claims().expires_at = at(600);
        scene.asked.tokens.push(request("b", "robot"));
        // A second after it was minted, in whole seconds, next to one that is minted again and again.
        scene.now = 2;
        let work = scene.work();
        assert!(matches!(work.tokens[0].1, TokenVerdict::Fresh { .. }), "{percent}: {work:?}");
        assert_eq!(work.tokens[1].1, TokenVerdict::Mint(MintReason::Missing));
    }
}

#[test]
fn no_token_gets_older_than_the_flag_says() {
    let mut scene = Scene::new();
    scene.oldest = Some(Duration::from_mins(10));
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::Due));
    scene.now = 599;
    assert_eq!(scene.verdict(), TokenVerdict::Fresh { renewed_at: at(600) });
}

#[test]
fn what_is_not_ours_or_cannot_be_written_is_left_alone() {
    for (edit, refusal) in [
        ((|seen| seen.is_ours = false) as fn(&mut SeenSecret), SecretRefusal::Foreign),
        (|seen| seen.is_immutable = true, SecretRefusal::Immutable),
        (|seen| seen.is_terminating = true, SecretRefusal::Terminating),
    ] {
        let mut scene = Scene::new();
        edit(scene.secret.as_mut().unwrap());
        assert_eq!(scene.plan(), SecretPlan::Refuse(refusal));
    }
}

#[test]
fn a_clock_that_jumps_back_mints_once_at_most() {
    let mut scene = Scene::new();
    for now in [0, -1, -60] {
        scene.now = now;
        assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }), "{now}");
    }
    // Farther back, the API server refuses what was issued: one new token, by its clock, and no more.
    scene.now = -86_400 * 365;
    assert_eq!(scene.verdict(), TokenVerdict::Mint(MintReason::NotYetValid));
    scene.claims().issued_at = at(-86_400 * 365);
    scene.claims().expires_at = at(-86_400 * 365 + HOUR);
    assert!(matches!(scene.verdict(), TokenVerdict::Fresh { .. }));
}

/// Five hundred that were minted together, with the age in seconds at which each is due.
fn ages_of_five_hundred() -> Vec<i64> {
    let mut scene = Scene::new();
    scene.asked.tokens = (1..=500)
        .map(|n| ValidToken { generated: Some(n), ..request(&format!("{n:03}"), "robot") })
        .collect();
    let keys: Vec<String> = scene.asked.tokens.iter().map(|token| token.key.clone()).collect();
    let held: Vec<_> = keys.iter().map(|key| (key.as_str(), Ok(claims("robot")))).collect();
    scene.secret = Some(seen(&held));
    let due = |(_, verdict): &(String, TokenVerdict)| match verdict {
        TokenVerdict::Fresh { renewed_at } => renewed_at.as_second(),
        other => panic!("{other:?}"),
    };
    scene.work().tokens.iter().map(due).collect()
}

#[test]
fn generated_tokens_are_renewed_in_groups_over_a_fifth_of_their_age() {
    let ages = ages_of_five_hundred();
    let times: BTreeSet<i64> = ages.iter().copied().collect();
    assert_eq!(times.len(), 10, "{times:?}");
    for time in &times {
        assert_eq!(ages.iter().filter(|age| *age == time).count(), 50, "at {time} s");
    }
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    // Of 80 % of an hour, at most 5 % and nine times 2 % earlier.
    assert!(*last <= 2_880 && *last >= 2_736 && last - first >= 500, "{first} to {last}");
    // None joins the group before it: one second of two hundredths is 57 s, and a hundredth is 28 s.
    let gaps = times.iter().zip(times.iter().skip(1)).map(|(one, next)| next - one);
    assert!(gaps.min().unwrap() > 50);
}

#[test]
fn an_account_that_was_not_made_by_us_gets_no_token() {
    let mut scene = Scene::new();
    scene.accounts = BTreeMap::from([("robot".to_owned(), AccountState::Foreign)]);
    let work = scene.work();
    assert_eq!(work.tokens[0].1, TokenVerdict::Refused(Because::NotOurs));
    assert_eq!(work.removed.iter().collect::<Vec<_>>(), ["a"]);
}

proptest! {
    /// Whatever the times: a token that was minted now, as asked, is not minted again; and what is fresh is due
    /// before it expires.
    #[test]
    fn what_was_just_minted_stays(
        now in -1_000_000_000_i64..4_000_000_000, life in 600_i64..86_400, percent in 1_u8..100, since in 0_i64..5,
    ) {
        let mut scene = Scene::new();
        scene.now = now;
        scene.asked.renew_at_percent = percent;
        scene.asked.tokens[0].lifetime = Duration::from_secs(life.unsigned_abs());
        scene.claims().issued_at = at(now - since);
        scene.claims().expires_at = at(now - since + life);
        match scene.verdict() {
            TokenVerdict::Fresh { renewed_at } => prop_assert!(renewed_at > at(now) && renewed_at < at(now + life)),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn each_key_is_kept_minted_or_removed_and_no_foreign_one_stays(
        requested in proptest::collection::btree_set("[a-c]", 1..4), present in proptest::collection::btree_set("[a-e]", 0..6),
    ) {
        let mut scene = Scene::new();
        scene.asked.tokens = requested.iter().map(|key| request(key, "robot")).collect();
        let keys: Vec<_> = present.iter().map(|key| (key.as_str(), Ok(claims("robot")))).collect();
        scene.secret = Some(seen(&keys));
        let work = scene.work();
        let expected: BTreeSet<_> = present.difference(&requested).cloned().collect();
        prop_assert_eq!(work.removed, expected);
        for (key, verdict) in work.tokens {
            prop_assert_eq!(matches!(verdict, TokenVerdict::Mint(_)), !present.contains(&key));
        }
    }
}
