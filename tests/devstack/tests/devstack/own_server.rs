//! The library on the real API server that `with-server` chose.

use std::fs;

use weaver_devstack::process::{self, Process};
use weaver_devstack::server::{Server, ServerBinary, ServerOptions};

#[test]
fn data_and_port_survive_restart_and_kill_and_a_drop_ends_it() {
    let binary = ServerBinary::from_environment().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&binary, ServerOptions::new(dir.path()).tls_sans(["a.test"])).unwrap();
    let (kubectl, port, first) = (server.kubectl(), server.port(), server.pid());
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(server.kubeconfig()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    kubectl.run(&["create", "configmap", "kept", "--from-literal=a=b"]).unwrap();

    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), first);
    assert_eq!(kubectl.json(&["get", "configmap", "kept"]).unwrap()["data"]["a"], "b");

    server.kill().unwrap();
    assert!(kubectl.ready().is_err());
    server.restart().unwrap();
    assert_eq!(kubectl.json(&["get", "configmap", "kept"]).unwrap()["data"]["a"], "b");

    let process = Process::running(server.pid()).unwrap();
    drop(server);
    assert!(!process.is_alive());
    assert!(process::marked(&dir.path().canonicalize().unwrap()).is_empty());
}

#[test]
fn a_taken_port_is_said_by_the_server_itself() {
    let binary = ServerBinary::from_environment().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let held = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = held.local_addr().unwrap().port();
    let Err(error) = Server::start(&binary, ServerOptions::new(dir.path()).port(port)) else {
        panic!("it started")
    };
    let text = format!("{error:#}");
    assert!(text.contains("the API server ended") && text.contains(&port.to_string()), "{text}");
    assert!(text.contains("server.log"), "{text}");
}
