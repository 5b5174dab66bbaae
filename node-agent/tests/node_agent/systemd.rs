//! `run --systemd` with a `systemctl` of our own: its requests to systemd, what it does not touch, and that no answer
//! of systemd ends it.

use std::{
    fs,
    net::SocketAddr,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::support::{
    fake_api::{FakeApiServer, TOKEN},
    host::{CONFIG, KUBECONFIG, MEMINFO, SMALL, TestHost, enough_memory},
    systemctl::FakeSystemctl,
    tls_server::{Ca, TlsServer, closed_port},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(1);
const K3S: &str = "k3s.service";
const OPERATOR: &str = "weaver-operator.service";
const BLOCK: &str = "/run/weaver/k3s.blocked";

/// A host on which everything is right and k3s is active, and what is around it.
struct Scene {
    host: TestHost,
    systemctl: FakeSystemctl,
    server: TlsServer,
    api: FakeApiServer,
}

impl Scene {
    fn new() -> Self {
        let ca = Ca::new();
        let server = TlsServer::start(ca.leaf(&["box.example"]));
        let api = FakeApiServer::start();
        let host = TestHost::debian()
            .boot_partition("rw")
            .server_ca(&ca.pem())
            .file(CONFIG, "tls-san: [box.example]\n")
            .file(KUBECONFIG, api.kubeconfig());
        Self { host, systemctl: FakeSystemctl::new("active"), server, api }
    }

    fn put(&self, path: &str, content: &str) {
        let real = self.host.path(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(real, content).unwrap();
    }

    /// The content of a file, empty where it does not exist yet.
    fn shown(&self, path: &str) -> String {
        fs::read_to_string(self.host.path(path)).unwrap_or_default()
    }

    fn command(&self) -> Command {
        self.command_for(self.server.address)
    }

    fn command_for(&self, api: SocketAddr) -> Command {
        let mut command = self.host.agent("run");
        command.args(["--systemd", "--probe-timeout", "1", "--recheck-seconds", "1"]);
        command.arg("--api-address").arg(api.to_string());
        command.arg("--systemctl").arg(self.systemctl.path());
        command.arg("--certificates").arg(self.host.path("/webhook"));
        command.arg("--webhook-address").arg(closed_port().to_string());
        command.stderr(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn start(&self) -> Agent<'_> {
        self.start_with(|_| ())
    }

    fn start_with(&self, edit: impl FnOnce(&mut Command)) -> Agent<'_> {
        let mut command = self.command();
        edit(&mut command);
        Agent { scene: self, child: command.spawn().unwrap() }
    }
}

/// A running agent; killed when a test fails.
struct Agent<'a> {
    scene: &'a Scene,
    child: Child,
}

impl Agent<'_> {
    #[track_caller]
    fn wait(&mut self, what: &str, until: impl Fn(&Scene) -> bool) {
        let since = Instant::now();
        while !until(self.scene) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended ({ended:?}) before: {what}");
            let report = fs::read_to_string(self.scene.host.path("/run/weaver/report.json"));
            assert!(since.elapsed() < PATIENCE, "no {what}: {report:?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn wait_for_report(&mut self, what: &str, says: impl Fn(&Value) -> bool) -> Value {
        self.wait(what, |scene| report(scene).is_some_and(|report| says(&report)));
        report(self.scene).unwrap()
    }

    /// Some whole rounds: each of them probes the names.
    #[track_caller]
    fn wait_for_rounds(&mut self, rounds: usize) {
        let before = self.scene.server.asked().len();
        self.wait("rounds", |scene| scene.server.asked().len() >= before + rounds);
    }

    fn stop(mut self) -> Option<i32> {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn report(scene: &Scene) -> Option<Value> {
    serde_json::from_slice(&fs::read(scene.host.path("/run/weaver/report.json")).ok()?).ok()
}

fn is_open(report: &Value) -> bool {
    report["gate"] == "open"
}

fn has(report: &Value, code: &str) -> bool {
    report["findings"].as_array().is_some_and(|all| all.iter().any(|f| f["code"] == code))
}

fn evidence(report: &Value, code: &str) -> String {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|f| f["code"] == code).map(|f| f["evidence"].to_string()).unwrap_or_default()
}

#[test]
fn avahi_announces_the_node_and_its_state_is_fresh_while_the_agent_lives() {
    const ANNOUNCED: &str = "/etc/avahi/services/weaver.service";
    const STATE: &str = "/run/weaver-page.state";
    let scene = Scene::new();
    scene.put("/usr/lib/systemd/system/weaver-page.socket", "");
    scene.put("/etc/avahi/services/owner.service", "");
    let mut agent = scene.start_with(|agent| {
        agent.env("WATCHDOG_USEC", "400000");
    });
    agent.wait("announcement", |scene| scene.shown(ANNOUNCED).contains("served=box.example<"));
    let announced = scene.shown(ANNOUNCED);
    assert!(announced.contains("<port>9480</port>") && announced.contains(">ca="), "{announced}");
    agent.wait("state", |scene| scene.shown(STATE) == "ok\n");
    let file = fs::File::options().write(true).open(scene.host.path(STATE)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    agent.wait("sign of life", |scene| {
        let modified = fs::metadata(scene.host.path(STATE)).and_then(|state| state.modified());
        modified.is_ok_and(|modified| modified > SystemTime::UNIX_EPOCH)
    });
    drop(agent);
    let mut second = scene.start_with(|agent| {
        agent.env("WEAVER_ANNOUNCE", "no");
    });
    second.wait("end of the announcement", |scene| !scene.host.path(ANNOUNCED).exists());
    assert!(scene.host.path("/etc/avahi/services/owner.service").exists(), "that is not ours");
}

#[test]
fn proven_names_open_the_gate_and_the_operators_unit_is_started_once_by_each_agent() {
    let scene = Scene::new();
    let mut agent = scene.start();
    agent.wait_for_report("open gate", is_open);
    assert_eq!(scene.systemctl.starts_of(OPERATOR), 1);
    for (file, content) in [("operator.token", TOKEN), ("operator.kubeconfig", "tokenFile")] {
        let path = scene.host.path("/run/weaver").join(file);
        assert!(fs::read_to_string(&path).unwrap().contains(content), "{file}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640, "{file}");
    }
    agent.wait_for_rounds(3);
    assert_eq!(scene.systemctl.starts_of(OPERATOR), 1);
    // Killed, as by a fault of its own, and started again by systemd.
    drop(agent);
    let mut second = scene.start();
    second.wait("a second start", |scene| scene.systemctl.starts_of(OPERATOR) == 2);
    second.wait_for_report("open gate", is_open);
    assert_eq!(second.stop(), Some(0));
    assert_eq!(scene.systemctl.starts_of(K3S), 0);
    assert_eq!(scene.systemctl.other_calls(), Vec::<String>::new());
    // The units continue, and the report says so.
    assert!(is_open(&report(&scene).unwrap()));
}

#[test]
fn an_idle_agent_does_not_ask_systemd() {
    let scene = Scene::new();
    let mut agent = scene.start();
    agent.wait_for_report("open gate", is_open);
    let calls = scene.systemctl.calls();
    agent.wait_for_rounds(3);
    assert_eq!(scene.systemctl.calls(), calls);
}

#[test]
fn a_verdict_that_turns_bad_is_reported_and_the_operator_is_started_again_when_it_is_good() {
    let scene = Scene::new();
    let mut agent = scene.start();
    agent.wait_for_report("open gate", is_open);
    scene.put(MEMINFO, SMALL);
    let report = agent.wait_for_report("N-12", |report| has(report, "N-12"));
    assert!(is_open(&report) && report["k3s_blocked"] == false, "a running k3s is not blocked: {report:#}");
    agent.wait("the card", |scene| scene.shown("/boot/firmware/NODE-STATUS.txt").contains("N-12"));
    assert!(!scene.host.path(BLOCK).exists());
    scene.put(MEMINFO, &enough_memory());
    agent.wait("a second start", |scene| scene.systemctl.starts_of(OPERATOR) == 2);
    agent.wait_for_report("no N-12", |report| !has(report, "N-12"));
    assert_eq!(scene.systemctl.other_calls(), Vec::<String>::new(), "nothing was stopped");
}

#[test]
fn an_agent_that_is_started_again_next_to_a_bad_verdict_renews_the_operators_token() {
    let scene = Scene::new();
    let mut first = scene.start();
    first.wait_for_report("open gate", is_open);
    drop(first);
    scene.put(MEMINFO, SMALL);
    fs::remove_file(scene.host.path("/run/weaver/operator.token")).unwrap();
    let starts = scene.systemctl.starts_of(OPERATOR);
    let mut second = scene.start();
    let report = second.wait_for_report("N-12", |report| has(report, "N-12"));
    assert!(is_open(&report), "the operator runs: {report:#}");
    second.wait("a new token", |scene| scene.shown("/run/weaver/operator.token").contains(TOKEN));
    assert_eq!(scene.systemctl.starts_of(OPERATOR), starts, "a bad verdict starts nothing");
}

#[test]
fn a_blocked_k3s_is_freed_and_started_when_the_cause_is_gone() {
    let scene = Scene::new();
    scene.systemctl.set_state("inactive");
    scene.put(MEMINFO, SMALL);
    scene.put(BLOCK, "of preflight");
    let mut agent = scene.start();
    let report = agent.wait_for_report("blocked k3s", |report| report["k3s_blocked"] == true);
    assert!(has(&report, "N-12") && !is_open(&report), "{report:#}");
    assert!(scene.host.read(BLOCK).contains("N-12"));
    assert_eq!((scene.systemctl.starts_of(K3S), scene.systemctl.starts_of(OPERATOR)), (0, 0));
    agent.wait("the banner", |scene| {
        scene.shown("/run/issue.d/50-weaver.issue").contains("k3s is not started")
    });
    scene.put(MEMINFO, &enough_memory());
    agent.wait_for_report("open gate", is_open);
    assert!(!scene.host.path(BLOCK).exists());
    assert_eq!((scene.systemctl.starts_of(K3S), scene.systemctl.starts_of(OPERATOR)), (1, 1));
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_host_that_turns_bad_before_k3s_runs_is_blocked() {
    let scene = Scene::new();
    scene.systemctl.set_state("inactive");
    scene.put(MEMINFO, SMALL);
    let mut agent = scene.start();
    agent.wait("a block", |scene| scene.host.path(BLOCK).exists());
    agent.wait_for_report("blocked k3s", |report| report["k3s_blocked"] == true);
    assert!(scene.host.read(BLOCK).contains("N-12"));
}

#[test]
fn on_a_node_that_joins_its_own_k3s_is_looked_after_and_nothing_is_proven() {
    let scene = Scene::new();
    scene.put("/etc/weaver/k3s-agent", "");
    scene.put(CONFIG, "server: https://raspi.lan:6443\n");
    scene.systemctl.set_state("inactive");
    scene.put(MEMINFO, SMALL);
    let mut agent = scene.start();
    agent.wait_for_report("blocked k3s", |report| report["k3s_blocked"] == true);
    scene.put(MEMINFO, &enough_memory());
    let report = agent.wait_for_report("free k3s", |report| report["k3s_blocked"] == false);
    assert!(report["reason"].as_str().unwrap().contains("joins a server"), "{report:#}");
    assert!(!is_open(&report) && !has(&report, "T-09"), "{report:#}");
    let starts = |unit: &str| scene.systemctl.starts_of(unit);
    assert_eq!((starts("k3s-agent.service"), starts(K3S), starts(OPERATOR)), (1, 0, 0));
    assert!(scene.server.asked().is_empty(), "no one is asked for a name");
    assert!(!scene.host.path("/run/weaver/operator.kubeconfig").exists());
}

#[test]
fn the_owners_override_frees_k3s() {
    let scene = Scene::new();
    scene.systemctl.set_state("inactive");
    scene.put(MEMINFO, SMALL);
    scene.put(BLOCK, "of preflight");
    let mut agent = scene.start();
    agent.wait_for_report("blocked k3s", |report| report["k3s_blocked"] == true);
    scene.put("/boot/firmware/weaver-override", "N-12\r\n");
    agent.wait_for_report("open gate", is_open);
    assert_eq!(scene.systemctl.starts_of(K3S), 1);
}

#[test]
fn a_k3s_that_hangs_while_starting_is_reported_with_its_code() {
    let scene = Scene::new();
    // Since the first microsecond of this machine: for more than the time that is allowed.
    scene.systemctl.set_state("activating");
    let child = scene.command_for(closed_port()).spawn().unwrap();
    let mut agent = Agent { scene: &scene, child };
    let report = agent.wait_for_report("F-04", |report| has(report, "F-04"));
    assert!(evidence(&report, "F-04").contains("activating") && !is_open(&report), "{report:#}");
    agent.wait("the card", |scene| {
        scene.shown("/boot/firmware/NODE-STATUS.txt").contains("journalctl -b -u k3s")
    });
    assert_eq!(scene.systemctl.other_calls(), Vec::<String>::new(), "it is not stopped");
}

#[test]
fn a_token_that_is_not_minted_is_reported_until_it_is() {
    let scene = Scene::new();
    scene.api.set_mints(false);
    let mut agent = scene.start();
    let report = agent.wait_for_report("K-08", |report| has(report, "K-08"));
    assert!(evidence(&report, "K-08").contains("minting") && !is_open(&report), "{report:#}");
    assert_eq!(scene.systemctl.starts_of(OPERATOR), 0);
    scene.api.set_mints(true);
    let report = agent.wait_for_report("open gate", is_open);
    assert!(!has(&report, "K-08"));
    assert_eq!(scene.systemctl.starts_of(OPERATOR), 1);
}

#[test]
fn a_systemctl_that_fails_does_not_stop_the_agent_and_is_asked_again() {
    let scene = Scene::new();
    scene.systemctl.does("echo 'Failed to connect to bus' >&2; exit 1");
    let mut agent = scene.start();
    let report = agent.wait_for_report("K-08", |report| has(report, "K-08"));
    assert!(evidence(&report, "K-08").contains("Failed to connect to bus"), "{report:#}");
    assert!(is_open(&report), "the credentials are there");
    scene.systemctl.set_state("active");
    agent.wait_for_report("no K-08", |report| !has(report, "K-08"));
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_systemctl_that_hangs_is_given_up_and_does_not_stop_the_agent() {
    let scene = Scene::new();
    scene.systemctl.does("exec sleep 600");
    let mut agent = scene.start();
    let report = agent.wait_for_report("K-08", |report| has(report, "K-08"));
    assert!(evidence(&report, "K-08").contains("timed out after"), "{report:#}");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_systemctl_that_is_not_there_is_named() {
    let scene = Scene::new();
    fs::remove_file(scene.systemctl.path()).unwrap();
    let mut agent = scene.start();
    let report = agent.wait_for_report("K-08", |report| has(report, "K-08"));
    assert!(evidence(&report, "K-08").contains("cannot run"), "{report:#}");
}

#[test]
fn systemd_is_notified_ready_alive_the_state_and_stopping() {
    let scene = Scene::new();
    let path = scene.host.path("/notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let agent = scene.start_with(|command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    });
    let reported = |what: &str| {
        let since = Instant::now();
        loop {
            let mut buffer = [0; 1024];
            let length = socket.recv(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.contains(what) {
                return text;
            }
            assert!(since.elapsed() < PATIENCE, "never reported: {what}");
        }
    };
    reported("READY=1");
    reported("WATCHDOG=1");
    assert!(reported("STATUS=gate open").lines().count() == 1);
    reported("WATCHDOG=1");
    assert_eq!(agent.stop(), Some(0));
    reported("STOPPING=1");
}

#[test]
fn no_secret_goes_into_the_report_or_onto_the_card() {
    let scene = Scene::new();
    let mut agent = scene.start();
    agent.wait_for_report("open gate", is_open);
    agent.wait("the card", |scene| scene.host.path("/boot/firmware/node-status.json").exists());
    assert_eq!(agent.stop(), Some(0));
    for file in [
        "/run/weaver/report.json",
        "/run/weaver/node-status.txt",
        "/run/issue.d/50-weaver.issue",
        "/boot/firmware/NODE-STATUS.txt",
        "/boot/firmware/node-status.json",
    ] {
        let text = scene.host.read(file);
        assert!(text.contains("proven") && !text.contains("hunter2"), "{file}: {text}");
    }
}

#[test]
fn a_restart_of_the_agent_alone_does_not_write_the_card() {
    let scene = Scene::new();
    let page = |scene: &Scene| {
        fs::metadata(scene.host.path("/boot/firmware/NODE-STATUS.txt")).unwrap().modified().unwrap()
    };
    let mut agent = scene.start();
    agent.wait_for_report("open gate", is_open);
    assert_eq!(agent.stop(), Some(0));
    let before = page(&scene);
    fs::remove_file(scene.host.path("/run/weaver/report.json")).unwrap();
    let mut agent = scene.start();
    agent.wait_for_report("open gate", is_open);
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(page(&scene), before);
}

#[test]
fn a_runtime_directory_that_cannot_be_one_needs_a_human() {
    let scene = Scene::new();
    scene.put("/run/weaver", "a file");
    let output = scene.command().stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "as wrong flags, and unlike what may pass");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a restart of the agent does not help") && said.contains("run/weaver"), "{said}");
}

#[test]
fn children_and_systemd_exclude_each_other() {
    let scene = Scene::new();
    let output = scene.command().args(["--operator", "/bin/true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!Path::new(&scene.host.path("/run/weaver")).exists());
}
