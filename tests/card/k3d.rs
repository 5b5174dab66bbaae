//! A cluster of k3d under the agent's real unit: which sockets its sandbox lets it connect to, and what it makes of the
//! units of webhook and operator.
//!
//! No container engine is on the card. A small server answers at its socket; the API server of the only container is
//! the card's own.

use serde_json::Value;
use weaver_image::boot::machine::Machine;
use weaver_image::booted::{API_NAME, machine, wait_for_unit};
use weaver_tests::agent::finding;

use crate::node::{apply_sample, report};
use crate::poll::{LIMIT, until};

/// What Docker answers about a server of k3d, as far as the agent reads it, at a socket of one user.
const ENGINE: &str = r#"cat > /run/engine.py <<'END'
import http.server, io, json, os, socketserver, sys, tarfile, urllib.parse

NAME = "k3d-demo-server-0"
CA = "/var/lib/rancher/k3s/server/tls/server-ca.crt"
FILES = {CA: CA, "/output/kubeconfig.yaml": "/etc/rancher/k3s/k3s.yaml"}
LISTED = [{
    "Id": NAME, "Names": ["/" + NAME], "Image": "rancher/k3s:v1.36.3-k3s1", "State": "running", "Status": "Up",
    "Labels": {"app": "k3d", "k3d.cluster": "demo", "k3d.role": "server", "k3d.cluster.network": "k3d-demo"},
}]
INSPECTED = {
    "RestartCount": 0, "Args": ["server", "--tls-san", "API_NAME"],
    "NetworkSettings": {
        "Ports": {"6443/tcp": [{"HostIp": "0.0.0.0", "HostPort": "6443"}]},
        "Networks": {"k3d-demo": {"Gateway": "172.18.0.1", "IPPrefixLen": 16}},
    },
}

def answer(asked):
    path = urllib.parse.parse_qs(asked.query).get("path", [""])[0]
    if asked.path.endswith("/containers/json"):
        return json.dumps(LISTED).encode()
    if asked.path.endswith(f"/{NAME}/json"):
        return json.dumps(INSPECTED).encode()
    if path in FILES:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT, dereference=True) as tar:
            tar.add(FILES[path], arcname="file")
        return archive.getvalue()

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = answer(urllib.parse.urlsplit(self.path))
        self.send_response(404 if body is None else 200)
        body = body or b'{"message": "no such thing"}'
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

at, owner = sys.argv[1], int(sys.argv[2])
os.umask(0o117)
engine = socketserver.UnixStreamServer(at, Answers)
os.chown(at, owner, owner)
engine.serve_forever()
END
ip link add k3d type dummy && ip address add 172.18.0.1/16 dev k3d && ip link set k3d up"#;

/// As logind makes it when a user comes, which may be long after the agent has started.
const RUNTIME_DIR: &str = "mkdir -p /run/user/4242 && \
                           mount -t tmpfs -o mode=0700,uid=4242,gid=4242 none /run/user/4242";
const ROOTLESS: &str = "/run/user/4242/docker.sock";

/// Has the engine listen there, at a socket of mode 0660 of this user.
fn listen(machine: &Machine, socket: &str, owner: u32) {
    let start = format!("systemd-run --collect --unit=engine python3 /run/engine.py {socket} {owner}");
    machine.run(&format!("{start} && until test -S {socket}; do sleep 1; done")).unwrap();
}

fn has(seen: &Value, code: &str) -> bool {
    seen["findings"].as_array().is_some_and(|all| all.iter().any(|finding| finding["code"] == code))
}

fn reported(machine: &Machine, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    until(what, || {
        let seen = report(machine)?;
        Ok(if is_so(&seen) { Ok(seen) } else { Err(seen.to_string()) })
    })
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_gate_opens_for_a_cluster_behind_dockers_socket() {
    let machine = machine().unwrap();
    machine.run(&ENGINE.replace("API_NAME", API_NAME)).unwrap();
    listen(&machine, "/run/docker.sock", 0);
    // As after a boot: nothing has opened the gate.
    let shut = "systemctl stop weaver-node-agent weaver-operator && \
                rm /run/weaver/report.json /run/weaver/operator.kubeconfig /run/weaver/operator.token";
    machine.run(shut).unwrap();
    machine.run("echo WEAVER_CLUSTER=k3d:demo | sudo tee -a /etc/weaver/node-agent.env").unwrap();
    machine.run("sudo systemctl restart weaver-node-agent").unwrap();

    let is_open = |seen: &Value| {
        let is_well = !seen["findings"].to_string().contains("\"D-");
        seen["gate"] == "open" && seen["definitions"]["installed"] == true && is_well
    };
    let seen = reported(&machine, "an open gate, and definitions whose conversion is proven", is_open);
    let proof = finding(&seen, "T-00")["message"].as_str().unwrap();
    assert!(proof.contains("127.0.0.1:6443") && proof.contains(API_NAME), "{proof}");
    wait_for_unit(&machine, "weaver-operator.service", LIMIT).unwrap();
    let listens = machine.run("ss -Hltn 'sport = :9443'").unwrap();
    assert!(listens.contains("172.18.0.1:9443") && listens.lines().count() == 1, "{listens}");
    let drop_ins = machine.run("systemctl show --value -p DropInPaths weaver-operator.service").unwrap();
    assert!(drop_ins.contains("/run/systemd/system/weaver-operator.service.d/50-k3d.conf"), "{drop_ins}");
    let url = "jsonpath={.spec.conversion.webhook.clientConfig.url}";
    let url =
        machine.kubectl(API_NAME, &["get", "crd", "configmapsyncs.weaver.example.com", "-o", url]).unwrap();
    assert_eq!(url, "https://172.18.0.1:9443/convert");

    apply_sample(&machine);
    let copies =
        ["get", "configmaps", "-A", "-l", "app.kubernetes.io/managed-by=config-weaver", "-o", "name"];
    until("both copies", || {
        let copies = machine.kubectl(API_NAME, &copies)?;
        Ok((copies.lines().count() == 2).then_some(()).ok_or(copies))
    });
    let old =
        ["get", "configmapsyncs.v1alpha1.weaver.example.com", "-A", "-o", "jsonpath={.items[*].apiVersion}"];
    assert_eq!(machine.kubectl(API_NAME, &old).unwrap(), "weaver.example.com/v1alpha1");
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn an_engine_of_a_user_is_reached_after_the_printed_drop_in() {
    let machine = machine().unwrap();
    machine.run(&ENGINE.replace("API_NAME", API_NAME)).unwrap();
    machine.run(RUNTIME_DIR).unwrap();
    listen(&machine, ROOTLESS, 4242);
    machine.run("echo WEAVER_CLUSTER=k3d:demo >> /etc/weaver/node-agent.env").unwrap();
    let docker_host = format!("echo DOCKER_HOST=unix://{ROOTLESS} | sudo tee -a /etc/weaver/node-agent.env");
    machine.run(&docker_host).unwrap();
    machine.run("sudo systemctl restart weaver-node-agent").unwrap();
    let seen = reported(&machine, "D-01", |seen| has(seen, "D-01"));
    let hidden = finding(&seen, "D-01");
    assert_eq!(hidden["severity"], "fail", "{hidden}");
    assert!(hidden["message"].as_str().unwrap().contains(ROOTLESS), "{hidden}");

    // What is printed is what is typed.
    let commands: Vec<_> =
        hidden["remedy"]["commands"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(commands.iter().any(|command| command.contains("weaver-node-agent.service.d")), "{hidden}");
    for command in commands {
        machine.run(command).unwrap();
    }
    let is_proven = |seen: &Value| has(seen, "T-00") && !has(seen, "D-01");
    let seen = reported(&machine, "the proof", is_proven);
    let proof = finding(&seen, "T-00")["message"].as_str().unwrap();
    assert!(proof.contains(API_NAME), "{proof}");

    // The user goes, and comes again.
    machine.run("systemctl stop engine && umount /run/user/4242").unwrap();
    reported(&machine, "D-01 without the engine", |seen| has(seen, "D-01"));
    machine.run(RUNTIME_DIR).unwrap();
    listen(&machine, ROOTLESS, 4242);
    reported(&machine, "the proof again", is_proven);
}
