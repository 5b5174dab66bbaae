//! What is wrong with a cluster of k3d, and what is typed for a finding where the API server runs in one.

use std::net::IpAddr;
use std::path::Path;

use super::cluster::{API, Container, Gateway, K3dCluster, NotChosen};
use super::engine::EngineProgram;
use crate::{
    finding::{Code, Command, Finding, Place, Remedy, Severity, UnitAction},
    hidden::{OF_USERS, TEMPORARY},
    san::{ServingName, is_inner},
    shell::quoted,
};

/// Starts after which a container that runs is not left alone: a healthy server is started once.
const RESTARTS: u32 = 3;
/// Drop-ins of the agent's unit.
const DROP_INS: &str = "/etc/systemd/system/weaver-node-agent.service.d";

/// Why there is no cluster to look at.
pub fn not_chosen(why: &NotChosen) -> Finding {
    match why {
        NotChosen::None => {
            Finding::new(Code::K3dClusterMissing, "there is no cluster of k3d on this machine")
        }
        NotChosen::Missing { name, there } => {
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            let message = format!("there is no cluster {name} of k3d on this machine, only: {there}");
            Finding::new(Code::K3dClusterMissing, message)
        }
        NotChosen::Several(names) => {
            let message = format!(
                "there are {} clusters of k3d, and none is chosen: {}",
                names.len(),
                names.join(", ")
            );
            let first = names.first().map_or_else(String::new, |name| quoted(name));
            let remedy = Code::K3dClusterNotChosen.row().remedy_for("NAME", &first);
            Finding::new(Code::K3dClusterNotChosen, message).remedy(remedy)
        }
    }
}

/// The container engine cannot be asked.
pub fn unread(socket: &str, why: &str) -> Finding {
    let message = format!("the container engine at {socket} cannot be asked for the clusters of k3d: {why}");
    let finding = Finding::new(Code::ContainerEngineUnreadable, message).saw(Place::file(socket), why);
    let engine = EngineProgram::at(socket);
    if engine == EngineProgram::Docker {
        return finding;
    }
    let remedy = Remedy::new("start podman's socket, or run the command as its user or as root")
        .command(status(socket))
        .command(format!("{engine} ps --filter label=app=k3d"));
    finding.remedy(remedy)
}

/// What shows whether the engine runs.
fn status(socket: &str) -> &'static str {
    match EngineProgram::at(socket) {
        EngineProgram::Docker => "systemctl status docker",
        // On macOS and Windows it runs in a virtual machine.
        EngineProgram::Podman if socket.contains("podman-machine") => "podman machine list",
        EngineProgram::Podman => "systemctl --user status podman.socket podman",
        EngineProgram::PodmanOfRoot => "systemctl status podman.socket podman",
    }
}

/// It gives no answer in time, which is no fault: a machine that pulls images is slow.
pub fn late(socket: &str, why: &str) -> Finding {
    let message = format!("the container engine at {socket} does not answer in time: it may only be busy");
    let remedy = Remedy::new("wait and check again; if it does not improve, restart the container engine");
    let remedy = remedy.command("uptime").command(status(socket));
    let finding = Finding::new(Code::ContainerEngineUnreadable, message).saw(Place::file(socket), why);
    finding.remedy(remedy).milder(Severity::Unknown)
}

/// The same by the agent, whose unit reaches no engine of a user without a drop-in.
pub fn unread_by_agent(socket: &str, why: &str) -> Finding {
    let finding = unread(socket, why);
    match drop_in(socket) {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    }
}

/// What gives the agent's unit a user's socket: root without a capability may not write to it.
fn drop_in(socket: &str) -> Option<Remedy> {
    let path = socket.strip_prefix("unix://").unwrap_or(socket);
    // `/var/run` is a link.
    let path = path.strip_prefix("/var").filter(|path| path.starts_with("/run/")).unwrap_or(path);
    let is_around = |directory: &str| Path::new(path).starts_with(directory);
    let shows = if TEMPORARY.into_iter().any(is_around) {
        "PrivateTmp=no".to_owned()
    } else if OF_USERS.into_iter().any(is_around) {
        let others: Vec<_> = OF_USERS.into_iter().filter(|&directory| !is_around(directory)).collect();
        format!("ProtectHome=no\\nInaccessiblePaths=-{}", others.join(" -"))
    } else {
        return None;
    };
    let text = format!("[Service]\\n{shows}\\nCapabilityBoundingSet=CAP_DAC_OVERRIDE\\n");
    let explain = "start the engine if its socket is not there; the service weaver-node-agent does not see /tmp and the \
                   directories of users, and may not write to their sockets, until a drop-in lets it";
    Some(
        Remedy::new(explain)
            .command(format!("sudo ls -l {}", quoted(path)))
            .command(format!("sudo mkdir -p {DROP_INS}"))
            .command(format!("printf '{text}' | sudo tee {DROP_INS}/50-user-engine.conf"))
            .command("sudo systemctl daemon-reload")
            .command("sudo systemctl restart weaver-node-agent"),
    )
}

/// No container engine listens on this machine.
pub fn no_engine() -> Finding {
    unread("/var/run/docker.sock", "no engine listens on this machine")
}

/// What is wrong with `cluster`, which is one of `all`. `is_own` says whether an address is one of this machine.
pub fn judge(cluster: &K3dCluster, all: &[K3dCluster], is_own: impl Fn(IpAddr) -> bool) -> Vec<Finding> {
    let mut findings: Vec<_> = cluster.nodes().filter_map(node).collect();
    if cluster.running().is_none() {
        return findings;
    }
    // One that does not run publishes nothing.
    let is_balanced = cluster.load_balancer.as_ref().is_none_or(Container::is_running);
    if is_balanced && cluster.api().is_none() {
        let message =
            format!("the cluster {} publishes no port of its API server on this machine", cluster.name);
        let remedy = Code::K3dApiNotPublished.row().remedy_for("CLUSTER", &quoted(&cluster.name));
        findings.push(Finding::new(Code::K3dApiNotPublished, message).remedy(remedy));
    }
    findings.extend(webhook(cluster, is_own));
    findings.extend(shared(cluster, all));
    findings
}

/// What keeps the webhook from listening where the servers reach this machine.
fn webhook(cluster: &K3dCluster, is_own: impl Fn(IpAddr) -> bool) -> Option<Finding> {
    let name = &cluster.name;
    if let Some(Gateway { ip, .. }) = cluster.gateway() {
        let message = format!(
            "the servers of {name} reach this machine at {ip}, and that is not one of its addresses: the conversion \
             webhook cannot be reached"
        );
        return (!is_own(ip)).then(|| Finding::new(Code::K3dWebhookUnreachable, message));
    }
    let (server, Gateway { ip, prefix }) =
        cluster.servers.iter().find_map(|server| Some((server, server.gateway?)))?;
    if server.is_of_user {
        let message = format!(
            "the container engine of {name} is one of a user: its containers do not reach the conversion webhook on \
             this machine, and the webhook does not listen at {ip}, which that engine names"
        );
        return Some(Finding::new(Code::K3dWebhookUnreachable, message));
    }
    let message = format!(
        "the container engine names {ip}/{prefix} as the network of {name}, which is not a private one: the conversion \
         webhook does not listen there"
    );
    let remedy = Remedy::new(
        "create the cluster again in a private network, such as 172.28.0.0/16, after saving what is in it; or install \
         the operator in the cluster instead",
    )
    .command(format!("k3d cluster delete {}   # deletes everything in it", quoted(name)))
    .command(format!("k3d cluster create {} --subnet 172.28.0.0/16", quoted(name)))
    .command("weaver docs install-in-a-cluster");
    Some(Finding::new(Code::K3dWebhookUnreachable, message).remedy(remedy))
}

/// A name that two running clusters serve is either, depending on the port alone.
fn shared(cluster: &K3dCluster, all: &[K3dCluster]) -> Option<Finding> {
    let names = cluster.names();
    let mut others = all.iter().filter(|other| other.name != cluster.name && other.running().is_some());
    others.find_map(|other| {
        let both: Vec<_> = other.names().into_iter().filter(|name| names.contains(name)).collect();
        let port = |cluster: &K3dCluster| {
            cluster.api().map_or_else(|| "none".to_owned(), |at| at.port().to_string())
        };
        (!both.is_empty()).then(|| {
            let message = format!(
                "{} is a name of two clusters: {} at port {}, and {} at port {}",
                both.join(", "),
                cluster.name,
                port(cluster),
                other.name,
                port(other)
            );
            Finding::new(Code::K3dNameShared, message)
        })
    })
}

/// What is wrong with one server, or with the load balancer.
pub fn node(node: &Container) -> Option<Finding> {
    let Container { name, state, status, restarts, engine, .. } = node;
    let saw = |finding: Finding| {
        finding.saw(Place::file(name), format!("{state}: {status}; restarted {restarts} times"))
    };
    let restarting = |message: String| {
        let mut remedy = Code::K3dNodeRestarting.row().remedy_for("k3d-CLUSTER-server-0", &quoted(name));
        remedy.commands = engine.typed(remedy.commands);
        saw(Finding::new(Code::K3dNodeRestarting, message).remedy(remedy))
    };
    match state.as_str() {
        "restarting" => Some(restarting(format!("{name} exits and is restarted again and again"))),
        "running" if *restarts < RESTARTS => None,
        "running" => {
            let message = format!("{name} runs now, and exited {restarts} times before");
            // It runs now.
            Some(restarting(message).milder(Severity::Warn))
        }
        state => {
            let message = format!("{name} does not run: it is {state}");
            Some(saw(Finding::new(Code::K3dClusterStopped, message).remedy(started(node))))
        }
    }
}

/// What has a container run that does not.
fn started(Container { name, cluster, state, engine, .. }: &Container) -> Remedy {
    let start = format!("k3d cluster start {}", quoted(cluster));
    match state.as_str() {
        // k3d takes it for one that runs, and leaves it.
        "paused" => Remedy::new("let the container continue").command(format!("{engine} unpause {}", quoted(name))),
        "created" | "initialized" | "configured" => Remedy::new(
            "wait while `k3d cluster create` or `start` runs, which starts one container after the other and the load \
             balancer last; where neither runs, start the cluster",
        )
        .command(start),
        _ => Code::K3dClusterStopped.row().remedy_for("CLUSTER", &quoted(cluster)),
    }
}

/// What was found of a host whose API server runs in this cluster, with what is typed for it there; `names` are all
/// that it is to serve, at this port where it is known; `engine` has its containers.
pub fn on_k3d(
    mut finding: Finding,
    cluster: &str,
    names: &[String],
    port: Option<u16>,
    engine: EngineProgram,
) -> Finding {
    let Some(remedy) = &mut finding.remedy else { return finding };
    if let Some(other) = instead(finding.code, cluster, names, port) {
        *remedy = other;
    } else {
        remedy.commands = remedy.commands.iter().flat_map(|command| typed_there(command, cluster)).collect();
    }
    remedy.commands = engine.typed(std::mem::take(&mut remedy.commands));
    finding
}

/// The remedy for findings that have another cause there.
fn instead(code: Code, cluster: &str, names: &[String], port: Option<u16>) -> Option<Remedy> {
    let cluster = &quoted(cluster);
    Some(match code {
        Code::NameNotServed | Code::NameStale | Code::NamesShadowed | Code::NameInvalid => {
            create_again(cluster, names, port)
        }
        Code::CertificateUntrusted => Remedy::new(
            "find out which program listens there: another cluster may have got the port",
        )
        .command("docker ps --filter label=app=k3d")
        .command("sudo ss -ltnp"),
        Code::ServingNamesUnknown => Remedy::new("wait until k3s has started in it; else read its log")
            .command("k3d cluster list")
            .command(log(cluster)),
        Code::CgroupV1Refused => Remedy::new(
            "boot with cgroup v2: remove `systemd.unified_cgroup_hierarchy=0` from the kernel parameters; or create \
             the cluster with the argument below, as long as the kubelet supports v1",
        )
        .command(format!("k3d cluster create {cluster} --k3s-arg '--kubelet-arg=fail-cgroupv1=false@all'")),
        _ => return None,
    })
}

/// What is typed to have a cluster serve these names, and those that its certificate has for clients now.
pub fn serve(cluster: &str, name: &str, served: &[String]) -> Remedy {
    let is_own = |name: &String| {
        is_inner(name) || name.starts_with("k3d-") || !matches!(name.parse(), Ok(ServingName::Dns(_)))
    };
    let names: Vec<_> =
        std::iter::once(name.to_owned()).chain(served.iter().filter(|name| !is_own(name)).cloned()).collect();
    create_again(&quoted(cluster), &names, None)
}

fn create_again(cluster: &str, names: &[String], port: Option<u16>) -> Remedy {
    // Where kubeconfigs have it, and no other cluster does.
    let port =
        port.filter(|port| *port != API).map_or_else(String::new, |port| format!(" --api-port {port}"));
    let names =
        taken(names).into_iter().fold(String::new(), |flags, name| flags + " --name " + &quoted(&name));
    Remedy::new(
        "k3d gives the names to k3s when it creates the cluster, and no later change reaches it: create the cluster \
         again with the names, after saving what is in it; until then connect by a name that is served",
    )
    .command(format!("weaver k3d config {cluster}{names}{port} > k3d.yaml"))
    .command(format!("k3d cluster delete {cluster}   # deletes everything in it"))
    .command("k3d cluster create --config k3d.yaml")
}

/// Those that `weaver k3d config` takes, as they are meant: no wildcard and no address to listen on. k3d publishes the
/// API server at IPv4 addresses only, so one of them is no IPv6 address.
fn taken(names: &[String]) -> Vec<String> {
    let (mut taken, mut has_host) = (Vec::new(), false);
    for name in names {
        let meant = match name.parse::<ServingName>() {
            Ok(_) => Some(name.clone()),
            Err(error) => error.suggestion,
        };
        let Some(meant) = meant else { continue };
        match meant.parse::<ServingName>() {
            Ok(ServingName::Dns(_)) => has_host = true,
            Ok(ServingName::Ip(ip)) if !ip.is_unspecified() => has_host |= ip.is_ipv4(),
            _ => continue,
        }
        taken.push(meant);
    }
    if !has_host {
        taken.push("127.0.0.1".to_owned());
    }
    taken
}

fn log(cluster: &str) -> String {
    format!("docker logs --tail 50 k3d-{cluster}-server-0 2>&1 | weaver explain")
}

/// A command as it is typed where k3s runs: in this cluster of k3d, whose containers `engine` has, else on the host.
pub fn typed_at(command: &Command, cluster: Option<&str>, engine: EngineProgram) -> String {
    let Some(cluster) = cluster else { return command.to_string() };
    engine
        .typed(typed_there(command, cluster))
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" && ")
}

/// A command as it is typed there, where k3s is no unit of this machine.
fn typed_there(command: &Command, cluster: &str) -> Vec<Command> {
    let Command::Unit { does, .. } = command else { return vec![command.clone()] };
    let cluster = &quoted(cluster);
    let (stop, start) = (format!("k3d cluster stop {cluster}"), format!("k3d cluster start {cluster}"));
    match does {
        UnitAction::Start => vec![start.into()],
        UnitAction::Stop => vec![stop.into()],
        UnitAction::Restart => vec![stop.into(), start.into()],
        UnitAction::Show => vec![log(cluster).into()],
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::{
        clusters,
        tests::{load_balancer, server},
    };
    use super::*;

    fn codes(findings: &[Finding]) -> Vec<(Code, Severity)> {
        findings.iter().map(|finding| (finding.code, finding.severity())).collect()
    }

    #[test]
    fn what_is_wrong_with_a_cluster() {
        use {Code::*, Severity::*};
        let good = || server("edge", &["server", "--tls-san=raspi"]);
        for (container, want) in [
            (good(), vec![]),
            (Container { state: "exited".into(), ..good() }, vec![(K3dClusterStopped, Fail)]),
            (
                Container { state: "restarting".into(), restarts: 7, ..good() },
                vec![(K3dNodeRestarting, Fail)],
            ),
            (Container { restarts: 4, ..good() }, vec![(K3dNodeRestarting, Warn)]),
            (Container { restarts: 1, ..good() }, vec![]),
            (Container { published: vec![], ..good() }, vec![(K3dApiNotPublished, Fail)]),
            (
                Container { gateway: Some(Gateway { ip: [10, 0, 2, 2].into(), prefix: 24 }), ..good() },
                vec![(K3dWebhookUnreachable, Fail)],
            ),
            (
                Container { gateway: Some(Gateway { ip: [0, 0, 0, 0].into(), prefix: 0 }), ..good() },
                vec![(K3dWebhookUnreachable, Fail)],
            ),
        ] {
            let all = clusters([container]);
            let found = judge(&all[0], &all, |ip| ip == IpAddr::from([172, 18, 0, 1]));
            assert_eq!(codes(&found), want, "{:?}", all[0]);
        }
    }

    #[test]
    fn a_load_balancer_that_does_not_run_is_started_and_no_cluster_created_again_for_its_port() {
        let inside = || Container { published: vec![], ..server("edge", &["server"]) };
        let balancer =
            |state: &str| Container { state: state.into(), published: vec![], ..load_balancer("edge") };
        for (server, balancer, want, commands) in [
            (inside(), balancer("exited"), Code::K3dClusterStopped, "k3d cluster start edge"),
            (inside(), balancer("created"), Code::K3dClusterStopped, "k3d cluster start edge"),
            (inside(), balancer("paused"), Code::K3dClusterStopped, "docker unpause k3d-edge-serverlb"),
            (
                inside(),
                balancer("restarting"),
                Code::K3dNodeRestarting,
                "docker logs --tail 50 k3d-edge-serverlb 2>&1 | weaver explain",
            ),
            (
                Container { state: "exited".into(), ..inside() },
                balancer("exited"),
                Code::K3dClusterStopped,
                "k3d cluster start edge",
            ),
        ] {
            let all = clusters([server, balancer]);
            let found = judge(&all[0], &all, |_| true);
            let [found] = &found[..] else { panic!("{found:?}") };
            let remedy = found.remedy.as_ref().unwrap();
            assert_eq!((found.code, remedy.commands[0].to_string().as_str()), (want, commands), "{found:?}");
        }
        let all = clusters([inside(), balancer("running")]);
        assert_eq!(codes(&judge(&all[0], &all, |_| true)), [(Code::K3dApiNotPublished, Severity::Fail)]);
    }

    #[test]
    fn what_is_typed_at_a_container_is_for_its_engine() {
        for (socket, want) in [
            ("/var/run/docker.sock", "docker"),
            ("/run/user/1000/podman/podman.sock", "podman"),
            ("/run/podman/podman.sock", "sudo podman"),
        ] {
            for (state, command) in [
                ("paused", "unpause k3d-edge-server-0"),
                ("restarting", "logs --tail 50 k3d-edge-server-0 2>&1 | weaver explain"),
            ] {
                let engine = EngineProgram::at(socket);
                let found = node(&Container { state: state.into(), engine, ..server("edge", &[]) }).unwrap();
                assert_eq!(found.remedy.unwrap().commands, [format!("{want} {command}").as_str()]);
            }
        }
    }

    #[test]
    fn an_engine_of_a_user_chooses_no_address_of_this_machine() {
        let gateway = Some(Gateway { ip: [192, 168, 1, 5].into(), prefix: 24 });
        let all = clusters([Container { is_of_user: true, gateway, ..server("edge", &[]) }]);
        assert_eq!(all[0].gateway(), None);
        let [found] = &judge(&all[0], &all, |_| true)[..] else { panic!() };
        assert_eq!(found.code, Code::K3dWebhookUnreachable);
        assert!(found.message.contains("does not listen at 192.168.1.5"), "{found:?}");
        assert_eq!(found.remedy.as_ref().unwrap().commands[0], "weaver docs install-in-a-cluster");
    }

    #[test]
    fn a_network_that_is_not_private_is_named_even_if_this_machine_is_in_it() {
        let gateway = Some(Gateway { ip: [203, 0, 113, 1].into(), prefix: 24 });
        let all = clusters([Container { gateway, ..server("edge", &[]) }]);
        let [found] = &judge(&all[0], &all, |_| true)[..] else { panic!() };
        assert!(found.message.contains("203.0.113.1/24 as the network of edge"), "{found:?}");
        let remedy = found.remedy.as_ref().unwrap();
        assert_eq!(remedy.commands[1], "k3d cluster create edge --subnet 172.28.0.0/16");
    }

    #[test]
    fn an_engine_that_is_late_is_unknown_and_to_be_waited_for() {
        let found = late("/var/run/docker.sock", "no answer within 30 s");
        assert_eq!(found.severity(), Severity::Unknown);
        let remedy = found.remedy.unwrap();
        assert!(remedy.explain.starts_with("wait"));
        assert_eq!(remedy.commands[1], "systemctl status docker");
        let podman = late("/run/podman/podman.sock", "no answer within 30 s").remedy.unwrap();
        assert_eq!(podman.commands[1], "systemctl status podman.socket podman");
        let of_user = late("/run/user/1000/podman/podman.sock", "no answer within 30 s").remedy.unwrap();
        assert_eq!(of_user.commands[1], "systemctl --user status podman.socket podman");
    }

    #[test]
    fn where_podman_listens_the_commands_are_podmans() {
        let found = unread_by_agent("/run/podman/podman.sock", "Connection refused");
        let commands = found.remedy.unwrap().commands;
        assert!(commands.iter().all(|command| command.contains("podman")), "{commands:?}");
        assert!(unread("/var/run/docker.sock", "x").remedy.unwrap().commands[0].contains("docker"));
        let machine = unread("//./pipe/podman-machine-default", "x").remedy.unwrap().commands;
        assert_eq!(machine, ["podman machine list", "podman ps --filter label=app=k3d"]);
    }

    #[test]
    fn the_agent_names_the_drop_in_for_an_engine_of_a_user_and_for_no_other() {
        let commands = |socket: &str| {
            let finding = unread_by_agent(socket, "it does not exist");
            finding.remedy.map(|remedy| remedy.commands.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let rootless = commands("unix:///run/user/1000/docker.sock").unwrap();
        assert_eq!(rootless[0], "sudo ls -l /run/user/1000/docker.sock");
        assert_eq!(
            rootless[2],
            r"printf '[Service]\nProtectHome=no\nInaccessiblePaths=-/home -/root\nCapabilityBoundingSet=CAP_DAC_OVERRIDE\n' | sudo tee /etc/systemd/system/weaver-node-agent.service.d/50-user-engine.conf"
        );
        assert_eq!(commands("unix:///var/run/user/1000/docker.sock").unwrap(), rootless);
        let desktop = commands("/home/me/.docker/desktop/docker.sock").unwrap();
        assert!(desktop[2].contains(r"InaccessiblePaths=-/root -/run/user\n"), "{desktop:?}");
        for socket in ["unix:///tmp/docker.sock", "unix:///var/tmp/me/docker.sock"] {
            let temporary = commands(socket).unwrap();
            assert!(
                temporary[2].contains(r"'[Service]\nPrivateTmp=no\nCapabilityBoundingSet="),
                "{temporary:?}"
            );
        }
        let usual: Vec<_> =
            Code::ContainerEngineUnreadable.row().remedy().commands.iter().map(ToString::to_string).collect();
        for socket in ["/var/run/docker.sock", "tcp://pi:2375", "/run/users", "/tmpfs/x"] {
            assert_eq!(commands(socket).as_ref(), Some(&usual), "{socket}");
        }
    }

    #[test]
    fn what_is_typed_at_k3s_follows_where_it_runs() {
        use crate::finding::{K3S_STATUS, RESTART_K3S};
        for engine in [EngineProgram::Docker, EngineProgram::Podman, EngineProgram::PodmanOfRoot] {
            assert_eq!(typed_at(&RESTART_K3S, None, engine), "sudo systemctl restart k3s");
            let restart = typed_at(&RESTART_K3S, Some("edge"), engine);
            assert_eq!(restart, "k3d cluster stop edge && k3d cluster start edge");
            let log = typed_at(&K3S_STATUS, Some("edge"), engine);
            assert_eq!(log, format!("{engine} logs --tail 50 k3d-edge-server-0 2>&1 | weaver explain"));
        }
    }

    #[test]
    fn a_name_of_two_running_clusters_is_a_warning() {
        let raspi = ["server", "--tls-san=raspi"];
        let stopped = Container { state: "exited".into(), ..server("old", &raspi) };
        let all = clusters([server("a", &raspi), server("b", &raspi), server("c", &["server"]), stopped]);
        let found = judge(&all[0], &all, |_| true);
        assert_eq!(codes(&found), [(Code::K3dNameShared, Severity::Warn)]);
        assert!(
            found[0].message.contains("raspi is a name of two clusters: a at port 34067, and b"),
            "{found:?}"
        );
        assert_eq!(judge(&all[2], &all, |_| true), []);
    }

    #[test]
    fn no_remedy_of_any_code_speaks_of_a_unit_that_is_not_there() {
        let names = ["raspi".to_owned()];
        for &code in Code::ALL {
            let engine = EngineProgram::Podman;
            let Some(remedy) = on_k3d(Finding::new(code, "m"), "edge", &names, Some(6443), engine).remedy
            else {
                continue;
            };
            for command in &remedy.commands {
                let is_unit = command.contains("systemctl") || command.contains("journalctl -u");
                assert!(!(is_unit && command.contains("k3s")), "{code}: {command}");
                assert!(!command.starts_with("docker "), "{code}: {command}");
            }
        }
        for (port, want) in [
            (None, "weaver k3d config edge --name raspi > k3d.yaml"),
            (Some(6443), "weaver k3d config edge --name raspi > k3d.yaml"),
            (Some(34067), "weaver k3d config edge --name raspi --api-port 34067 > k3d.yaml"),
        ] {
            let found = Finding::new(Code::NameNotServed, "m");
            let remedy = on_k3d(found, "edge", &names, port, EngineProgram::Docker).remedy.unwrap();
            assert_eq!(remedy.commands[0], want);
        }
        for (names, want) in [
            (&["fd00::1"][..], "--name fd00::1 --name 127.0.0.1"),
            (&["fd00::1", "10.0.0.7"], "--name fd00::1 --name 10.0.0.7"),
            (&["https://raspi", "*.lan", "::"], "--name raspi"),
            (&[], "--name 127.0.0.1"),
        ] {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let again = create_again("edge", &names, None).commands;
            assert_eq!(again[0], format!("weaver k3d config edge {want} > k3d.yaml").as_str());
        }
        let served = ["kubernetes", "k3d-edge-server-0", "10.43.0.1", "box.lan"].map(str::to_owned);
        let remedy = serve("edge", "raspi", &served);
        assert_eq!(remedy.commands[0], "weaver k3d config edge --name raspi --name box.lan > k3d.yaml");
    }
}
