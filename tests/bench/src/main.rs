//! `weaver-bench`: what operator and node agent cost, how fast the operator is next to a bare client in the
//! same run, and how fast `weaver explain` reads.
//!
//! Everything is measured on an API server of the run's own. Absolute times are the machine's; the columns that count
//! are the comparison with the bare client and the numbers of requests. Nothing is asserted here: the budgets are
//! printed next to what was measured.

mod agent;
mod bed;
mod explain;
mod figures;
mod floor;
mod latency;
mod load;
mod observer;
mod operator;
mod page;
mod plot;
mod processor;
mod scale;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, ValueEnum};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use weaver_tests::memory::ProcessMemory;

use bed::{Bed, SMALL};
use figures::{Budget, Figure, count, median, table};
use latency::{EditLoad, Fan, Latency};
use load::{ResourceNames, made, memory, memory_rows};
use plot::{PlotLine, draw};

/// Measures operator and node agent on an API server of their own.
#[derive(Parser)]
struct Args {
    /// Rounds of each measurement
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// Seconds for which an operator is watched that has nothing to do
    #[arg(long, default_value = "600")]
    idle: u64,
    /// Measure one part only
    #[arg(long)]
    only: Option<BenchPart>,
    /// The checkout
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// Another `weaver`, whose `explain` is measured next to this one's
    #[arg(long, value_name = "PROGRAM")]
    baseline: Option<PathBuf>,
    /// Where the released operator lies
    #[arg(long, default_value = "target/release")]
    bin_dir: PathBuf,
    /// Instead of all that: run this, and print its memory at its peak in MiB
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    peak_of: Vec<OsString>,
    /// Where tables, figures and plots go
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum BenchPart {
    /// How long until a change is where it is to be
    Latency,
    /// What an operator costs that has nothing to do
    Rest,
    /// What the node agent and the card's page cost
    Agent,
    /// Ten thousand targets, ten thousand syncs, a thousand accounts, sources of a MiB
    Scale,
    /// An edit of a source of a MiB with a hundred copies, which `scale` measures as well
    Large,
    /// How fast `weaver explain` reads a log; needs no API server
    Explain,
}

/// The most namespaces that anything is copied to.
const POOL: usize = 1_000;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if !args.peak_of.is_empty() {
        return processor::tell_peak(&args.peak_of);
    }
    let mut terminate = signal(SignalKind::terminate()).context("installing the SIGTERM handler")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("installing the SIGINT handler")?;
    // Whatever ends it, the server and the operator end with it.
    tokio::select! {
        done = measure(args) => done,
        _ = terminate.recv() => bail!("ended by SIGTERM"),
        _ = interrupt.recv() => bail!("ended by SIGINT"),
    }
}

async fn measure(args: Args) -> Result<()> {
    let begun = Instant::now();
    fs::create_dir_all(&args.out).with_context(|| format!("creating {}", args.out.display()))?;
    let mut report = BenchReport { figures: Vec::new(), begun };
    let rounds = usize::from(args.rounds);
    let asked = |part| args.only.is_none_or(|only| only == part);
    if asked(BenchPart::Explain) {
        let paths = explain::ExplainPaths {
            checkout: &args.source,
            programs: &args.bin_dir,
            out: &args.out,
            other: args.baseline.as_deref(),
        };
        report.add(explain::speed(&paths, rounds)?);
    }
    if args.only == Some(BenchPart::Explain) {
        return report.write(&args);
    }
    let program = args.bin_dir.join("weaver-operator");
    let bin_dir =
        args.bin_dir.canonicalize().with_context(|| format!("{} is not built", program.display()))?;
    if args.only == Some(BenchPart::Large) {
        let bed = Bed::start(&args.source, &bin_dir, scale::LARGE.targets).await?;
        edits(&bed, &mut report, rounds, &[scale::LARGE]).await?;
        return report.write(&args);
    }
    if args.only != Some(BenchPart::Scale) {
        ordinary(&args, &bin_dir, &mut report).await?;
    }
    if asked(BenchPart::Scale) {
        let bed = Bed::start(&args.source, &bin_dir, scale::MOST).await?;
        scale(&bed, &mut report, &args).await?;
    }
    report.write(&args)
}

/// What clusters have whose owners we know.
async fn ordinary(args: &Args, bin_dir: &Path, report: &mut BenchReport) -> Result<()> {
    let rounds = usize::from(args.rounds);
    let asked = |part| args.only.is_none_or(|only| only == part);
    let pool = if args.only == Some(BenchPart::Agent) { 1 } else { POOL };
    let bed = Bed::start(&args.source, bin_dir, pool).await?;
    if asked(BenchPart::Agent) {
        report.add(agent::checks(bed.server(), &bed.agent_paths(), rounds)?);
        report.add(page::first_bytes(&bed.world.client, &bed.agent_paths(), rounds).await?);
        report.add(agent::rest(bed.server(), &bed.agent_paths(), Duration::from_secs(args.idle)).await?);
    }
    if asked(BenchPart::Latency) {
        let fans = latencies(&bed, report, rounds).await?;
        plot_edits(&args.out, &fans)?;
    }
    if asked(BenchPart::Rest) {
        report.add(load::resync(&bed, POOL).await?);
        let grown = loads(&bed, report, rounds, Duration::from_secs(args.idle)).await?;
        plot_memory(&args.out, &grown)?;
    }
    Ok(())
}

/// Each takes minutes, and three rounds show whether they differ.
async fn scale(bed: &Bed, report: &mut BenchReport, args: &Args) -> Result<()> {
    let rounds = usize::from(args.rounds).min(3);
    // The large ones last: the API server keeps their changes in memory for a while.
    let loads = [EditLoad { targets: scale::MOST, bytes: SMALL }, scale::LARGE];
    edits(bed, report, rounds, &loads).await?;
    let idle = Duration::from_secs(args.idle);
    scale::resources(bed, rounds, idle, &args.out, |figures| report.add(figures)).await
}

/// Edits of these sources, by one operator.
async fn edits(bed: &Bed, report: &mut BenchReport, rounds: usize, loads: &[EditLoad]) -> Result<()> {
    let operator = bed.operator(&[])?;
    let mut latency = Latency::new(bed, &operator, rounds).await?;
    for load in loads {
        report.add(latency.edits(*load).await?.1);
    }
    Ok(())
}

async fn latencies(bed: &Bed, report: &mut BenchReport, rounds: usize) -> Result<Vec<Fan>> {
    let operator = bed.operator(&[])?;
    let mut latency = Latency::new(bed, &operator, rounds).await?;
    let mut fans = Vec::new();
    for targets in [1, 10, 100, POOL] {
        let (fan, figures) = latency.edits(EditLoad { targets, bytes: SMALL }).await?;
        fans.push(fan);
        report.add(figures);
    }
    for targets in [10, 100] {
        report.add(latency.repairs(targets).await?);
    }
    report.add(vec![latency.namespaces().await?]);
    Ok(fans)
}

/// Memory by number of resources, and what else can be seen of an operator at rest.
async fn loads(
    bed: &Bed,
    report: &mut BenchReport,
    rounds: usize,
    idle: Duration,
) -> Result<Vec<(f64, Vec<ProcessMemory>)>> {
    let (_, one) = made(bed, &ResourceNames::new(), bed.of_one_tenant(1, 100)).await?;
    let of_one = memory(bed, &one, rounds).await?;
    report.add(memory_rows("1 resource × 100", &of_one, Some(15.0)));

    let (_, hundred) = made(bed, &one, bed.of_one_tenant(100, 10)).await?;
    report.add(load::cold_start(bed, &hundred, 10, rounds).await?.figures("100 resources × 10"));
    let of_hundred = memory(bed, &hundred, rounds).await?;
    report.add(memory_rows("100 resources × 10, one account", &of_hundred, Some(30.0)));
    let operator = bed.operator(&[])?;
    operator.settled(100).await?;
    report.add(vec![load::unrelated(bed, &operator, 20).await?]);
    report.add(load::idle(&operator, "100 resources × 10", idle).await?);
    drop(operator);
    bed.ballast(5_000).await;
    let with_ballast = memory(bed, &hundred, rounds).await?;
    let now = |memory: &[ProcessMemory]| median(&memory.iter().map(|memory| memory.now).collect::<Vec<_>>());
    report.add(memory_rows("the same with 5,000 ConfigMaps of 16 KiB baseline", &with_ballast, None));
    let grown = Figure::new("what those add", "MiB", vec![now(&with_ballast) - now(&of_hundred)]);
    report.add(vec![grown.within(Budget::AtMost(2.0))]);

    let (connections, tenants) = made(bed, &hundred, bed.of_many_tenants(100, 10)).await?;
    report.add(vec![
        Figure::new("connections, 100 accounts × 10 namespaces", "", vec![count(connections)])
            .within(Budget::AtMost(20.0)),
    ]);
    let of_many = memory(bed, &tenants, rounds).await?;
    report.add(memory_rows("100 accounts with Roles × 10", &of_many, Some(64.0)));

    let (_, thousand) = made(bed, &tenants, bed.of_one_tenant(1_000, 1)).await?;
    let of_thousand = memory(bed, &thousand, rounds).await?;
    report.add(memory_rows("1,000 resources × 1", &of_thousand, None));
    Ok(vec![(1.0, of_one), (100.0, of_hundred), (1_000.0, of_thousand)])
}

fn plot_edits(out: &Path, fans: &[Fan]) -> Result<()> {
    let arrivals = |which: usize| fans.iter().map(|fan| fan.point(&fan.arrivals[which])).collect();
    let lines = [
        PlotLine { name: "first copy", points: arrivals(0) },
        PlotLine { name: "median copy", points: arrivals(1) },
        PlotLine { name: "last copy", points: arrivals(2) },
        PlotLine {
            name: "last of a bare client",
            points: fans.iter().map(|fan| fan.point(&fan.floor)).collect(),
        },
    ];
    draw(&out.join("edit.svg"), "From an edit of the source to its copies", "targets", "ms", &lines)?;
    let requests = fans.iter().map(|fan| fan.point(&fan.requests)).collect();
    let lines = [PlotLine { name: "requests", points: requests }];
    draw(&out.join("requests.svg"), "Requests for an edit of the source", "targets", "requests", &lines)
}

fn plot_memory(out: &Path, grown: &[(f64, Vec<ProcessMemory>)]) -> Result<()> {
    let of = |value: fn(&ProcessMemory) -> f64| {
        let point = |(resources, memory): &(f64, Vec<ProcessMemory>)| {
            (*resources, median(&memory.iter().map(value).collect::<Vec<_>>()))
        };
        grown.iter().map(point).collect()
    };
    let lines = [
        PlotLine { name: "at rest", points: of(|memory| memory.now) },
        PlotLine { name: "at its peak", points: of(|memory| memory.peak) },
    ];
    let title = "Memory of an operator after its start (100, 1,000 and 1,000 copies)";
    draw(&out.join("memory.svg"), title, "resources", "MiB", &lines)
}

struct BenchReport {
    figures: Vec<Figure>,
    begun: Instant,
}

impl BenchReport {
    fn add(&mut self, figures: Vec<Figure>) {
        for figure in &figures {
            let [what, own, floor, against, budget, kept] = figure.row();
            let seconds = self.begun.elapsed().as_secs();
            eprintln!("{seconds:>5} s  {what}: {own}  {floor}  {against}  {budget}  {kept}");
        }
        self.figures.extend(figures);
    }

    fn write(&self, args: &Args) -> Result<()> {
        let table = table(&self.figures);
        let cpus = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let raw = json!({
            "date": jiff::Timestamp::now().to_string(),
            "cpu": model.map_or("unknown", |(_, name)| name),
            "cores": std::thread::available_parallelism().context("the number of processors")?.get(),
            "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?.trim(),
            "rounds": args.rounds,
            "idleSeconds": args.idle,
            "seconds": self.begun.elapsed().as_secs(),
            "figures": self.figures,
        });
        for (name, text) in [("table.md", table.clone()), ("raw.json", format!("{raw:#}\n"))] {
            let path = args.out.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        println!("\n{table}\nraw figures and plots are in {}", args.out.display());
        Ok(())
    }
}
