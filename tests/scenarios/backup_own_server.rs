//! An API server that comes back with an older state: someone has restored a backup.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use weaver_tests::alone::OwnOperator;
use weaver_tests::terminal::Terminal;
use weaver_tests::world::{eventually, given};

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

#[tokio::test]
async fn after_an_older_state_is_restored_every_watch_sees_what_comes_next() {
    let mut alone = OwnOperator::direct(&["--lease", "12"]).await;
    let world = alone.world("backup");
    let (team, foo) = world.synced().await;
    let (bar, later) = (world.target(&team, "bar").await, world.target(&team, "later").await);
    let writer = world.writer("writer", "tokens").await;
    world.robot(&writer, "robot").await;
    world.service_token(&writer, "tokens", &[("a", "robot")]).await;
    world.fresh(&writer, "tokens").await;

    let (data, backup) = (alone.own.server.data_dir(), alone.own.dir().join("backup"));
    alone.own.server.stop().unwrap();
    copy(&data, &backup);
    alone.own.server.restart_after_stop().unwrap();
    // All of this is going to be undone; and the server's resource version gets far beyond that of the backup.
    for value in 2..200 {
        world.config_map(&team, "settings", &[("a", &value.to_string())]).await;
    }
    world.holds(&foo, "settings", &[("a", "199")]).await;
    world.sync(&team, "forgotten", world.spec(&team, &[&bar])).await;
    world.holds(&bar, "settings", &[("a", "199")]).await;
    // The lease is renewed in what is going to be undone; it is what shows that.
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), weaver_api::OPERATOR_NAMESPACE);
    let renewed = async || leases.get("weaver-operator").await.unwrap().spec.unwrap().renew_time;
    // Twice: the operator has had an answer to the first of them then.
    for _ in 0..2 {
        let before = renewed().await;
        let is_later = async || Some(renewed().await).filter(|now| *now != before).ok_or(());
        eventually("the lease is renewed", is_later).await;
    }
    let version = world.config_maps(&foo).get("settings").await.unwrap().metadata.resource_version;

    alone.own.server.stop().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    alone.own.server.restart_after_stop().unwrap();
    let restored = world.config_maps(&foo).get("settings").await.unwrap();
    let number = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
    assert!(number(restored.metadata.resource_version) < number(version));
    assert!(world.syncs(&team).get_opt("forgotten").await.unwrap().is_none());

    // It is noticed with the lease's next renewal, and ends the process: watches would be kept waiting in silence until
    // the server has come as far again.
    alone.operator.ends().await;
    let log = alone.operator.log();
    assert!(log.contains("the API server has an older state"), "{log}");
    // As systemd and the kubelet do.
    alone.restart_operator();

    // What comes next is seen by each watch: the resources', the sources', the copies', the namespaces', the Secrets'.
    world.sync(&team, "sync", world.spec(&team, &[&foo, &later])).await;
    world.holds(&later, "settings", &[("a", "1")]).await;
    world.config_map(&team, "settings", &[("a", "3")]).await;
    world.holds(&foo, "settings", &[("a", "3")]).await;
    let tampered = Patch::Merge(json!({"data": {"a": "tampered"}}));
    world.config_maps(&foo).patch("settings", &PatchParams::default(), &tampered).await.unwrap();
    world.holds(&foo, "settings", &[("a", "3")]).await;
    world.secrets(&writer).delete("tokens", &DeleteParams::default()).await.unwrap();
    world.tokens_that(&writer, "tokens", "are there again", |tokens| tokens.len() == 1).await;
    let new = world.target(&team, "new").await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["targets"]["selector"] = json!({"matchLabels": {"chosen": "yes"}});
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // Selected only when the right is there: no watch reports a new right, and a denied review is cached for minutes.
    world.mark_namespace(&new, json!({"labels": {"chosen": "yes"}})).await;
    world.holds(&new, "settings", &[("a", "3")]).await;
    assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
    world.finish().await;
}

/// A node whose k3s is the server: its directory is used as `/`.
struct Node {
    root: PathBuf,
}

impl Node {
    fn of(alone: &OwnOperator) -> Self {
        let node = Self { root: alone.own.dir().to_owned() };
        for (path, text) in [
            ("proc/sys/kernel/hostname", "raspi\n"),
            ("etc/rancher/k3s/config.yaml", "# of the node\n"),
            ("etc/rancher/node/password", "secret"),
            ("boot/firmware/weaver.toml", "hostname = \"raspi\"\n"),
            ("usr/local/bin/k3s", "#!/bin/sh\necho k3s version v1.36.4+k3s1\n"),
            // The test starts the server, when this has been asked to.
            ("systemctl", "#!/bin/sh\nshift 2\necho \"$@\" >> \"${0%/*}/calls\"\necho ActiveState=active\n"),
        ] {
            let path = node.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for program in ["usr/local/bin/k3s", "systemctl"] {
            fs::set_permissions(node.root.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        node
    }

    /// The agent's program with the paths of this node.
    fn agent(&self, alone: &OwnOperator, words: &[&str]) -> Command {
        let below = |path: PathBuf| Path::new("/").join(path.strip_prefix(&self.root).unwrap());
        let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
        agent.args(words).arg("--root").arg(&self.root);
        agent.arg("--k3s-data-dir").arg(below(alone.own.server.data_dir()));
        agent.arg("--admin-kubeconfig").arg(below(alone.own.server.kubeconfig()));
        agent.args(["--api-address", &format!("127.0.0.1:{}", alone.own.server.port())]);
        agent
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.root.join("calls")).unwrap_or_default()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The datastore is copied while the server runs and is written to; then the server's data is lost.
#[tokio::test]
async fn a_backup_of_a_running_server_brings_back_its_ca_its_objects_and_its_operator() {
    let mut alone = OwnOperator::direct(&["--lease", "12"]).await;
    let world = alone.world("restored");
    let (team, foo) = world.synced().await;
    let node = Node::of(&alone);
    let backup = node.root.join("backup.tar");
    let (terminal, far) = Terminal::open(24, 100);
    let mut command = node.agent(&alone, &["backup", backup.to_str().unwrap()]);
    command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(far.stream());
    let mut making = command.spawn().unwrap();
    drop((command, far));
    let mut value = 1;
    while making.try_wait().unwrap().is_none() {
        value += 1;
        world.config_map(&team, "settings", &[("a", &value.to_string())]).await;
    }
    let made = making.wait_with_output().unwrap();
    assert!(made.status.success());
    // How far it was went to the terminal, and is gone by now.
    let (screen, written) = terminal.end();
    for step in ["copying the datastore", "writing /", "reading back from its disk", "checking each file"] {
        assert!(written.contains(step), "{step}: {written:?}");
    }
    assert_eq!(screen.trim(), "");
    let reported = String::from_utf8(made.stdout).unwrap();
    assert!(reported.starts_with("wrote /") && reported.lines().count() == 1, "{reported:?}");
    world.config_map(&team, "settings", &[("a", "of what is going to be lost")]).await;
    world.holds(&foo, "settings", &[("a", "of what is going to be lost")]).await;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), weaver_api::OPERATOR_NAMESPACE);
    let renewed = async || leases.get("weaver-operator").await.unwrap().spec.unwrap().renew_time;
    // Twice: the operator has had an answer to the first of them then.
    for _ in 0..2 {
        let before = renewed().await;
        let is_later = async || Some(renewed().await).filter(|now| *now != before).ok_or(());
        eventually("the lease is renewed", is_later).await;
    }

    // A new card: another CA and none of the objects. `world.client` has the kubeconfig from before.
    let data = alone.own.server.data_dir();
    let kubeconfig = fs::read(alone.own.server.kubeconfig()).unwrap();
    let ca = fs::read(data.join("server/tls/server-ca.crt")).unwrap();
    alone.own.server.stop().unwrap();
    fs::remove_dir_all(&data).unwrap();
    alone.own.server.restart_after_stop().unwrap();
    assert_ne!(fs::read(data.join("server/tls/server-ca.crt")).unwrap(), ca);
    world.client.apiserver_version().await.unwrap_err();
    alone.own.server.stop().unwrap();

    let systemctl = node.root.join("systemctl");
    let words = ["restore", backup.to_str().unwrap(), "--systemctl", systemctl.to_str().unwrap()];
    let mut restoring = node.agent(&alone, &words);
    let restoring = tokio::task::spawn_blocking(move || restoring.output().unwrap());
    eventually("k3s is to be started", async || {
        node.calls().contains("start --no-block k3s").then_some(()).ok_or(())
    })
    .await;
    alone.own.server.restart_after_stop().unwrap();
    let output = restoring.await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(data.join("server/tls/server-ca.crt")).unwrap(), ca);
    assert_eq!(fs::read(alone.own.server.kubeconfig()).unwrap(), kubeconfig, "its user's key is the same");

    // By the client from before, as by the laptop's kubeconfig.
    let restored = world.config_maps(&team).get("settings").await.unwrap();
    assert_ne!(restored.data.unwrap()["a"], "of what is going to be lost");
    alone.operator.ends().await;
    let log = alone.operator.log();
    assert!(log.contains("the API server has an older state"), "{log}");
    alone.restart_operator();
    world.config_map(&team, "settings", &[("a", "again")]).await;
    world.holds(&foo, "settings", &[("a", "again")]).await;
    assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
    world.finish().await;
}
