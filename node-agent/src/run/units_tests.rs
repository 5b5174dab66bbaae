use super::*;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};
use weaver_diagnostics::host::load::Pressure;

/// A systemd with scripted answers that records its calls.
struct Fake {
    dir: tempfile::TempDir,
}

impl Fake {
    /// `state`: what k3s does.
    fn new(state: &str) -> Self {
        let fake = Self { dir: tempfile::tempdir().unwrap() };
        fake.script(&format!("case \"$3\" in show) echo ActiveState={state};; esac"));
        fake
    }

    fn script(&self, script: &str) {
        let path = self.dir.path().join("systemctl");
        // Made again: a program that runs cannot be written to.
        let new = self.dir.path().join("systemctl.new");
        let text = format!("#!/bin/sh\necho \"$3 $5\" >> {}\n{script}\n", self.log().display());
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("asked")
    }

    /// The calls since the last time, without queries.
    fn started(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let _ = fs::remove_file(self.log());
        text.lines().filter_map(|line| line.strip_prefix("start ")).map(str::to_owned).collect()
    }

    fn runtime(&self) -> &Path {
        self.dir.path()
    }

    fn units(&self) -> Units {
        self.units_as(Role::Server)
    }

    fn units_as(&self, role: Role) -> Units {
        let dir = self.dir.path().to_owned();
        let log = K3sLog::new(dir.join("journalctl"));
        Units { log, ..Units::new(Systemctl::new(dir.join("systemctl")), dir.clone(), dir, role) }
    }
}

fn bad() -> Vec<Finding> {
    vec![Finding::new(Code::MemoryCgroupAbsent, "no controller")]
}

const OPEN: CheckRound<'_> = CheckRound {
    gate: Gate::Open,
    good: true,
    silent: false,
    opening_failure: None,
    opening_late_for: None,
    load: None,
};
const SHUT: CheckRound<'_> = CheckRound { gate: Gate::Shut, good: false, silent: true, ..OPEN };
const OPENS: CheckRound<'_> =
    CheckRound { gate: Gate::Shut, silent: true, opening_failure: Some("503"), ..OPEN };
const OPEN_BUT_BAD: CheckRound<'_> = CheckRound { gate: Gate::Open, ..SHUT };

#[test]
fn each_state_of_the_units_leads_to_its_actions() {
    for (is_bad, is_blocked, is_due, want) in [
        (true, true, false, BlockAction::Refresh),
        (true, true, true, BlockAction::Refresh),
        (true, false, false, BlockAction::Block),
        (true, false, true, BlockAction::Block),
        (false, true, false, BlockAction::Free),
        (false, true, true, BlockAction::Free),
        (false, false, true, BlockAction::Free),
        (false, false, false, BlockAction::Nothing),
    ] {
        assert_eq!(step(is_bad, is_blocked, is_due), want, "{is_bad} {is_blocked} {is_due}");
    }
}

#[tokio::test]
async fn a_k3s_that_does_not_run_is_blocked_and_one_that_may_run_is_not() {
    for (state, blocked) in [
        ("inactive", true),
        ("failed", true),
        ("active", false),
        ("activating", false),
        ("deactivating", false),
    ] {
        let fake = Fake::new(state);
        let mut units = fake.units();
        units.guard_k3s(&bad()).await;
        assert_eq!(units.k3s_is_blocked(), blocked, "{state}");
        assert_eq!(fake.started(), Vec::<String>::new(), "{state}");
    }
}

#[tokio::test]
async fn a_k3s_without_the_gate_is_neither_blocked_nor_started() {
    for (drop_ins, blocked) in [
        ("", false),
        ("/etc/systemd/system/k3s.service.d/override.conf", false),
        ("/etc/systemd/system/k3s.service.d/a.conf /etc/systemd/system/k3s.service.d/10-weaver.conf", true),
        ("/usr/lib/systemd/system/k3s.service.d/10-weaver.conf", true),
    ] {
        let fake = Fake::new("inactive");
        fake.script(&format!(
            "case \"$3\" in show) echo ActiveState=inactive; echo 'DropInPaths={drop_ins}';; esac"
        ));
        let mut units = fake.units();
        units.guard_k3s(&bad()).await;
        assert_eq!(units.k3s_is_blocked(), blocked, "{drop_ins}");
        units.guard_k3s(&[]).await;
        assert_eq!(fake.started().is_empty(), !blocked, "{drop_ins}");
    }
}

#[tokio::test]
async fn what_cannot_be_asked_blocks_nothing() {
    let fake = Fake::new("inactive");
    fake.script("exit 1");
    let mut units = fake.units();
    units.guard_k3s(&bad()).await;
    assert!(!units.k3s_is_blocked());
}

#[tokio::test]
async fn a_cause_that_goes_away_frees_k3s_and_starts_it_once() {
    let fake = Fake::new("inactive");
    // Written by preflight, and not by this agent.
    k3s_block::write(fake.runtime(), &bad()).unwrap();
    let mut units = fake.units();
    units.guard_k3s(&[]).await;
    assert!(!units.k3s_is_blocked());
    assert_eq!(fake.started(), [K3S]);
    units.guard_k3s(&[]).await;
    assert_eq!(fake.started(), Vec::<String>::new());
}

#[tokio::test]
async fn an_agents_unit_is_the_one_that_is_freed_and_judged() {
    let fake = Fake::new("inactive");
    let mut units = fake.units_as(Role::Agent);
    units.guard_k3s(&bad()).await;
    assert!(units.k3s_is_blocked());
    units.guard_k3s(&[]).await;
    assert_eq!(fake.started(), ["k3s-agent.service"]);
    let fault = start_fault(Role::Agent.unit(), "activating", STARTING, STARTING, false).unwrap();
    assert!(fault.message.ends_with("has not joined its server"), "{fault:?}");
    let typed: String =
        fault.remedy.unwrap().commands.iter().flat_map(|command| [&**command, "\n"]).collect();
    assert!(typed.contains("restart --no-block k3s-agent.service"), "{typed}");
}

#[tokio::test]
async fn a_block_that_stays_names_the_cause_of_now() {
    let fake = Fake::new("inactive");
    k3s_block::write(fake.runtime(), &bad()).unwrap();
    let mut units = fake.units();
    units.guard_k3s(&[Finding::new(Code::MemoryTooSmall, "451 MB")]).await;
    let text = fs::read_to_string(k3s_block::path(fake.runtime())).unwrap();
    assert!(text.contains("N-12") && !text.contains("N-01"), "{text}");
    // Someone else removed it (preflight, by hand) while the cause went away.
    k3s_block::remove(fake.runtime()).unwrap();
    units.guard_k3s(&[]).await;
    assert_eq!(fake.started(), [K3S]);
}

#[tokio::test]
async fn a_start_of_k3s_that_fails_is_reported_and_tried_again() {
    let fake = Fake::new("inactive");
    k3s_block::write(fake.runtime(), &bad()).unwrap();
    fake.script("[ $3 = show ] && exit 0; echo no bus >&2; exit 1");
    let mut units = fake.units();
    units.guard_k3s(&[]).await;
    let findings = units.attend(SHUT).await;
    assert_eq!(findings[0].code, Code::K3sNotAnswering);
    assert!(findings[0].evidence[0].saw.contains("no bus"), "{findings:?}");
    fake.started();
    fake.script("");
    units.guard_k3s(&[]).await;
    assert_eq!(fake.started(), [K3S]);
    assert!(units.attend(SHUT).await.is_empty());
}

#[tokio::test]
async fn a_block_that_cannot_be_removed_is_reported() {
    let fake = Fake::new("inactive");
    fs::create_dir(k3s_block::path(fake.runtime())).unwrap();
    let mut units = fake.units();
    units.guard_k3s(&[]).await;
    let findings = units.attend(SHUT).await;
    assert!(findings[0].message.contains("cannot be removed"), "{findings:?}");
    assert_eq!(fake.started(), Vec::<String>::new());
}

#[tokio::test]
async fn a_block_that_cannot_be_written_is_reported_until_it_is() {
    let fake = Fake::new("inactive");
    let path = k3s_block::path(fake.runtime());
    // Blocks the path of the new file: it can neither be removed nor made.
    let obstacle = fake.runtime().join("k3s.blocked.new");
    fs::create_dir_all(obstacle.join("x")).unwrap();
    let mut units = fake.units();
    // Queried again only after a pause: the fault stays in between.
    for _ in 0..2 {
        units.guard_k3s(&bad()).await;
        let findings = units.attend(SHUT).await;
        let [found] = findings.as_slice() else { panic!("{findings:?}") };
        assert!(found.message.contains("cannot be written") && found.remedy.is_some(), "{found:?}");
        assert_eq!(found.evidence[0].place.file, path.display().to_string());
        assert!(found.evidence[0].saw.contains("os error"), "{found:?}");
    }
    fs::remove_dir_all(obstacle).unwrap();
    units.last_look = None;
    units.guard_k3s(&bad()).await;
    assert!(units.k3s_is_blocked() && units.attend(SHUT).await.is_empty());
}

#[tokio::test]
async fn the_operator_is_started_by_each_new_agent_and_after_each_change_to_good() {
    let fake = Fake::new("active");
    let mut units = fake.units();
    assert!(units.attend(SHUT).await.is_empty());
    assert_eq!(fake.started(), Vec::<String>::new());
    for _ in 0..2 {
        assert!(units.attend(OPEN).await.is_empty());
    }
    assert_eq!(fake.started(), [OPERATOR], "once");
    units.attend(OPEN_BUT_BAD).await;
    assert_eq!(fake.started(), Vec::<String>::new(), "not while something is bad");
    units.attend(OPEN).await;
    assert_eq!(fake.started(), [OPERATOR]);
    // The agent was restarted while the gate is open.
    fake.units().attend(OPEN).await;
    assert_eq!(fake.started(), [OPERATOR]);
}

#[tokio::test]
async fn a_start_of_the_operator_that_fails_is_reported_and_tried_again() {
    let fake = Fake::new("active");
    fake.script("echo no such unit >&2; exit 5");
    let mut units = fake.units();
    let findings = units.attend(OPEN).await;
    assert_eq!(findings[0].code, Code::OperatorNotStarted);
    assert!(findings[0].evidence[0].saw.contains("no such unit"), "{findings:?}");
    fake.script("");
    fake.started();
    assert!(units.attend(OPEN).await.is_empty());
    assert_eq!(fake.started(), [OPERATOR]);
}

#[tokio::test]
async fn credentials_that_could_not_be_given_are_reported() {
    let fake = Fake::new("active");
    let findings = fake.units().attend(OPENS).await;
    assert_eq!((findings.len(), findings[0].code), (1, Code::OperatorNotStarted));
    assert_eq!(findings[0].evidence[0].saw, "503");
    assert_eq!(fake.started(), Vec::<String>::new(), "without credentials it is not started");
}

#[test]
fn a_k3s_that_is_still_starting_is_no_fault_of_the_operators() {
    for (active, seconds, is_slow, want) in [
        ("activating", 0, false, Severity::Unknown),
        ("activating", 299, false, Severity::Unknown),
        ("activating", 299, true, Severity::Unknown),
        ("activating", 300, false, Severity::Fail),
        ("activating", 300, true, Severity::Warn),
        ("active", 0, false, Severity::Fail),
        ("active", 0, true, Severity::Warn),
        ("", 0, false, Severity::Fail),
    ] {
        let found = opening_fault(active, Duration::from_secs(seconds), "503", is_slow);
        assert_eq!(found.severity(), want, "{active} {seconds}");
        assert_eq!((found.code, &*found.evidence[0].saw), (Code::OperatorNotStarted, "503"));
    }
}

#[tokio::test]
async fn a_k3s_that_proves_names_is_given_longer_to_start() {
    let fake = Fake::new("activating");
    for (lasting, codes) in [
        (STARTING, vec![Code::OperatorNotStarted]),
        (OPENING, vec![Code::OperatorNotStarted, Code::K3sNotAnswering]),
    ] {
        let mut units = fake.units();
        units.starting_since = Instant::now().checked_sub(lasting);
        let found: Vec<_> = units.attend(OPENS).await.iter().map(|finding| finding.code).collect();
        assert_eq!(found, codes, "{lasting:?}: restarting k3s would only make it start over");
    }
}

#[test]
fn a_start_that_hangs_is_distinguished_from_a_slow_one() {
    use Severity::{Fail, Warn};
    for (active, seconds, is_slow, want) in [
        ("activating", 89, false, None),
        ("activating", 89, true, None),
        ("activating", 90, false, Some((Fail, "does not answer correctly"))),
        ("activating", 90, true, Some((Warn, "on a node that is busy"))),
        ("active", 1000, false, None),
        ("inactive", 1000, true, None),
        ("failed", 0, false, Some((Fail, "has failed"))),
        ("failed", 0, true, Some((Fail, "has failed"))),
    ] {
        let fault = start_fault(K3S, active, Duration::from_secs(seconds), STARTING, is_slow);
        assert_eq!(fault.as_ref().map(Finding::severity), want.map(|want| want.0), "{active} {seconds}");
        assert!(fault.is_none_or(|f| f.message.contains(want.unwrap().1) && f.remedy.is_some()), "{active}");
    }
    assert_eq!(age(5, 3), None);
    assert_eq!(age(3, 5), Some(Duration::from_micros(2)));
}

#[tokio::test]
async fn a_k3s_that_hangs_while_starting_is_reported_and_forgotten_once_it_answers() {
    let fake = Fake::new("activating");
    let mut units = fake.units();
    assert!(units.attend(SHUT).await.is_empty(), "it may still come");
    // Seen starting for long by this agent; queried again only after a pause.
    units.starting_since = Instant::now().checked_sub(STARTING);
    let findings = units.attend(SHUT).await;
    assert_eq!(findings[0].code, Code::K3sNotAnswering);
    assert_eq!(units.attend(SHUT).await, findings, "it stays between two looks");
    let asked = fs::read_to_string(fake.log()).unwrap();
    assert_eq!(asked.lines().count(), 1, "it is not asked all the time: {asked}");
    let unserved = CheckRound { silent: false, ..SHUT };
    assert!(units.attend(unserved).await.is_empty(), "an API server that serves the wrong names does answer");
    // According to systemd, for an agent that was restarted.
    fake.script("echo ActiveState=activating; echo StateChangeTimestampMonotonic=1");
    let lasting = Duration::from_micros(monotonic_now().unwrap());
    assert_eq!(!fake.units().attend(SHUT).await.is_empty(), lasting >= STARTING);
}

#[tokio::test]
async fn a_node_that_has_joined_is_not_called_outside_because_its_unit_says_so_late() {
    let fake = Fake::new("activating");
    let kubelet = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (role, joined) in [(Role::Agent, true), (Role::Server, false)] {
        let mut units = fake.units_as(role);
        units.kubelet = kubelet.local_addr().unwrap();
        units.starting_since = Instant::now().checked_sub(STARTING);
        assert_eq!(units.attend(SHUT).await.is_empty(), joined, "{role:?}");
    }
    let mut units = fake.units_as(Role::Agent);
    units.kubelet = kubelet.local_addr().unwrap();
    drop(kubelet);
    units.starting_since = Instant::now().checked_sub(STARTING);
    assert!(units.attend(SHUT).await[0].message.ends_with("has not joined its server"));
}

#[tokio::test]
async fn a_hanging_k3s_is_reported_on_a_bad_host_too() {
    let fake = Fake::new("activating");
    let mut units = fake.units();
    units.starting_since = Instant::now().checked_sub(STARTING);
    // This queries first, so the other has no query to make.
    units.guard_k3s(&bad()).await;
    assert_eq!(units.attend(SHUT).await[0].code, Code::K3sNotAnswering);
    assert!(!units.k3s_is_blocked());
}

#[tokio::test]
async fn a_start_on_a_busy_node_is_slow_and_one_that_begins_again_and_again_is_a_fault() {
    let pressure = |processor| HostLoad {
        pressure: Some(Pressure { processor, memory: 0.0, disk: 0.0 }),
        ..HostLoad::default()
    };
    let (busy, idle) = (pressure(95.0), pressure(5.0));
    let ago = |seconds: u64| {
        monotonic_now().unwrap().checked_sub(seconds * 1_000_000).map(|since| since.to_string())
    };
    for (what, load, one_start, want) in [
        ("a long start on a busy node", Some(&busy), 120, Severity::Warn),
        ("a long start on a node at rest", Some(&idle), 120, Severity::Fail),
        ("nothing known of the load", None, 120, Severity::Fail),
        ("it started again a moment ago", Some(&busy), 5, Severity::Fail),
        ("half an hour", Some(&busy), BUSY_PATIENCE.as_secs(), Severity::Fail),
    ] {
        // A machine that was booted a moment ago has had no long start.
        let Some(since) = ago(one_start) else { continue };
        let fake = Fake::new("activating");
        fake.script(&format!("echo ActiveState=activating; echo StateChangeTimestampMonotonic={since}"));
        let mut units = fake.units();
        units.starting_since = Instant::now().checked_sub(STARTING);
        let found = units.attend(CheckRound { load, ..SHUT }).await;
        assert_eq!((found[0].code, found[0].severity()), (Code::K3sNotAnswering, want), "{what}");
    }
}

#[tokio::test]
async fn credentials_that_are_late_are_no_failure_until_the_silence_is_long() {
    let fake = Fake::new("active");
    for (minutes, want) in [(0, Severity::Warn), (4, Severity::Warn), (5, Severity::Fail)] {
        let opening_late_for = Some(Duration::from_mins(minutes));
        let found = fake.units().attend(CheckRound { opening_late_for, ..OPENS }).await;
        assert_eq!((found[0].code, found[0].severity()), (Code::OperatorNotStarted, want), "{minutes}");
    }
}
