//! A ServiceToken on a page: when each of its tokens was issued, is renewed and expires. Never a token.

use jiff::Timestamp;
use kube::core::DeserializeGuard;
use weaver_api::v1beta1::{Generate, GeneratedStatus, ServiceToken, ServiceTokenSpec, TokenStatus};
use weaver_diagnostics::finding_text::{clean, clean_lines};

use super::health::ResourceSummary;

#[derive(Clone, Debug)]
pub struct TokenView {
    pub summary: ResourceSummary,
    pub secret: String,
    /// The account that writes the Secret.
    pub writer: String,
    pub keys: Vec<TokenKey>,
    pub generated: Option<GeneratedView>,
}

/// Accounts that it makes, each with a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GeneratedView {
    /// The template of their names.
    pub name: String,
    /// How many the spec asks for.
    pub count: i32,
    /// `None` until the operator has reconciled it.
    pub seen: Option<GeneratedSeen>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GeneratedSeen {
    /// How many there are, and how many have a token that is valid.
    pub accounts: i32,
    pub fresh: i32,
    /// When the first of their tokens expires.
    pub expires: Option<Timestamp>,
    /// Accounts, and what is wrong. Lines.
    pub problems: Vec<(String, String)>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenKey {
    pub key: String,
    pub account: String,
    pub life: Option<Life>,
    /// Why it is not there or not fresh. Lines.
    pub message: String,
}

/// The period in which a token is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Life {
    pub issued: Timestamp,
    /// The latest time at which the operator replaces it.
    pub renewed_by: Timestamp,
    pub expires: Timestamp,
}

/// The state of a token at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Freshness {
    Missing,
    Expired,
    /// Valid, and should have been replaced.
    Late,
    Fresh,
}

impl Freshness {
    pub fn label(self) -> &'static str {
        match self {
            Self::Missing => "Missing",
            Self::Expired => "Expired",
            Self::Late => "Renewal is late",
            Self::Fresh => "Fresh",
        }
    }
}

impl Life {
    /// Where `time` is in it, in thousandths; 0 before and 1000 after it.
    pub fn position(&self, time: Timestamp) -> i64 {
        let [from, at, to] = [self.issued, time, self.expires].map(Timestamp::as_second);
        if to <= from { 1_000 } else { ((at - from) * 1_000 / (to - from)).clamp(0, 1_000) }
    }
}

impl TokenKey {
    pub fn freshness(&self, now: Timestamp) -> Freshness {
        match self.life {
            None => Freshness::Missing,
            Some(life) if life.expires <= now => Freshness::Expired,
            Some(life) if life.renewed_by <= now => Freshness::Late,
            Some(_) => Freshness::Fresh,
        }
    }
}

impl TokenView {
    pub fn of(guard: &DeserializeGuard<ServiceToken>) -> Self {
        match &guard.0 {
            Ok(token) => Self::of_token(token),
            Err(error) => Self {
                summary: ResourceSummary::unreadable(&error.metadata, &error.error),
                secret: String::new(),
                writer: String::new(),
                keys: Vec::new(),
                generated: None,
            },
        }
    }

    fn of_token(token: &ServiceToken) -> Self {
        let status = token.status.clone().unwrap_or_default();
        let spec = token.spec.spec.clone().unwrap_or_default();
        Self {
            summary: ResourceSummary::of(&token.metadata, status.observed_generation, &status.conditions),
            secret: status.secret_name.as_deref().map(clean).unwrap_or_default(),
            writer: writer(&spec).map(clean).unwrap_or_default(),
            keys: keys(&spec, &status.tokens),
            generated: generated(spec.generate.as_ref(), status.generated.as_ref()),
        }
    }
}

fn writer(spec: &ServiceTokenSpec) -> Option<&str> {
    spec.writer.as_ref()?.service_account.as_ref()?.name.as_deref()
}

/// What is requested, or remains of an earlier request.
fn generated(asked: Option<&Generate>, status: Option<&GeneratedStatus>) -> Option<GeneratedView> {
    if asked.is_none() && status.is_none_or(|status| status.accounts == 0 && status.problems.is_empty()) {
        return None;
    }
    let seen = status.map(|status| GeneratedSeen {
        accounts: status.accounts,
        fresh: status.fresh,
        expires: status.expires_at.as_deref().and_then(|text| text.parse().ok()),
        problems: status
            .problems
            .iter()
            .map(|problem| (clean(&problem.account), clean_lines(problem.message.trim_end())))
            .collect(),
    });
    let (name, count) = asked.map_or((String::new(), 0), |asked| (clean(&asked.name), asked.count));
    Some(GeneratedView { name, count, seen })
}

/// The requested tokens, and those that only the status has.
fn keys(spec: &ServiceTokenSpec, known: &[TokenStatus]) -> Vec<TokenKey> {
    let asked = spec.tokens.iter().map(|token| {
        let account = token.service_account.as_ref().and_then(|account| account.name.as_deref());
        let status = known.iter().find(|status| status.key == token.key);
        key(&token.key, account.unwrap_or_default(), status, spec.renew_at_percent)
    });
    let is_asked = |status: &&TokenStatus| spec.tokens.iter().any(|token| token.key == status.key);
    let others = known.iter().filter(|status| !is_asked(status));
    asked.chain(others.map(|status| key(&status.key, "", Some(status), spec.renew_at_percent))).collect()
}

fn key(key: &str, account: &str, status: Option<&TokenStatus>, percent: i32) -> TokenKey {
    TokenKey {
        key: clean(key),
        account: clean(account),
        life: status.and_then(|status| life(status, percent)),
        message: status.map(|status| clean_lines(status.message.trim_end())).unwrap_or_default(),
    }
}

fn life(status: &TokenStatus, percent: i32) -> Option<Life> {
    let time = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    let (issued, expires) = (time(&status.issued_at)?, time(&status.expires_at)?);
    let seconds = (expires.as_second() - issued.as_second()).max(0);
    let renewed_by = issued.as_second() + seconds * i64::from(percent.clamp(0, 100)) / 100;
    Some(Life { issued, renewed_by: Timestamp::from_second(renewed_by).ok()?, expires })
}

#[cfg(test)]
pub(in crate::ui) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A ServiceToken `team-a/NAME` of two keys, one of which was never issued.
    pub fn token(name: &str) -> TokenView {
        of(json!({
            "metadata": {"name": name, "namespace": "team-a", "generation": 1},
            "spec": {"writer": {"serviceAccount": {"name": "w"}}, "renewAtPercent": 50, "tokens": [
                {"key": "registry", "serviceAccount": {"name": "robot"}},
                {"key": "ci", "serviceAccount": {"name": "ci"}}]},
            "status": {"observedGeneration": 1, "secretName": name, "tokens": [
                {"key": "registry", "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-01T01:00:00Z"},
                {"key": "ci", "message": "may not be minted\nyet"}]},
        }))
    }

    fn of(mut object: Value) -> TokenView {
        object["apiVersion"] = json!("weaver.example.com/v1beta1");
        object["kind"] = json!("ServiceToken");
        TokenView::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn each_key_says_whose_it_is_and_from_when_until_when() {
        let found = token("robot");
        let [registry, ci] = found.keys.as_slice() else { panic!("{found:?}") };
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let life = registry.life.unwrap();
        assert_eq!((registry.key.as_str(), registry.account.as_str()), ("registry", "robot"));
        assert_eq!(life.renewed_by, time("2026-01-01T00:30:00Z"));
        for (at, freshness, position) in [
            ("2025-12-31T00:00:00Z", Freshness::Fresh, 0),
            ("2026-01-01T00:15:00Z", Freshness::Fresh, 250),
            ("2026-01-01T00:30:00Z", Freshness::Late, 500),
            ("2026-01-01T01:00:00Z", Freshness::Expired, 1_000),
            ("2027-01-01T01:00:00Z", Freshness::Expired, 1_000),
        ] {
            assert_eq!(
                (registry.freshness(time(at)), life.position(time(at))),
                (freshness, position),
                "{at}"
            );
        }
        assert_eq!(
            (ci.freshness(Timestamp::MIN), ci.message.as_str()),
            (Freshness::Missing, "may not be minted\nyet")
        );
    }

    #[test]
    fn accounts_that_it_makes_are_those_asked_for_and_those_still_there() {
        let all = |spec: Value, status: Value| {
            of(json!({"metadata": {"name": "a", "namespace": "t"}, "spec": spec, "status": status})).generated
        };
        let asked = json!({"writer": {"serviceAccount": {"name": "w"}}, "generate": {"count": 3, "name": "robot-{{n}}"}});
        let none = json!({"writer": {"serviceAccount": {"name": "w"}}, "tokens": []});
        let new = all(asked.clone(), json!({})).unwrap();
        assert_eq!((new.name.as_str(), new.count, new.seen), ("robot-{{n}}", 3, None));
        let problem = json!({"account": "robot-2", "message": "exists\u{202e}\nalready\n"});
        let status = |accounts: i32| {
            json!({"generated": {"desired": 3, "accounts": accounts, "fresh": 1, "expiresAt": "2026-01-01T00:00:00Z",
                                 "problems": if accounts == 0 { json!([]) } else { json!([problem]) }}})
        };
        let seen = all(asked, status(2)).unwrap().seen.unwrap();
        assert_eq!((seen.accounts, seen.fresh, seen.expires.is_some()), (2, 1, true));
        assert_eq!(seen.problems, [("robot-2".to_owned(), "exists\\u{202e}\nalready".to_owned())]);
        assert_eq!(all(none.clone(), status(2)).unwrap().count, 0, "some are still to be deleted");
        assert_eq!(all(none.clone(), status(0)), None);
        assert_eq!(all(none, json!({})), None);
    }

    #[test]
    fn times_that_are_none_or_stand_the_wrong_way_round_do_no_harm() {
        let life = |issued: &str, expires: &str, percent: i32| {
            let status = TokenStatus {
                issued_at: Some(issued.into()),
                expires_at: Some(expires.into()),
                ..TokenStatus::default()
            };
            life(&status, percent)
        };
        assert_eq!(life("yesterday", "2026-01-01T00:00:00Z", 80), None);
        let backwards = life("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", 80).unwrap();
        assert_eq!(backwards.position(backwards.issued), 1_000);
        for percent in [i32::MIN, i32::MAX] {
            assert!(life("-009999-01-02T01:59:59Z", "9999-12-30T22:00:00Z", percent).is_some(), "{percent}");
        }
    }

    #[test]
    fn a_key_that_is_only_in_the_status_is_shown_too() {
        let found = of(json!({
            "metadata": {"name": "a", "namespace": "t"},
            "spec": {"writer": {"serviceAccount": {"name": "w"}}, "tokens": []},
            "status": {"tokens": [{"key": "old"}]},
        }));
        assert_eq!(found.keys[0].key, "old");
        assert!(of(json!({"metadata": {"name": "a"}, "spec": {"renewAtPercent": "x"}})).keys.is_empty());
    }
}
