//! The phase of the gate, and how a check or an attempt changes it. Pure: time and answers are passed in.
//!
//! ```text
//! Shut ──all is proven──▶ Opening ──the operator has its token──▶ Open
//!   ◀──something is bad──┘                                         ▲
//! Inherited (opened by an agent before this one) ──its own token───┘
//! Joined: the node joins a server, there is nothing to open
//! ```
//!
//! `Open` is left by nothing: a verdict that turns bad is shown next to the open gate, and the operator continues.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::gate::GateVerdict;
use super::renewal::Renewal;
use crate::node_report::Gate;

/// Pauses between two attempts to open the gate once the names are proven: each costs the API server a token.
const OPEN_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

#[derive(Debug)]
pub enum GatePhase {
    /// The node joins a server: there is nothing to prove, and no operator.
    Joined,
    /// Something is bad or not proven, and nothing was opened yet.
    Shut,
    /// All is proven, and the operator could not be given its credentials yet.
    Opening(OpeningFailure),
    /// An agent before this one opened the gate in this boot, and systemd runs the operator. Failed attempts,
    /// if any, to write a token of our own.
    Inherited(Option<OpeningFailure>),
    /// This agent wrote the token that the operator uses.
    Open(Renewal),
}

/// The attempts so far to give the operator its credentials.
#[derive(Debug)]
pub struct OpeningFailure {
    why: String,
    pause: Duration,
    /// Since when each of them only took too long.
    late_since: Option<Instant>,
}

/// How the operator gets its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// What it needs in the cluster is there.
    Token,
    /// After the manifests were applied.
    ManifestsAndToken,
}

/// The state of the gate for the report.
#[derive(Debug, PartialEq, Eq)]
pub struct GateState {
    pub gate: Gate,
    pub reason: String,
    /// Why it could not be opened though all is proven.
    pub opening_failure: Option<String>,
}

impl GatePhase {
    /// The phase of an agent that starts.
    pub const fn new(joins: bool, was_open: bool) -> Self {
        match (joins, was_open) {
            (true, _) => Self::Joined,
            (false, true) => Self::Inherited(None),
            (false, false) => Self::Shut,
        }
    }

    /// A check ended with `verdict`: must the operator get a token now? `is_another`: its present one is for another
    /// API server than the one that was checked, after a new CA or in a cluster that was created again.
    pub fn checked(
        &mut self,
        verdict: &GateVerdict,
        is_another: bool,
        now: Instant,
        clock: Timestamp,
    ) -> Option<Delivery> {
        let is_good = *verdict == GateVerdict::Good;
        match self {
            Self::Joined => None,
            Self::Shut | Self::Opening(_) | Self::Inherited(_) if is_good => {
                Some(Delivery::ManifestsAndToken)
            }
            Self::Shut | Self::Opening(_) => {
                *self = Self::Shut;
                None
            }
            // A bad state now stops neither a running operator nor its token.
            Self::Inherited(_) => Some(Delivery::Token),
            Self::Open(_) if is_good && is_another => Some(Delivery::ManifestsAndToken),
            Self::Open(renewal) => renewal.is_out_of_time(now, clock).then_some(Delivery::Token),
        }
    }

    /// When the token is renewed, and how.
    pub fn renewal(&self) -> Option<(Instant, Delivery)> {
        let Self::Open(renewal) = self else { return None };
        let mint = if renewal.must_install() { Delivery::ManifestsAndToken } else { Delivery::Token };
        Some((renewal.at, mint))
    }

    /// The operator has its token.
    pub fn minted(&mut self, renewal: Renewal) {
        *self = Self::Open(renewal);
    }

    /// The operator could not be given a token. `true` where it has one, and the reason is a new one. `is_late`: there
    /// was no answer in time.
    pub fn failed(&mut self, why: String, is_late: bool, now: Instant) -> bool {
        let after =
            |before: Option<&OpeningFailure>, why| OpeningFailure::after(before, why, is_late.then_some(now));
        match self {
            Self::Open(renewal) => return renewal.failed(why, now),
            Self::Joined => {}
            Self::Shut => *self = Self::Opening(after(None, why)),
            Self::Opening(before) => *before = after(Some(before), why),
            Self::Inherited(before) => *before = Some(after(before.as_ref(), why)),
        }
        false
    }

    /// Since when the operator could not be given a token because the API server takes too long, and nothing else.
    pub const fn late_since(&self) -> Option<Instant> {
        match self {
            Self::Opening(failure) | Self::Inherited(Some(failure)) => failure.late_since,
            _ => None,
        }
    }

    /// How long no other attempt is made, whatever changes.
    pub fn pause(&self) -> Duration {
        match self {
            Self::Opening(failure) | Self::Inherited(Some(failure)) => failure.pause,
            _ => Duration::ZERO,
        }
    }

    /// The state for the report, with the last check's verdict.
    pub fn gate_state(&self, verdict: GateVerdict) -> GateState {
        match (self, verdict) {
            (Self::Joined, verdict) => GateState::shut(joined_reason(verdict)),
            (Self::Shut | Self::Opening(_), GateVerdict::Bad(why) | GateVerdict::Unproven(why)) => {
                GateState::shut(why)
            }
            (Self::Shut, GateVerdict::Good) => GateState::shut("the names are proven".to_owned()),
            (Self::Opening(failure) | Self::Inherited(Some(failure)), GateVerdict::Good) => GateState {
                gate: Gate::Shut,
                reason: format!("the names are proven, but the operator has no credentials: {}", failure.why),
                opening_failure: Some(failure.why.clone()),
            },
            (Self::Inherited(failure), verdict) => {
                GateState::open(verdict, failure.as_ref().map(|failure| failure.why.as_str()))
            }
            (Self::Open(renewal), verdict) => GateState::open(verdict, renewal.failure.as_deref()),
        }
    }
}

impl OpeningFailure {
    fn after(before: Option<&Self>, why: String, late: Option<Instant>) -> Self {
        let (first, longest) = OPEN_AGAIN;
        let pause = before.map_or(first, |before| (before.pause * 2).min(longest));
        let late_since = late.map(|now| before.and_then(|before| before.late_since).unwrap_or(now));
        Self { why, pause, late_since }
    }
}

impl GateState {
    const fn shut(reason: String) -> Self {
        Self { gate: Gate::Shut, reason, opening_failure: None }
    }

    fn open(verdict: GateVerdict, renewal_failure: Option<&str>) -> Self {
        let reason = match verdict {
            GateVerdict::Good => "every configured name is proven".to_owned(),
            GateVerdict::Bad(why) | GateVerdict::Unproven(why) => {
                format!("the names were served before; now: {why}")
            }
        };
        let reason = match renewal_failure {
            Some(failure) => format!("{reason}; the operator's token could not be renewed: {failure}"),
            None => reason,
        };
        Self { gate: Gate::Open, reason, opening_failure: None }
    }
}

fn joined_reason(verdict: GateVerdict) -> String {
    match verdict {
        GateVerdict::Bad(why) => why,
        GateVerdict::Good | GateVerdict::Unproven(_) => {
            "this node joins a server, and the operator runs there".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::OperatorToken;
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn bad() -> GateVerdict {
        GateVerdict::Bad("N-01: no controller".to_owned())
    }

    fn renewal(now: Instant) -> Renewal {
        let token =
            OperatorToken { secret: "t".into(), lifetime: HOUR, expires: Timestamp::UNIX_EPOCH + HOUR };
        Renewal::of(&token, HOUR / 2, now)
    }

    fn check(phase: &mut GatePhase, verdict: &GateVerdict) -> Option<Delivery> {
        phase.checked(verdict, false, Instant::now(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_gate_opens_when_all_is_proven_and_nothing_closes_it() {
        let (mut phase, now) = (GatePhase::new(false, false), Instant::now());
        assert_eq!(check(&mut phase, &bad()), None);
        assert_eq!(phase.gate_state(bad()), GateState::shut("N-01: no controller".to_owned()));
        assert_eq!(check(&mut phase, &GateVerdict::Good), Some(Delivery::ManifestsAndToken));
        phase.minted(renewal(now));
        assert_eq!(check(&mut phase, &bad()), None);
        let gate_state = phase.gate_state(bad());
        assert_eq!(gate_state.gate, Gate::Open);
        assert_eq!(gate_state.reason, "the names were served before; now: N-01: no controller");
    }

    #[test]
    fn attempts_that_fail_are_further_and_further_apart_until_something_is_bad() {
        let (mut phase, now) = (GatePhase::new(false, false), Instant::now());
        for seconds in [1, 2, 4, 8, 10, 10] {
            assert_eq!(check(&mut phase, &GateVerdict::Good), Some(Delivery::ManifestsAndToken));
            assert!(!phase.failed("no answer".to_owned(), false, now), "is in the report, not in the log");
            assert_eq!(phase.pause(), Duration::from_secs(seconds));
        }
        let gate_state = phase.gate_state(GateVerdict::Good);
        assert_eq!((gate_state.gate, gate_state.opening_failure.as_deref()), (Gate::Shut, Some("no answer")));
        assert_eq!(check(&mut phase, &bad()), None);
        assert_eq!((phase.pause(), phase.gate_state(bad()).opening_failure), (Duration::ZERO, None));
    }

    #[test]
    fn what_an_agent_before_opened_stays_open_and_gets_a_new_token_even_where_something_is_bad() {
        let (mut phase, now) = (GatePhase::new(false, true), Instant::now());
        assert_eq!(check(&mut phase, &bad()), Some(Delivery::Token));
        phase.failed("no answer".to_owned(), false, now);
        let gate_state = phase.gate_state(bad());
        assert_eq!((gate_state.gate, gate_state.opening_failure), (Gate::Open, None));
        assert!(gate_state.reason.ends_with("could not be renewed: no answer"), "{}", gate_state.reason);
        assert_eq!(check(&mut phase, &GateVerdict::Good), Some(Delivery::ManifestsAndToken));
        phase.minted(renewal(now));
        assert!(matches!(phase, GatePhase::Open(_)));
    }

    #[test]
    fn a_renewal_that_failed_applies_the_manifests_and_is_said_once() {
        let now = Instant::now();
        let mut phase = GatePhase::Open(renewal(now));
        assert_eq!(phase.renewal(), Some((now + HOUR / 2, Delivery::Token)));
        assert!(phase.failed("404".to_owned(), false, now));
        assert!(!phase.failed("404".to_owned(), false, now));
        assert!(matches!(phase.renewal(), Some((_, Delivery::ManifestsAndToken))));
        let reason = phase.gate_state(GateVerdict::Good).reason;
        assert_eq!(reason, "every configured name is proven; the operator's token could not be renewed: 404");
    }

    #[test]
    fn a_clock_that_was_set_asks_for_a_new_token_before_its_turn() {
        let now = Instant::now();
        let mut phase = GatePhase::Open(renewal(now));
        let later = now + Duration::from_mins(1);
        assert_eq!(phase.checked(&GateVerdict::Good, false, later, Timestamp::UNIX_EPOCH), None);
        assert_eq!(phase.checked(&bad(), false, later, Timestamp::UNIX_EPOCH + HOUR), Some(Delivery::Token));
    }

    #[test]
    fn another_api_server_gets_the_manifests_and_the_operator_a_token_of_it() {
        let now = Instant::now();
        let mut phase = GatePhase::Open(renewal(now));
        assert_eq!(phase.checked(&bad(), true, now, Timestamp::UNIX_EPOCH), None, "it is not proven");
        let good = phase.checked(&GateVerdict::Good, true, now, Timestamp::UNIX_EPOCH);
        assert_eq!(good, Some(Delivery::ManifestsAndToken));
    }

    #[test]
    fn a_silence_lasts_until_there_is_an_answer() {
        let first = Instant::now();
        let later = first + Duration::from_mins(1);
        for mut phase in [GatePhase::new(false, false), GatePhase::new(false, true)] {
            assert_eq!(phase.late_since(), None);
            phase.failed("no answer".to_owned(), true, first);
            phase.failed("no answer".to_owned(), true, later);
            assert_eq!(phase.late_since(), Some(first));
            phase.failed("403".to_owned(), false, later);
            assert_eq!(phase.late_since(), None);
            phase.failed("no answer".to_owned(), true, later);
            assert_eq!(phase.late_since(), Some(later));
            phase.minted(renewal(later));
            assert_eq!(phase.late_since(), None);
        }
    }

    #[test]
    fn a_node_that_joins_opens_nothing_and_says_what_is_bad_first() {
        let mut phase = GatePhase::new(true, true);
        assert_eq!(check(&mut phase, &GateVerdict::Good), None);
        assert!(
            phase.gate_state(GateVerdict::Unproven("no name".to_owned())).reason.contains("joins a server")
        );
        assert_eq!(phase.gate_state(bad()), GateState::shut("N-01: no controller".to_owned()));
    }
}
