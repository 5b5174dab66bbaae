//! What an operator costs that has nothing to do: memory, connections, requests; and what its start costs.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::api::{Api, ListParams};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};
use weaver_api::v1beta1::ConfigMapSync;
use weaver_tests::memory::ProcessMemory;
use weaver_tests::metrics::ReportedMetrics;

use crate::bed::Bed;
use crate::figures::{Budget, Figure, count};
use crate::floor::Floor;
use crate::floor::NamespacedName;
use crate::operator::{MeasuredOperator, between, calls, of, total};

/// After the last request, until memory is looked at.
const REST: Duration = Duration::from_secs(5);

/// Resources that are all as they should be, as namespace and name.
pub type ResourceNames = Vec<(String, String)>;

/// An operator's memory when it has started on resources that are as they should be, and has come to rest.
pub async fn memory(bed: &Bed, resources: &ResourceNames, rounds: usize) -> Result<Vec<ProcessMemory>> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        let operator = bed.operator(&[])?;
        operator.settled(resources.len()).await?;
        sleep(REST).await;
        all.push(operator.memory());
    }
    Ok(all)
}

/// The same as two rows.
pub fn memory_rows(what: &str, memory: &[ProcessMemory], budget: Option<f64>) -> Vec<Figure> {
    let steady =
        Figure::new(format!("memory, {what}"), "MiB", memory.iter().map(|memory| memory.now).collect());
    let peak = Figure::new(
        format!("memory at its peak, {what}"),
        "MiB",
        memory.iter().map(|memory| memory.peak).collect(),
    );
    vec![budget.map_or(steady.clone(), |budget| steady.within(Budget::AtMost(budget))), peak]
}

/// Lets an operator delete the resources there were and make the copies of these, which those that are measured find
/// made; with them, its connections at the end.
pub async fn made(
    bed: &Bed,
    before: &ResourceNames,
    resources: impl Future<Output = ResourceNames>,
) -> Result<(u64, ResourceNames)> {
    let maker = bed.operator(&[])?;
    bed.delete(before).await;
    let resources = resources.await;
    maker.settled(resources.len()).await?;
    Ok((maker.connections()?, resources))
}

/// A start on resources that are as they should be, until each was reconciled; next to a client that lists the
/// resources, and reads each source and each copy.
pub struct ColdStart {
    /// Milliseconds of the operator's, and of the bare client's.
    pub own: Vec<f64>,
    pub bare: Vec<f64>,
    requests: Vec<f64>,
    writes: Vec<f64>,
}

impl ColdStart {
    pub fn figures(&self, what: &str) -> Vec<Figure> {
        let what = format!("a start, {what} in sync");
        let took = Figure::new(format!("{what}: until each was reconciled"), "ms", self.own.clone());
        vec![
            took.compared_to(self.bare.clone()).within(Budget::TimesFloor(1.5)),
            Figure::new(format!("{what}: requests"), "", self.requests.clone()),
            Figure::new(format!("{what}: of them writes"), "", self.writes.clone())
                .within(Budget::AtMost(0.0)),
        ]
    }
}

/// Starts on these resources, each of which has so many targets.
pub async fn cold_start(
    bed: &Bed,
    resources: &ResourceNames,
    targets: usize,
    rounds: usize,
) -> Result<ColdStart> {
    let floor = Floor::new(bed.as_tenant().await?);
    let syncs: Api<ConfigMapSync> = Api::all(bed.world.client.clone());
    let copies = resources.iter().enumerate().flat_map(|(number, resource)| {
        let targets = bed.targets(number, targets).iter();
        let copies = targets.map(move |namespace| (namespace.clone(), bed.source_of(resource)));
        copies.chain([(resource.0.clone(), bed.source_of(resource))])
    });
    let keys: Vec<NamespacedName> = copies.collect();
    let mut start = ColdStart { own: vec![], bare: vec![], requests: vec![], writes: vec![] };
    for _ in 0..rounds {
        let begun = Instant::now();
        syncs.list(&ListParams::default()).await?;
        floor.read(keys.clone()).await?;
        start.bare.push(begun.elapsed().as_secs_f64() * 1_000.0);

        let operator = bed.operator(&[])?;
        let reconciliations = u64::try_from(resources.len())?;
        let reconciled = operator
            .until("each resource was reconciled", |metrics| {
                metrics.value(r#"weaver_reconciliations_total{result="settled"}"#) >= reconciliations
                    && metrics.value("weaver_reconciliations_waiting") == 0
            })
            .await?;
        start.own.push((reconciled - operator.begun()).as_secs_f64() * 1_000.0);
        let after = operator.quiet().await?;
        let asked = calls(after.requests());
        start.requests.push(total(&asked));
        // The lease, which is taken from its predecessor by a PUT, is no write of what is synced.
        start.writes.push(count(after.sum("weaver_writes_total")) + of(&asked, &["patch"]));
    }
    Ok(start)
}

/// An operator that has nothing to do for so long.
pub async fn idle(operator: &MeasuredOperator, what: &str, length: Duration) -> Result<Vec<Figure>> {
    let (before, cpu) = (operator.quiet().await?, operator.cpu()?);
    sleep(length).await;
    let after = operator.metrics().await;
    let asked = between(&before, &after);
    let minutes = length.as_secs_f64() / 60.0;
    let what = format!("at rest for {} s, {what}", length.as_secs());
    let watches = |requests: &BTreeMap<String, u64>| of(requests, &["watch"]);
    let renewed = watches(&after.requests()) - watches(&before.requests());
    Ok(vec![
        Figure::new(format!("{what}: writes"), "", vec![written(&before, &after)])
            .within(Budget::AtMost(0.0)),
        Figure::new(format!("{what}: tokens and questions about rights"), "", vec![of(&asked, &["post"])]),
        Figure::new(format!("{what}: reads a minute"), "", vec![of(&asked, &["get"]) / minutes]),
        Figure::new(format!("{what}: watches a minute"), "", vec![renewed / minutes]),
        Figure::new(
            format!("{what}: processor time a minute"),
            "ms",
            vec![(operator.cpu()? - cpu) / minutes],
        ),
    ])
}

/// Writes to copies, as the operator counts them, and to resources, which it patches.
fn written(before: &ReportedMetrics, after: &ReportedMetrics) -> f64 {
    let copies = after.sum("weaver_writes_total") - before.sum("weaver_writes_total");
    count(copies) + of(&between(before, after), &["patch"])
}

/// Someone edits a `ConfigMap` that is no sync's source.
pub async fn unrelated(bed: &Bed, operator: &MeasuredOperator, edits: usize) -> Result<Figure> {
    let namespace = &bed.pool[0];
    bed.world.config_map(namespace, "unrelated", &[("a", "first")]).await;
    let before = operator.quiet().await?;
    for edit in 0..edits {
        bed.world.config_map(namespace, "unrelated", &[("a", &edit.to_string())]).await;
    }
    let asked = between(&before, &operator.quiet().await?);
    let what = format!("{edits} edits of an unrelated ConfigMap: requests");
    Ok(Figure::new(what, "", vec![total(&asked)]).within(Budget::AtMost(0.0)))
}

/// The time comes to compare all copies again, and all are as they should be.
pub async fn resync(bed: &Bed, targets: usize) -> Result<Vec<Figure>> {
    /// The shortest there is.
    const SECONDS: &str = "60";
    let name = format!("resync-{targets}");
    bed.sync(&name, &json!({"namespaces": &bed.pool[..targets]})).await;
    let operator = bed.operator(&["--resync", SECONDS])?;
    let before = operator.settled(1).await?;
    let reconciliations = before.sum("weaver_reconciliations_total");
    let cpu = operator.cpu()?;
    sleep(Duration::from_mins(1)).await;
    operator
        .until("there was a resync", |metrics| metrics.sum("weaver_reconciliations_total") > reconciliations)
        .await?;
    let after = operator.quiet().await?;
    let asked = between(&before, &after);
    let cpu = operator.cpu()? - cpu;
    bed.delete(&[(bed.team.clone(), name)]).await;
    let what = format!("a resync of {targets} targets with nothing to do");
    Ok(vec![
        Figure::new(format!("{what}: writes"), "", vec![written(&before, &after)])
            .within(Budget::AtMost(0.0)),
        Figure::new(format!("{what}: requests"), "", vec![total(&asked)]),
        Figure::new(format!("{what}: processor time, a minute's rest included"), "ms", vec![cpu]),
    ])
}
