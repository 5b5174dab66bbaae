//! Proves by real handshakes that the API server serves a name.
//!
//! Each name gets a connection of its own, verified exactly as a client would
//! verify it: chain to the cluster's CA, name, dates. DNS names are sent as
//! SNI. Addresses are not (TLS forbids it), and neither is a made-up name for a
//! wildcard: k3s' listener may add every name it is asked for to its
//! certificate, for ever.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use rustls::{RootCertStore, client::WebPkiServerVerifier, pki_types::ServerName};
use tokio::{net::lookup_host, time::timeout};
use weaver_diagnostics::{
    san::ServingName,
    serving::{Observation, Outcome, Seen, Silence, Wanted},
};
use weaver_host::handshake;

/// Pause between two rounds of handshakes.
const POLL: Duration = Duration::from_millis(250);
/// Handshakes at a time: they cost the API server more than us.
const CONCURRENT: usize = 4;

/// The names that the certificate has, by a handshake for one that every certificate of k3s has.
///
/// # Errors
/// No verifier could be made from these anchors.
pub async fn served(address: SocketAddr, anchors: RootCertStore) -> anyhow::Result<Vec<String>> {
    let verifier = verifier(anchors)?;
    Ok(handshake(address, verifier, &ServingName::Dns("localhost".to_owned())).await.served)
}

fn verifier(anchors: RootCertStore) -> anyhow::Result<Arc<WebPkiServerVerifier>> {
    WebPkiServerVerifier::builder(Arc::new(anchors))
        .build()
        .context("making a verifier from the cluster's CA")
}

/// One observation per name, in their order. Names that are not proven are tried again until `patience` has
/// passed: k3s continues serving its old certificate for a second or two after its API is ready. A server
/// that never answered is not waited for.
///
/// # Errors
/// No verifier could be made from these anchors.
pub async fn prove(
    address: SocketAddr,
    anchors: RootCertStore,
    names: Vec<Wanted>,
    patience: Duration,
) -> anyhow::Result<Vec<Seen>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let verifier = verifier(anchors)?;
    let started = Instant::now();
    let mut observations = vec![Observation { outcome: Outcome::NotServed, served: Vec::new() }; names.len()];
    loop {
        let open: Vec<_> = (0..names.len()).filter(|i| observations[*i].outcome != Outcome::Proven).collect();
        let round: Vec<_> = stream::iter(open)
            .map(|index| {
                let verifier = Arc::clone(&verifier);
                let name = &names[index].name;
                async move { (index, handshake(address, verifier, name).await) }
            })
            .buffer_unordered(CONCURRENT)
            .collect()
            .await;
        for (index, observation) in round {
            observations[index] = observation;
        }
        let count = |test: fn(&Outcome) -> bool| observations.iter().filter(|o| test(&o.outcome)).count();
        let proven = count(|o| *o == Outcome::Proven);
        let silent = count(|o| matches!(o, Outcome::Unreachable(_)));
        if proven == names.len() || silent == names.len() || started.elapsed() + POLL > patience {
            return Ok(names.into_iter().zip(observations).collect());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A handshake for this name with another host, of which `anchors` are the CA, at the first of its addresses
/// that answers.
///
/// # Errors
/// No verifier could be made from these anchors.
pub(crate) async fn look(
    (host, port): (&str, u16),
    anchors: RootCertStore,
    name: &ServingName,
) -> anyhow::Result<Observation> {
    let verifier = verifier(anchors)?;
    let silent = |silence| Observation { outcome: Outcome::Unreachable(silence), served: Vec::new() };
    let unanswered = |why: &str| silent(Silence::Unanswered(why.to_owned()));
    let found = match timeout(handshake::DEADLINE, lookup_host((host, port))).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Ok(silent(Silence::from(&error))),
        Err(_) => return Ok(unanswered("name resolution does not answer")),
    };
    let mut seen = unanswered("the name has no address");
    // As k3s does: an address that no one answers at, of a network that is not there, hides no other.
    for address in found {
        seen = handshake(address, Arc::clone(&verifier), name).await;
        if !matches!(seen.outcome, Outcome::Unreachable(_)) {
            break;
        }
    }
    Ok(seen)
}

async fn handshake(
    address: SocketAddr,
    verifier: Arc<WebPkiServerVerifier>,
    name: &ServingName,
) -> Observation {
    let Some((asked, judged)) = server_names(address, name) else {
        let silence = Silence::Unanswered(format!("{name} cannot be used in a TLS handshake"));
        return Observation { outcome: Outcome::Unreachable(silence), served: Vec::new() };
    };
    let seen = handshake::handshake(address, verifier, asked, judged).await;
    Observation { outcome: seen.outcome, served: seen.served }
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
