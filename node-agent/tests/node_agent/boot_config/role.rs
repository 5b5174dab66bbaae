//! `[k3s] role` on fixture hosts: the files of an agent, and what remains when the role changes.

use std::fs;

use super::card::CardHost;
use super::{ALL, K3S, LAST_GOOD, TOKEN, WEAVER_TOML};

/// The token of another cluster, next to that of the card's own.
const AGENT_TOKEN: &str = "/var/lib/weaver/k3s-agent.token";
/// What k3s has fetched and made when it presents the node's name.
const ASKED: [&str; 2] = ["/var/lib/rancher/k3s/agent/server-ca.crt", "/etc/rancher/node/password"];
const KUBELETS: &str = "/var/lib/rancher/k3s/agent/client-kubelet.crt";
const ROLE: &str = "/etc/weaver/k3s-agent";
const SERVER: &str = "hostname = \"raspi\"\n[k3s]\ntoken = \"hunter2\"\n";

/// A weaver.toml of an agent with this token.
fn agent(token: &str) -> String {
    let server = "server = \"https://raspi.lan:6443\"";
    format!("hostname = \"worker\"\n[k3s]\nrole = \"agent\"\n{server}\ntoken = \"{token}\"\n")
}

fn whole() -> String {
    format!("K10{}::server:hunter2", "0".repeat(64))
}

#[test]
fn an_agent_gets_its_server_its_token_and_its_role() {
    let host = CardHost::new();
    let said = host.configure(&agent(&whole())).exits(0);
    let message = said.finds("B-00", "ok")["message"].as_str().unwrap();
    assert!(message.contains("agent of https://raspi.lan:6443, a token"), "{message}");
    assert!(said.report["findings"].as_array().unwrap().iter().all(|finding| finding["code"] != "B-07"));
    assert!(host.exists(ROLE));
    assert_eq!(host.read(AGENT_TOKEN), format!("{}\n", whole()));
    let k3s = host.read(K3S);
    for line in
        ["node-name: worker", "server: https://raspi.lan:6443", "token-file: /var/lib/weaver/k3s-agent.token"]
    {
        assert!(k3s.lines().any(|present| present == line), "no {line}: {k3s}");
    }
    assert!(!k3s.contains("tls-san"), "{k3s}");
    assert_eq!(host.read(WEAVER_TOML), agent(""));
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    let before = host.state();
    host.run().exits(0);
    assert_eq!(host.state(), before, "a second start writes nothing");
}

#[test]
fn a_change_of_the_role_takes_the_file_of_the_role_and_k3s_file_along() {
    let host = CardHost::new();
    for _ in 0..2 {
        host.configure(&agent(&whole())).exits(0);
        assert!(host.exists(ROLE) && host.read(K3S).contains("server: "));
        host.configure(SERVER).exits(0);
        assert!(!host.exists(ROLE));
        assert!(!host.read(K3S).contains("server: ") && host.read(K3S).contains("tls-san+:"));
    }
    host.configure(&agent(&whole())).exits(0);
    fs::remove_file(host.path(WEAVER_TOML)).unwrap();
    host.run().exits(0);
    assert!(!host.exists(ROLE) && !host.exists(K3S));
}

/// The remedy of J-04.
#[test]
fn an_agent_whose_name_was_turned_down_gets_another_and_keeps_the_one_that_is_taken() {
    let host = CardHost::new();
    let called = |name: &str| agent(&whole()).replace("worker", name);
    host.configure(&called("raspi")).exits(0);
    for path in ASKED {
        host.write(path, "x");
    }
    host.configure(&called("worker")).exits(0);
    assert!(host.read(K3S).contains("node-name: worker\n"), "{}", host.read(K3S));
    host.write(KUBELETS, "by the server's CA");
    host.configure(&called("third")).exits(0);
    assert!(host.read(K3S).contains("node-name: worker\n"), "{}", host.read(K3S));
    assert_eq!(host.read("/etc/hostname"), "third\n");
    fs::remove_file(host.path(KUBELETS)).unwrap();
    host.run().exits(0);
    assert!(host.read(K3S).contains("node-name: third\n"), "it is to join another server");
}

#[test]
fn a_server_that_becomes_an_agent_gets_a_new_name_and_finds_the_old_one_again() {
    // Its name was given by weaver.toml, or was the host's and nothing asked for another.
    for (server, name) in [(SERVER, "raspi"), ("", "weaver")] {
        let host = CardHost::new();
        host.configure(server).exits(0);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.use_authority_key_identifier_extension = true;
        let ca = parameters.self_signed(&key).unwrap().pem();
        host.write("/var/lib/rancher/k3s/server/tls/client-ca.crt", &ca);
        host.write(KUBELETS, &ca);
        for path in ASKED {
            host.write(path, "x");
        }
        host.configure(&agent(&whole())).exits(0);
        assert!(host.read(K3S).contains("node-name: worker\n"), "{}", host.read(K3S));
        host.write(KUBELETS, "by the other server's CA");
        host.configure("hostname = \"third\"\n").exits(0);
        assert!(host.read(K3S).contains(&format!("node-name: {name}\n")), "{}", host.read(K3S));
    }
}

#[test]
fn a_short_token_is_a_warning_at_every_start() {
    let host = CardHost::new();
    let first = host.configure(&agent("hunter2")).exits(0);
    let first = first.finds("B-07", "warn").clone();
    let second = host.run().exits(0);
    assert_eq!(*second.finds("B-07", "warn"), first, "the token was blanked in between");
    assert!(host.exists(ROLE), "it joins all the same");
}

#[test]
fn an_agent_whose_token_was_never_imported_is_reported() {
    let host = CardHost::new();
    let said = host.configure(&agent("")).exits(0);
    let message = said.finds("B-05", "warn")["message"].as_str().unwrap();
    assert!(message.contains("cannot join https://raspi.lan:6443"), "{message}");
    assert!(!host.read(K3S).contains("token-file"));
}

#[test]
fn a_token_is_kept_for_the_role_that_it_was_imported_for_and_for_no_other() {
    let host = CardHost::new();
    host.configure(SERVER).exits(0);
    let said = host.configure(&agent("")).exits(0);
    assert!(said.finds("B-05", "warn")["message"].as_str().unwrap().contains("it has no token"));
    assert!(!host.read(K3S).contains("token-file"), "the card's own password, for anyone who answers");
    assert!(!host.exists(TOKEN) && !host.exists(AGENT_TOKEN));

    host.configure(&agent(&whole())).exits(0);
    host.run().exits(0);
    assert!(host.read(K3S).contains(AGENT_TOKEN), "it is kept as long as the role is");
    host.configure("hostname = \"raspi\"\n[k3s]\ntoken = \"\"\n").exits(0);
    assert!(!host.read(K3S).contains("token-file"), "k3s made its cluster with another");
    assert!(!host.exists(TOKEN) && !host.exists(AGENT_TOKEN));
}

#[test]
fn a_role_waits_for_the_file_that_k3s_reads() {
    let host = CardHost::new();
    host.configure(SERVER).exits(0);
    // Blocks the path of the new file: it can neither be removed nor made.
    let blocks = format!("{K3S}.new/inner");
    host.write(&blocks, "");
    host.configure(&agent(&whole())).exits(1).finds("B-05", "warn");
    assert!(!host.exists(ROLE) && host.read(K3S).contains("tls-san+:"), "it is the server that it was");
    assert!(host.read(K3S).contains(TOKEN) && host.read(TOKEN) == "hunter2\n", "with the token that it had");

    fs::remove_dir_all(host.path(&format!("{K3S}.new"))).unwrap();
    assert!(host.read(WEAVER_TOML).contains("token = \"\""));
    host.run().exits(0);
    assert!(host.exists(ROLE) && host.read(K3S).contains(AGENT_TOKEN) && !host.exists(TOKEN));
    host.write(&blocks, "");
    host.configure(SERVER).exits(1).finds("B-05", "warn");
    assert!(host.exists(ROLE) && host.read(K3S).contains("server: "), "it is the agent that it was");
    assert_eq!(host.read(AGENT_TOKEN), format!("{}\n", whole()), "with the token that it had");
}

#[test]
fn a_fault_of_the_role_changes_nothing() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    let last_good = host.read(LAST_GOOD);
    for bad in [
        agent("K10hunter2::server:hunter2"),
        agent(&whole()).replace("https://", "http://"),
        agent(&whole()).replace("agent", "worker"),
        format!("[api]\nnames = [\"raspi.lan\"]\n{}", agent(&whole()).replace("hostname", "#")),
    ] {
        let said = host.configure(&bad).exits(0);
        said.finds("B-01", "warn");
        assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
        assert!(!host.exists(ROLE) && host.read(LAST_GOOD) == last_good, "{bad}");
    }
}
