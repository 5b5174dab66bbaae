//! Proves by a real handshake that a name is served by a certificate of a CA.
//!
//! It is verified as kubectl would: chain, name, dates. The first handshake does not send the name: k3s' listener may
//! add every name that a client sends to its certificate, forever, and a typing error must not become a served name.
//! Only a name that the certificate already has is then sent. No credential is needed or sent.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use serde_json::json;
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::serving::{HandshakeOutcome, Silence};
use weaver_host::handshake::{DEADLINE, Handshake, SECOND_LOOK, handshake};

/// The server name where no name must be sent: TLS sends no addresses.
const NO_NAME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Pauses before another connection to a server that closed it.
const AGAIN: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Whether `endpoint` (`HOST:PORT`) serves `name` by a certificate of `anchors`. A server that accepts the connection
/// and gives no answer in time is tried once more with a longer timeout: it may only be busy. One that closes the
/// connection is tried a few times: it may only be starting.
pub async fn prove(endpoint: &str, anchors: RootCertStore, name: &ServingName) -> Handshake {
    let nothing = |why| Handshake {
        outcome: HandshakeOutcome::Unreachable(Silence::Unanswered(why)),
        served: Vec::new(),
        certificate: None,
        peer: None,
        took: Duration::ZERO,
    };
    let verifier = match WebPkiServerVerifier::builder(Arc::new(anchors)).build() {
        Ok(verifier) => verifier,
        Err(error) => return nothing(format!("no verifier can be made from the CA: {error}")),
    };
    let judged = match name {
        ServingName::Ip(address) => (*address).into(),
        ServingName::Dns(name) | ServingName::Wildcard(name) => match ServerName::try_from(name.clone()) {
            Ok(name) => name,
            Err(_) => return nothing(format!("{name} cannot be used in a TLS handshake")),
        },
    };
    let look = async |asked: ServerName<'static>, deadline| {
        let once = || handshake(endpoint, Arc::clone(&verifier), asked.clone(), judged.clone(), deadline);
        let mut seen = once().await;
        for pause in AGAIN {
            if !matches!(seen.outcome, HandshakeOutcome::Unreachable(Silence::Cut(_))) {
                break;
            }
            tokio::time::sleep(pause).await;
            seen = once().await;
        }
        seen
    };
    let mut seen = look(NO_NAME.into(), DEADLINE).await;
    let patience = if seen.is_late() { SECOND_LOOK } else { DEADLINE };
    if seen.is_late() {
        seen = look(NO_NAME.into(), patience).await;
    }
    match name {
        ServingName::Dns(_) if seen.outcome == HandshakeOutcome::Proven => {
            let named = look(judged.clone(), patience).await;
            Handshake { took: named.took.max(seen.took), ..named }
        }
        _ => seen,
    }
}

/// The CA of a kubeconfig, decoded by kube's client.
pub async fn anchors(ca_data: &str) -> Result<RootCertStore, &'static str> {
    const BAD: &str =
        "certificate-authority-data is not the base64 of PEM certificates: take a fresh copy of the file";
    // Only decoded, never connected to.
    let cluster = json!({"server": "https://localhost", "certificate-authority-data": ca_data});
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "ca", "cluster": cluster}],
        "contexts": [{"name": "ca", "context": {"cluster": "ca"}}],
        "current-context": "ca",
    }))
    .map_err(|_| BAD)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|_| BAD)?;
    let mut anchors = RootCertStore::empty();
    for certificate in config.root_cert.unwrap_or_default() {
        anchors.add(certificate.into()).map_err(|_| BAD)?;
    }
    if anchors.is_empty() { Err(BAD) } else { Ok(anchors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ca_that_is_none_is_reported_without_its_text() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for data in ["!", "aHVudGVyMg==", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="] {
            let why = anchors(data).await.unwrap_err();
            assert!(why.contains("take a fresh copy"), "{data}: {why}");
        }
    }
}
