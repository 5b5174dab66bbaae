//! `weaver explain`: what the errors of other programs mean, and what helps.
//!
//! Reads standard input, or a unit's journal, line by line, and reports each finding once, as soon as it appears. Needs
//! no cluster and changes nothing. Tokens in a line are not repeated. A log may be anyone's and without end: memory and
//! the findings that are printed have a bound.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher as _;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Write as _};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use weaver_diagnostics::catalogue;
use weaver_diagnostics::finding::{Code, Finding, Place};
use weaver_diagnostics::finding_text;
use weaver_diagnostics::recognise::{LogContext, Recogniser};

use crate::stdout::note;

/// A line is judged in pieces of at most so many bytes: what never ends a line must not fill the memory.
const LONGEST: u64 = 64 * 1024;
/// Findings of one code that are printed, each with a message of its own; the others are counted.
const MOST: usize = 200;
/// Lines of the past that are read before what is new.
const PAST: &str = "2000";

#[derive(Args)]
pub struct Explain {
    /// Codes to explain, such as `N-01` or `memory-cgroup-absent` [default: read errors from standard input]
    #[arg(value_name = "CODE", value_parser = code, conflicts_with = "journal")]
    codes: Vec<Code>,
    /// Read the journal of this unit since the last boot
    #[arg(long, value_name = "UNIT")]
    journal: Option<String>,
    /// Keep reading new log lines until interrupted
    #[arg(long, requires = "journal")]
    follow: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: ExplainOutput,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExplainOutput {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}

pub fn code(text: &str) -> Result<Code, String> {
    catalogue::find(text)
        .ok_or_else(|| "it is not a code of this version, such as N-01 or memory-cgroup-absent".to_owned())
}

pub fn run(options: &Explain) -> Result<ExitCode> {
    let done = match (&options.codes[..], &options.journal) {
        ([], None) => {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                note!("reading from the terminal; usually piped: `COMMAND 2>&1 | weaver explain`");
            }
            explain(&mut stdin.lock(), "stdin", options.output)
        }
        ([], Some(unit)) => journal(unit, options.follow, options.output),
        (codes, _) => codes.iter().try_for_each(|code| print(&catalogue::text(*code))),
    };
    // The reader of the pipe has read enough.
    match done {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.write_all(b"\n").and_then(|()| out.flush())?)
}

fn journal(unit: &str, follows: bool, output: ExplainOutput) -> Result<()> {
    let mut child = Command::new("journalctl")
        .args(["--boot", "--no-pager", "--output", "cat"])
        .args(follows.then_some(["--follow", "--lines", PAST]).into_iter().flatten())
        .arg(format!("--unit={unit}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("journalctl cannot be run: on another machine than the Pi, pipe the log in instead")?;
    let lines = child.stdout.take().context("journalctl has no output")?;
    let done = explain(&mut BufReader::new(lines), &format!("journal of {unit}"), output);
    if done.is_err() {
        // Its output is not read any more; it may have ended by itself.
        let _ = child.kill();
    }
    let ended = child.wait().context("waiting for journalctl");
    done?;
    ensure!(ended?.success(), "journalctl ended; see its message above");
    Ok(())
}

/// Whether it begins as UTF-16 does.
fn is_wide(piece: &[u8]) -> bool {
    piece.starts_with(&[0xff, 0xfe]) || piece.starts_with(&[0xfe, 0xff])
}

/// Reports what is recognised in `input`, each finding once.
fn explain(input: &mut impl BufRead, source: &str, output: ExplainOutput) -> Result<()> {
    let mut seen = RecognisedCounts { output, counts: BTreeMap::new(), hashes: RandomState::new() };
    let recogniser = Recogniser::for_logs().context("the signatures")?;
    let lines = recognise(&recogniser, input, source, |finding| seen.tell(&finding))?;
    seen.sum_up(lines);
    Ok(())
}

/// Passes on what is recognised in each line of `input`; returns how many lines there are.
pub fn recognise(
    recogniser: &Recogniser,
    input: &mut impl BufRead,
    source: &str,
    mut each: impl FnMut(Finding) -> Result<()>,
) -> Result<u64> {
    let (mut piece, mut last, mut line, mut log) = (Vec::new(), (0, Vec::new()), 1, LogContext::default());
    loop {
        piece.clear();
        let length = io::Read::take(&mut *input, LONGEST).read_until(b'\n', &mut piece);
        if length.with_context(|| format!("reading {source}"))? == 0 {
            break;
        }
        ensure!(
            line > 1 || !is_wide(&piece),
            "{source} is UTF-16, as `>` of PowerShell writes it: type `Get-Content FILE | weaver explain`"
        );
        if let Some(finding) = recogniser.judge_in(&mut log, &piece, || Place::line(source, line)) {
            each(finding)?;
        }
        let ends = piece.ends_with(b"\n");
        if !piece.trim_ascii().is_empty() {
            last.0 = line;
            std::mem::swap(&mut last.1, &mut piece);
        }
        line += u64::from(ends);
    }
    if let Some(finding) = Recogniser::judge_last(&last.1, Place::line(source, last.0)) {
        each(finding)?;
    }
    if let Some(finding) = Recogniser::judge_end(&log, |line| Place::line(source, line)) {
        each(finding)?;
    }
    // The last line may lack its end.
    Ok((line - 1).max(last.0))
}

struct RecognisedCounts {
    output: ExplainOutput,
    counts: BTreeMap<Code, CodeCount>,
    hashes: RandomState,
}

#[derive(Default)]
struct CodeCount {
    all: u64,
    /// The hashes of the messages that were printed: one may be as long as a line.
    printed: HashSet<u64>,
    not_printed: u64,
}

impl RecognisedCounts {
    fn tell(&mut self, finding: &Finding) -> Result<()> {
        let CodeCount { all, printed, not_printed } = self.counts.entry(finding.code).or_default();
        *all += 1;
        let message = self.hashes.hash_one(&finding.message);
        if printed.contains(&message) {
            return Ok(());
        }
        if printed.len() == MOST {
            *not_printed += 1;
            return Ok(());
        }
        printed.insert(message);
        match self.output {
            ExplainOutput::Text => print(&finding_text::text(finding)),
            ExplainOutput::Json => {
                let json = serde_json::to_string(finding).context("writing a finding as JSON")?;
                print(&finding_text::clean_json(&json))
            }
        }
    }

    fn sum_up(&self, lines: u64) {
        if self.counts.is_empty() {
            note!(
                "no known error in {lines} lines; `sudo weaver-node-agent check` on the Pi checks the host itself"
            );
            return;
        }
        let counted = |(code, count): (&Code, &CodeCount)| match count {
            CodeCount { all, not_printed: 0, .. } => format!("{} ×{all}", code.id()),
            CodeCount { all, not_printed, .. } => format!("{} ×{all} ({not_printed} not shown)", code.id()),
        };
        let counts: Vec<String> = self.counts.iter().map(counted).collect();
        note!("in {lines} lines: {}", counts.join(", "));
    }
}
