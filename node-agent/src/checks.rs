//! The two sets of checks: what must be true before k3s starts, and that plus the proof of the served names.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use rustls::{RootCertStore, pki_types::CertificateDer};
use weaver_diagnostics::{
    finding::{Finding, Severity},
    future_ca::FutureCa,
    host::load::HostLoad,
    k3s_config::Effective,
    name_repair::{self, OwnNames},
    power, reach,
    serving::{self, Causes, HandshakeOutcome, ObservedName, ServingStage},
    text_file::TextFile,
};

use crate::{
    facts::{board, certificate_dates, mounts::Mounts, storage},
    findings::Findings,
    host::Host,
    host_checks::{self, CheckContext},
    join, k3s_files, override_file, probe, slowness,
};

/// The result of the checks before k3s starts.
#[derive(Debug)]
pub struct Preflight {
    pub findings: Vec<Finding>,
    /// What k3s will act on.
    pub effective: Effective,
}

#[derive(Debug)]
pub struct CheckResult {
    pub findings: Vec<Finding>,
    /// Whether every configured name is proven, against a known configuration.
    pub proven: bool,
    /// The API server that was checked.
    pub api_address: SocketAddr,
    /// The CA of the serving certificates in PEM, where there is one.
    pub server_ca: Option<String>,
    /// The handshakes, one a configured name.
    pub seen: Vec<ObservedName>,
    /// The names of the served certificate; none where it was not seen.
    pub served: Vec<String>,
    pub certificate: Option<CertificateDer<'static>>,
    /// The directories in which a change is worth another check, as they really are.
    pub watched_dirs: Vec<PathBuf>,
    /// How busy the machine was, where a handshake was late.
    pub load: Option<HostLoad>,
}

impl CheckResult {
    /// Whether something is known to be bad.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity() == Severity::Fail)
    }
}

/// The host and the validity of k3s' configuration, with the owner's override
/// applied. No network.
pub fn preflight(host: &Host) -> Preflight {
    preflight_after(host, None)
}

/// The same after the host could not be made ready for a start without a network, for the reason given.
pub fn preflight_after(host: &Host, not_ready: Option<&str>) -> Preflight {
    let (findings, effective) = judge_files(host, ServingStage::BeforeStart, not_ready);
    Preflight { findings: findings.finish(), effective }
}

fn judge_files(host: &Host, stage: ServingStage, not_ready: Option<&str>) -> (Findings, Effective) {
    let effective = host.effective();
    let role = host.role();
    let mut findings = Findings::new(host.runs(), override_file::read(&host.root, &host.boot_dir));
    let k3d = host.k3d();
    findings.extend(k3d.iter().flat_map(|k3d| k3d.findings.clone()));
    findings.extend(host_checks::run(&CheckContext {
        root: &host.root,
        boot_dir: &host.boot_dir,
        role,
        is_k3d: k3d.is_some(),
        effective: &effective,
        data_dir: host.data_dir(&effective),
        api_port: host.api_address(&effective).port(),
        mounts: Mounts::read(&host.root),
        stage,
        not_ready,
    }));
    (findings, effective)
}

/// The content of the files.
struct CheckedFiles {
    findings: Findings,
    effective: Effective,
    server_ca: Result<TextFile, Box<Finding>>,
    kubeconfig: Vec<Finding>,
    own: OwnNames,
    watched_dirs: Vec<PathBuf>,
    causes: Causes,
    joins: bool,
    target: Option<join::JoinTarget>,
}

impl CheckedFiles {
    fn read(host: &Host) -> Self {
        let (findings, effective) = judge_files(host, ServingStage::Serving, None);
        let own = host.own_names(&effective);
        let watched_dirs = host.watched_dirs(&effective);
        let joins = host.joins();
        let target = join::join_target(&host.root, host.node_name());
        let (server_ca, kubeconfig, causes) = if let Some(k3d) = host.k3d() {
            (k3d.server_ca(), k3d.unusable(), Causes::default())
        } else {
            let data_dir = host.data_dir(&effective);
            let future_ca = certificate_dates::future_ca(
                &host.root,
                &k3s_files::server_ca_path(&data_dir),
                Timestamp::now(),
            );
            let server_ca = k3s_files::server_ca(&host.root, &data_dir);
            let kubeconfig = k3s_files::admin_kubeconfig(&host.root, &host.admin_kubeconfig);
            (server_ca, kubeconfig, Causes { written: host.written(&effective), future_ca })
        };
        Self { findings, effective, server_ca, kubeconfig, own, watched_dirs, causes, joins, target }
    }
}

/// Findings that change from one moment to the next, or may be no fault at all: for a user who asks, and not for the
/// card's page.
pub fn momentary(host: &Host) -> Vec<Finding> {
    let effective = host.effective();
    let (names, _) = serving::wanted(&effective.tls_san, ServingStage::Serving);
    let heat = board::heat(&host.root).and_then(|(place, heat)| power::heat(place, heat));
    heat.into_iter().chain(reach::unqualified_names(&names)).collect()
}

/// A measurement of the storage under k3s, which writes to it.
pub fn card_speed(host: &Host) -> Finding {
    let effective = host.effective();
    storage::card_speed(&host.root.real(host.data_dir(&effective))).judge()
}

/// All checks, the handshakes included: names that are not served are probed again until `patience` has passed. A node
/// that joins a server proves nothing; it checks whether that server would accept it.
///
/// # Errors
/// The probe itself could not run.
pub async fn check(host: &Host, patience: Duration) -> anyhow::Result<CheckResult> {
    host.look_at_k3d().await;
    let reader = host.clone();
    // A dying card can take seconds to answer: never on the runtime's thread.
    let files = tokio::task::spawn_blocking(move || CheckedFiles::read(&reader)).await;
    let mut files = files.context("reading the host's files")?;
    files.findings.extend(host.newer_settings().await);
    let api_address = host.api_address(&files.effective);
    let mut shown = Shown::default();
    if files.joins {
        if let Some(target) = &files.target {
            let answer = join::look(target, files.effective.disable_apiserver_lb).await;
            files.findings.extend_by_server(answer.findings);
            if answer.was_late {
                let now = slowness::load(&host.root).await;
                files.findings.extend(now.judge());
                shown.load = Some(now);
            }
        }
    } else {
        match files.server_ca.as_ref().map_err(Clone::clone).and_then(k3s_files::trust_anchors) {
            Err(finding) => files.findings.extend([*finding]),
            Ok(anchors) => shown = prove(host, &mut files, api_address, anchors, patience).await?,
        }
        if !shown.seen.iter().any(|(_, seen)| matches!(seen.outcome, HandshakeOutcome::Dates(_))) {
            files.findings.extend(files.causes.future_ca.as_ref().map(FutureCa::finding));
        }
        files.findings.extend(reach::hidden_names(&shown.seen));
        files.findings.extend(files.kubeconfig);
    }
    let Shown { proven, seen, served, certificate, load } = shown;
    Ok(CheckResult {
        findings: files.findings.finish(),
        proven,
        api_address,
        server_ca: files.server_ca.ok().map(|file| file.text),
        seen,
        served,
        certificate,
        watched_dirs: files.watched_dirs,
        load,
    })
}

/// What the handshakes have shown.
#[derive(Default)]
struct Shown {
    proven: bool,
    seen: Vec<ObservedName>,
    served: Vec<String>,
    certificate: Option<CertificateDer<'static>>,
    load: Option<HostLoad>,
}

async fn prove(
    host: &Host,
    files: &mut CheckedFiles,
    api_address: SocketAddr,
    anchors: RootCertStore,
    patience: Duration,
) -> anyhow::Result<Shown> {
    let CheckedFiles { findings, effective, own, causes, .. } = files;
    let (names, _) = serving::wanted(&effective.tls_san, ServingStage::Serving);
    let names_are_open = findings.names_are_open();
    if names.is_empty() && names_are_open {
        findings.extend([serving::unknown(
            "the configured names are unknown: the configuration could not be read completely",
        )]);
        return Ok(Shown::default());
    }
    let probed = probe::prove(api_address, anchors.clone(), names, patience).await?;
    let endpoint = api_address.to_string();
    let mut load = None;
    if let Some(took) = probed.late {
        let now = slowness::load(&host.root).await;
        findings.extend(slowness::of_handshakes(&endpoint, &probed, took));
        findings.extend(now.judge());
        load = Some(now);
    }
    let proof = serving::judge(&endpoint, &probed.seen, causes);
    findings.extend(proof.findings);
    let (served, certificate) = match probed.seen.first() {
        Some((_, seen)) => (seen.served.clone(), probed.certificate),
        None => probe::served(api_address, anchors).await?,
    };
    if !names_are_open {
        let stale = name_repair::stale(&served, effective, own);
        findings.extend(name_repair::stale_finding(&endpoint, &stale));
    }
    Ok(Shown { proven: proof.proven && !names_are_open, seen: probed.seen, served, certificate, load })
}
