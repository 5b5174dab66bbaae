//! `check` against a real TLS server: the proof of the served names.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use crate::support::{
    host::{CONFIG, KUBECONFIG, TestHost},
    tls_server::{Ca, TlsServer, closed_port},
};

/// Names as k3s would serve them in addition to the configured ones.
const SERVED: &[&str] = &["kubernetes", "localhost", "raspik3d", "box.example", "127.0.0.1"];

fn host(ca: &Ca, names: &str) -> TestHost {
    TestHost::debian().server_ca(&ca.pem()).file(CONFIG, format!("tls-san: [{names}]\n"))
}

#[test]
fn served_names_are_proven() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(SERVED));
    let verdict = host(&ca, "box.example, RASPIK3D, 127.0.0.1").check(server.address, 5);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-00").is("ok").says("box.example, raspik3d, 127.0.0.1");
    // An address is never sent as a server name.
    let mut asked = server.asked();
    asked.sort();
    assert_eq!(asked, [None, Some("box.example".into()), Some("raspik3d".into())]);
}

#[test]
fn a_configured_name_that_is_not_served_shows_the_served_list_and_the_remedy() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(SERVED));
    let verdict = host(&ca, "box.example, raspi").check(server.address, 1);
    assert_eq!(verdict.code, 10);
    verdict
        .finding("T-02")
        .is("fail")
        .says("raspi is configured and not served")
        .says("valid for: kubernetes, localhost, raspik3d, box.example, 127.0.0.1")
        .seen_at("/etc/rancher/k3s/config.yaml:1:24")
        .remedied_by("weaver-node-agent repair names")
        .remedied_by("`raspik3d` was meant");
    verdict.finding("T-00").is("ok").says("box.example");
    assert!(server.asked().len() > 2, "it was probed again: {:?}", server.asked());
}

#[test]
fn a_name_that_appears_while_probing_is_proven() {
    let ca = Ca::new();
    let (old, new) = (ca.leaf(&["old.example"]), ca.leaf(&["old.example", "new.example"]));
    let server = TlsServer::start_with(move |number| if number < 4 { old.clone() } else { new.clone() });
    let verdict = host(&ca, "new.example").check(server.address, 30);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-00").is("ok");
    assert_eq!(server.asked().len(), 5);
}

#[test]
fn a_wildcard_is_proven_without_asking_for_a_made_up_name() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["*.pi.example"]));
    assert_eq!(host(&ca, "\"*.pi.example\"").check(server.address, 1).code, 0);
    assert_eq!(server.asked(), [None]);
    let verdict = host(&ca, "\"*.other.example\"").check(server.address, 1);
    verdict.finding("T-02").is("fail").says("valid for: *.pi.example");
}

#[test]
fn a_name_that_k3s_drops_is_known_bad_and_one_that_cannot_be_asked_for_is_not() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example", "node.1"]));
    let verdict = host(&ca, "box.example, pi.example.").check(server.address, 1);
    assert_eq!(verdict.code, 10);
    verdict.finding("T-08").is("fail").says("k3s drops it").remedied_by("write `pi.example` instead");
    let verdict = host(&ca, "box.example, node.1").check(server.address, 1);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-08").is("warn").says("cannot be proven by the agent");
}

#[test]
fn a_configuration_that_only_the_agent_cannot_read_leaves_the_proof_open() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let large = "a: 1\n".repeat(100_000);
    let verdict = TestHost::debian().server_ca(&ca.pem()).file(CONFIG, large).check(server.address, 1);
    assert_eq!(verdict.code, 0);
    verdict.finding("F-03").is("unknown").remedied_by("sudo weaver-node-agent check");
    verdict.finding("T-09").is("unknown").says("configured names are unknown");
    assert!(!verdict.has("T-00"));
}

#[test]
fn an_address_is_compared_as_an_address() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["fd00::1", "10.9.8.7"]));
    assert_eq!(host(&ca, "\"FD00:0::1\", 10.9.8.7").check(server.address, 1).code, 0);
    host(&ca, "10.9.8.6").check(server.address, 1).finding("T-02").is("fail").says("fd00::1, 10.9.8.7");
}

#[test]
fn an_expired_certificate_and_one_from_the_future() {
    let ca = Ca::new();
    for (years, words) in
        [((2020, 2021), "expired on 2021-01-01"), ((2090, 2099), "valid only from 2090-01-01")]
    {
        let server = TlsServer::start(ca.leaf_of(&["box.example"], years));
        let verdict = host(&ca, "box.example").check(server.address, 1);
        assert_eq!(verdict.code, 10);
        verdict.finding("T-04").is("fail").says(words).remedied_by("timedatectl");
    }
}

#[test]
fn a_certificate_of_another_ca() {
    let (ca, other) = (Ca::new(), Ca::new());
    let server = TlsServer::start(other.leaf(&["box.example"]));
    let verdict = host(&ca, "box.example").check(server.address, 1);
    assert_eq!(verdict.code, 10);
    verdict.finding("T-05").is("fail").remedied_by("another k3s");
}

#[test]
fn a_server_that_does_not_answer_is_unknown_and_not_waited_for() {
    let ca = Ca::new();
    let verdict = host(&ca, "box.example").check(closed_port(), 600);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-09").is("unknown").says("refused");
}

#[test]
fn a_server_that_is_slow_is_looked_at_again_and_is_no_failure() {
    let ca = Ca::new();
    let leaf = ca.leaf(SERVED);
    // A busy Pi: longer than the time-out of a first handshake.
    let server = TlsServer::start_with(move |_| {
        std::thread::sleep(Duration::from_secs(6));
        leaf.clone()
    });
    let verdict = host(&ca, "box.example").check(server.address, 1);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-00").is("ok").says("box.example");
    verdict.finding("F-14").is("warn").says("answers slowly").remedied_by("wait");
    // This host has no readers for its load.
    verdict.finding("H-19").is("unknown").says("cannot tell");
    assert!(!verdict.has("T-09"));
}

#[test]
fn a_server_that_stays_silent_is_unknown_and_said_to_be_slow_only_by_the_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pressure = |some| {
        format!(
            "some avg10=0.00 avg60={some} avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
        )
    };
    let host = host(&Ca::new(), "box.example")
        .file("/proc/pressure/cpu", pressure("3.00"))
        .file("/proc/pressure/memory", pressure("0.00"))
        .file("/proc/pressure/io", pressure("88.00"));
    // The kernel accepts the connection, and nothing reads from it.
    let verdict = host.check(listener.local_addr().unwrap(), 1);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-09").is("unknown").says("no answer within 30 s");
    verdict.finding("H-19").is("warn").says("overloaded: disk").remedied_by("wait");
    assert!(!verdict.has("F-14"), "it gave no answer at all");
}

/// A node that joins the server at this address.
fn joining(server: SocketAddr) -> TestHost {
    let config = format!("server: \"https://{server}\"\n");
    TestHost::debian()
        .file("/etc/weaver/k3s-agent", "")
        .file("/etc/rancher/k3s/config.yaml.d/90-weaver.yaml", config)
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn a_server_to_join_that_is_slow_is_asked_again_and_is_not_called_silent() {
    let ca = Ca::new();
    let leaf = ca.leaf(SERVED);
    let late = move |number: usize| {
        if number == 0 {
            std::thread::sleep(Duration::from_secs(6));
        }
        leaf.clone()
    };
    let server = TlsServer::answering(late, http("200 OK", &ca.pem()));
    let verdict = joining(server.address).check(closed_port(), 1);
    verdict.finding("F-14").is("warn").says("answers slowly").remedied_by("wait");
    let is_short = (0..5).any(|seconds| verdict.report.to_string().contains(&format!("took {seconds} s")));
    assert!(!is_short, "with what was waited in vain: {:#}", verdict.report);
    verdict.finding("H-19").is("unknown").says("cannot tell");
    assert!(!verdict.has("J-01") && !verdict.has("J-02"), "{:#}", verdict.report);
}

#[test]
fn a_server_to_join_that_accepts_and_stays_silent_is_said_to_be_busy_and_one_that_is_off_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = joining(listener.local_addr().unwrap()).check(closed_port(), 1);
    busy.finding("J-01").is("warn").says("may only be busy").remedied_by("wait");
    let off = joining(closed_port()).check(closed_port(), 1);
    off.finding("J-01").is("warn").says("does not respond").remedied_by("getent");
    assert!(!off.has("H-19"), "nothing was late");
}

#[test]
fn a_load_balancer_before_a_server_that_is_starting_is_no_other_server() {
    let leaf = Ca::new().leaf(SERVED);
    let server = TlsServer::answering(move |_| leaf.clone(), http("503 Service Unavailable", "starting"));
    let verdict = joining(server.address).check(closed_port(), 1);
    verdict.finding("J-01").is("warn").says("does not respond");
    assert!(!verdict.has("J-02"), "{:#}", verdict.report);
}

#[test]
fn a_server_that_speaks_no_tls_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 16];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").unwrap();
    });
    let verdict = host(&Ca::new(), "box.example").check(address, 1);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-09").is("unknown").says("TLS");
    server.join().unwrap();
}

#[test]
fn before_the_first_start_of_k3s_nothing_is_bad() {
    let verdict = TestHost::debian().file(CONFIG, "tls-san: [box.example]\n").check(closed_port(), 1);
    assert_eq!(verdict.code, 0);
    verdict.finding("T-09").is("unknown").says("server-ca.crt does not exist");
}

#[test]
fn a_ca_file_that_holds_no_certificate_is_known_bad() {
    let host = TestHost::debian().server_ca("no pem\n").file(CONFIG, "tls-san: [box.example]\n");
    let verdict = host.check(closed_port(), 1);
    assert_eq!(verdict.code, 10);
    verdict.finding("F-03").is("fail").says("no certificate");
}

#[test]
fn port_and_data_directory_come_from_the_configuration() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let config =
        format!("tls-san: box.example\nhttps-listen-port: {}\ndata-dir: /data/k3s\n", server.address.port());
    let host = TestHost::debian().file("/data/k3s/server/tls/server-ca.crt", ca.pem()).file(CONFIG, config);
    let output = host.agent("check").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(server.asked().len(), 1, "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn preflight_makes_no_connection() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = host(&ca, "box.example");
    let output =
        host.agent("preflight").args(["--api-address", &server.address.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(server.asked().is_empty());
}

#[test]
fn a_kubeconfig_without_its_context_names_file_and_remedy() {
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: gone\ncontexts: []\n";
    let host = TestHost::debian().file(KUBECONFIG, kubeconfig);
    fs::set_permissions(host.path(KUBECONFIG), fs::Permissions::from_mode(0o600)).unwrap();
    let verdict = host.check(closed_port(), 1);
    assert_eq!(verdict.code, 0);
    verdict
        .finding("K-06")
        .is("warn")
        .says("context `gone` is not in it")
        .seen_at("/etc/rancher/k3s/k3s.yaml:3:18")
        .remedied_by("systemctl restart k3s");
    assert!(!verdict.has("K-07"));
}

#[test]
fn a_kubeconfig_that_others_can_read_is_a_warning() {
    let host = TestHost::debian().file(KUBECONFIG, "current-context: x\n");
    fs::set_permissions(host.path(KUBECONFIG), fs::Permissions::from_mode(0o644)).unwrap();
    host.check(closed_port(), 1).finding("K-07").is("warn").says("0644").remedied_by("chmod 0600");
}
