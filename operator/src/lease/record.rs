//! What a Lease says, and the Lease that says it. Pure.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

/// Name of the Lease, in the operator's own namespace.
pub const NAME: &str = "weaver-operator";

/// Seconds that a Lease is given when it is given back.
const RELEASED: u64 = 1;

/// A Lease as it was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Who holds it.
    pub holder: Option<String>,
    /// Its holder has given it back. Where somebody else has only taken the name out, that one does not know of it.
    pub is_released: bool,
    /// Its resourceVersion: the precondition of the next write.
    pub version: String,
    /// After so long without a change its holder expects to lose it, as it says.
    pub expiry: Option<Duration>,
    /// How often it went from hand to hand.
    pub transitions: i32,
}

impl Record {
    /// What `lease` says.
    #[must_use]
    pub fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        let seconds =
            spec.and_then(|spec| spec.lease_duration_seconds).and_then(|all| u64::try_from(all).ok());
        let holder = spec.and_then(|spec| spec.holder_identity.clone()).filter(|holder| !holder.is_empty());
        Self {
            is_released: holder.is_none() && seconds == Some(RELEASED),
            holder,
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
            // What somebody wrote there by hand does not keep everybody out for ever.
            expiry: seconds.map(Duration::from_secs).filter(|expiry| *expiry <= Duration::from_mins(10)),
            transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or_default(),
        }
    }
}

/// The Lease in the hands of `me` at `now`, in the place of `before`; times in it are for people.
#[must_use]
pub fn held(before: Option<&Lease>, me: &str, expiry: Duration, now: Timestamp) -> Lease {
    let had = before.map(Record::of);
    let is_mine = had.as_ref().is_some_and(|had| had.holder.as_deref() == Some(me));
    let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let transitions = had.map_or(0, |had| had.transitions.saturating_add(i32::from(!is_mine)));
    let now = Some(MicroTime(now));
    Lease {
        metadata: metadata(before),
        spec: Some(LeaseSpec {
            holder_identity: Some(me.to_owned()),
            lease_duration_seconds: i32::try_from(expiry.as_secs()).ok(),
            acquire_time: if is_mine { spec.acquire_time.clone() } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(transitions),
            ..spec
        }),
    }
}

/// The Lease in nobody's hands: without a holder, and with the shortest of times, as client-go's is.
#[must_use]
pub fn released(before: &Lease) -> Lease {
    let spec = before.spec.clone().unwrap_or_default();
    let lease_duration_seconds = i32::try_from(RELEASED).ok();
    let spec = LeaseSpec { holder_identity: None, lease_duration_seconds, ..spec };
    Lease { metadata: metadata(Some(before)), spec: Some(spec) }
}

fn metadata(before: Option<&Lease>) -> ObjectMeta {
    let named = ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() };
    before.map_or(named, |lease| ObjectMeta { managed_fields: None, ..lease.metadata.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_goes_from_hand_to_hand_and_says_how_often() {
        let expiry = Duration::from_mins(1);
        let mut first = held(None, "a", expiry, at(1));
        first.metadata.resource_version = Some("7".into());
        let of_first = Record::of(&first);
        assert_eq!(of_first.holder.as_deref(), Some("a"));
        assert_eq!(
            (of_first.transitions, of_first.expiry, of_first.version.as_str()),
            (0, Some(expiry), "7")
        );
        let renewed = held(Some(&first), "a", expiry, at(41));
        let spec = renewed.spec.clone().unwrap();
        assert_eq!((spec.acquire_time, spec.renew_time), (Some(MicroTime(at(1))), Some(MicroTime(at(41)))));
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!(renewed.metadata.resource_version.as_deref(), Some("7"), "the precondition");
        let free = released(&renewed);
        let of_free = Record::of(&free);
        assert_eq!((of_free.holder, of_free.is_released, of_free.transitions), (None, true, 0));
        let other = held(Some(&free), "b", expiry, at(99));
        let spec = other.spec.unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time), (Some(1), Some(MicroTime(at(99)))));
    }

    #[test]
    fn what_is_written_there_by_hand_is_bounded() {
        let lease = |seconds, holder: &str| Lease {
            spec: Some(LeaseSpec {
                lease_duration_seconds: Some(seconds),
                holder_identity: Some(holder.into()),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        };
        assert_eq!(Record::of(&lease(-1, "x")).expiry, None);
        assert_eq!(Record::of(&lease(i32::MAX, "x")).expiry, None);
        let emptied = Record::of(&lease(120, ""));
        assert_eq!((emptied.holder, emptied.is_released), (None, false), "whoever held it does not know");
        assert_eq!(Record::of(&Lease::default()).holder, None);
    }
}
