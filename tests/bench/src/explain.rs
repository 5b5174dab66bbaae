//! `weaver explain`: how fast it reads a log, next to a program that reads the same lines and judges none.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use tokio::time::Instant;

use crate::figures::Figure;

/// Bytes of the log.
const SIZE: usize = 300_000_000;
/// One line in so many is an error that is recognised.
const ONE_IN: usize = 100;
/// What others print that is recognised.
const KNOWN: &str = "lib/diagnostics/src/recognise/corpus/known.txt";
/// What is not: an API server in a run of the tests, and a Pi that starts.
const ORDINARY: [&str; 2] = [
    include_str!("explain/server.log"),
    include_str!("../../../cli/tests/fixtures/reported/60-false-alarms-pi4-boot-healthy.log"),
];

pub struct ExplainPaths<'a> {
    pub checkout: &'a Path,
    /// Of the released programs.
    pub programs: &'a Path,
    pub out: &'a Path,
    pub other: Option<&'a Path>,
}

/// Megabytes in a second, in turn: of `weaver`, of `wc -l`, and of another `weaver` where one is named.
pub fn speed(paths: &ExplainPaths<'_>, rounds: usize) -> Result<Vec<Figure>> {
    let log = paths.out.join("explain.log");
    write(paths.checkout, &log)?;
    let program = paths.programs.join("weaver");
    let explain = |program: &Path| megabytes_a_second(Command::new(program).arg("explain"), &log);
    let (mut own, mut floor, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        own.push(explain(&program)?);
        floor.push(megabytes_a_second(Command::new("wc").arg("-l"), &log)?);
        other.extend(paths.other.map(explain).transpose()?);
    }
    fs::remove_file(&log).context("removing the log")?;
    let what = "weaver explain: reading a log";
    let compared = (!other.is_empty()).then(|| {
        Figure::new(format!("{what} (floor: the other weaver)"), "MB/s", own.clone()).compared_to(other)
    });
    let own = Figure::new(format!("{what} (floor: wc -l)"), "MB/s", own).compared_to(floor);
    Ok(std::iter::once(own).chain(compared).collect())
}

/// A log of ordinary lines in turn, and the errors among them in turn.
fn write(source: &Path, log: &Path) -> Result<()> {
    let known = fs::read_to_string(source.join(KNOWN)).context(KNOWN)?;
    // Where a line means something only after others, they stand in front of it.
    let known = known.lines().filter(|line| !line.starts_with('#') && !line.contains(" ⏎ "));
    let mut known = known.filter_map(|line| Some(line.split_once(' ')?.1)).cycle();
    let mut ordinary = ORDINARY.iter().flat_map(|text| text.lines()).cycle();
    let mut file = BufWriter::new(File::create(log).with_context(|| log.display().to_string())?);
    let mut written = 0;
    for number in 1.. {
        let next = if number % ONE_IN == 0 { known.next() } else { ordinary.next() };
        let line = next.context("the corpus is empty")?;
        writeln!(file, "{line}")?;
        written += line.len() + 1;
        if written >= SIZE {
            break;
        }
    }
    file.flush().context("writing the log")
}

fn megabytes_a_second(command: &mut Command, log: &Path) -> Result<f64> {
    let input = File::open(log).with_context(|| log.display().to_string())?;
    let size = input.metadata()?.len();
    let begun = Instant::now();
    let ended = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let ended = ended.with_context(|| format!("starting {command:?}"))?;
    let took = begun.elapsed().as_secs_f64();
    ensure!(ended.success(), "{command:?}: {ended}");
    Ok(f64::from(u32::try_from(size)?) / 1e6 / took)
}
