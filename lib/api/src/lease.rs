//! Reads and builds leader election Leases. Pure.
//!
//! Its fields are those that every tool knows. What has no field is in annotations: the holder's priority, and the
//! other candidates.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the Lease, in the operator's own namespace.
pub const NAME: &str = "weaver-operator";

/// Annotation: the holder's priority, where it is not 0.
pub const PRIORITY_ANNOTATION: &str = "weaver.example.com/priority";
/// Annotation: who else would lead, as a JSON list of [`Candidacy`].
pub const CANDIDATES_ANNOTATION: &str = "weaver.example.com/candidates";
/// Annotation: the holder as it names itself to the API server, with its version. One that does not write it
/// may have taken the Lease over from one that does, so that it counts with the holder's name only.
pub const PROGRAM_ANNOTATION: &str = "weaver.example.com/program";

/// Seconds that a Lease is given when it is given back.
const RELEASED: u64 = 1;

/// Someone who would lead.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Candidacy {
    /// Its name, as it would be in the Lease.
    pub holder: String,
    /// Who has a higher one than the holder is given the Lease at its next renewal.
    #[serde(default)]
    pub priority: i32,
    /// When it said so last, by its own clock; for people.
    pub at: String,
}

/// A Lease as it was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseRecord {
    /// Identity of the holder; `None` if there is none.
    pub holder: Option<String>,
    /// Its holder has given it back. Where someone else has only taken the name out, that one does not know of it.
    pub is_released: bool,
    /// What its holder changes by renewing it. That others have put themselves on its list changes nothing here.
    pub renewal: String,
    /// After so long without a change its holder expects to lose it, as it says.
    pub expiry: Option<Duration>,
    /// How often it went from hand to hand.
    pub transitions: i32,
    /// Its resourceVersion: of one object they only grow, and may be compared (Kubernetes 1.35 says so; before,
    /// all did).
    pub version: Option<u64>,
    /// The holder's priority; 0 where it says none.
    pub priority: i32,
    /// The holder's version, if the Lease has it.
    pub program_version: Option<String>,
    /// The other candidates. An unreadable list counts as empty, and an unreadable entry as absent: candidates add
    /// themselves again.
    pub candidates: Vec<Candidacy>,
}

impl LeaseRecord {
    /// Reads `lease`. Fields that are missing or unreadable count as not given.
    pub fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        let seconds =
            spec.and_then(|spec| spec.lease_duration_seconds).and_then(|all| u64::try_from(all).ok());
        let holder = spec.and_then(|spec| spec.holder_identity.clone()).filter(|holder| !holder.is_empty());
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0.to_string());
        let annotation = |key| lease.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let program_version = holder.as_deref().and_then(|holder| {
            let rest = annotation(PROGRAM_ANNOTATION)?.strip_prefix("weaver-operator/")?;
            rest.strip_suffix(&format!(" ({holder})")).map(str::to_owned)
        });
        Self {
            program_version,
            renewal: format!("{holder:?} {transitions} {renewed:?} {seconds:?}"),
            is_released: holder.is_none() && seconds == Some(RELEASED),
            holder,
            // What someone wrote there by hand does not keep everybody out forever.
            expiry: seconds.map(Duration::from_secs).filter(|expiry| *expiry <= Duration::from_mins(10)),
            transitions,
            version: lease.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()),
            priority: annotation(PRIORITY_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or_default(),
            candidates: annotation(CANDIDATES_ANNOTATION).map_or_else(Vec::new, |text| listed(text)),
        }
    }
}

/// The entries of a list that can be read: another may be an operator of another version.
fn listed(text: &str) -> Vec<Candidacy> {
    let entries: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}

/// The holder of a Lease, or a candidate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Me {
    /// Identity of the candidate, unique among all.
    pub name: String,
    /// The candidate with the highest priority takes over at the next renewal.
    pub priority: i32,
    /// Version of the operator, such as `0.1.0`.
    pub version: String,
}

/// The Lease held by `me` at `now`, replacing `before`; its times are informational only. `candidates` stay on its
/// list.
pub fn held(
    before: Option<&Lease>,
    Me { name: me, priority, version }: &Me,
    candidates: &[Candidacy],
    expiry: Duration,
    now: Timestamp,
) -> Lease {
    let had = before.map(LeaseRecord::of);
    let is_mine = had.as_ref().is_some_and(|had| had.holder.as_ref() == Some(me));
    let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let transitions = had.map_or(0, |had| had.transitions.saturating_add(i32::from(!is_mine)));
    let now = Some(MicroTime(now));
    let mut metadata = metadata(before);
    let rank = (*priority != 0).then(|| priority.to_string());
    annotate(&mut metadata, PRIORITY_ANNOTATION, rank);
    annotate(&mut metadata, PROGRAM_ANNOTATION, Some(program(version, me)));
    list(&mut metadata, candidates);
    Lease {
        metadata,
        spec: Some(LeaseSpec {
            holder_identity: Some(me.clone()),
            lease_duration_seconds: i32::try_from(expiry.as_secs()).ok(),
            acquire_time: if is_mine { spec.acquire_time.clone() } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(transitions),
            ..spec
        }),
    }
}

/// The released Lease: without a holder, and with the shortest duration, as client-go writes it.
pub fn released(before: &Lease) -> Lease {
    let spec = before.spec.clone().unwrap_or_default();
    let lease_duration_seconds = i32::try_from(RELEASED).ok();
    let spec = LeaseSpec { holder_identity: None, lease_duration_seconds, ..spec };
    Lease { metadata: metadata(Some(before)), spec: Some(spec) }
}

/// The same Lease with this list of candidates.
pub fn with_candidates(before: &Lease, candidates: &[Candidacy]) -> Lease {
    let mut metadata = metadata(Some(before));
    list(&mut metadata, candidates);
    Lease { metadata, spec: before.spec.clone() }
}

/// How an operator names itself, in its Lease and in each request, so that an audit log shows which of two operators it
/// was.
pub fn program(version: &str, name: &str) -> String {
    format!("weaver-operator/{version} ({name})")
}

fn list(metadata: &mut ObjectMeta, candidates: &[Candidacy]) {
    let text = (!candidates.is_empty()).then(|| serde_json::json!(candidates).to_string());
    annotate(metadata, CANDIDATES_ANNOTATION, text);
}

fn annotate(metadata: &mut ObjectMeta, key: &str, value: Option<String>) {
    let annotations = metadata.annotations.get_or_insert_with(BTreeMap::new);
    match value {
        Some(value) => drop(annotations.insert(key.to_owned(), value)),
        None => drop(annotations.remove(key)),
    }
}

fn metadata(before: Option<&Lease>) -> ObjectMeta {
    let named = ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() };
    before.map_or(named, |lease| ObjectMeta { managed_fields: None, ..lease.metadata.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(name: &str) -> Me {
        Me { name: name.into(), priority: 0, version: "0.2.0-rc.1".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_goes_from_hand_to_hand_and_says_how_often() {
        let expiry = Duration::from_mins(1);
        let mut first = held(None, &me("a"), &[], expiry, at(1));
        first.metadata.resource_version = Some("7".into());
        let of_first = LeaseRecord::of(&first);
        assert_eq!(of_first.holder.as_deref(), Some("a"));
        assert_eq!((of_first.transitions, of_first.expiry), (0, Some(expiry)));
        let renewed = held(Some(&first), &me("a"), &[], expiry, at(41));
        assert_ne!(LeaseRecord::of(&renewed).renewal, of_first.renewal);
        let spec = renewed.spec.clone().unwrap();
        assert_eq!((spec.acquire_time, spec.renew_time), (Some(MicroTime(at(1))), Some(MicroTime(at(41)))));
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!(renewed.metadata.resource_version.as_deref(), Some("7"), "the precondition");
        let free = released(&renewed);
        let of_free = LeaseRecord::of(&free);
        assert_eq!((of_free.holder, of_free.is_released, of_free.transitions), (None, true, 0));
        let other = held(Some(&free), &me("b"), &[], expiry, at(99));
        let spec = other.spec.unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time), (Some(1), Some(MicroTime(at(99)))));
    }

    #[test]
    fn priority_and_candidates_stand_next_to_and_renew_nothing() {
        let expiry = Duration::from_mins(1);
        let high = Me { priority: 7, ..me("a") };
        let first = held(None, &high, &[], expiry, at(1));
        assert_eq!(LeaseRecord::of(&first).priority, 7);
        let laptop = Candidacy { holder: "laptop".into(), priority: 9, at: "then".into() };
        let listed = with_candidates(&first, std::slice::from_ref(&laptop));
        assert_eq!(LeaseRecord::of(&listed).candidates, [laptop]);
        assert_eq!(LeaseRecord::of(&listed).renewal, LeaseRecord::of(&first).renewal);
        let taken = held(Some(&listed), &me("b"), &[], expiry, at(9));
        assert_eq!((LeaseRecord::of(&taken).priority, LeaseRecord::of(&taken).candidates), (0, Vec::new()));
        let annotations = taken.metadata.annotations.unwrap();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), [PROGRAM_ANNOTATION]);
        let mut odd = first;
        let annotations = odd.metadata.annotations.as_mut().unwrap();
        annotations.extend([
            (PRIORITY_ANNOTATION.into(), "high".into()),
            (CANDIDATES_ANNOTATION.into(), "{".into()),
        ]);
        assert_eq!((LeaseRecord::of(&odd).priority, LeaseRecord::of(&odd).candidates), (0, Vec::new()));
    }

    #[test]
    fn a_candidate_of_another_version_hides_no_other() {
        let mut lease = held(None, &me("a"), &[], Duration::from_mins(1), at(1));
        let list = r#"[{"holder": "b", "priority": 1, "at": "then", "newer": 1}, {"name": "c"}, 7]"#;
        lease.metadata.annotations.as_mut().unwrap().insert(CANDIDATES_ANNOTATION.into(), list.into());
        let b = Candidacy { holder: "b".into(), priority: 1, at: "then".into() };
        assert_eq!(LeaseRecord::of(&lease).candidates, [b]);
    }

    #[test]
    fn the_version_is_that_of_the_holder_or_none() {
        let lease = held(None, &me("a"), &[], Duration::from_mins(1), at(1));
        assert_eq!(LeaseRecord::of(&lease).program_version.as_deref(), Some("0.2.0-rc.1"));
        assert_eq!(LeaseRecord::of(&released(&lease)).program_version, None);
        // An older operator keeps the annotation as it was.
        let mut taken = lease;
        taken.spec.as_mut().unwrap().holder_identity = Some("b".into());
        assert_eq!(LeaseRecord::of(&taken).program_version, None);
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
        assert_eq!(LeaseRecord::of(&lease(-1, "x")).expiry, None);
        assert_eq!(LeaseRecord::of(&lease(i32::MAX, "x")).expiry, None);
        let emptied = LeaseRecord::of(&lease(120, ""));
        assert_eq!((emptied.holder, emptied.is_released), (None, false), "its holder is unknown");
        assert_eq!(LeaseRecord::of(&Lease::default()).holder, None);
    }
}
