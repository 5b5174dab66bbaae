//! Proves by real handshakes that the API server serves a name.
//!
//! Each name gets a connection of its own, verified exactly as a client would verify it: chain to the cluster's CA,
//! name, dates. DNS names are sent as SNI. Addresses are not (TLS forbids it), and neither is a made-up name for a
//! wildcard: k3s' listener may add every name that a client sends to its certificate, forever.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use rustls::{
    RootCertStore,
    client::WebPkiServerVerifier,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{net::lookup_host, time::timeout};
use weaver_diagnostics::{
    san::ServingName,
    serving::{HandshakeOutcome, Observation, ObservedName, Silence, WantedName},
};
use weaver_host::handshake;

/// Pause between two rounds of handshakes.
const POLL: Duration = Duration::from_millis(250);
/// Handshakes at a time: they cost the API server more than us.
const CONCURRENT: usize = 4;

/// What handshakes have shown.
#[derive(Debug, Default)]
pub struct Probed {
    /// One for each name.
    pub seen: Vec<ObservedName>,
    /// How long the slowest took, or was waited for, where none was answered in the usual time.
    pub late: Option<Duration>,
    /// What was shown last.
    pub certificate: Option<CertificateDer<'static>>,
}

/// How a handshake ended.
struct Ended {
    observation: Observation,
    took: Duration,
    /// The connection was accepted, and then no answer came in time.
    is_late: bool,
    certificate: Option<CertificateDer<'static>>,
}

/// The names that the certificate has, and itself, by a handshake for one that every certificate of k3s has.
///
/// # Errors
/// No verifier could be made from these anchors.
pub async fn served(
    address: SocketAddr,
    anchors: RootCertStore,
) -> anyhow::Result<(Vec<String>, Option<CertificateDer<'static>>)> {
    let verifier = verifier(anchors)?;
    let name = ServingName::Dns("localhost".to_owned());
    let ended = handshake(address, verifier, &name, handshake::DEADLINE).await;
    Ok((ended.observation.served, ended.certificate))
}

fn verifier(anchors: RootCertStore) -> anyhow::Result<Arc<WebPkiServerVerifier>> {
    WebPkiServerVerifier::builder(Arc::new(anchors))
        .build()
        .context("making a verifier from the cluster's CA")
}

/// One observation per name, in their order. Names that are not proven are tried again until `patience` has passed: k3s
/// continues serving its old certificate for a second or two after its API is ready. A server that never answered is
/// not waited for, but where the time was too short for it there is a second attempt with more time: a busy node is
/// slow, and its names are proven all the same.
///
/// # Errors
/// No verifier could be made from these anchors.
pub async fn prove(
    address: SocketAddr,
    anchors: RootCertStore,
    names: Vec<WantedName>,
    patience: Duration,
) -> anyhow::Result<Probed> {
    if names.is_empty() {
        return Ok(Probed::default());
    }
    let verifier = verifier(anchors)?;
    let started = Instant::now();
    let mut observations =
        vec![Observation { outcome: HandshakeOutcome::NotServed, served: Vec::new() }; names.len()];
    let (mut deadline, mut late, mut certificate) = (handshake::DEADLINE, None, None);
    loop {
        let open: Vec<_> =
            (0..names.len()).filter(|i| observations[*i].outcome != HandshakeOutcome::Proven).collect();
        let look = |index: usize| {
            let verifier = Arc::clone(&verifier);
            let name = &names[index].name;
            async move { (index, handshake(address, verifier, name, deadline).await) }
        };
        let round: Vec<_> = stream::iter(open).map(look).buffer_unordered(CONCURRENT).collect().await;
        let took = round.iter().map(|(_, ended)| ended.took).max().unwrap_or_default();
        late = late.map(|late: Duration| late.max(took));
        for (index, ended) in round {
            observations[index] = ended.observation;
            certificate = ended.certificate.or(certificate);
        }
        let late_ones = count(&observations, is_late);
        if late.is_none() && late_ones > 0 {
            deadline = handshake::SECOND_LOOK;
            late = Some(took);
            if late_ones < names.len() {
                continue;
            }
            // One name is enough to see whether it answers at all.
            let first = handshake(address, Arc::clone(&verifier), &names[0].name, deadline).await;
            late = Some(first.took);
            let is_answered = !is_late(&first.observation.outcome);
            observations[0] = first.observation;
            certificate = first.certificate.or(certificate);
            if is_answered && names.len() > 1 {
                continue;
            }
        }
        let proven = count(&observations, |outcome| *outcome == HandshakeOutcome::Proven);
        let silent = count(&observations, |outcome| matches!(outcome, HandshakeOutcome::Unreachable(_)));
        if proven == names.len() || silent == names.len() || started.elapsed() + POLL > patience {
            let seen = names.into_iter().zip(observations).collect();
            return Ok(Probed { seen, late, certificate });
        }
        tokio::time::sleep(POLL).await;
    }
}

fn count(observations: &[Observation], test: fn(&HandshakeOutcome) -> bool) -> usize {
    observations.iter().filter(|seen| test(&seen.outcome)).count()
}

const fn is_late(outcome: &HandshakeOutcome) -> bool {
    matches!(outcome, HandshakeOutcome::Unreachable(Silence::Late(_)))
}

/// A handshake for this name with another host, of which `anchors` are the CA, at the first of its addresses
/// that answers; and how long it took, or was waited for, where the usual time was too short.
///
/// # Errors
/// No verifier could be made from these anchors.
pub(crate) async fn look(
    (host, port): (&str, u16),
    anchors: RootCertStore,
    name: &ServingName,
) -> anyhow::Result<(Observation, Option<Duration>)> {
    let verifier = verifier(anchors)?;
    let silent =
        |silence| Observation { outcome: HandshakeOutcome::Unreachable(silence), served: Vec::new() };
    let unanswered = |why: &str| silent(Silence::Unanswered(why.to_owned()));
    let found = match timeout(handshake::DEADLINE, lookup_host((host, port))).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Ok((silent(Silence::from(&error)), None)),
        Err(_) => return Ok((unanswered("name resolution does not answer"), None)),
    };
    let mut seen = unanswered("the name has no address");
    // As k3s does: an address that does not answer, on a network that is not there, hides no other.
    for address in found {
        let ended = handshake(address, Arc::clone(&verifier), name, handshake::DEADLINE).await;
        if ended.is_late {
            // One that accepts is the server, which may only be busy.
            let again = handshake(address, verifier, name, handshake::SECOND_LOOK).await;
            return Ok((again.observation, Some(ended.took + again.took)));
        }
        seen = ended.observation;
        if !matches!(seen.outcome, HandshakeOutcome::Unreachable(_)) {
            break;
        }
    }
    Ok((seen, None))
}

async fn handshake(
    address: SocketAddr,
    verifier: Arc<WebPkiServerVerifier>,
    name: &ServingName,
    deadline: Duration,
) -> Ended {
    let Some((asked, judged)) = server_names(address, name) else {
        let silence = Silence::Unanswered(format!("{name} cannot be used in a TLS handshake"));
        let observation = Observation { outcome: HandshakeOutcome::Unreachable(silence), served: Vec::new() };
        return Ended { observation, took: Duration::ZERO, is_late: false, certificate: None };
    };
    let seen = handshake::handshake(address, verifier, asked, judged, deadline).await;
    let is_late = seen.is_late();
    let observation = Observation { outcome: seen.outcome, served: seen.served };
    Ended { observation, took: seen.took, is_late, certificate: seen.certificate }
}

/// The name to send, and the name to verify.
fn server_names(
    address: SocketAddr,
    name: &ServingName,
) -> Option<(ServerName<'static>, ServerName<'static>)> {
    let dns = |name: String| ServerName::try_from(name).ok();
    match name {
        ServingName::Dns(name) => dns(name.clone()).map(|name| (name.clone(), name)),
        ServingName::Ip(ip) => Some(((*ip).into(), (*ip).into())),
        ServingName::Wildcard(rest) => Some((address.ip().into(), dns(format!("weaver-probe.{rest}"))?)),
    }
}
