//! What systemd sees of the real program: its exit codes, and that it feeds the watchdog.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use weaver_diagnostics::exit_code;
use weaver_installer::certificates::{self, ensure};

fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-operator"));
    command.args(words).env_clear().stdin(Stdio::null());
    command
}

/// Exit code, and what it says.
fn ended(words: &[&str]) -> (i32, String) {
    let output = program(words).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn run(kubeconfig: &Path) -> (i32, String) {
    ended(&["run", "--kubeconfig", kubeconfig.to_str().unwrap()])
}

/// For a server on `port`, with what `user` says.
fn kubeconfig(port: u16, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, \
         user: u}}\n\
         clusters:\n- name: k\n  cluster: {{server: 'https://127.0.0.1:{port}'}}\nusers:\n- name: u\n  \
         user: {user}\n"
    )
}

fn needs_a_human((code, said): &(i32, String)) {
    assert_eq!(*code, i32::from(exit_code::USAGE), "{said}");
}

fn may_pass((code, said): &(i32, String)) {
    assert_eq!(*code, i32::from(exit_code::INTERNAL), "{said}");
}

#[test]
fn wrong_flags_need_a_human() {
    for words in [&["run", "--watch", "1"][..], &["webhook", "--listen", "9443"], &["fly"]] {
        needs_a_human(&ended(words));
    }
}

#[test]
fn a_kubeconfig_that_no_program_could_use_needs_a_human() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("operator.kubeconfig");
    for content in [&b"users: [}"[..], b"", b"current-context: c\ncontexts: []\n", b"\xff\xfe", b"- 1\n"] {
        fs::write(&file, content).unwrap();
        let end = run(&file);
        needs_a_human(&end);
        assert!(end.1.contains("a restart does not help") && end.1.contains("operator.kubeconfig"));
    }
    needs_a_human(&run(dir.path()));
    needs_a_human(&run(&file.join("below-a-file")));
    let certificate = kubeconfig(1, "{client-certificate-data: AAAA, client-key-data: AAAA}");
    fs::write(&file, certificate).unwrap();
    needs_a_human(&run(&file));
}

#[test]
fn a_kubeconfig_or_a_file_it_names_that_is_not_there_yet_may_come() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("operator.kubeconfig");
    may_pass(&run(&file));
    for user in ["{tokenFile: operator.token}", "{client-certificate: a.crt, client-key: a.key}"] {
        fs::write(&file, kubeconfig(1, user)).unwrap();
        may_pass(&run(&file));
    }
}

#[test]
fn a_server_that_does_not_answer_may_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("operator.kubeconfig");
    let port = {
        // No one listens there once it is dropped.
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    };
    fs::write(&file, kubeconfig(port, "{token: abc}")).unwrap();
    let end = run(&file);
    may_pass(&end);
    assert!(end.1.contains("the API server could not be asked"), "{}", end.1);
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_webhook_is_ready_and_then_feeds_the_watchdog() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = dir.path().to_str().unwrap();
    ensure(dir.path(), &certificates::CertificateOptions::default(), Timestamp::now()).unwrap();
    let socket = dir.path().join("notices");
    let notices = UnixDatagram::bind(&socket).unwrap();
    notices.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = program(&["webhook", "--listen", "127.0.0.1:0", "--certificates", certificates]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000").stderr(Stdio::null());
    let _running = Running(command.spawn().unwrap());
    let mut said = String::new();
    while !(said.contains("READY=1") && said.matches("WATCHDOG=1").count() >= 3) {
        let mut text = [0; 256];
        let size = notices.recv(&mut text).expect("READY=1 and WATCHDOG=1 within 30 s");
        said.push_str(std::str::from_utf8(&text[..size]).unwrap());
    }
    assert!(said.contains("STATUS=converting between versions"), "{said}");
}

#[test]
fn a_socket_of_the_service_managers_has_anyone_who_came_before_the_webhook() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = dir.path().to_str().unwrap();
    ensure(dir.path(), &certificates::CertificateOptions::default(), Timestamp::now()).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut early = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    early.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = program(&["webhook", "--socket-on-stdin", "--certificates", certificates]);
    command.stdin(OwnedFd::from(socket)).stderr(Stdio::null());
    let _running = Running(command.spawn().unwrap());
    // No TLS: it is answered with an alert, and not by the kernel.
    early.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = [0; 1];
    early.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [21], "the type of an alert");
}

#[test]
fn a_standard_input_that_is_no_socket_is_reported() {
    let (code, said) = ended(&["webhook", "--socket-on-stdin"]);
    assert_eq!(code, i32::from(exit_code::INTERNAL), "{said}");
    assert!(said.contains("start the unit weaver-webhook.socket"), "{said}");
    needs_a_human(&ended(&["webhook", "--socket-on-stdin", "--listen", "127.0.0.1:0"]));
}
