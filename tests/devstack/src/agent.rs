//! The node agent of a stack, and through it the operator.
//!
//! The agent judges the host and the served names, opens the gate and starts
//! the operator as its child; here it is only started, asked and waited for.
//! Failure: a known-bad verdict comes with the agent's own words and remedies;
//! an agent that ends, with the last lines of its log.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::launch::{Launch, Lifetime, Started};
use crate::layout::Layout;
use crate::process::Process;
use crate::programs::BuiltPrograms;
use crate::{files, logs, ports};

/// How long the gate and the operator may take. Names are probed for 15 s.
pub const LIMIT: Duration = Duration::from_mins(1);

/// The last report of the agent, as far as it matters here.
#[derive(Debug, Deserialize)]
pub struct AgentReport {
    gate: Gate,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    findings: Vec<Finding>,
    operator: Option<ChildProcess>,
    webhook: Option<ChildProcess>,
    #[serde(default)]
    definitions: Definitions,
}

/// Whether the definitions of our kinds are installed and converted.
#[derive(Debug, Default, Deserialize)]
struct Definitions {
    installed: bool,
    #[serde(default)]
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Gate {
    Open,
    Shut,
}

#[derive(Debug, Deserialize)]
struct Finding {
    severity: String,
}

#[derive(Debug, Deserialize)]
struct ChildProcess {
    pid: i32,
}

/// What a report means for who waits.
#[derive(Debug, PartialEq, Eq)]
enum AgentState {
    /// The gate is open and the operator runs.
    Running(Process),
    /// The gate is open.
    Open,
    /// Shut, and a finding says why it will stay so.
    Bad,
    Shut(String),
}

impl AgentReport {
    /// The report of a stack; `None` while there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(layout: &Layout) -> Result<Option<Self>> {
        let path = layout.runtime().join("report.json");
        let Some(text) = files::read_if_there(&path)? else {
            return Ok(None);
        };
        serde_json::from_str(&text).map(Some).with_context(|| format!("{} is not a report", path.display()))
    }

    /// The operator, if it runs. Its pid may belong to a stranger by now, whom
    /// the missing mark of the stack gives away.
    pub fn operator(&self, layout: &Layout) -> Option<Process> {
        ours(self.operator.as_ref(), layout)
    }

    /// The conversion webhook, if it runs.
    pub fn webhook(&self, layout: &Layout) -> Option<Process> {
        ours(self.webhook.as_ref(), layout)
    }

    /// Why the definitions of our kinds are not as they should be; `None` where they are.
    pub fn definitions_fault(&self) -> Option<&str> {
        (!self.definitions.installed).then_some(self.definitions.reason.as_str())
    }

    /// Why the gate is shut; `None` while it is open.
    pub fn shut(&self) -> Option<&str> {
        (self.gate == Gate::Shut).then_some(self.reason.as_str())
    }

    fn state(&self, layout: &Layout) -> AgentState {
        match (self.gate, self.operator(layout)) {
            (Gate::Open, Some(operator)) => AgentState::Running(operator),
            (Gate::Open, None) => AgentState::Open,
            (Gate::Shut, _) if self.findings.iter().any(|finding| finding.severity == "fail") => {
                AgentState::Bad
            }
            (Gate::Shut, _) => AgentState::Shut(self.reason.clone()),
        }
    }
}

fn ours(child: Option<&ChildProcess>, layout: &Layout) -> Option<Process> {
    Process::running(child?.pid).filter(|process| process.is_marked(layout.dir()))
}

/// How the wait for gate and operator ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Gated {
    /// The gate is open and the operator runs.
    Running(Process),
    /// Known bad: the agent's own words, remedies included.
    KnownBad(String),
}

/// The agent's program with the paths of one stack.
pub struct StackAgent<'a> {
    programs: &'a BuiltPrograms,
    layout: &'a Layout,
    port: u16,
}

impl<'a> StackAgent<'a> {
    /// The agent for the API server on `port`.
    pub fn new(programs: &'a BuiltPrograms, layout: &'a Layout, port: u16) -> Self {
        Self { programs, layout, port }
    }

    /// Asks `check` or `preflight` for a verdict; the words where it is known bad.
    ///
    /// # Errors
    /// When the agent itself fails.
    pub fn verdict(&self, verb: &[&str]) -> Result<Option<String>> {
        let program = self.programs.agent()?;
        let output = Command::new(&program)
            .args(verb)
            .args(self.flags())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        match output.status.code() {
            Some(0) => Ok(None),
            Some(10 | 11) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
            _ => bail!(
                "{} {} failed ({}): {}",
                program.display(),
                verb.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }

    /// Starts the agent. What an earlier one reported is removed, so that only
    /// the new one's word counts. The operator inherits `environment`.
    ///
    /// # Errors
    /// When a program is not built or cannot be started.
    pub fn start(&self, lifetime: Lifetime, environment: &[(&'static str, &str)]) -> Result<Started> {
        let runtime = self.layout.runtime();
        files::make_dir(&runtime)?;
        files::remove(&runtime.join("report.json"))?;
        let mut arguments: Vec<OsString> = vec!["run".into()];
        arguments.extend(self.flags());
        arguments.extend(["--runtime-dir".into(), runtime.into()]);
        let operator = self.programs.operator()?;
        arguments.extend(["--operator".into(), operator.clone().into(), "--webhook".into(), operator.into()]);
        arguments.extend(["--certificates".into(), self.layout.certificates().into()]);
        arguments
            .extend(["--webhook-address".into(), format!("127.0.0.1:{}", webhook_port(lifetime)?).into()]);
        Launch {
            layout: self.layout,
            name: "agent",
            program: &self.programs.agent()?,
            arguments,
            environment: environment.iter().map(|(name, value)| (*name, value.into())).collect(),
            log: logs::start(&self.layout.log("agent"))?,
            lifetime,
            private_etc: None,
        }
        .start()
    }

    /// The running agent, if it is there and not older than the programs: after
    /// a build the new ones are wanted.
    ///
    /// # Errors
    /// When a pid file or a program cannot be looked at.
    pub fn current(&self) -> Result<Option<Process>> {
        let pid_file = self.layout.pid_file("agent");
        let Some(process) = Process::from_file(&pid_file)? else {
            return Ok(None);
        };
        let changed = |path: &PathBuf| {
            fs::metadata(path)
                .and_then(|meta| meta.modified())
                .with_context(|| format!("cannot look at {}", path.display()))
        };
        let started = changed(&pid_file)?;
        let newest = changed(&self.programs.agent()?)?.max(changed(&self.programs.operator()?)?);
        Ok(Some(process).filter(|_| started >= newest))
    }

    /// Waits until the gate is open and the operator runs.
    ///
    /// # Errors
    /// When the agent ends or the time is over.
    pub fn wait(&self, agent: Process, limit: Duration) -> Result<Gated> {
        let begun = Instant::now();
        let log = self.layout.log("agent");
        loop {
            // Asked first: what it reported counts only while it lives.
            if !agent.is_alive() {
                bail!("the node agent ended; {}", logs::tail(&log, 15));
            }
            let state = AgentReport::read(self.layout)?.map(|report| report.state(self.layout));
            match &state {
                Some(AgentState::Running(operator)) => return Ok(Gated::Running(*operator)),
                // The report may be older than the cure: asked again before it is
                // believed, briefly, since the agent has probed at length.
                Some(AgentState::Bad) => {
                    if let Some(words) = self.verdict(&["check", "--probe-timeout", "3"])? {
                        return Ok(Gated::KnownBad(words));
                    }
                }
                Some(AgentState::Open | AgentState::Shut(_)) | None => {}
            }
            if begun.elapsed() >= limit {
                let found = match state {
                    Some(AgentState::Shut(reason)) => format!("the gate is still shut ({reason})"),
                    Some(_) => "the gate is open, but the operator does not run".to_owned(),
                    None => "the node agent has not reported".to_owned(),
                };
                bail!("{found} after {} s; {}", limit.as_secs(), logs::tail(&log, 15));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Where the agent finds what belongs to this stack. The unit file does
    /// not exist: a k3s of the host has nothing to do with it.
    pub(crate) fn flags(&self) -> Vec<OsString> {
        let layout = self.layout;
        let pairs: [(&str, PathBuf); 4] = [
            ("--k3s-config", layout.config()),
            ("--k3s-data-dir", layout.data()),
            ("--k3s-unit", layout.dir().join("k3s/k3s.service")),
            ("--admin-kubeconfig", layout.admin_kubeconfig()),
        ];
        let mut all: Vec<OsString> = Vec::new();
        for (flag, path) in pairs {
            all.extend([flag.into(), path.into()]);
        }
        all.extend(["--api-address".into(), format!("127.0.0.1:{}", self.port).into()]);
        all
    }
}

/// The port of the webhook: its usual one for the stack of `make up`, unless that is taken.
fn webhook_port(lifetime: Lifetime) -> Result<u16> {
    match lifetime {
        Lifetime::Bound => ports::disposable(),
        Lifetime::Detached => ports::first_free(ports::WEBHOOK, ports::is_free)
            .with_context(|| format!("no port from {} upwards is free on 127.0.0.1", ports::WEBHOOK)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process;

    #[test]
    fn a_report_has_four_meanings() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        let state = |text: &str| serde_json::from_str::<AgentReport>(text).unwrap().state(&layout);
        let start = |mark| Command::new("sleep").arg("600").env(process::MARK, mark).spawn().unwrap();
        let (mut ours, mut stranger) = (start(layout.dir()), start(Path::new("/elsewhere")));
        let [operator, other] =
            [&ours, &stranger].map(|child| Process::running(i32::try_from(child.id()).unwrap()).unwrap());
        // Until it has executed, a child still shows our own environment.
        assert!(process::poll(process::GRACE, || operator.is_marked(layout.dir())));
        let open = |pid| state(&format!(r#"{{"gate":"open","findings":[],"operator":{{"pid":{pid}}}}}"#));
        assert_eq!(open(operator.pid), AgentState::Running(operator));
        assert_eq!(open(other.pid), AgentState::Open, "runs, and belongs to someone else");
        for child in [&mut ours, &mut stranger] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(open(operator.pid), AgentState::Open);
        assert_eq!(state(r#"{"gate":"open","reason":"","findings":[],"operator":null}"#), AgentState::Open);
        assert_eq!(state(r#"{"gate":"open","operator":{"pid":2147483647}}"#), AgentState::Open);
        let warned = r#"{"gate":"shut","reason":"waits","findings":[{"severity":"warn"}],"operator":null}"#;
        assert_eq!(state(warned), AgentState::Shut("waits".to_owned()));
        assert_eq!(state(&warned.replace("warn", "fail")), AgentState::Bad);
    }

    #[test]
    fn a_report_that_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        assert!(AgentReport::read(&layout).unwrap().is_none());
        fs::write(layout.runtime().join("report.json"), "{\"gate\":\"aj").unwrap();
        let text = format!("{:#}", AgentReport::read(&layout).unwrap_err());
        assert!(text.contains("report.json is not a report"), "{text}");
    }
}
