//! Writes this node's `NodeReport` and the labels of its Node, and creates Events, for users who look at the
//! cluster and not at the board.
//!
//! Guarantees: it writes on change only, and less often the more often something changes, since the API's database
//! is on the same card: after ten minutes at the latest; what appeared and disappeared in between is not reported.
//! A read every ten minutes or so finds what others have changed, and until all parts of this boot were ready, one
//! each half minute finds those. Each finding gets one Event when it turns bad and one when it is resolved; what an
//! earlier agent reported is read from the API. Failures are retried and block nothing else; an Event that failed
//! is created later, unless the agent exits before.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::{Value, json};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use weaver_api::{
    conditions::bounded,
    v1beta1::{self as node_report, NodeReport, NodeReportFields, NodeReportStatus},
};
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::host::names::{self, LOCALHOST};
use weaver_host::backoff::{Backoff, jittered};

use super::{
    cluster::{self, MANAGER, deadline},
    node_labels,
    status::AgentStatus,
    units::monotonic_now,
};
use crate::{
    boot_steps,
    facts::node::{self, NodeFacts, ServingSeen},
    host::Host,
    node_verdicts::{self, VerdictChange},
    systemctl::Systemctl,
};

/// Pause between two reads where nothing has changed here.
const LOOK: Duration = Duration::from_mins(10);
/// The same while the machine starts: its report has each step.
const BOOTING: Duration = Duration::from_secs(30);
/// Pauses after a round that wrote something: the first, and the longest where each of them does.
const SETTLE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(10));
/// Pauses after a failure.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(1));
/// Longest time for one round, all requests together.
const ROUND: Duration = Duration::from_mins(1);
/// Bytes of an event's note; the API server accepts 1,024 with the note that it was truncated.
const NOTE: usize = 1_000;

/// News that wait; no more codes can turn bad and good in between.
const MOST_NEWS: usize = 256;

/// State that is kept between rounds.
#[derive(Default)]
struct ReporterState {
    /// A connection that works.
    client: Option<Client>,
    /// The last round wrote something.
    wrote: bool,
    /// The last round did not see the end of the machine's start.
    is_booting: bool,
    /// What Events were written for; `None` until the reports of an earlier agent were read from the API.
    reported: Option<BTreeMap<String, node_report::Severity>>,
    /// What still needs an Event.
    news: Vec<VerdictChange>,
}

impl ReporterState {
    /// Adds what needs an Event in a report that follows another.
    fn remember(&mut self, before: &NodeReportStatus, desired: &NodeReportStatus) {
        let reported = self.reported.get_or_insert_with(|| node_verdicts::severities(&before.findings));
        self.news.extend(node_verdicts::news(reported, &desired.findings));
        self.news.truncate(MOST_NEWS);
    }
}

/// Runs until `stop`.
///
/// `systemctl` is there where systemd runs the units.
///
/// # Errors
/// The checks have ended.
pub async fn keep(
    host: Host,
    status: AgentStatus,
    systemctl: Option<Systemctl>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let work = async {
        status.checked().await?;
        let mut report = status.subscribe();
        let (mut again, mut settle) = (Backoff::new(AGAIN.0), Backoff::new(SETTLE.0));
        let (mut memory, mut said) = (ReporterState::default(), None);
        loop {
            let findings = report.borrow_and_update().findings.clone();
            let round =
                timeout(ROUND, publish(&host, &status, systemctl.as_ref(), &findings, &mut memory)).await;
            let round = round.unwrap_or_else(|_| Err(anyhow!("timed out after {} s", ROUND.as_secs())));
            let failure = round.as_ref().err().map(failure_text);
            if failure != said {
                let failed = failure.as_deref().map(|failure| format!("is not written: {failure}"));
                info!("the NodeReport {}", failed.as_deref().unwrap_or("is written"));
            }
            said = failure;
            let look = if round.is_ok() {
                again.reset();
                jittered(if memory.is_booting { BOOTING } else { LOOK })
            } else {
                memory.client = None;
                jittered(again.next(AGAIN.1))
            };
            let quiet = if std::mem::take(&mut memory.wrote) {
                jittered(settle.next(SETTLE.1))
            } else {
                Duration::ZERO
            };
            sleep(quiet).await;
            tokio::select! {
                changed = report.wait_for(|report| !node_verdicts::are_the_same(&report.findings, &findings)) => {
                    drop(changed?);
                }
                () = sleep(look) => settle.reset(),
            }
        }
    };
    tokio::select! {
        ended = work => ended,
        () = stop.cancelled() => Ok(()),
    }
}

/// For a kind that it does not serve, the API server only answers that there is no such page.
fn failure_text(failure: &anyhow::Error) -> String {
    match failure.downcast_ref() {
        Some(kube::Error::Api(refusal))
            if refusal.code == 404 && refusal.message.trim() == "404 page not found" =>
        {
            "its CRD is not installed yet".to_owned()
        }
        _ => format!("{failure:#}"),
    }
}

/// One read of the API's state, and the writes that follow from it.
async fn publish(
    host: &Host,
    status: &AgentStatus,
    systemctl: Option<&Systemctl>,
    findings: &[Finding],
    memory: &mut ReporterState,
) -> anyhow::Result<()> {
    let reader = host.clone();
    let read = spawn_blocking(move || {
        let facts = node::read(&reader.root, &reader.k3s_data_dir());
        (reader.node_name(), facts, reader.reporter(), reader.joins())
    });
    let (name, facts, access, joins) = read.await.context("reading the node's facts")?;
    let name = name.context("the node has no name: neither node-name nor a host name")?;
    let client = if let Some(client) = &memory.client {
        client.clone()
    } else {
        let client = cluster::connect(&access).await?;
        memory.client.insert(client).clone()
    };
    let version = deadline("asking for the version", client.apiserver_version()).await?.git_version;

    let reports: Api<NodeReport> = Api::all(client.clone());
    let observed = observed(&reports, &name, memory).await?;
    status.set_node(&name);
    let boot = match systemctl {
        Some(systemctl) => boot_steps::seen(systemctl, host.role()).await,
        None => Vec::new(),
    };
    let now = systemctl.and_then(|_| monotonic_now());
    memory.is_booting = now.is_some_and(|now| boot_steps::goes_on(&boot, now));
    let serving = match status.serving() {
        _ if joins => ServingSeen::Elsewhere,
        None => ServingSeen::Nothing,
        Some(seen) => ServingSeen::Certificate(seen),
    };
    let facts = NodeFacts { serving, boot, ..facts };
    let before = observed.status.clone().unwrap_or_default();
    let now = Time(jiff::Timestamp::now());
    let desired = node_verdicts::status(&before, &facts, Some(version), findings, &now);
    memory.remember(&before, &desired);
    memory.news.extend(status.take_news());
    if !node_verdicts::says_the_same(&before, &desired) {
        memory.wrote = true;
        let whole = serde_json::from_value(json!([{ "op": "add", "path": "/status", "value": desired }]));
        let patch: Patch<NodeReport> = Patch::Json(whole.context("the status as a patch")?);
        let params = PatchParams::default();
        deadline(&of_report(&name), reports.patch_status(&name, &params, &patch)).await?;
    }

    let nodes: Api<Node> = Api::all(client.clone());
    // Where there is none, as with a server that runs no pods, events are about the report.
    let node = deadline(&of_node(&name), nodes.get_metadata_opt(&name)).await?;
    let about = node.as_ref().map_or_else(|| observed.object_ref(&()), |node| reference(node, &name));
    let events = tell(client, &about, &mut memory.news).await;
    // A node that joins may read no Node but its own.
    if !joins {
        status.set_in_cluster(left_behind(&nodes, &name).await?);
    }
    let Some(node) = node else { return events };
    own(&reports, &observed, owner(&node, &name), memory).await?;
    let labels = node_labels::labels(&facts, node_verdicts::health(findings, &desired.conditions));
    label(&nodes, &node, &name, &labels, memory).await?;
    events
}

/// A Node that an earlier start of k3s has left.
async fn left_behind(nodes: &Api<Node>, own: &str) -> anyhow::Result<Option<Finding>> {
    let node = deadline(&of_node(LOCALHOST), nodes.get_opt(LOCALHOST)).await?;
    Ok(node.and_then(|node| names::left_behind(own, is_ready(&node))))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn of_report(name: &str) -> String {
    format!("the NodeReport {name}")
}

fn of_node(name: &str) -> String {
    format!("the Node {name}")
}

/// The report as the API has it; made where there is none.
async fn observed(
    reports: &Api<NodeReport>,
    name: &str,
    memory: &mut ReporterState,
) -> anyhow::Result<NodeReport> {
    let what = of_report(name);
    if let Some(observed) = deadline(&what, reports.get_opt(name)).await? {
        return Ok(observed);
    }
    memory.wrote = true;
    let new = NodeReport::new(name, NodeReportFields {});
    deadline(&what, reports.create(&PostParams::default(), &new)).await
}

/// Makes the Node the owner of its report, which is then deleted with it.
async fn own(
    reports: &Api<NodeReport>,
    observed: &NodeReport,
    owner: Option<OwnerReference>,
    memory: &mut ReporterState,
) -> anyhow::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let name = &owner.name;
    if observed.metadata.owner_references.as_ref().is_some_and(|owners| *owners == [owner.clone()]) {
        return Ok(());
    }
    memory.wrote = true;
    let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": [owner] } }));
    let params = PatchParams::default();
    deadline(&of_report(name), reports.patch_metadata(name, &params, &patch)).await?;
    Ok(())
}

/// Gives the Node its labels.
async fn label(
    nodes: &Api<Node>,
    node: &PartialObjectMeta<Node>,
    name: &str,
    labels: &Value,
    memory: &mut ReporterState,
) -> anyhow::Result<()> {
    if node_labels::differ(node, labels) {
        memory.wrote = true;
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        deadline(&of_node(name), nodes.patch_metadata(name, &params, &patch)).await?;
    }
    Ok(())
}

fn reference(node: &PartialObjectMeta<Node>, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: node.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

fn owner(node: &PartialObjectMeta<Node>, name: &str) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node.metadata.uid.clone()?,
        ..OwnerReference::default()
    })
}

/// Those that cannot be sent now stay in the list. A recorder of its own each time: kube's counts events with the same
/// reason as one, with the text of the first.
async fn tell(client: Client, about: &ObjectReference, news: &mut Vec<VerdictChange>) -> anyhow::Result<()> {
    let recorder = Recorder::new(client, Reporter { controller: MANAGER.to_owned(), instance: None });
    while let Some(VerdictChange { reason, is_bad, note }) = news.first() {
        let event = Event {
            type_: if *is_bad { EventType::Warning } else { EventType::Normal },
            reason: (*reason).to_owned(),
            note: Some(bounded(note, NOTE)),
            action: "Check".to_owned(),
            secondary: None,
        };
        if let Err(failure) = deadline("creating an event", recorder.publish(&event, about)).await {
            match failure.downcast_ref() {
                // The API server will never accept it: it must not block the others.
                Some(kube::Error::Api(refusal)) if (400..500).contains(&refusal.code) => {
                    debug!("{failure:#}");
                }
                _ => return Err(failure),
            }
        }
        news.remove(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_by_its_own_word() {
        for (status, want) in [
            (json!({"conditions": [{"type": "Ready", "status": "True"}]}), true),
            (json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}), false),
            (json!({"conditions": [{"type": "DiskPressure", "status": "True"}]}), false),
            (json!({}), false),
        ] {
            let node: Node = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
            assert_eq!(is_ready(&node), want, "{status}");
        }
    }
}
