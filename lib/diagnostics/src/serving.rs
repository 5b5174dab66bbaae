//! Asked for against served: does the API server's certificate carry every
//! configured name?
//!
//! The observations come from real handshakes, one per name. A name that is
//! not proven is a failure only if a certificate was seen; a server that does
//! not answer leaves the question open. No remedy here touches the CA: that
//! would invalidate every kubeconfig outside this machine.

use std::{collections::BTreeMap, fmt, io};

use crate::{
    finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity},
    future_ca::FutureCa,
    k3s_config::Setting,
    san::{Fate, NameError, ServingName, nearest},
};

/// A name that must be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedName {
    pub name: ServingName,
    /// Where it is configured.
    pub origin: Place,
}

/// How a handshake under one name ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeOutcome {
    /// Chain, name and dates are valid.
    Proven,
    /// The certificate does not carry the name.
    NotServed,
    /// The certificate is outside its dates; the text says how.
    Dates(String),
    /// The certificate does not chain to the cluster's CA, or is otherwise
    /// not acceptable; the text says why.
    Untrusted(String),
    /// No certificate was seen.
    Unreachable(Silence),
}

/// Why a server sent no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// Nothing listens there: the connection was refused, in the system's text.
    Refused(String),
    /// No answer came in time: it may only be slow.
    Late(String),
    /// The connection was closed before there was a certificate, as by k3s while it changes its own, and by k3d's published
    /// port before k3s listens.
    Cut(String),
    /// Anything else, such as no route, or an answer that is not TLS.
    Unanswered(String),
}

impl Silence {
    /// Why, in a text.
    pub fn why(&self) -> &str {
        match self {
            Self::Refused(why) | Self::Late(why) | Self::Cut(why) | Self::Unanswered(why) => why,
        }
    }
}

impl From<&io::Error> for Silence {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(error.to_string()),
            io::ErrorKind::TimedOut => Self::Late(error.to_string()),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Self::Cut(error.to_string()),
            _ => Self::Unanswered(error.to_string()),
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub outcome: HandshakeOutcome,
    /// The names of the certificate that was shown, if one was.
    pub served: Vec<String>,
}

/// A name and its handshake.
pub type ObservedName = (WantedName, Observation);

/// When a file that k3s reads at its start only was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteTime {
    /// k3s was started since.
    BeforeStart,
    /// k3s was not started since.
    AfterStart,
}

impl WriteTime {
    const fn saw(self) -> &'static str {
        match self {
            Self::BeforeStart => {
                "k3s was started since it was written: it has kept an older certificate, or takes the \
                 names from somewhere else"
            }
            Self::AfterStart => "changed after k3s was started; k3s reads it only at start",
        }
    }
}

/// What else the host shows about why a name is not proven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Causes {
    /// The files that configure served names; without those for which that is not known.
    pub written: BTreeMap<String, WriteTime>,
    /// k3s' CA, where it begins later than now.
    pub future_ca: Option<FutureCa>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingProof {
    /// Whether every configured name is proven. With no configured name there
    /// is nothing to prove.
    pub proven: bool,
    pub findings: Vec<Finding>,
}

/// What the judgement of the names is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingStage {
    /// Whether k3s may start: it starts with any name.
    BeforeStart,
    /// Whether every configured name is served.
    Serving,
}

/// The names to prove; a setting that is no name is a finding.
pub fn wanted(settings: &[Setting], stage: ServingStage) -> (Vec<WantedName>, Vec<Finding>) {
    let mut names = Vec::new();
    let mut findings = Vec::new();
    for setting in settings {
        match setting.value.parse::<ServingName>() {
            Ok(name) => names.push(WantedName { name, origin: setting.origin.clone() }),
            Err(error) => findings.push(not_a_name(setting, &error, stage)),
        }
    }
    (names, findings)
}

fn not_a_name(setting: &Setting, error: &NameError, stage: ServingStage) -> Finding {
    let place = &setting.origin;
    let explain = match (&error.suggestion, error.fate) {
        (Some(name), _) => format!("write `{name}` instead in {place}, then restart k3s"),
        (None, Fate::Dropped | Fate::Unusable) => {
            format!("correct or remove it in {place}, then restart k3s")
        }
        (None, Fate::Unprovable) => {
            format!("to have it verified, write an ordinary DNS name in {place}, then restart k3s")
        }
    };
    let consequence = match error.fate {
        Fate::Dropped => "is not a name, k3s drops it and will never serve it",
        Fate::Unusable => "is not a name, no client can ask for it",
        Fate::Unprovable => "cannot be proven by the agent, although k3s accepts it",
    };
    let message = format!("`{}` in tls-san {consequence}: {}", setting.value, error.why);
    let finding = Finding::new(Code::NameInvalid, message)
        .saw(place.clone(), format!("tls-san `{}`", setting.value))
        .remedy(Remedy::new(explain).command(RESTART_K3S));
    match (stage, error.fate) {
        (ServingStage::Serving, Fate::Dropped | Fate::Unusable) => finding,
        // k3s starts with any of them: only the proof of the names can fail.
        (ServingStage::BeforeStart, _) | (_, Fate::Unprovable) => finding.milder(Severity::Warn),
    }
}

/// Judges the handshakes. `endpoint` is the address they went to.
pub fn judge(endpoint: &str, observations: &[ObservedName], causes: &Causes) -> ServingProof {
    if observations.is_empty() {
        let message = "no names are configured (tls-san is empty), so there is nothing to prove";
        return ServingProof { proven: true, findings: vec![Finding::new(Code::ServingNamesOk, message)] };
    }
    let mut findings = Vec::new();
    findings.extend(proven(endpoint, observations));
    findings.extend(not_served(endpoint, observations, causes));
    findings.extend(dates(endpoint, observations, causes.future_ca.as_ref()));
    findings.extend(untrusted(endpoint, observations));
    findings.extend(unreachable(endpoint, observations));
    ServingProof { proven: observations.iter().all(|(_, o)| o.outcome == HandshakeOutcome::Proven), findings }
}

/// How evidence says that a name is configured.
const CONFIGURED: &str = "tls-san ";

/// The wanted names whose handshake ended so, with the text of the first.
fn select<'a>(
    observations: &'a [ObservedName],
    why: impl Fn(&'a HandshakeOutcome) -> Option<&'a str>,
) -> Option<(&'a str, Vec<&'a ObservedName>)> {
    let chosen: Vec<_> = observations.iter().filter(|(_, o)| why(&o.outcome).is_some()).collect();
    let first = why(&chosen.first()?.1.outcome)?;
    Some((first, chosen))
}

fn list(chosen: &[&ObservedName]) -> String {
    chosen.iter().map(|(w, _)| w.name.to_string()).collect::<Vec<_>>().join(", ")
}

/// The configured names and their places, as evidence.
fn with_origins(finding: Finding, chosen: &[&ObservedName]) -> Finding {
    chosen
        .iter()
        .fold(finding, |finding, (w, _)| finding.saw(w.origin.clone(), format!("{CONFIGURED}{}", w.name)))
}

/// The names that are proven, by what [`judge`] has found.
pub fn proven_names(findings: &[Finding]) -> impl Iterator<Item = &str> {
    let proofs = findings.iter().filter(|finding| finding.code == Code::ServingNamesOk);
    proofs.flat_map(|finding| &finding.evidence).filter_map(|evidence| evidence.saw.strip_prefix(CONFIGURED))
}

fn proven(endpoint: &str, observations: &[ObservedName]) -> Option<Finding> {
    let (_, chosen) = select(observations, |o| matches!(o, HandshakeOutcome::Proven).then_some(""))?;
    let message = format!("the API server at {endpoint} proves: {}", list(&chosen));
    Some(with_origins(Finding::new(Code::ServingNamesOk, message), &chosen))
}

/// One finding per name: each may have a different nearest name.
fn not_served(endpoint: &str, observations: &[ObservedName], causes: &Causes) -> Vec<Finding> {
    observations
        .iter()
        .filter(|(_, o)| o.outcome == HandshakeOutcome::NotServed)
        .map(|(wanted, seen)| {
            let served =
                if seen.served.is_empty() { "no names at all".to_owned() } else { seen.served.join(", ") };
            let message = format!(
                "{} is configured and not served; the certificate at {endpoint} is valid for: {served}",
                wanted.name
            );
            let finding = Finding::new(Code::NameNotServed, message)
                .saw(wanted.origin.clone(), format!("{CONFIGURED}{}", wanted.name))
                .remedy(plan(&wanted.name, nearest(&wanted.name.to_string(), &seen.served)));
            let file = &wanted.origin.file;
            match causes.written.get(file) {
                Some(written) => finding.saw(Place::file(file), written.saw()),
                None => finding,
            }
        })
        .collect()
}

/// From the mildest step on; the CA is never touched.
fn plan(name: &ServingName, nearest: Option<&str>) -> Remedy {
    let meant = nearest.map_or_else(String::new, |near| {
        format!("; if `{near}` was meant, write that, or connect with `kubectl --tls-server-name={near}`")
    });
    Remedy::new(format!(
        "restart k3s, which reads its configuration only at start; if {name} is still missing, renew its serving \
        certificate. `repair names` does what is needed; the CA and all kubeconfigs stay valid{meant}"
    ))
    .command("sudo weaver-node-agent repair names")
}

fn dates(endpoint: &str, observations: &[ObservedName], future_ca: Option<&FutureCa>) -> Option<Finding> {
    let (why, chosen) = select(observations, |o| match o {
        HandshakeOutcome::Dates(why) => Some(why),
        _ => None,
    })?;
    let message = format!("the certificate at {endpoint} is outside its dates: {why}");
    let finding = Finding::new(Code::CertificateDates, message).saw(Place::file(endpoint), why).remedy(
        Remedy::new(
            "compare the clock with a correct one first; if it is right, restart k3s: it renews its serving certificate at start",
        )
        .command("timedatectl")
        .command(RESTART_K3S),
    );
    let finding = with_origins(finding, &chosen);
    Some(match future_ca {
        Some(ca) => ca.explain(finding),
        None => finding,
    })
}

fn untrusted(endpoint: &str, observations: &[ObservedName]) -> Option<Finding> {
    let (why, chosen) = select(observations, |o| match o {
        HandshakeOutcome::Untrusted(why) => Some(why),
        _ => None,
    })?;
    let message = format!("the certificate at {endpoint} is not signed by this cluster's CA: {why}");
    let finding = Finding::new(Code::CertificateUntrusted, message).saw(Place::file(endpoint), why).remedy(
        Remedy::new(
            "find out which program listens there: another k3s, or one with another data directory; \
             after a change of the CA restart k3s",
        )
        .command("sudo ss -ltnp")
        .command(RESTART_K3S),
    );
    Some(with_origins(finding, &chosen))
}

fn unreachable(endpoint: &str, observations: &[ObservedName]) -> Option<Finding> {
    let (why, chosen) = select(observations, |o| match o {
        HandshakeOutcome::Unreachable(silence) => Some(silence.why()),
        _ => None,
    })?;
    let finding = unknown(&format!("{endpoint} sent no certificate ({why}), so nothing is proven yet"))
        .saw(Place::file(endpoint), why);
    Some(with_origins(finding, &chosen))
}

/// Nothing can be said about the names, for the reason given.
pub fn unknown(message: &str) -> Finding {
    Finding::new(Code::ServingNamesUnknown, message)
}

#[cfg(test)]
mod tests;
