//! The way from the machine of a user to the API server, step by step: whose fault it is where it ends.
//!
//! What was seen comes in, findings go out. A step is only looked at when the one before it was good enough, so
//! the first failure is the cause and not a consequence.

use std::net::IpAddr;

use crate::{
    finding::{Code, Finding, Place, Remedy, Severity},
    k3d,
    kubeconfig_export::advice::hard_to_find,
    laptop::System,
    san::{ServingName, nearest},
    serving::{HandshakeOutcome, Observation, ObservedName, Silence, WantedName},
    shell::quoted,
};

/// Clocks that differ by no more are one clock: seconds.
const CLOCKS: i64 = 60;

/// The name of the server and what the machine's resolver says of it; `is_node`: k3s runs on this machine.
pub fn lookup(name: &ServingName, found: &Result<Vec<IpAddr>, String>, is_node: bool) -> Option<Finding> {
    if matches!(name, ServingName::Ip(_)) {
        return None;
    }
    let place = Place::file(format!("{name}"));
    match found {
        Err(why) => Some(
            Finding::new(Code::NameNotFound, format!("this machine cannot resolve {name}: {why}"))
                .saw(place, why)
                .remedy(
                    Remedy::new(
                        "add the name with the address of the Pi in place of ADDRESS, or use a name or address that resolves",
                    )
                    .command(System::HERE.add_name(&format!("ADDRESS {name}"))),
                ),
        ),
        // A tunnel ends here too, and anyone who made it knows of it.
        Ok(addresses) if addresses.iter().all(IpAddr::is_loopback) => {
            let is_right = is_node || is_localhost(name);
            (!is_right).then(|| leads_here(name, addresses))
        }
        Ok(addresses) => {
            let advice = hard_to_find(name, addresses.first().copied())?;
            let mut lines = advice.splitn(2, '\n');
            let text = lines.next().unwrap_or_default().to_owned();
            // Found here, by whatever means: only mDNS is a means that kubectl lacks.
            name.is_mdns().then(|| {
                Finding::new(Code::NameNotFound, text)
                    .milder(Severity::Warn)
                    .saw(place, "this machine resolves it, possibly through mDNS")
                    .remedy(
                        Remedy::new("on a machine where kubectl reports it, add the name")
                            .command(lines.next().unwrap_or_default().trim().to_owned()),
                    )
            })
        }
    }
}

/// Loopback everywhere: RFC 6761, 6.3.
fn is_localhost(name: &ServingName) -> bool {
    matches!(name, ServingName::Dns(name) if name == "localhost" || name.ends_with(".localhost"))
}

/// Debian writes `127.0.1.1` with the own name into /etc/hosts: two machines of one name find themselves.
fn leads_here(name: &ServingName, addresses: &[IpAddr]) -> Finding {
    let address = addresses.first().map(ToString::to_string).unwrap_or_default();
    let message = format!("{name} resolves to this machine itself ({address})");
    let explain = format!(
        "unless this is the end of a tunnel to the Pi: find its line in {} and write the address of the Pi there; if \
         both machines have this name, rename one of them",
        System::HERE.hosts_file()
    );
    let remedy = Remedy::new(explain).command(System::HERE.resolve(&name.to_string()));
    Finding::new(Code::NameNotFound, message)
        // A tunnel may end here.
        .milder(Severity::Warn)
        .saw(Place::file(name.to_string()), address)
        .remedy(remedy)
}

/// Configured names without a dot, of which kubectl on a laptop may not find any.
pub fn unqualified_names(names: &[WantedName]) -> Option<Finding> {
    let is_short = |wanted: &&WantedName| matches!(&wanted.name, ServingName::Dns(name) if !name.contains('.') && name != "localhost");
    perhaps_not_found(
        &names.iter().filter(is_short).collect::<Vec<_>>(),
        "a name without a dot resolves only if the router or a search domain knows it",
        "",
    )
}

/// The configured names that kubectl on a laptop may not find.
pub fn hidden_names(seen: &[ObservedName]) -> Option<Finding> {
    let names = seen.iter().map(|(wanted, _)| wanted);
    perhaps_not_found(
        &names.filter(|wanted| wanted.name.is_mdns()).collect::<Vec<_>>(),
        "mDNS answers for .local, and the kubectl of many systems does not ask it",
        "; or configure a name without .local",
    )
}

/// `or` ends the words of the remedy.
fn perhaps_not_found(names: &[&WantedName], why: &str, or: &str) -> Option<Finding> {
    let first = names.first()?;
    let list = names.iter().map(|wanted| wanted.name.to_string()).collect::<Vec<_>>().join(", ");
    let message = format!("whether laptops can resolve {list} is unknown here: {why}");
    let explain = format!(
        "if kubectl prints \"no such host\", add the name there, with the address of this Pi in place of ADDRESS{or}"
    );
    let remedy =
        Remedy::new(explain).command(format!("echo 'ADDRESS {}' | sudo tee -a /etc/hosts", first.name));
    // Only the laptops could tell.
    let finding = Finding::new(Code::NameNotFound, message).milder(Severity::Unknown).remedy(remedy);
    let saw =
        |finding: Finding, wanted: &&WantedName| finding.saw(wanted.origin.clone(), wanted.name.to_string());
    Some(names.iter().fold(finding, saw))
}

/// Two clocks, and the certificate between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// That of this machine, in seconds since 1970.
    pub here: i64,
    /// That of the server.
    pub there: i64,
}

impl Clocks {
    fn difference(self) -> i64 {
        self.there - self.here
    }
}

/// The handshake at `endpoint` for `name`, both of which the file `kubeconfig` says.
pub fn handshake(
    endpoint: &str,
    name: &ServingName,
    seen: &Observation,
    clocks: Option<Clocks>,
    kubeconfig: &str,
) -> Finding {
    let place = Place::file(endpoint);
    match &seen.outcome {
        HandshakeOutcome::Proven => {
            let message = format!("{endpoint} has a certificate of its cluster's CA for {name}");
            Finding::new(Code::ServingNamesOk, message)
        }
        HandshakeOutcome::NotServed => {
            let near = nearest(&name.to_string(), &seen.served);
            let message = format!(
                "{endpoint} is the right server and has no certificate for {name}, only for: {}",
                seen.served.join(", ")
            );
            let finding = Finding::new(Code::NameNotInCertificate, message);
            finding.saw(place, "the certificate's names").remedy(not_in_certificate(
                name,
                near,
                &seen.served,
                kubeconfig,
            ))
        }
        HandshakeOutcome::Dates(why) => dates(place, endpoint, why, clocks),
        HandshakeOutcome::Untrusted(why) => Finding::new(
            Code::CertificateUntrusted,
            format!("{endpoint} is not the server that the kubeconfig is for: {why}"),
        )
        .saw(place, why),
        HandshakeOutcome::Unreachable(silence) => unreachable(place, endpoint, silence),
    }
}

fn not_in_certificate(name: &ServingName, near: Option<&str>, all: &[String], kubeconfig: &str) -> Remedy {
    let served = near.map_or_else(String::new, |near| {
        format!("; or keep the certificate and have kubectl verify `{near}`, with the last command")
    });
    let these = if near.is_some() { "the first three" } else { "these" };
    let remedy = match k3d::cluster::of_served(all) {
        Some(cluster) => {
            let mut remedy = k3d::verdict::serve(cluster, &name.to_string(), all);
            remedy.explain += &served;
            remedy
        }
        None => Remedy::new(format!("on the Pi, make k3s serve the name with {these} commands{served}"))
            .command("sudo mkdir -p /etc/rancher/k3s/config.yaml.d")
            .command(format!(
                "echo 'tls-san+: [\"{name}\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/91-{}.yaml",
                name.to_string().replace(':', "-")
            ))
            .command("sudo weaver-node-agent repair names"),
    };
    let file = quoted(kubeconfig);
    match near {
        Some(near) => remedy.command(format!(
            "kubectl --kubeconfig {file} config set-cluster \"$(kubectl --kubeconfig {file} config view \
             --minify -o \
             jsonpath='{{.clusters[0].name}}')\" --tls-server-name={}",
            quoted(near)
        )),
        None => remedy,
    }
}

fn dates(place: Place, endpoint: &str, why: &str, clocks: Option<Clocks>) -> Finding {
    let whose = match clocks {
        None => "it is unknown which clock is wrong".to_owned(),
        Some(clocks) if clocks.difference().abs() <= CLOCKS => {
            "both clocks agree, so it is the certificate that is out of date".to_owned()
        }
        Some(clocks) => format!("{}, so one of the two clocks is wrong", difference_text(clocks)),
    };
    Finding::new(
        Code::CertificateDates,
        format!("the certificate at {endpoint} is not valid at this machine's time: {why}; {whose}"),
    )
    .saw(place, why)
}

fn difference_text(clocks: Clocks) -> String {
    let (seconds, than) = match clocks.difference() {
        ahead if ahead > 0 => (ahead, "ahead of"),
        behind => (-behind, "behind"),
    };
    let time = match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("the server's clock is {time} {than} this machine's")
}

/// The two clocks, where they differ.
pub fn clocks(clocks: Clocks) -> Option<Finding> {
    (clocks.difference().abs() > CLOCKS).then(|| Finding::new(Code::ClocksDiffer, difference_text(clocks)))
}

fn unreachable(place: Place, endpoint: &str, silence: &Silence) -> Finding {
    let (code, message) = match silence {
        Silence::Refused(why) => (Code::ConnectionRefused, format!("nothing listens at {endpoint}: {why}")),
        Silence::Late(why) | Silence::Cut(why) | Silence::Unanswered(why) => {
            (Code::ServerSilent, format!("{endpoint} does not answer: {why}"))
        }
    };
    Finding::new(code, message).saw(place, silence.why())
}

/// The Kubernetes versions that Config Weaver is made for: minor versions of 1.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 33..=37;

/// Whether the server's version is one of them. `version` is as the server says it, such as `v1.36.4+k3s1`.
pub fn version(version: &str) -> Option<Finding> {
    let (first, last) = (VERSIONS.start(), VERSIONS.end());
    let minor = version.strip_prefix("v1.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    match minor {
        Some(minor) if VERSIONS.contains(&minor) => None,
        _ => Some(Finding::new(
            Code::VersionNotSupported,
            format!("the API server runs Kubernetes {version}; Config Weaver supports 1.{first} to 1.{last}"),
        )),
    }
}

#[cfg(test)]
mod tests;
