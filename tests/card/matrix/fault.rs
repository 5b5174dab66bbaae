//! One fault: what is expected of it, what is seen, what is typed, and whether that helped.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use weaver_image::boot::machine::Machine;
use weaver_image::boot::running::End;
use weaver_image::booted::{API_NAME, BOOTED, wait_for_unit};
use weaver_image::fault_table::FaultRow;

use crate::node::report;
use crate::poll::until;

/// Units of a node that is well.
pub const UNITS: [&str; 4] = ["k3s", "weaver-node-agent", "weaver-webhook", "weaver-operator"];
/// Until the units, the report and the card tell of a fault.
const SEEN: Duration = Duration::from_mins(5);
const BOOT: Duration = Duration::from_mins(15);
const COMMAND: Duration = Duration::from_mins(10);
/// Characters of a verdict in the table.
const VERDICT: usize = 160;

pub struct MatrixFault {
    /// Orders the table and names the row.
    pub name: &'static str,
    /// What is done to the card.
    pub what: &'static str,
    /// Codes of findings that are not fine, next to those of a card that is well.
    pub codes: &'static [&'static str],
    /// Units that do not run.
    pub down: &'static [&'static str],
}

impl MatrixFault {
    fn expected(&self) -> Shown {
        let words = |of: &[&str]| of.iter().map(|word| (*word).to_owned()).collect();
        Shown { codes: words(self.codes), down: words(self.down) }
    }
}

/// What a node shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    codes: BTreeSet<String>,
    down: BTreeSet<String>,
}

impl Shown {
    fn words(&self) -> String {
        let list = |of: &BTreeSet<String>| of.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let codes = if self.codes.is_empty() { "no code".to_owned() } else { list(&self.codes) };
        let down = if self.down.is_empty() {
            "all run".to_owned()
        } else {
            format!("not running: {}", list(&self.down))
        };
        format!("{codes}; {down}")
    }
}

/// Findings that are not fine. An unknown one says that it could not be judged, not that something is wrong.
pub fn codes(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let bad =
        findings.iter().filter(|finding| finding["severity"] == "fail" || finding["severity"] == "warn");
    bad.filter_map(|finding| finding["code"].as_str().map(str::to_owned)).collect()
}

/// A machine with a fault, on its way to its row.
pub struct MatrixCase {
    pub machine: Machine,
    fault: &'static MatrixFault,
    /// What it says when it is well, such as that no time server answers.
    well: BTreeSet<String>,
    row: FaultRow,
}

impl MatrixCase {
    /// `well`: codes of this machine without the fault.
    pub fn new(machine: Machine, fault: &'static MatrixFault, well: BTreeSet<String>) -> Self {
        let expected = fault.expected().words();
        let observed = "not looked for: the story ended before".to_owned();
        let row = FaultRow { fault: fault.what.to_owned(), expected, observed, ..FaultRow::default() };
        let case = Self { machine, fault, well, row };
        case.keep();
        case
    }

    /// A machine that is well, and what it says.
    pub fn begin(machine: Machine, fault: &'static MatrixFault) -> Self {
        let well = until("a report", || Ok(Ok(codes(&report(&machine)?))));
        Self::new(machine, fault, well)
    }

    fn shown(&self) -> anyhow::Result<Shown> {
        let said = report(&self.machine)?;
        let codes = codes(&said).difference(&self.well).cloned().collect();
        let asked =
            format!("systemctl is-active {}; true", UNITS.map(|unit| format!("{unit}.service")).join(" "));
        let reported = self.machine.run(&asked)?;
        let states = reported.lines().map(str::trim);
        let down = UNITS.into_iter().zip(states).filter(|(_, state)| *state != "active");
        Ok(Shown { codes, down: down.map(|(unit, _)| unit.to_owned()).collect() })
    }

    fn keep(&self) {
        let dir = std::env::var_os(BOOTED).map(PathBuf::from).unwrap();
        self.row.keep(&dir.join("rows"), self.fault.name).unwrap();
    }

    /// Waits until the fault shows as expected, on the card's NODE-STATUS too; gives the report. `words`: what that one
    /// says of it besides the codes.
    pub fn seen(&mut self, words: &[&str]) -> Value {
        let wanted = self.fault.codes.iter().chain(words);
        let missing = |status: &str| {
            let missing = wanted.clone().find(|word| !status.contains(**word));
            missing.map(|word| format!("`{word}` is missing from"))
        };
        self.wait_until_seen(missing)
    }

    /// As [`Self::seen`], where the card cannot be written: the page has none of the codes, and a laptop sees `what`.
    pub fn seen_but_on_the_card(&mut self, what: &str) -> Value {
        let codes = self.fault.codes;
        let said = self.wait_until_seen(|status| {
            let code = codes.iter().find(|code| status.contains(**code));
            code.map(|code| format!("{code} is on"))
        });
        self.row.on_card = what.into();
        self.keep();
        said
    }

    /// `wrong`: what is wrong with the page on the card.
    fn wait_until_seen(&mut self, wrong: impl Fn(&str) -> Option<String>) -> Value {
        let expected = self.fault.expected();
        let deadline = Instant::now() + SEEN;
        loop {
            let shown = self.shown();
            let status = self.status().unwrap_or_default();
            self.row.observed = shown.as_ref().map_or_else(|error| format!("{error:#}"), Shown::words);
            self.row.on_card = on_card(&status, self.fault.codes);
            self.keep();
            let wrong = wrong(&status);
            if shown.is_ok_and(|shown| shown == expected) && wrong.is_none() {
                return report(&self.machine).unwrap();
            }
            assert!(
                Instant::now() < deadline,
                "{}: expected {}, seen {}; on the card, {wrong:?}: {status}",
                self.fault.name,
                self.row.expected,
                self.row.observed
            );
            std::thread::sleep(Duration::from_secs(2));
        }
    }

    /// NODE-STATUS.txt as a laptop reads it; empty where it cannot.
    fn status(&mut self) -> anyhow::Result<String> {
        let text = self.machine.read_fat("NODE-STATUS.txt")?.context("there is none")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Types what the finding's remedy says, words in capitals filled in; a reboot is one.
    pub fn type_remedy(mut self, report: &Value, code: &str, filled_in: &[(&str, &str)]) -> Self {
        let findings = report["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["code"] == code).unwrap();
        let commands = finding["remedy"]["commands"].as_array().cloned().unwrap_or_default();
        assert!(!commands.is_empty(), "{code} says nothing to type: {finding}");
        for command in commands {
            let command = command.as_str().unwrap().to_owned();
            let command = filled_in.iter().fold(command, |line, (word, meant)| line.replace(word, meant));
            self = self.type_in(&command);
        }
        self
    }

    /// Types a command, as root in the guest.
    pub fn type_in(mut self, command: &str) -> Self {
        self.does(&format!("`{command}`"));
        if command == "sudo reboot" {
            return self.reboot();
        }
        self.machine.run_within(command, COMMAND).unwrap();
        self
    }

    fn reboot(mut self) -> Self {
        // The connection may break before ssh has its answer.
        let _ = self.machine.attempt("reboot", COMMAND);
        assert_eq!(self.machine.wait_for_end(BOOT).unwrap(), End::Reset);
        self.machine = self.machine.start_again().unwrap();
        self.machine.wait_for_ssh(BOOT).unwrap();
        self
    }

    /// Notes what its owner does, a command or not.
    pub fn does(&mut self, what: &str) {
        let before = if self.row.typed.is_empty() { "" } else { "<br>" };
        self.row.typed.extend([before, what]);
        self.keep();
    }

    /// All well again: no more codes than before, on the card neither, all units running, kubectl by name from outside.
    pub fn mended(self) -> Machine {
        let by_name = |machine: &Machine| machine.kubectl(API_NAME, &["get", "--raw", "/readyz"]);
        self.mended_as_seen_by("kubectl by name", by_name)
    }

    /// As [`Self::mended`], where the guest's clock is not this machine's: kubectl with a fresh kubeconfig, inside.
    pub fn mended_by_its_own_clock(self) -> Machine {
        let inside = "weaver kubeconfig export raspi > /run/laptop.yaml && \
                      k3s kubectl --kubeconfig /run/laptop.yaml get --raw /readyz";
        self.mended_as_seen_by("kubectl by name, with a kubeconfig fetched again", |machine| {
            machine.run(inside)
        })
    }

    fn mended_as_seen_by(
        mut self,
        kubectl: &str,
        asks: impl Fn(&Machine) -> anyhow::Result<String>,
    ) -> Machine {
        for unit in UNITS {
            wait_for_unit(&self.machine, &format!("{unit}.service"), BOOT).unwrap();
        }
        let well = Shown { codes: BTreeSet::new(), down: BTreeSet::new() };
        until("all well", || {
            let (shown, page) = (self.shown()?, self.status()?);
            let mut codes = self.fault.codes.iter();
            let stale = codes.find(|code| page.contains(**code) && !self.well.contains(**code));
            let words = || format!("{}; on the card {stale:?}", shown.words());
            Ok(if shown == well && stale.is_none() { Ok(()) } else { Err(words()) })
        });
        until("an answer by name", || Ok(Ok(asks(&self.machine)?)));
        self.row.then = format!("all run, {kubectl}");
        self.keep();
        self.machine
    }
}

/// The verdict of a page in one line, and which of the codes it names next to.
fn on_card(status: &str, codes: &[&str]) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix("verdict")).unwrap_or("").trim();
    let cut: String = line.chars().take(VERDICT).collect();
    let next_to = codes.iter().filter(|code| !line.contains(**code) && status.contains(**code));
    next_to.fold(cut, |text, code| format!("{text}; {code}"))
}
