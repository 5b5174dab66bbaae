//! Whether the webhook's certificate can stay. Pure.
//!
//! The certificate is valid from 1970 on, because a Pi without a clock boots then or at the date of its image.
//! So its age is not known; what counts is how much of its life is left. One with more than a whole life left was
//! made while the clock was ahead, or is looked at while it is behind; it does its work either way.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use weaver_host::key_pair::PairFault;

/// What was found instead of a certificate, or the certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FoundCertificate {
    Missing,
    Unreadable(PairFault),
    /// A certificate with its key.
    Leaf {
        /// Would a client that trusts our CA, and no other, accept it in its own time?
        trusted: bool,
        /// The names it is good for, as [`weaver_host::key_pair::Pair::names`] has them.
        names: BTreeSet<String>,
        /// From then on it is refused.
        expires: Timestamp,
    },
}

impl FoundCertificate {
    /// When its time is over, if it is a certificate.
    pub fn expires(&self) -> Option<Timestamp> {
        match self {
            Self::Leaf { expires, .. } => Some(*expires),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}

/// What to do about the certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateVerdict {
    Keep,
    /// Make a new one.
    Renew(RenewalReason),
}

/// Why a new certificate is made; [`fmt::Display`] is a clause that follows "because".
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RenewalReason {
    Missing,
    /// What is there cannot be used.
    Unreadable(PairFault),
    /// Made by a CA that we do not have any more, or not for servers.
    Untrusted,
    /// A name that was asked for is not in it.
    NameMissing(String),
    /// Its time is over.
    Expired,
    /// Two thirds of its life are over.
    Ageing,
}

impl fmt::Display for RenewalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there was none"),
            Self::Unreadable(fault) => write!(f, "the old file cannot be used: {fault}"),
            Self::Untrusted => f.write_str("the old one is not a server's certificate signed by this CA"),
            Self::NameMissing(name) => write!(f, "the old one is not good for {name}"),
            Self::Expired => f.write_str("the old one has expired"),
            Self::Ageing => f.write_str("two thirds of the old certificate's lifetime have passed"),
        }
    }
}

/// Judges what was `found` at `now`, where certificates for the names `wanted` live for `lifetime`.
pub fn verdict(
    found: &FoundCertificate,
    now: Timestamp,
    wanted: &BTreeSet<String>,
    lifetime: Duration,
) -> CertificateVerdict {
    let (trusted, names, expires) = match found {
        FoundCertificate::Missing => return CertificateVerdict::Renew(RenewalReason::Missing),
        FoundCertificate::Unreadable(fault) => {
            return CertificateVerdict::Renew(RenewalReason::Unreadable(*fault));
        }
        FoundCertificate::Leaf { trusted, names, expires } => (*trusted, names, *expires),
    };
    // Negative, and thus no `Duration`, where it has expired.
    let left = Duration::try_from(expires.duration_since(now)).ok().filter(|left| !left.is_zero());
    let reason = match (trusted, wanted.difference(names).next(), left) {
        (false, ..) => RenewalReason::Untrusted,
        (_, Some(name), _) => RenewalReason::NameMissing(name.clone()),
        (.., None) => RenewalReason::Expired,
        (.., Some(left)) if left <= lifetime / 3 => RenewalReason::Ageing,
        _ => return CertificateVerdict::Keep,
    };
    CertificateVerdict::Renew(reason)
}

/// When [`verdict`] will ask for a new one, as long as nothing but time changes.
pub fn renew_at(expires: Timestamp, lifetime: Duration) -> Timestamp {
    expires.checked_sub(lifetime / 3).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const LIFETIME: Duration = Duration::from_hours(24 * 90);

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn each_reason_renews_and_what_lies_next_to_it_does_not() {
        let leaf =
            |trusted, held: &[&str], expires| FoundCertificate::Leaf { trusted, names: names(held), expires };
        let wanted = ["127.0.0.1", "weaver.local"];
        // Made on day 1,000; judged on the day given.
        for (name, found, day, expected) in [
            ("missing", FoundCertificate::Missing, 1_000, Some(RenewalReason::Missing)),
            (
                "garbage",
                FoundCertificate::Unreadable(PairFault::NotPem),
                1_000,
                Some(RenewalReason::Unreadable(PairFault::NotPem)),
            ),
            ("new", leaf(true, &wanted, at(1_090)), 1_000, None),
            (
                "more names than asked for",
                leaf(true, &["127.0.0.1", "b", "weaver.local"], at(1_090)),
                1_000,
                None,
            ),
            ("of another CA", leaf(false, &wanted, at(1_090)), 1_000, Some(RenewalReason::Untrusted)),
            (
                "a name was added",
                leaf(true, &["127.0.0.1"], at(1_090)),
                1_000,
                Some(RenewalReason::NameMissing("weaver.local".into())),
            ),
            ("a day before two thirds", leaf(true, &wanted, at(1_090)), 1_059, None),
            ("two thirds", leaf(true, &wanted, at(1_090)), 1_060, Some(RenewalReason::Ageing)),
            ("last day", leaf(true, &wanted, at(1_090)), 1_089, Some(RenewalReason::Ageing)),
            ("the end", leaf(true, &wanted, at(1_090)), 1_090, Some(RenewalReason::Expired)),
            ("long after", leaf(true, &wanted, at(1_090)), 20_000, Some(RenewalReason::Expired)),
            ("clock set back by a day", leaf(true, &wanted, at(1_090)), 999, None),
            ("clock set back by two", leaf(true, &wanted, at(1_090)), 998, None),
            ("clock back in 1970", leaf(true, &wanted, at(20_000)), 0, None),
            ("made in 1970", leaf(true, &wanted, at(90)), 0, None),
            (
                "made in 1970, then time came",
                leaf(true, &wanted, at(90)),
                20_000,
                Some(RenewalReason::Expired),
            ),
        ] {
            let expected = expected.map_or(CertificateVerdict::Keep, CertificateVerdict::Renew);
            assert_eq!(verdict(&found, at(day), &names(&wanted), LIFETIME), expected, "{name}");
        }
    }

    #[test]
    fn it_is_renewed_when_it_said_it_would_be() {
        let found = FoundCertificate::Leaf { trusted: true, names: names(&[]), expires: at(1_090) };
        let when = renew_at(at(1_090), LIFETIME);
        assert_eq!(when, at(1_060));
        let judged = |now| verdict(&found, now, &names(&[]), LIFETIME);
        assert_eq!(judged(when.checked_sub(DAY / 86_400).unwrap()), CertificateVerdict::Keep);
        assert_eq!(judged(when), CertificateVerdict::Renew(RenewalReason::Ageing));
    }

    #[test]
    fn no_time_is_too_far_away_to_be_judged() {
        let found = FoundCertificate::Leaf { trusted: true, names: names(&[]), expires: Timestamp::MAX };
        assert_eq!(verdict(&found, Timestamp::MIN, &names(&[]), LIFETIME), CertificateVerdict::Keep);
        assert_eq!(
            verdict(&found, Timestamp::MIN, &names(&[]), Duration::MAX),
            CertificateVerdict::Renew(RenewalReason::Ageing)
        );
        assert_eq!(renew_at(Timestamp::MIN, Duration::MAX), Timestamp::MIN);
    }
}
