//! From the kubeconfig to an answer of the API server, step by step.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::{Request, Response, header::DATE};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::client::Body;
use kube::{Client, Config};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_diagnostics::host::load;
use weaver_diagnostics::kubeconfig_export::lint::on_the_pi;
use weaver_diagnostics::kubeconfig_export::several;
use weaver_diagnostics::laptop::System;
use weaver_diagnostics::reach::{self, Clocks};
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::serving::{HandshakeOutcome, Observation};
use weaver_host::handshake::{DEADLINE, SECOND_LOOK};

use super::seen::{LocatedFinding, Location};
use crate::connection;
use crate::kubeconfig::file;
use crate::kubeconfig::handshake;
use crate::kubeconfig::judge;

const PATIENCE: Duration = Duration::from_secs(15);

/// For the longest: one that a webhook has to answer, for which the API server waits 30 s. Each call has a
/// limit of its own.
const LONGEST: Duration = Duration::from_secs(45);

/// What was found on the way, and the client with which the checks continue.
pub struct Way {
    pub seen: Vec<LocatedFinding>,
    pub client: Option<Client>,
    /// Whether this is the machine that k3s runs on: then loopback addresses lead to it.
    is_node: bool,
    /// Whether that machine is known to be busy: then silence is no fault.
    is_overloaded: bool,
}

/// Follows the path until the first failure.
pub async fn look(is_node: bool, is_overloaded: bool) -> Way {
    let mut way = Way { seen: Vec::new(), client: None, is_node, is_overloaded };
    way.client = way.go().await;
    way
}

impl Way {
    fn note(&mut self, location: Location, findings: impl IntoIterator<Item = Finding>) {
        self.seen.extend(findings.into_iter().map(|finding| LocatedFinding { location, finding }));
    }

    fn is_at_an_end(&self) -> bool {
        self.seen.iter().any(LocatedFinding::is_bad)
    }

    /// Ends where something is known to be bad.
    async fn go(&mut self) -> Option<Client> {
        let (path, config) = self.kubeconfig().await?;
        let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let verified = config.tls_server_name.clone().unwrap_or_else(|| host.clone());
        let name: ServingName = match verified.trim_end_matches('.').parse() {
            Ok(name) => name,
            Err(error) => {
                self.unusable(&path, format!("no certificate can be verified for `{verified}`: {error}"));
                return None;
            }
        };
        let found = lookup(&host, port).await;
        let mut leads_here = None;
        if let Ok(host) = host.parse() {
            let finding = reach::lookup(&host, &found, self.is_node);
            // A name in /etc/hosts needs no other way to find it.
            let is_here = found.as_ref().is_ok_and(|found| found.iter().all(IpAddr::is_loopback));
            if is_here {
                // Only where it is not the server: a tunnel may end here, or a k3d publish its port.
                leads_here = finding;
            } else {
                self.note(Location::Here, finding.filter(|_| found.is_err() || !is_in_hosts_file(&host)));
            }
        }
        if self.is_at_an_end() {
            return None;
        }
        let shown = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let is_silent = match anchors(&config) {
            Ok(Some(anchors)) => self.handshake(&shown, anchors, &name, &path).await,
            // Then the system's own CAs count, or none: the request itself will show it.
            Ok(None) => false,
            Err(why) => {
                self.unusable(&path, why);
                false
            }
        };
        if is_silent || self.is_at_an_end() {
            self.note(Location::Here, leads_here);
            return None;
        }
        let client = match weaver_client::connection::client(&config) {
            Ok(client) => client,
            Err(error) => {
                self.unusable(&path, format!("{error:#}"));
                return None;
            }
        };
        let is_silent = self.ask(&client, &shown).await.is_none();
        if is_silent || self.is_at_an_end() {
            self.note(Location::Here, leads_here);
            return None;
        }
        Some(client)
    }

    fn unusable(&mut self, file: &str, why: String) {
        let finding = Finding::new(Code::KubeconfigUnusable, why).saw(Place::file(file), "unusable");
        self.note(Location::Here, [finding.remedy(on_the_pi())]);
    }

    async fn kubeconfig(&mut self) -> Option<(String, Config)> {
        let paths = connection::kubeconfig_files();
        let Some(path) = paths.first() else {
            let finding = Finding::new(Code::KubeconfigFallback, "there is no kubeconfig");
            self.note(Location::Here, [finding]);
            return None;
        };
        let texts = match file::read_all(&paths, "run this as the user whose kubeconfig it is") {
            Ok(texts) => texts,
            Err(error) => {
                let code = if path.exists() { Code::KubeconfigUnreadable } else { Code::KubeconfigFallback };
                self.note(Location::Here, [Finding::new(code, error.to_string())]);
                return None;
            }
        };
        // Without a single file that has the context, kubectl's own reading of them decides.
        let (text, context) = match several::in_force(&texts, connection::context()) {
            Ok(chosen) => chosen.map_or((None, None), |(text, context)| (Some(text), context)),
            Err(finding) => {
                self.note(Location::Here, [*finding]);
                (None, None)
            }
        };
        let context = context.as_deref().or(connection::context());
        if let Some(text) = text {
            self.note(Location::Here, judge::lint(text, context, self.is_node));
        }
        if self.is_at_an_end() {
            return None;
        }
        let shown = text.map_or_else(|| path.display().to_string(), |text| text.path.clone());
        let path = text.map(|text| Path::new(&text.path));
        match weaver_client::connection::config(path, context, LONGEST, connection::USER_AGENT).await {
            Ok(config) => Some((shown, config)),
            Err(error) => {
                self.unusable(&shown, format!("{error:#}"));
                None
            }
        }
    }

    /// No answer, with no other information than how long that lasts.
    fn silent(&mut self, location: Location, finding: Finding) {
        // A busy machine is another possible reason.
        let finding = if self.is_overloaded { finding.milder(Severity::Warn) } else { finding };
        self.note(location, [finding]);
    }

    /// Whether it stayed without an answer.
    async fn handshake(
        &mut self,
        endpoint: &str,
        anchors: RootCertStore,
        name: &ServingName,
        file: &str,
    ) -> bool {
        let seen = handshake::prove(endpoint, anchors, name).await;
        let clocks = match &seen.outcome {
            HandshakeOutcome::Dates(_) => match ServerName::try_from("localhost") {
                Ok(any) => weaver_host::handshake::clock(endpoint, any).await.map(clocks),
                Err(_) => None,
            },
            _ => None,
        };
        let location = match &seen.outcome {
            HandshakeOutcome::Unreachable(_) => Location::Network,
            HandshakeOutcome::Untrusted(_) => Location::Here,
            _ => Location::Node,
        };
        let (is_late, took) = (seen.is_late(), seen.took);
        let observation = Observation { outcome: seen.outcome, served: seen.served };
        let finding = reach::handshake(endpoint, name, &observation, clocks, file);
        if is_late {
            let remedy = Remedy::new(
                "the connection was accepted, so the machine is on: check there what keeps it busy, or whether k3s hangs",
            );
            let remedy = remedy.command("uptime").command("journalctl -u k3s -n 50");
            self.silent(location, finding.remedy(remedy));
            return true;
        }
        self.note(location, [finding]);
        if took > DEADLINE {
            let took = format!("a TLS handshake took {} s", took.as_secs());
            self.note(Location::Node, [load::slow(endpoint, endpoint, &took)]);
        }
        false
    }

    /// One request with the kubeconfig's credentials, which needs no right, and another with a longer timeout where
    /// that has no answer; `None` where the second has none either.
    async fn ask(&mut self, client: &Client, endpoint: &str) -> Option<()> {
        let send = || async {
            let request = Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
            client.send(request).await
        };
        if let Ok(answer) = timeout(PATIENCE, send()).await {
            self.answered(answer, endpoint).await;
            return Some(());
        }
        if let Ok(answer) = timeout(SECOND_LOOK, send()).await {
            let waited = format!("no answer within {} s", PATIENCE.as_secs());
            self.note(Location::Node, [load::slow(endpoint, "GET /version", &waited)]);
            self.answered(answer, endpoint).await;
            return Some(());
        }
        let message = format!("{endpoint} did not respond within {} s, twice", PATIENCE.as_secs());
        let finding = Finding::new(Code::K3sNotAnswering, message);
        self.silent(Location::Node, finding.saw(Place::file(endpoint), "GET /version"));
        None
    }

    async fn answered(&mut self, answer: kube::Result<Response<Body>>, endpoint: &str) {
        let bad = |code: Code, message: String| {
            Finding::new(code, message).saw(Place::file(endpoint), "GET /version")
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                return self
                    .note(Location::Network, [bad(Code::ServerSilent, format!("{endpoint}: {error}"))]);
            }
        };
        let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
        let there = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let clocks = there.map(|there| clocks(there.timestamp().as_second()));
        let status = answer.status();
        if status.as_u16() == 401 {
            let message = format!("{endpoint} rejects the credentials of the kubeconfig (401)");
            return self.note(Location::Here, [bad(Code::CredentialsRefused, message)]);
        }
        if !status.is_success() {
            return self
                .note(Location::Node, [bad(Code::K3sNotAnswering, format!("{endpoint} returns {status}"))]);
        }
        let version = match timeout(PATIENCE, answer.into_body().collect_bytes()).await {
            Ok(Ok(body)) => serde_json::from_slice::<Info>(&body).map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("its answer is not complete within {} s", PATIENCE.as_secs())),
        };
        let version = match version {
            Ok(version) => version.git_version,
            Err(why) => {
                return self.note(Location::Node, [bad(Code::K3sNotAnswering, format!("{endpoint}: {why}"))]);
            }
        };
        let message = format!("{endpoint} answers and accepts the credentials; its version is {version}");
        self.note(Location::Node, [Finding::new(Code::Reached, message)]);
        self.note(Location::Node, reach::version(&version));
        self.note(Location::Node, clocks.and_then(reach::clocks));
    }
}

fn clocks(there: i64) -> Clocks {
    Clocks { here: Timestamp::now().as_second(), there }
}

fn is_in_hosts_file(name: &ServingName) -> bool {
    let hosts = std::fs::read_to_string(System::HERE.hosts_file()).unwrap_or_default();
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut names = lines.flat_map(|line| line.split_whitespace().skip(1));
    names.any(|known| known.eq_ignore_ascii_case(&name.to_string()))
}

async fn lookup(host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
    let found = timeout(PATIENCE, tokio::net::lookup_host((host, port))).await;
    let found = found.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip()).collect())
}

/// The CA of the kubeconfig; none where it has none, or disables verification.
fn anchors(config: &Config) -> Result<Option<RootCertStore>, String> {
    let mut anchors = RootCertStore::empty();
    for certificate in config.root_cert.iter().flatten().filter(|_| !config.accept_invalid_certs) {
        let added = anchors.add(certificate.clone().into());
        added.map_err(|error| format!("its CA is not a valid certificate: {error}"))?;
    }
    Ok((!anchors.is_empty()).then_some(anchors))
}
