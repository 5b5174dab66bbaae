//! How it grows: ten thousand targets of one sync, ten thousand syncs, a thousand accounts, sources of a MiB.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use weaver_tests::memory::ProcessMemory;

use crate::bed::{Bed, SMALL, padded};
use crate::figures::{Budget, Figure, count, median};
use crate::floor::Floor;
use crate::latency::{EditLoad, content, since};
use crate::load::{self, ColdStart, ResourceNames, made, memory, memory_rows};
use crate::observer::Observer;
use crate::plot::{PlotLine, draw};

/// The most targets of one sync, and the most syncs, each with a copy in a namespace of its own.
pub const MOST: usize = 10_000;
/// An edit of a large source: an object may have a MiB with its metadata.
pub const LARGE: EditLoad = EditLoad { targets: 100, bytes: 1_000_000 };
/// Sources that are edited at once, each of a sync of its own.
const EDITED: usize = 100;

/// A number of resources, and what they cost.
struct Step {
    resources: f64,
    memory: Vec<ProcessMemory>,
    start: ColdStart,
}

impl Step {
    async fn of(bed: &Bed, resources: &ResourceNames, rounds: usize) -> Result<Self> {
        let start = load::cold_start(bed, resources, 1, rounds).await?;
        let memory = memory(bed, resources, rounds).await?;
        Ok(Self { resources: count(u64::try_from(resources.len())?), memory, start })
    }

    fn figures(&self, what: &str) -> Vec<Figure> {
        let mut figures = self.start.figures(what);
        figures.extend(memory_rows(what, &self.memory, None));
        figures
    }

    fn mebibytes(&self) -> f64 {
        median(&self.memory.iter().map(|memory| memory.now).collect::<Vec<_>>())
    }
}

/// What each of those costs that `more` has beyond `few`.
fn slope(what: &str, few: &Step, more: &Step) -> Figure {
    let kibibytes = (more.mebibytes() - few.mebibytes()) * 1_024.0 / (more.resources - few.resources);
    Figure::new(format!("memory for each further {what}"), "KiB", vec![kibibytes])
}

/// A thousand and ten thousand syncs of one account, then a hundred and a thousand accounts with a sync each.
pub async fn resources(
    bed: &Bed,
    rounds: usize,
    idle: Duration,
    out: &Path,
    mut report: impl FnMut(Vec<Figure>),
) -> Result<()> {
    let (_, thousand) = made(bed, &ResourceNames::new(), bed.of_one_tenant(1_000, 1)).await?;
    let few = Step::of(bed, &thousand, rounds).await?;
    report(few.figures("1,000 syncs of one account"));
    let (_, most) = made(bed, &thousand, bed.of_one_tenant(MOST, 1)).await?;
    let many = Step::of(bed, &most, rounds).await?;
    report(many.figures("10,000 syncs of one account"));
    report(vec![slope("sync of one account", &few, &many)]);
    report(vec![edits_of_many(bed, &most, rounds).await?]);
    let operator = bed.operator(&[])?;
    operator.settled(most.len()).await?;
    report(load::idle(&operator, "10,000 syncs", idle).await?);
    drop(operator);

    let (_, hundred) = made(bed, &most, bed.of_many_tenants(100, 1)).await?;
    let few_accounts = Step::of(bed, &hundred, rounds).await?;
    report(few_accounts.figures("100 accounts with a sync each"));
    let (_, accounts) = made(bed, &hundred, bed.of_many_tenants(1_000, 1)).await?;
    let many_accounts = Step::of(bed, &accounts, rounds).await?;
    report(many_accounts.figures("1,000 accounts with a sync each"));
    report(vec![slope("account with a sync", &few_accounts, &many_accounts)]);
    plot(out, [&few, &many], [&few_accounts, &many_accounts])
}

/// A hundred sources are edited, each of another of the ten thousand syncs.
async fn edits_of_many(bed: &Bed, resources: &ResourceNames, rounds: usize) -> Result<Figure> {
    let operator = bed.operator(&[])?;
    operator.settled(resources.len()).await?;
    let mut observer = Observer::start(&bed.world.client);
    let mut floor = Floor::new(bed.as_tenant().await?);
    let namespaces = bed.pool[..EDITED].to_vec();
    let edited = &resources[..EDITED];
    let copies = edited.iter().enumerate().map(|(number, (_, name))| {
        let target = &bed.targets(number, 1)[0];
        (target.clone(), name.clone())
    });
    let copies: Vec<_> = copies.collect();
    let (mut own, mut bare) = (vec![], vec![]);
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        let value = format!("round {round}");
        observer.forget();
        let begun = Instant::now();
        bed.write_sources((0..EDITED).map(|number| format!("floors-source-{number}")), &value).await;
        floor.write(&namespaces, &content(&padded(&value, SMALL))).await?;
        let floor_arrived = observer.written(Floor::keys(&namespaces), 1).await?;
        let floor_took = since(begun, floor_arrived.last());
        sleep(Duration::from_secs(1)).await;

        observer.forget();
        let begun = Instant::now();
        bed.write_sources(edited.iter().map(|(_, name)| name.clone()), &value).await;
        let arrived = observer.written(copies.clone(), 1).await?;
        operator.quiet().await?;
        if round > 0 {
            bare.push(floor_took);
            own.push(since(begun, arrived.last()));
        }
    }
    let what = format!("edits of {EDITED} sources of 10,000 syncs → the last copy");
    Ok(Figure::new(what, "ms", own).compared_to(bare).within(Budget::TimesFloor(1.2)))
}

fn plot(out: &Path, syncs: [&Step; 2], accounts: [&Step; 2]) -> Result<()> {
    let points =
        |steps: [&Step; 2], of: fn(&Step) -> f64| steps.map(|step| (step.resources, of(step))).to_vec();
    let lines = [
        PlotLine { name: "syncs of one account", points: points(syncs, Step::mebibytes) },
        PlotLine { name: "accounts with a sync each", points: points(accounts, Step::mebibytes) },
    ];
    draw(&out.join("memory-scale.svg"), "Memory of an operator after its start", "number", "MiB", &lines)?;
    let own = |step: &Step| median(&step.start.own);
    let bare = |step: &Step| median(&step.start.bare);
    let lines = [
        PlotLine { name: "syncs of one account", points: points(syncs, own) },
        PlotLine { name: "a bare client reads as many", points: points(syncs, bare) },
        PlotLine { name: "accounts with a sync each", points: points(accounts, own) },
        PlotLine { name: "a bare client reads as many of these", points: points(accounts, bare) },
    ];
    draw(&out.join("start.svg"), "From a start until each sync was reconciled", "number", "ms", &lines)
}
