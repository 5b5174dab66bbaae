//! Whether this process is alive and ready. Pure except for the clock.
//!
//! Alive: each loop has made an attempt within its bound, and no reconciliation runs forever. A request that
//! an API server refuses or does not answer is an attempt too, since a restart would not help. Ready: it
//! waits for the lease, or it is the leader and all its watches have an answer. The report names no tenant, so it is
//! safe to show to anyone.
//!
//! The clock stops while the machine is suspended, so nothing is late after a resume.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

/// A reconciliation that takes so long hangs: one that has more to do is ended earlier, and continued by the next.
const LONGEST_RECONCILIATION: Duration = Duration::from_mins(30);

/// What this process does about its lease.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum Leadership {
    /// It has not looked yet.
    #[default]
    Starting,
    Waiting {
        holder: String,
    },
    Leading,
    /// It is the leader without a lease, as configured.
    Standalone,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchRequests {
    path: String,
    /// Encoded, as it is in the query.
    field: Option<String>,
}

impl WatchRequests {
    /// For `path`, of what has this field.
    pub fn of(path: String, field: Option<&str>) -> Self {
        let field = field.map(|field| format!("fieldSelector={}", field.replace('=', "%3D")));
        Self { path, field }
    }

    fn is(&self, uri: &Uri) -> bool {
        let has =
            |field: &String| uri.query().is_some_and(|query| query.split('&').any(|pair| pair == field));
        uri.path() == self.path && self.field.as_ref().is_none_or(has)
    }
}

/// A loop that has to come round.
#[derive(Clone, Debug)]
pub struct LoopHeartbeat {
    name: String,
    bound: Duration,
    /// The requests that are its attempts.
    asked: Option<WatchRequests>,
    heartbeats: Arc<Mutex<Heartbeats>>,
}

#[derive(Debug)]
struct Heartbeats {
    attempt: Instant,
    event: Option<Instant>,
}

impl LoopHeartbeat {
    pub fn beat(&self) {
        self.heartbeats.lock().attempt = Instant::now();
    }

    /// It has come round by an event.
    pub fn seen_event(&self) {
        let now = Instant::now();
        *self.heartbeats.lock() = Heartbeats { attempt: now, event: Some(now) };
    }
}

/// What is known of this process' health; a clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct ProcessHealth {
    heartbeats: Arc<Mutex<Vec<LoopHeartbeat>>>,
    leadership: Arc<Mutex<Leadership>>,
}

impl ProcessHealth {
    /// A loop that comes round within `bound`, beginning now.
    pub fn heartbeat(&self, name: &str, bound: Duration) -> LoopHeartbeat {
        self.add(name.to_owned(), bound, None)
    }

    /// A watch, whose attempts are the requests that are `asked`.
    pub fn watch(&self, name: String, bound: Duration, asked: WatchRequests) -> LoopHeartbeat {
        self.add(name, bound, Some(asked))
    }

    fn add(&self, name: String, bound: Duration, asked: Option<WatchRequests>) -> LoopHeartbeat {
        let heartbeats = Arc::new(Mutex::new(Heartbeats { attempt: Instant::now(), event: None }));
        let heartbeat = LoopHeartbeat { name, bound, asked, heartbeats };
        self.heartbeats.lock().push(heartbeat.clone());
        heartbeat
    }

    /// The operator asks for this, as itself.
    pub fn asked(&self, uri: &Uri) {
        let is_it = |heartbeat: &&LoopHeartbeat| heartbeat.asked.as_ref().is_some_and(|asked| asked.is(uri));
        self.heartbeats.lock().iter().filter(is_it).for_each(LoopHeartbeat::beat);
    }

    pub fn set_leadership(&self, leadership: Leadership) {
        *self.leadership.lock() = leadership;
    }

    pub fn leadership(&self) -> Leadership {
        self.leadership.lock().clone()
    }

    pub fn loops(&self) -> Vec<Loop> {
        let now = Instant::now();
        let age = |then: Instant| now.saturating_duration_since(then).as_secs();
        let of = |heartbeat: &LoopHeartbeat| {
            let Heartbeats { attempt, event } = *heartbeat.heartbeats.lock();
            let late = now.saturating_duration_since(attempt) > heartbeat.bound;
            Loop {
                name: heartbeat.name.clone(),
                attempt_seconds_ago: age(attempt),
                event_seconds_ago: event.map(age),
                bound_seconds: heartbeat.bound.as_secs(),
                late,
            }
        };
        self.heartbeats.lock().iter().map(of).collect()
    }
}

/// A loop as it is reported.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loop {
    pub name: String,
    /// Since its last attempt.
    pub attempt_seconds_ago: u64,
    /// Since its last event; absent unless this is a watch that has received one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_seconds_ago: Option<u64>,
    /// An attempt is due within so long.
    pub bound_seconds: u64,
    /// None was made within it.
    pub late: bool,
}

/// The reconciliations, as they are reported.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciliations {
    /// Those that wait for a permit.
    pub waiting: usize,
    pub running: usize,
    /// How long the longest of them has taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_seconds: Option<u64>,
    /// Since the last one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_seconds_ago: Option<u64>,
}

/// The operator's own watch on a kind, as it is reported.
#[derive(Clone, Debug, Serialize)]
pub struct OwnWatch {
    pub kind: &'static str,
    /// Its first list is complete.
    pub synced: bool,
    /// Nothing begins without it.
    #[serde(skip)]
    pub needed: bool,
}

/// What a leader does, as it is reported.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderReport {
    pub watches: Vec<OwnWatch>,
    /// The tenants' watches by state.
    pub tenant_watches: std::collections::BTreeMap<&'static str, i64>,
    pub reconciliations: Reconciliations,
    /// Accounts that it acts as.
    pub accounts: usize,
    /// Age of the oldest of their tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_token_seconds: Option<u64>,
    /// Why everything is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

/// All that is reported.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// Liveness: each loop has reported in time.
    pub alive: bool,
    /// Readiness: it is the leader or waits for the Lease, and its watches work.
    pub ready: bool,
    /// What is not as it should be.
    pub trouble: Vec<String>,
    pub lease: Leadership,
    pub loops: Vec<Loop>,
    /// Its work, if it is the leader.
    #[serde(flatten)]
    pub work: Option<LeaderReport>,
}

/// Builds the report; `work` is there once it is the leader.
pub fn report(lease: Leadership, loops: Vec<Loop>, work: Option<LeaderReport>) -> HealthReport {
    let late = loops.iter().filter(|round| round.late).map(|round| {
        let Loop { name, attempt_seconds_ago: ago, bound_seconds: bound, .. } = round;
        format!("{name}: no attempt for {ago} s, where one is due within {bound} s")
    });
    let mut trouble: Vec<String> = late.collect();
    let longest = work.as_ref().and_then(|work| work.reconciliations.longest_seconds);
    if let Some(longest) = longest.filter(|longest| *longest > LONGEST_RECONCILIATION.as_secs()) {
        trouble.push(format!("a reconciliation has run for {longest} s"));
    }
    let alive = trouble.is_empty();
    match &work {
        None if lease == Leadership::Starting => {
            trouble.push("the lease has not been checked yet".to_owned());
        }
        None => {}
        Some(work) => trouble.extend(unsettled(work)),
    }
    HealthReport { alive, ready: trouble.is_empty(), trouble, lease, loops, work }
}

/// Watches of which it is not known yet whether they work.
fn unsettled(work: &LeaderReport) -> Vec<String> {
    let own = work.watches.iter().filter(|watch| watch.needed && !watch.synced);
    let mut message: Vec<String> =
        own.map(|watch| format!("the watch on {} has not completed its initial list", watch.kind)).collect();
    match work.tenant_watches.get("opening") {
        Some(count) if *count > 0 => message.push(format!("{count} tenant watches have had no answer yet")),
        _ => {}
    }
    message
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn work(synced: bool, opening: i64, longest: Option<u64>) -> LeaderReport {
        LeaderReport {
            watches: vec![
                OwnWatch { kind: "configmapsyncs", synced, needed: true },
                OwnWatch { kind: "servicetokens", synced: false, needed: false },
            ],
            tenant_watches: [("opening", opening), ("refused", 3)].into(),
            reconciliations: Reconciliations { longest_seconds: longest, ..Reconciliations::default() },
            ..LeaderReport::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_hangs_is_named_and_ends_being_alive_within_its_bound() {
        let health = ProcessHealth::default();
        let heartbeat = health.heartbeat("renewing the lease", Duration::from_mins(1));
        let asked = WatchRequests::of("/api/v1/namespaces".into(), None);
        let watch = health.watch("watching namespaces".into(), Duration::from_mins(5), asked);
        let judged = || report(Leadership::Leading, health.loops(), None);
        assert!(judged().alive);
        advance(Duration::from_mins(1)).await;
        assert!(judged().alive, "at its bound");
        advance(Duration::from_secs(1)).await;
        let late = judged();
        assert!(!late.alive && !late.ready);
        assert_eq!(late.trouble, ["renewing the lease: no attempt for 61 s, where one is due within 60 s"]);
        heartbeat.beat();
        assert!(judged().alive);
        // A watch is alive by its requests, answered or not, and by its events.
        advance(Duration::from_mins(4)).await;
        heartbeat.beat();
        assert!(!judged().alive);
        health.asked(&Uri::from_static("/api/v1/namespaces/config-weaver"));
        assert!(!judged().alive, "another path");
        health.asked(&Uri::from_static("/api/v1/namespaces?watch=true"));
        assert!(judged().alive);
        assert_eq!(judged().loops[1].event_seconds_ago, None);
        watch.seen_event();
        assert_eq!(judged().loops[1].event_seconds_ago, Some(0));
    }

    #[test]
    fn watches_on_several_namespaces_are_distinguished_by_their_field() {
        let asked = WatchRequests::of("/api/v1/namespaces".into(), Some("metadata.name=team"));
        let query =
            |field| format!("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3D{field}&x=1");
        assert!(asked.is(&query("team").parse().unwrap()));
        assert!(!asked.is(&query("team-a").parse().unwrap()));
        assert!(!asked.is(&Uri::from_static("/api/v1/namespaces")));
    }

    #[test]
    fn ready_is_who_waits_and_who_leads_with_a_verdict_on_every_watch() {
        let waiting = Leadership::Waiting { holder: "other".into() };
        for (leadership, work, alive, ready, message) in [
            (Leadership::Starting, None, true, false, "the lease has not been checked yet"),
            (waiting, None, true, true, ""),
            (Leadership::Leading, Some(work(true, 0, Some(1_800))), true, true, ""),
            (
                Leadership::Leading,
                Some(work(false, 0, None)),
                true,
                false,
                "the watch on configmapsyncs has not",
            ),
            (Leadership::Leading, Some(work(true, 2, None)), true, false, "2 tenant watches"),
            (Leadership::Standalone, Some(work(true, 0, Some(1_801))), false, false, "has run for 1801 s"),
        ] {
            let report = report(leadership, Vec::new(), work);
            assert_eq!((report.alive, report.ready), (alive, ready), "{report:?}");
            assert!(report.trouble.join("; ").contains(message), "{report:?}");
            assert_eq!(report.trouble.is_empty(), message.is_empty(), "{report:?}");
        }
    }

    #[test]
    fn a_report_is_one_flat_object() {
        let report = report(Leadership::Leading, Vec::new(), Some(work(true, 0, None)));
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["lease"], serde_json::json!({"state": "leading"}));
        assert_eq!(json["tenantWatches"]["refused"], 3);
        assert_eq!(json["watches"][0], serde_json::json!({"kind": "configmapsyncs", "synced": true}));
    }
}
