//! Asks the server that this node joins what k3s will ask it first: its CA, against the hash in the token; and a
//! handshake, verified by that CA, under its name.
//!
//! Guarantees: the token is not sent; the server is trusted no more than k3s would trust it. Failure: a finding each;
//! nothing is waited for beyond [`DEADLINE`] a question, since k3s asks again by itself; [`SECOND_LOOK`] once where the
//! server's machine accepts connections, as that of a server that is only busy does.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http::{Request, StatusCode, Uri, header::DATE};
use http_body_util::{BodyExt as _, Limited};
use jiff::{Timestamp, fmt::rfc2822};
use kube::{Client, Config, client::Body};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpStream, time::timeout};
use weaver_diagnostics::{
    finding::{Code, Finding},
    host::load,
    join::{JoinProbe, Joining, judge},
    reach::Clocks,
    san::ServingName,
    serving::Observation,
    weaver_toml::{
        join_token::{self, Form},
        plan::{AGENT_TOKEN_FILE, K3S},
    },
    yaml_node,
};
use weaver_host::handshake::{DEADLINE, SECOND_LOOK};

use crate::{host_root::HostRoot, probe};

/// Bytes of a bundle of CAs; one certificate has about 600.
const BUNDLE: usize = 64 * 1024;

/// What boot-config has noted for k3s.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JoinTarget {
    /// `https://HOST:PORT`
    server: Uri,
    host: String,
    name: ServingName,
    port: u16,
    /// The hash of the server's CA, in hexadecimal digits, where the token has it.
    hash: Option<String>,
    /// What this node is called.
    own: Option<String>,
}

/// The server that k3s is configured to join, by the node called `own`; `None` where boot-config configured none.
pub(crate) fn join_target(root: &HostRoot, own: Option<String>) -> Option<JoinTarget> {
    let file = root.read_if_possible(K3S)?;
    let server: Uri = yaml_node::parse(&file.text).ok()?.get("server")?.as_str()?.parse().ok()?;
    let (host, port) = (server.host()?.trim_matches(['[', ']']).to_owned(), server.port_u16()?);
    let name = host.parse().ok()?;
    let token = root.read_if_possible(AGENT_TOKEN_FILE);
    let hash = token.and_then(|file| match join_token::form(file.text.trim()) {
        Form::Whole(hash) => Some(hash.to_owned()),
        Form::Short | Form::Broken(_) => None,
    });
    Some(JoinTarget { server, host, name, port, hash, own })
}

/// What the server shows, judged.
pub(crate) struct JoinAnswer {
    pub(crate) findings: Vec<Finding>,
    /// It was late, for which this node may be the reason too.
    pub(crate) was_late: bool,
}

/// `directly`: k3s asks it without the load balancer that it has for agents.
pub(crate) async fn look(target: &JoinTarget, directly: bool) -> JoinAnswer {
    let (shown, late) = shown(target).await;
    let url = target.server.to_string();
    let url = url.trim_end_matches('/');
    let joining = Joining { own: target.own.as_deref(), directly };
    let mut findings = judge(url, &target.name, joining, &shown);
    if let Some(took) = late
        && findings.iter().all(|finding| finding.code != Code::JoinServerSilent)
    {
        findings.push(load::slow(url, url, &format!("an answer took {} s", took.as_secs())));
    }
    JoinAnswer { findings, was_late: late.is_some() }
}

/// What the server shows, and how long it took, or was waited for, where the usual time was too short.
async fn shown(target: &JoinTarget) -> (JoinProbe, Option<Duration>) {
    let (answer, late) = patient_bundle(target).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(silent) => return (silent, late),
    };
    let all = match certificates(&answer.bundle) {
        Ok(all) => all,
        Err(why) => return (JoinProbe::NoCa(format!("{why:#}")), late),
    };
    if target.hash.as_ref().is_some_and(|hash| !is_of(&answer.bundle, &all, hash)) {
        return (JoinProbe::OtherCa, late);
    }
    match handshake(target, all).await {
        Err(why) => (JoinProbe::NoCa(format!("{why:#}")), late),
        Ok((handshake, waited)) => (JoinProbe::Ca { handshake, clocks: answer.clocks }, late.max(waited)),
    }
}

/// A handshake under the server's name, verified by the CA that it presents; and how long it took, where it was late.
async fn handshake(
    target: &JoinTarget,
    ca: Vec<CertificateDer<'static>>,
) -> anyhow::Result<(Observation, Option<Duration>)> {
    let mut anchors = RootCertStore::empty();
    let (usable, _) = anchors.add_parsable_certificates(ca);
    // No verifier can be made of none, and anyone may answer here.
    ensure!(usable > 0, "/cacerts has no certificate that can be read");
    probe::look((&target.host, target.port), anchors, &target.name).await
}

/// The server's answer without authentication.
struct CaBundleResponse {
    bundle: Vec<u8>,
    /// The time by both, where the server said it.
    clocks: Option<Clocks>,
}

/// The server's answer, for which it gets more time if its machine accepts connections; and how long that took.
async fn patient_bundle(target: &JoinTarget) -> (Result<CaBundleResponse, JoinProbe>, Option<Duration>) {
    let silence = |error: anyhow::Error| JoinProbe::Silence(format!("{error:#}"));
    let no_answer = |within: Duration| format!("no answer within {} s", within.as_secs());
    let begun = Instant::now();
    if let Ok(answer) = timeout(DEADLINE, bundle(target.server.clone())).await {
        return (answer.map_err(silence), None);
    }
    if !accepts(target).await {
        return (Err(JoinProbe::Silence(no_answer(DEADLINE))), None);
    }
    let answer = match timeout(SECOND_LOOK, bundle(target.server.clone())).await {
        Ok(answer) => answer.map_err(silence),
        Err(_) => Err(JoinProbe::Late(no_answer(SECOND_LOOK))),
    };
    (answer, Some(begun.elapsed()))
}

/// Whether the server's machine accepts connections, as the kernel of a busy one does at once. One that is off, or
/// behind a firewall, accepts none.
async fn accepts(target: &JoinTarget) -> bool {
    let connecting = TcpStream::connect((target.host.as_str(), target.port));
    timeout(DEADLINE, connecting).await.is_ok_and(|connected| connected.is_ok())
}

async fn bundle(server: Uri) -> anyhow::Result<CaBundleResponse> {
    let mut config = Config::new(server);
    // As k3s does: the hash shows which CA it is.
    config.accept_invalid_certs = true;
    config.default_retry = false;
    let request = Request::get("/cacerts").body(Body::empty())?;
    let answer = Client::try_from(config)?.send(request).await?;
    let here = Timestamp::now().as_second();
    let time = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    let time = time.and_then(|date| rfc2822::parse(date).ok()).map(|time| time.timestamp().as_second());
    let clocks = time.map(|there| Clocks { here, there });
    let status = answer.status();
    // So answers a load balancer before a server that is starting.
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        bail!("it answers {status}");
    }
    let body = Limited::new(answer.into_body(), BUNDLE).collect().await;
    let Ok(body) = body.map(http_body_util::Collected::to_bytes) else { bail!("its answer is incomplete") };
    // Another status has another body, which is then no bundle.
    let bundle = if status.is_success() { body.to_vec() } else { status.to_string().into_bytes() };
    Ok(CaBundleResponse { bundle, clocks })
}

fn certificates(bundle: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
    let all = all.context("/cacerts is not valid PEM")?;
    ensure!(!all.is_empty(), "/cacerts has no certificate: {:.80}", String::from_utf8_lossy(bundle));
    Ok(all)
}

/// Whether the hash may be that of this bundle. k3s hashes the file where there is one certificate, and else the root
/// among them; which one that is, its handshake shows.
fn is_of(bundle: &[u8], all: &[CertificateDer<'_>], hash: &str) -> bool {
    let roots = if all.len() > 1 { all } else { &[] };
    let bytes = roots.iter().map(AsRef::as_ref).chain([bundle]);
    bytes.map(|bytes: &[u8]| format!("{:x}", Sha256::digest(bytes))).any(|of| of == hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    fn pem() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
    }

    fn hash(bytes: &[u8]) -> String {
        format!("{:x}", Sha256::digest(bytes))
    }

    #[test]
    fn the_server_and_the_hash_are_those_that_boot_config_wrote() {
        let whole = format!("K10{}::server:hunter2\n", "0".repeat(64));
        for (k3s, token, want) in [
            (Some("server: \"https://raspi.lan:6443\"\n"), whole.as_str(), Some(Some("0".repeat(64)))),
            (Some("server: 'https://raspi.lan:6443'\n"), "hunter2", Some(None)),
            (Some("tls-san+: [a]\n"), whole.as_str(), None),
            (None, whole.as_str(), None),
        ] {
            let k3s = k3s.map(|text| (K3S, text));
            let files: Vec<_> = k3s.into_iter().chain([(AGENT_TOKEN_FILE, token)]).collect();
            let (_dir, root) = host(&files);
            let own = || Some("worker".to_owned());
            let server = || Uri::from_static("https://raspi.lan:6443");
            let host = || "raspi.lan".to_owned();
            let name = || host().parse().unwrap();
            let want = want.map(|hash| JoinTarget {
                server: server(),
                host: host(),
                name: name(),
                port: 6443,
                hash,
                own: own(),
            });
            assert_eq!(join_target(&root, own()), want);
        }
    }

    #[test]
    fn the_hash_is_that_of_the_file_and_of_several_that_of_one() {
        let (one, other) = (pem(), pem());
        let all = certificates(one.as_bytes()).unwrap();
        assert!(is_of(one.as_bytes(), &all, &hash(one.as_bytes())));
        assert!(!is_of(one.as_bytes(), &all, &hash(&all[0])), "of one, k3s takes the file");
        assert!(!is_of(one.as_bytes(), &all, &hash(other.as_bytes())));
        let both = format!("{one}{other}");
        let all = certificates(both.as_bytes()).unwrap();
        assert!(is_of(both.as_bytes(), &all, &hash(&all[1])));
        assert!(!is_of(both.as_bytes(), &all, &hash(other.as_bytes())));
    }

    /// Anyone who answers may send that where the token has no hash; as an error of ours it would end the agent.
    #[tokio::test]
    async fn a_certificate_that_cannot_be_read_is_no_ca() {
        let server = Uri::from_static("https://raspi.lan:6443");
        let (host, name) = ("raspi.lan".to_owned(), "raspi.lan".parse().unwrap());
        let target = JoinTarget { server, host, name, port: 6443, hash: None, own: None };
        let error = handshake(&target, vec![CertificateDer::from(vec![1, 2, 3])]).await.unwrap_err();
        assert!(error.to_string().contains("no certificate that can be read"), "{error}");
    }

    #[test]
    fn what_is_no_bundle_is_reported_with_what_was_said() {
        for (bundle, why) in [
            ("404 Not Found", "no certificate: 404 Not Found"),
            ("", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!", "not valid PEM"),
        ] {
            let error = format!("{:#}", certificates(bundle.as_bytes()).unwrap_err());
            assert!(error.contains(why), "{bundle}: {error}");
        }
    }
}
