//! A server of a test's own, and the node agent next to it, which starts the operator.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use weaver_devstack::programs::BuiltPrograms;
use weaver_devstack::server::{Server, ServerBinary, ServerOptions};
use weaver_devstack::{files, ports};

use crate::own::this_release;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A server that is asked to serve `box.example`.
pub struct AgentScene {
    pub server: Server,
    /// Agent and operator.
    programs: BuiltPrograms,
    /// The program of the webhook.
    pub webhook: PathBuf,
    /// A directory that is deleted with the server.
    pub dir: TempDir,
    webhook_port: u16,
    /// Address of the server for the agent.
    address: SocketAddr,
    kubeconfig: PathBuf,
}

impl AgentScene {
    pub fn start() -> Self {
        let dir = tempfile::tempdir_in(files::scratch()).unwrap();
        let options = ServerOptions::new(dir.path()).tls_sans(["box.example"]).audit();
        let server = Server::start(&ServerBinary::from_environment().unwrap(), options).unwrap();
        let programs = this_release();
        let webhook = programs.operator().unwrap();
        let address = ([127, 0, 0, 1], server.port()).into();
        let (kubeconfig, webhook_port) = (server.kubeconfig(), ports::disposable().unwrap());
        Self { server, programs, webhook, dir, webhook_port, address, kubeconfig }
    }

    /// Starts agent, operator and webhook of these programs from now on.
    pub fn change_to(&mut self, programs: &BuiltPrograms) {
        self.programs = programs.clone();
        self.webhook = programs.operator().unwrap();
    }

    /// Makes the agent connect to the server through this address, which forwards to it.
    pub fn lead_through(&mut self, address: SocketAddr) {
        let own = fs::read_to_string(self.server.kubeconfig()).unwrap();
        let led = own.replace(&format!(":{}", self.server.port()), &format!(":{}", address.port()));
        assert_ne!(led, own);
        (self.address, self.kubeconfig) = (address, self.dir.path().join("led.kubeconfig"));
        fs::write(&self.kubeconfig, led).unwrap();
    }

    /// Asks for one more name; the running server does not know it yet.
    pub fn configure(&self, name: &str) {
        self.add("zz-gate.yaml", &format!("tls-san+: [{name}]\n"));
    }

    /// Takes that name back.
    pub fn take_back(&self) {
        fs::remove_file(self.drop_ins().join("zz-gate.yaml")).unwrap();
    }

    /// Writes a file of configuration that the running server does not know yet.
    pub fn add(&self, file: &str, text: &str) {
        fs::create_dir_all(self.drop_ins()).unwrap();
        fs::write(self.drop_ins().join(file), text).unwrap();
    }

    fn drop_ins(&self) -> PathBuf {
        let mut directory = self.server.config_path().into_os_string();
        directory.push(".d");
        directory.into()
    }

    fn agent(&self, verb: &str) -> Command {
        let mut agent = Command::new(self.programs.agent().unwrap());
        agent.arg(verb);
        agent.arg("--k3s-config").arg(self.server.config_path());
        agent.arg("--k3s-data-dir").arg(self.server.data_dir());
        // A k3s that this machine may run besides is none of ours.
        agent.arg("--k3s-unit").arg(self.dir.path().join("no-unit"));
        agent.arg("--admin-kubeconfig").arg(&self.kubeconfig);
        agent.arg("--api-address").arg(self.address.to_string());
        agent
    }

    /// What `check` finds, and its exit code.
    pub fn check(&self) -> (Option<i32>, Value) {
        let Output { status, stdout, .. } =
            self.agent("check").args(["-o", "json", "--probe-timeout", "2"]).output().unwrap();
        (status.code(), serde_json::from_slice(&stdout).unwrap())
    }

    pub fn run(&self, flags: &[&str]) -> Agent {
        let mut command = self.agent("run");
        command.arg("--operator").arg(self.programs.operator().unwrap());
        command.arg("--webhook").arg(&self.webhook);
        command.arg("--webhook-address").arg(format!("127.0.0.1:{}", self.webhook_port));
        command.arg("--certificates").arg(self.dir.path().join("webhook"));
        command.args(["--probe-timeout", "2", "--recheck-seconds", "1"]).args(flags);
        Agent::of(command, self.dir.path())
    }

    /// Who the API server takes this kubeconfig for.
    pub fn whoami(&self, kubeconfig: &Path) -> String {
        self.kubectl_as(kubeconfig, &["auth", "whoami", "-o", "json"]).1
    }

    /// What kubectl prints, as the administrator.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let (done, words) = self.kubectl_as(&self.server.kubeconfig(), arguments);
        assert!(done, "{arguments:?}: {words}");
        words
    }

    /// Whether kubectl succeeded, and what it said.
    pub fn kubectl_as(&self, kubeconfig: &Path, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(&self.server.binary().path)
            .arg("kubectl")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .output()
            .unwrap();
        let done = output.status.success();
        (done, String::from_utf8(if done { output.stdout } else { output.stderr }).unwrap())
    }

    /// A manifest as upstream's users have it.
    pub fn apply_upstreams_sample(&self) {
        let path = self.dir.path().join("old.yaml");
        let text = "apiVersion: weaver.example.com/v1alpha1\nkind: ConfigMapSync\n\
                    metadata: {name: old, namespace: default}\nspec: {testNum: 5}\n";
        fs::write(&path, text).unwrap();
        self.kubectl(&["apply", "-f", path.to_str().unwrap()]);
    }
}

/// A running agent; it and its operator are ended with the test.
pub struct Agent {
    pub log: PathBuf,
    child: Child,
    runtime: PathBuf,
}

impl Agent {
    /// Starts it by this command, with its log and its runtime directory in `dir`.
    pub fn of(mut command: Command, dir: &Path) -> Self {
        let (runtime, log) = (dir.join("weaver"), dir.join("agent.log"));
        let output = File::options().create(true).append(true).open(&log).unwrap();
        command.arg("--runtime-dir").arg(&runtime);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        Self { log, child: command.spawn().unwrap(), runtime }
    }

    /// The first report of which this is true.
    #[track_caller]
    pub fn wait_for(&self, what: &str, says: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let report = fs::read(self.runtime.join("report.json")).ok();
            let report: Option<Value> = report.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(report) = report.as_ref().filter(|report| says(report)) {
                return report.clone();
            }
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(since.elapsed() < PATIENCE, "no {what}: {report:#?}\n{}", log());
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Waits until the operator runs; its process.
    pub fn open(&self) -> u64 {
        let report =
            self.wait_for("open gate and operator", |r| r["gate"] == "open" && r["operator"].is_object());
        pid(&report)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file of the runtime directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.runtime.join(name)
    }

    pub fn token(&self) -> String {
        fs::read_to_string(self.file("operator.token")).unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        send(u64::from(self.child.id()), signal);
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("TERM");
            let _ = self.child.wait();
        }
    }
}

/// Asks until it is done, mostly by kubectl, which is a large program to start: a fifth of what was waited is the pause.
#[track_caller]
pub fn until(what: &str, question: impl Fn() -> (bool, String)) {
    let since = Instant::now();
    loop {
        let (done, words) = question();
        if done {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "not in time: {what}; last seen: {words}");
        let pause = since.elapsed() / 5;
        std::thread::park_timeout(pause.clamp(Duration::from_millis(100), Duration::from_secs(1)));
    }
}

/// Sends a process a signal.
pub fn send(pid: u64, signal: &str) {
    assert!(Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success());
}

/// The finding of this code.
///
/// # Panics
/// The report has none.
pub fn finding<'a>(report: &'a Value, code: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("no {code}: {report:#}"))
}

/// The operator's process of a report.
pub fn pid(report: &Value) -> u64 {
    report["operator"]["pid"].as_u64().unwrap()
}
