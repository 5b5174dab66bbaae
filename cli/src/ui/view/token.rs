//! A ServiceToken on a page: when each of its tokens was issued, is renewed and expires. Never a token.

use jiff::Timestamp;
use kube::core::DeserializeGuard;
use weaver_api::v1beta1::{ServiceToken, ServiceTokenSpec, TokenStatus};
use weaver_diagnostics::finding_text::{clean, clean_lines};

use super::health::Summary;

#[derive(Clone, Debug)]
pub struct TokenView {
    pub summary: Summary,
    pub secret: String,
    pub keys: Vec<TokenKey>,
}

/// One token, under its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenKey {
    pub key: String,
    /// Whose it is.
    pub account: String,
    pub life: Option<Life>,
    /// Why it is not there or not fresh. Lines.
    pub message: String,
}

/// From when until when a token is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Life {
    pub issued: Timestamp,
    /// The latest time at which the operator replaces it.
    pub renewed_by: Timestamp,
    pub expires: Timestamp,
}

/// How a token is at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Freshness {
    Missing,
    Expired,
    /// Valid, and should have been replaced.
    Late,
    Fresh,
}

impl Freshness {
    pub fn words(self) -> &'static str {
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
                summary: Summary::unreadable(&error.metadata, &error.error),
                secret: String::new(),
                keys: Vec::new(),
            },
        }
    }

    fn of_token(token: &ServiceToken) -> Self {
        let status = token.status.clone().unwrap_or_default();
        let spec = token.spec.spec.clone().unwrap_or_default();
        Self {
            summary: Summary::of(&token.metadata, status.observed_generation, &status.conditions),
            secret: status.secret_name.as_deref().map(clean).unwrap_or_default(),
            keys: keys(&spec, &status.tokens),
        }
    }
}

/// The tokens that are asked for, and those that the status has besides.
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
