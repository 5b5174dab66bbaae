//! The container engine of this machine, Docker or podman: the containers of k3d, their logs, files out of them.
//!
//! Only reads. Labels, environment and arguments contain the cluster's token: what is kept of them is named in
//! [`weaver_diagnostics::k3d::cluster`].

mod context;
mod limited;
mod registries;
mod shown;
mod sockets;

use std::collections::HashMap;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::query_parameters::{DownloadFromContainerOptions, EventsOptions, LogsOptions};
use futures::{StreamExt as _, TryStreamExt as _};
use weaver_diagnostics::k3d::cluster::{
    Container, ContainerRole, Gateway, K3dCluster, PublishedPort, clusters, flags, is_cluster_name, on_host,
};
use weaver_diagnostics::k3d::engine::EngineProgram;
use weaver_diagnostics::text_file::TextFile;

pub use self::limited::containers;
use self::limited::{AnswerLimit, Questions};
use self::shown::{Binding, Inspected, Listed};
pub use self::sockets::EngineError;

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same from an engine that has given none in that time.
const LONGER: Duration = Duration::from_secs(30);
/// Bytes of a file or a log.
const LIMIT: usize = 1 << 20;
/// What is read of lists and descriptions of containers for one question. A container of k3d takes some 15 KiB, in 75
/// objects and some arrays.
const DESCRIPTIONS: AnswerLimit = AnswerLimit { bytes: 1 << 20, containers: 15_000 };
/// The same of files, logs and events, which come with headers.
const STREAM: AnswerLimit = AnswerLimit { bytes: 2 * LIMIT, containers: usize::MAX };
/// The containers of k3d, stopped ones too: `filters` is `{"label":["app=k3d"]}`.
const OF_K3D: &str = "/containers/json?all=true&filters=%7B%22label%22%3A%5B%22app%3Dk3d%22%5D%7D";
/// Where k3s writes the administrator's kubeconfig in a container: where k3d has it, and k3s' default.
const KUBECONFIGS: [&str; 2] = ["/output/kubeconfig.yaml", "/etc/rancher/k3s/k3s.yaml"];

/// An engine that listens on this machine.
#[derive(Debug, Clone)]
pub struct Engine {
    socket: String,
    patience: Duration,
}

impl Engine {
    /// The engine that the commands of Docker and k3d use here: that of `DOCKER_HOST`, else of Docker's context, else
    /// the first that listens.
    ///
    /// # Errors
    /// One of the two names another machine, or a socket that is not there.
    pub fn of_user() -> Result<Option<Self>, EngineError> {
        Self::find(context::docker_host()?.as_deref(), Path::to_owned)
    }

    /// The engine that `docker_host` names (the variable `DOCKER_HOST`), else the first that listens where engines do;
    /// `None` where none does. `real` maps a path of the machine to the path to open.
    ///
    /// # Errors
    /// `docker_host` names another machine, or a socket that is not there.
    pub fn find(
        docker_host: Option<&str>,
        real: impl Fn(&Path) -> PathBuf,
    ) -> Result<Option<Self>, EngineError> {
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime_dir = runtime_dir.or_else(|| sockets::of_sudo(&std::env::var("SUDO_UID").ok()?));
        let desktop = sockets::HERE.desktop.and_then(|below| Some(crate::platform::home()?.join(below)));
        let found = sockets::socket(&sockets::HERE, docker_host, runtime_dir.as_deref(), desktop, |path| {
            real(path).exists()
        })?;
        let Some(socket) = found else { return Ok(None) };
        Ok(Some(Self { socket: real(&socket).display().to_string(), patience: PATIENCE }))
    }

    fn docker(&self, limit: AnswerLimit) -> Result<Docker, EngineError> {
        limited::docker(&self.socket, self.patience, limit).map_err(|error| self.failed(&error))
    }

    /// Where it listens.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// What is typed to see its containers.
    pub fn program(&self) -> EngineProgram {
        EngineProgram::at(&self.socket)
    }

    fn questions(&self) -> Questions {
        Questions::new(&self.socket, self.patience, DESCRIPTIONS)
    }

    /// Gives it more time for each answer, since it may only be slow.
    pub fn wait_longer(&mut self) {
        self.patience = LONGER;
    }

    /// The clusters of k3d by name, stopped ones too.
    ///
    /// # Errors
    /// The engine does not answer as it should.
    pub async fn k3d_clusters(&self) -> Result<Vec<K3dCluster>, EngineError> {
        let questions = self.questions();
        let listed: Vec<Listed> = questions.get(OF_K3D).await.map_err(|error| self.failed(&error))?;
        let mut containers = Vec::new();
        for listed in listed.into_iter().filter(is_of_k3d) {
            match questions.get::<Inspected>(&format!("/containers/{}/json", listed.id)).await {
                Ok(inspected) => {
                    let shown = container(&listed, inspected);
                    containers.extend(shown.map(|one| Container {
                        is_of_user: questions.is_of_user(),
                        engine: self.program(),
                        ..one
                    }));
                }
                // It was deleted since.
                Err(Error::DockerResponseServerError { status_code: 404, .. }) => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(clusters(containers))
    }

    /// A file out of a container, which need not run; `None` where it has none of this path.
    ///
    /// # Errors
    /// The engine does not answer as it should, or the file is no file, or larger than 1 MiB.
    async fn file(&self, container: &str, path: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let options = DownloadFromContainerOptions { path: path.to_owned() };
        let docker = self.docker(STREAM)?;
        let pieces = docker.download_from_container(container, Some(options));
        let archive = pieces.map_err(Some).try_fold(Vec::new(), async |mut archive: Vec<u8>, piece| {
            archive.extend_from_slice(&piece);
            // Blocks of tar around it.
            if archive.len() > LIMIT + 4096 { Err(None) } else { Ok(archive) }
        });
        let unusable = |why: &str| EngineError {
            socket: self.socket.clone(),
            why: format!("{path} in {container} {why}"),
            is_late: false,
        };
        match archive.await {
            Ok(archive) => only_file(&archive).map(Some).ok_or_else(|| unusable("is not a file")),
            Err(None) => Err(unusable("is larger than 1 MiB")),
            Err(Some(Error::DockerResponseServerError { status_code: 404, .. })) => Ok(None),
            Err(Some(error)) => Err(self.failed(&error)),
        }
    }

    /// The administrator's kubeconfig out of a server's container; messages name it by container and path.
    ///
    /// # Errors
    /// The engine does not answer as it should, or the file is no file, or larger than 1 MiB.
    pub async fn kubeconfig(&self, container: &str) -> Result<Option<TextFile>, EngineError> {
        for path in KUBECONFIGS {
            if let Some(file) = self.text(container, path).await? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// A text out of a container; messages name it by container and path.
    ///
    /// # Errors
    /// The engine does not answer as it should, or the file is no file, or larger than 1 MiB.
    pub async fn text(&self, container: &str, path: &str) -> Result<Option<TextFile>, EngineError> {
        let bytes = self.file(container, path).await?;
        Ok(bytes.map(|bytes| TextFile::new(format!("{container}:{path}"), String::from_utf8_lossy(&bytes))))
    }

    /// The last lines of a container's log; as many as there are where the engine stops answering.
    pub async fn log(&self, container: &str, lines: u32) -> Vec<Vec<u8>> {
        let options =
            LogsOptions { stdout: true, stderr: true, tail: lines.to_string(), ..LogsOptions::default() };
        let Ok(docker) = self.docker(STREAM) else { return Vec::new() };
        let mut pieces = docker.logs(container, Some(options));
        let mut text = Vec::new();
        while let Some(Ok(piece)) = pieces.next().await {
            text.extend_from_slice(&LogOutput::into_bytes(piece));
            if text.len() > LIMIT {
                break;
            }
        }
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    }

    /// Returns when a container of k3d was created, started, stopped or deleted; never, where the engine does not tell.
    pub async fn changed(&self) {
        let list = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>();
        let filters = HashMap::from([
            ("type".to_owned(), list(&["container"])),
            ("label".to_owned(), list(&["app=k3d"])),
            // The last two are podman's words for the two before.
            ("event".to_owned(), list(&["create", "start", "die", "destroy", "died", "remove"])),
        ]);
        let options = EventsOptions { filters: Some(filters), ..EventsOptions::default() };
        if let Ok(docker) = self.docker(STREAM)
            && matches!(docker.events(Some(options)).next().await, Some(Ok(_)))
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    fn failed(&self, error: &Error) -> EngineError {
        let why = why(error, self.patience);
        EngineError { socket: self.socket.clone(), why, is_late: matches!(error, Error::RequestTimeoutError) }
    }
}

/// Why, without what the engine answered where that was not understood: it may contain a token.
fn why(error: &Error, patience: Duration) -> String {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            format!("it answers {status_code}: {message}")
        }
        Error::RequestTimeoutError => format!("no answer within {} s", patience.as_secs()),
        Error::JsonDataError { .. } | Error::JsonSerdeError { .. } => {
            "its response is not that of the Docker API".to_owned()
        }
        error => anyhow::Chain::new(error).last().unwrap_or(error).to_string(),
    }
}

fn is_of_k3d(listed: &Listed) -> bool {
    listed.label("k3d.cluster").is_some() || listed.label("app") == Some("k3d")
}

/// `None` for one of no cluster, such as a registry of its own.
fn container(listed: &Listed, inspected: Inspected) -> Option<Container> {
    let name = listed.name().to_owned();
    let cluster = listed.label("k3d.cluster").filter(|name| is_cluster_name(name))?.to_owned();
    let role = match listed.label("k3d.role") {
        Some("server") => ContainerRole::Server,
        Some("loadbalancer") => ContainerRole::LoadBalancer,
        _ => ContainerRole::Other,
    };
    let network = listed.label("k3d.cluster.network");
    let settings = inspected.network_settings.unwrap_or_default();
    let networks = settings.networks.unwrap_or_default();
    let joined = network.and_then(|network| networks.get(network)).or_else(|| networks.values().next());
    let gateway = joined.and_then(Option::as_ref).and_then(|joined| {
        let ip: IpAddr = joined.gateway.as_deref()?.parse().ok()?;
        let alone = if ip.is_ipv4() { 32 } else { 128 };
        let prefix =
            joined.ip_prefix_len.and_then(|length| length.try_into().ok()).filter(|length| *length <= alone);
        Some(Gateway { ip, prefix: prefix.unwrap_or(alone) })
    });
    let flags = flags(&name, &inspected.args.unwrap_or_default());
    // Of the same moment as the ports: one that ends in between runs in the list, and has no ports any more.
    let now = inspected.state.and_then(|state| state.status).filter(|state| !state.is_empty());
    let state = now.or_else(|| listed.state.clone()).unwrap_or_default();
    let published = if network == Some("host") && state == "running" {
        vec![on_host(&flags)]
    } else {
        published(settings.ports.unwrap_or_default())
    };
    Some(Container {
        flags,
        name,
        cluster,
        role,
        state,
        status: listed.status.clone().unwrap_or_default(),
        restarts: inspected.restart_count.and_then(|count| count.try_into().ok()).unwrap_or_default(),
        published,
        gateway,
        // Only the connection says whose it is.
        is_of_user: true,
        engine: EngineProgram::default(),
    })
}

/// `{"6443/tcp": [{"HostIp": "0.0.0.0", "HostPort": "34067"}]}`.
fn published(ports: HashMap<String, Option<Vec<Binding>>>) -> Vec<PublishedPort> {
    let mut published: Vec<_> = ports
        .into_iter()
        .filter_map(|(inside, bindings)| Some((inside.strip_suffix("/tcp")?.parse().ok()?, bindings?)))
        .flat_map(|(inside, bindings)| {
            bindings.into_iter().filter_map(move |binding| {
                let ip = binding.host_ip.filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
                let at: SocketAddr = (ip.parse::<IpAddr>().ok()?, binding.host_port?.parse().ok()?).into();
                Some(PublishedPort { inside, at })
            })
        })
        .collect();
    published.sort_by_key(|port| (port.inside, port.at));
    published
}

/// The content of an archive that has one file.
fn only_file(archive: &[u8]) -> Option<Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    let mut content = Vec::new();
    entry.header().entry_type().is_file().then(|| entry.read_to_end(&mut content).ok()).flatten()?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As Docker 20.10 shows a server of k3d 5.9.
    fn shown() -> (Listed, Inspected) {
        let listed = json!({
            "Id": "c0ffee", "Names": ["/k3d-edge-server-0"], "Image": "rancher/k3s:v1.36.3-k3s1",
            "State": "running", "Status": "Up 2 minutes",
            "Labels": {
                "app": "k3d", "k3d.cluster": "edge", "k3d.role": "server", "k3d.cluster.network": "k3d-edge",
                "k3d.cluster.token": "hunter2",
            },
        });
        let inspected = json!({
            "RestartCount": 2, "Args": ["server", "--token", "hunter2", "--tls-san", "raspi"],
            "Config": {"Env": ["K3S_TOKEN=hunter2"]},
            "NetworkSettings": {
                "Ports": {"6443/tcp": [{"HostIp": "0.0.0.0", "HostPort": "34067"}], "80/tcp": null},
                "Networks": {"k3d-edge": {"Gateway": "172.18.0.1", "IPPrefixLen": 16, "IPAddress": "172.18.0.2"}},
            },
        });
        (serde_json::from_value(listed).unwrap(), serde_json::from_value(inspected).unwrap())
    }

    /// The clock is one that advances as soon as there is nothing else to do.
    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_gives_no_answer_may_only_be_slow_and_one_that_is_off_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("docker.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let host = format!("unix://{}", socket.display());
        let mut engine = Engine::find(Some(&host), Path::to_owned).unwrap().unwrap();
        let error = engine.k3d_clusters().await.unwrap_err();
        assert_eq!((error.why.as_str(), error.is_late), ("no answer within 5 s", true));
        engine.wait_longer();
        let error = engine.k3d_clusters().await.unwrap_err();
        assert_eq!((error.why.as_str(), error.is_late), ("no answer within 30 s", true));
        drop(listener);
        let error = engine.k3d_clusters().await.unwrap_err();
        assert!(!error.is_late, "{error:?}");
    }

    /// With more bytes than are read, and with more objects and arrays than that in fewer.
    #[cfg(unix)]
    #[tokio::test]
    async fn an_engine_that_answers_without_end_does_not_fill_the_memory() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let many = |one: &str| format!("[{}{one}]", format!("{one},").repeat(DESCRIPTIONS.containers));
        for body in [" ".repeat(DESCRIPTIONS.bytes) + "[]", many("{}"), many("[]")] {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("docker.sock");
            let listener = tokio::net::UnixListener::bind(&socket).unwrap();
            let length = body.len();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                // Who asks hangs up.
                let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
            });
            let host = format!("unix://{}", socket.display());
            let engine = Engine::find(Some(&host), Path::to_owned).unwrap().unwrap();
            let error = engine.k3d_clusters().await.unwrap_err();
            assert_eq!((error.why.as_str(), error.is_late), ("its answers are too large", false), "{length}");
        }
    }

    /// The states are those of podman 4, the refusal too.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_container_in_a_state_that_docker_has_not_hides_no_other() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("podman.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let listed = |number: u32, state: &str| {
            json!({
                "Id": format!("c{number}"), "Names": [format!("/k3d-edge-server-{number}")], "State": state,
                "Ports": null, "Labels": {"app": "k3d", "k3d.cluster": "edge", "k3d.role": "server"},
            })
        };
        let answers = [
            ("200 OK", json!([listed(0, "running"), listed(1, "initialized"), listed(2, "stopping")])),
            (
                "200 OK",
                json!({"State": {"Status": "running"}, "NetworkSettings": {"Networks": {"podman": null}}}),
            ),
            ("200 OK", json!({"State": {"Status": "stopped", "Health": {"Status": "reset"}}})),
            ("404 Not Found", json!({"cause": "no such container", "message": "no c2", "response": 404})),
        ];
        let asked = tokio::spawn(async move {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                asked.extend(request.split(' ').nth(1).map(str::to_owned));
                let body = body.to_string();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let host = format!("unix://{}", socket.display());
        let engine = Engine::find(Some(&host), Path::to_owned).unwrap().unwrap();
        let found = engine.k3d_clusters().await.unwrap();
        let states: Vec<_> = found[0].servers.iter().map(|server| server.state.as_str()).collect();
        assert_eq!(states, ["running", "stopped"]);
        assert!(!found[0].servers[0].is_of_user, "who runs this test listens");
        assert_eq!(found[0].servers[0].engine, EngineProgram::Podman);
        let asked = asked.await.unwrap();
        assert!(asked[0].starts_with("/containers/json?all=true&"), "in the engine's own version: {asked:?}");
        assert_eq!(asked[1..], ["/containers/c0/json", "/containers/c1/json", "/containers/c2/json"]);
    }

    #[test]
    fn a_container_is_kept_without_the_clusters_token() {
        let (listed, inspected) = shown();
        let container = container(&listed, inspected).unwrap();
        assert_eq!(
            (container.role, container.restarts, container.state.as_str()),
            (ContainerRole::Server, 2, "running")
        );
        assert_eq!(container.published, [PublishedPort { inside: 6443, at: ([0, 0, 0, 0], 34067).into() }]);
        assert_eq!(container.gateway, Some(Gateway { ip: [172, 18, 0, 1].into(), prefix: 16 }));
        assert_eq!(container.flags.iter().map(|flag| flag.value.as_str()).collect::<Vec<_>>(), ["raspi"]);
        assert!(!format!("{container:?}").contains("hunter2"), "{container:?}");
    }

    #[test]
    fn what_k3d_calls_no_cluster_is_the_name_of_none() {
        let (mut listed, inspected) = shown();
        for name in ["-a", "--all", "edge;reboot", "edge lab", ""] {
            let labels = listed.labels.as_mut().unwrap();
            labels.insert("k3d.cluster".to_owned(), name.to_owned());
            assert!(container(&listed, inspected.clone()).is_none(), "{name}");
        }
    }

    #[test]
    fn the_state_is_that_of_the_moment_of_the_ports() {
        let (listed, inspected) = shown();
        assert_eq!(container(&listed, inspected.clone()).unwrap().state, "running");
        let state = serde_json::from_value(json!({"Status": "exited"})).unwrap();
        let ended = Inspected { state: Some(state), ..inspected };
        assert_eq!(container(&listed, ended).unwrap().state, "exited");
    }

    /// As Docker shows a server of `k3d cluster create --network host`.
    #[test]
    fn a_server_in_the_network_of_the_machine_has_its_api_there_while_it_runs() {
        let (mut listed, mut inspected) = shown();
        listed.labels.as_mut().unwrap().insert("k3d.cluster.network".to_owned(), "host".to_owned());
        let settings = json!({"Ports": {}, "Networks": {"host": {"Gateway": "", "IPPrefixLen": 0}}});
        inspected.network_settings = Some(serde_json::from_value(settings).unwrap());
        let runs = container(&listed, inspected.clone()).unwrap();
        assert_eq!(runs.published, [PublishedPort { inside: 6443, at: ([0, 0, 0, 0], 6443).into() }]);
        assert_eq!(runs.gateway, None);
        inspected.state = Some(serde_json::from_value(json!({"Status": "exited"})).unwrap());
        assert_eq!(container(&listed, inspected).unwrap().published, []);
    }

    #[test]
    fn a_file_comes_out_of_the_archive_and_nothing_else_does() {
        let archive = |kind| {
            let mut builder = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_size(4);
            builder.append_data(&mut header, "ca.crt", &b"PEM\n"[..]).unwrap();
            builder.into_inner().unwrap()
        };
        assert_eq!(only_file(&archive(tar::EntryType::Regular)).as_deref(), Some(&b"PEM\n"[..]));
        assert_eq!(only_file(&archive(tar::EntryType::Symlink)), None);
        assert_eq!(only_file(b"no archive"), None);
    }
}
