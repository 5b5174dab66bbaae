//! `weaver status`: leader, candidates, pauses, and how many resources are Ready.
//!
//! All of it is read from the API with the rights of the user; what these do not show is reported as unknown, and so is
//! it to a script, by the exit status.

pub mod watch;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::conditions::{PAUSED, READY};
use weaver_api::lease::{Candidacy, LeaseRecord, NAME};
use weaver_api::ownership::PAUSED_ANNOTATION;
use weaver_client::conditions::condition;
use weaver_diagnostics::finding_text::clean;

use crate::connection;
use crate::resource::kind::Kind;
use crate::resource::store::Store;
use crate::stdout::{json_text, print};

#[derive(Args)]
pub struct StatusOptions {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: StatusFormat,
    /// Keep it up to date until Ctrl-C: in place on a terminal, else printed again after each change
    #[arg(short, long)]
    pub watch: bool,
}

/// A form of what is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum StatusFormat {
    /// Human-readable text
    Table,
    /// One JSON document
    Json,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterStatus {
    leader: Known<Option<Leader>>,
    candidates: Vec<Candidacy>,
    /// Why everything is paused.
    paused: Known<Option<String>>,
    syncs: Known<StatusCounts>,
    resources: Known<StatusCounts>,
    tokens: Known<StatusCounts>,
}

impl ClusterStatus {
    fn of(
        lease: &anyhow::Result<Option<Lease>>,
        paused: Known<Option<String>>,
        [syncs, resources, tokens]: [Known<StatusCounts>; 3],
        now: Timestamp,
    ) -> Self {
        let found = lease.as_ref().ok().and_then(Option::as_ref);
        let candidates = found.map(|lease| LeaseRecord::of(lease).candidates).unwrap_or_default();
        let leader = match lease {
            Ok(_) => Known::Is(found.and_then(|lease| leader(lease, now))),
            Err(error) => Known::Unknown { unknown: format!("{error:#}") },
        };
        Self { leader, candidates, paused, syncs, resources, tokens }
    }

    /// The rows that could not be read.
    fn unknown(&self) -> Vec<&'static str> {
        let rows = [
            ("leader", self.leader.is_unknown()),
            ("paused", self.paused.is_unknown()),
            ("syncs", self.syncs.is_unknown()),
            ("resources", self.resources.is_unknown()),
            ("tokens", self.tokens.is_unknown()),
        ];
        rows.into_iter().filter(|(_, is_unknown)| *is_unknown).map(|(row, _)| row).collect()
    }
}

/// What could be read, or why it could not.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Known<T> {
    Is(T),
    Unknown { unknown: String },
}

impl<T> From<anyhow::Result<T>> for Known<T> {
    fn from(read: anyhow::Result<T>) -> Self {
        read.map_or_else(|error| Self::Unknown { unknown: format!("{error:#}") }, Self::Is)
    }
}

impl<T> Known<T> {
    pub fn said(&self, words: impl Fn(&T) -> String) -> String {
        match self {
            Self::Is(value) => words(value),
            Self::Unknown { unknown } => format!("unknown: {unknown}"),
        }
    }

    const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// The holder of the lease.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    pub holder: String,
    priority: i32,
    /// Seconds, by the clocks of both machines.
    renewed_seconds_ago: Option<i64>,
    /// It should have renewed by now.
    pub late: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct StatusCounts {
    all: usize,
    ready: usize,
    paused: usize,
}

pub async fn run(options: &StatusOptions) -> anyhow::Result<()> {
    let client = connection::client().await?;
    let (lease, paused) = (lease(&client).await, paused(&client).await);
    let now = Timestamp::now();
    let [syncs, resources, tokens] = Kind::ALL;
    let kinds = [counts(syncs).await.into(), counts(resources).await.into(), counts(tokens).await.into()];
    let status = ClusterStatus::of(&lease, paused.into(), kinds, now);
    let text = match options.output {
        StatusFormat::Table => table(&status, now),
        StatusFormat::Json => json_text(&status, "the status")?,
    };
    print(&text)?;
    let unknown = status.unknown();
    ensure!(unknown.is_empty(), "unknown, for the reason above: {}", unknown.join(", "));
    Ok(())
}

/// The operator's lease, if there is one.
pub async fn lease(client: &Client) -> anyhow::Result<Option<Lease>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
    leases.get_opt(NAME).await.context("reading the lease")
}

/// Why everything is paused, if it is.
pub async fn paused(client: &Client) -> anyhow::Result<Option<String>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_metadata_opt(OPERATOR_NAMESPACE).await;
    let found = found.with_context(|| format!("reading the namespace {OPERATOR_NAMESPACE}"))?;
    Ok(found.and_then(|namespace| namespace.annotations().get(PAUSED_ANNOTATION).cloned()))
}

async fn counts(kind: Kind) -> anyhow::Result<StatusCounts> {
    let store = Store::connect(kind, None).await?.at(kind, None);
    Ok(counted(&store.list(ListParams::default()).await?))
}

fn counted(objects: &[DynamicObject]) -> StatusCounts {
    let count = |kind| objects.iter().filter(|object| is_true(object, kind)).count();
    StatusCounts { all: objects.len(), ready: count(READY), paused: count(PAUSED) }
}

fn is_true(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind).is_some_and(|found| found.status == "True")
}

pub fn leader(lease: &Lease, now: Timestamp) -> Option<Leader> {
    let record = LeaseRecord::of(lease);
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let renewed_seconds_ago = renewed.map(|time| now.as_second() - time.0.as_second());
    let lasts = record.expiry.and_then(|expiry| i64::try_from(expiry.as_secs()).ok()).unwrap_or(60);
    let late = renewed_seconds_ago.is_none_or(|ago| ago > lasts);
    Some(Leader { holder: record.holder?, priority: record.priority, renewed_seconds_ago, late })
}

fn table(status: &ClusterStatus, now: Timestamp) -> String {
    let mut lines =
        vec![("leader", status.leader.said(|leader| leader.as_ref().map_or_else(leaderless, led)))];
    for Candidacy { holder, priority, at } in &status.candidates {
        let ago = at.parse::<Timestamp>().map(|at| now.as_second() - at.as_second());
        let heard = ago.map_or_else(|_| String::new(), |ago| format!(", announced {ago} s ago"));
        lines.push(("candidate", format!("{}, priority {priority}{heard}", named(holder))));
    }
    let paused = |paused: &Option<String>| match paused {
        None => "no".to_owned(),
        Some(reason) => format!("all resources: {reason}; to continue: weaver resume{}", connection::flags()),
    };
    lines.push(("paused", status.paused.said(paused)));
    lines.push(("syncs", status.syncs.said(counts_said)));
    lines.push(("resources", status.resources.said(counts_said)));
    lines.push(("tokens", status.tokens.said(counts_said)));
    let lines: Vec<String> =
        lines.iter().map(|(what, words)| format!("{what:<11}{}\n", clean(words))).collect();
    lines.concat()
}

fn leaderless() -> String {
    "no leader: is an operator running? `systemctl status weaver-operator` on the Pi; one with \
     --standalone has no lease"
        .to_owned()
}

fn led(leader: &Leader) -> String {
    let late = if leader.late { ": late; it has exited or lost its connection" } else { "" };
    let renewed = match leader.renewed_seconds_ago {
        None => "never renewed".to_owned(),
        Some(ago) => format!("renewed {ago} s ago{late}"),
    };
    format!("{}, priority {}, {renewed}", named(&leader.holder), leader.priority)
}

/// The host and the process of a holder's name (of the operator's `lease/holder.rs`).
pub fn named(holder: &str) -> String {
    let parts: Vec<&str> = holder.split('_').collect();
    match parts[..] {
        [host, _, _, _, pid, _] => format!("{host}, process {pid}"),
        _ => holder.to_owned(),
    }
}

fn counts_said(counts: &StatusCounts) -> String {
    let StatusCounts { all, ready, paused } = counts;
    let paused = if *paused > 0 { format!(", {paused} paused") } else { String::new() };
    format!("{ready} of {all} ready{paused}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use weaver_diagnostics::finding_text::is_unprintable;

    use super::*;

    fn lease(renewed: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"annotations": {
                "weaver.example.com/priority": "3",
                "weaver.example.com/candidates":
                    r#"[{"holder": "laptop_0_0_1_77_9", "priority": 0, "at": "2026-01-01T00:00:10Z"}]"#,
            }},
            "spec": {"holderIdentity": "raspi_a_b_4026531836_812_99", "leaseDurationSeconds": 60, "renewTime": renewed},
        }))
        .unwrap()
    }

    fn status(lease: Option<Lease>, paused: anyhow::Result<Option<String>>) -> ClusterStatus {
        ClusterStatus {
            candidates: lease
                .as_ref()
                .map(LeaseRecord::of)
                .map(|record| record.candidates)
                .unwrap_or_default(),
            leader: Known::Is(lease.and_then(|lease| leader(&lease, now()))),
            paused: paused.into(),
            syncs: Known::Is(StatusCounts { all: 3, ready: 2, paused: 1 }),
            resources: Known::Is(StatusCounts::default()),
            tokens: Known::Is(StatusCounts::default()),
        }
    }

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    fn shown(lease: Option<Lease>, paused: anyhow::Result<Option<String>>) -> String {
        table(&status(lease, paused), now())
    }

    #[test]
    fn what_could_not_be_read_is_listed() {
        assert_eq!(status(None, Ok(None)).unknown(), Vec::<&str>::new());
        let refused = || anyhow::anyhow!("forbidden");
        let seen = ClusterStatus { syncs: Err(refused()).into(), ..status(None, Err(refused())) };
        assert_eq!(seen.unknown(), ["paused", "syncs"]);
    }

    #[test]
    fn leader_candidates_and_what_is_paused_are_reported() {
        let text = shown(Some(lease("2026-01-01T00:00:48.000000Z")), Ok(Some("a backup".into())));
        assert_eq!(
            text,
            "leader     raspi, process 812, priority 3, renewed 12 s ago\n\
             candidate  laptop, process 77, priority 0, announced 50 s ago\n\
             paused     all resources: a backup; to continue: weaver resume\n\
             syncs      2 of 3 ready, 1 paused\n\
             resources  0 of 0 ready\n\
             tokens     0 of 0 ready\n"
        );
    }

    #[test]
    fn a_leader_that_is_late_no_one_and_what_may_not_be_seen_are_reported() {
        let late = shown(Some(lease("2025-12-31T23:59:00.000000Z")), Ok(None));
        assert!(late.contains("renewed 120 s ago: late") && late.contains("paused     no\n"), "{late}");
        let leaderless = shown(None, Err(anyhow::anyhow!("namespaces is forbidden")));
        assert!(leaderless.contains("no leader: is an operator running?"), "{leaderless}");
        assert!(leaderless.contains("paused     unknown: namespaces is forbidden"), "{leaderless}");
    }

    proptest! {
        #[test]
        fn no_one_forges_a_line_of_the_status(text in "[\u{1b}\u{7}\r\n\u{9b}\u{202e}\u{2028}a-z_]{0,30}") {
            let mut lease = lease("2026-01-01T00:00:48.000000Z");
            lease.spec.as_mut().unwrap().holder_identity = Some(text.clone());
            let candidates = json!([{"holder": text, "priority": 0, "at": text}]).to_string();
            lease.metadata.annotations.as_mut().unwrap().insert("weaver.example.com/candidates".into(), candidates);
            for paused in [Ok(Some(text.clone())), Err(anyhow::anyhow!(text))] {
                let shown = shown(Some(lease.clone()), paused);
                prop_assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
                prop_assert!(shown.lines().count() <= 6, "{shown}");
            }
        }
    }

    #[test]
    fn resources_are_counted_by_their_conditions() {
        let object = |ready: &str, paused: &str| {
            json!({"status": {"conditions": [
                {"type": "Ready", "status": ready}, {"type": "Paused", "status": paused},
            ]}})
        };
        let objects = [object("True", "False"), object("False", "True"), json!({})];
        let objects = objects.map(|object| serde_json::from_value(object).unwrap());
        let StatusCounts { all, ready, paused } = counted(&objects);
        assert_eq!((all, ready, paused), (3, 1, 1));
    }
}
