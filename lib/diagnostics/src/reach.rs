//! The way from the machine of a person to the API server, step by step: whose fault it is where it ends.
//!
//! What was seen comes in, findings go out. A step is only looked at when the one before it was good enough, so
//! the first failure is the cause and not a consequence.

use std::net::IpAddr;

use crate::{
    finding::{Code, Finding, Place, Remedy, Severity},
    k3d,
    kubeconfig_export::advice::hard_to_find,
    san::{ServingName, nearest},
    serving::{Observation, ObservedName, Outcome, Silence, Wanted},
    shell::quoted,
};

/// Clocks that differ by no more are one clock: seconds.
const CLOCKS: i64 = 60;

/// The name of the server and what the machine's resolver says of it; `is_node`: k3s runs on this machine.
#[must_use]
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
                        "add the name with the address of the Pi in place of ADDRESS, or use a name or \
                         address that resolves",
                    )
                    .command(format!("echo 'ADDRESS {name}' | sudo tee -a /etc/hosts")),
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
            let words = lines.next().unwrap_or_default().to_owned();
            // Found here, by whatever means: only mDNS is a means that kubectl lacks.
            name.is_mdns().then(|| {
                Finding::new(Code::NameNotFound, words)
                    .milder(Severity::Warn)
                    .saw(place, "resolved by this machine, perhaps by mDNS")
                    .remedy(
                        Remedy::new("on a machine where kubectl reports it, add the name")
                            .command(lines.next().unwrap_or_default().trim()),
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
    let remedy = Remedy::new(
        "unless a tunnel to the Pi ends here: find the line of /etc/hosts that has it, and write the \
         address of the Pi there; if both machines have this name, rename one",
    )
    .command(format!("getent hosts {}", quoted(&name.to_string())));
    Finding::new(Code::NameNotFound, message)
        // A tunnel may end here.
        .milder(Severity::Warn)
        .saw(Place::file(name.to_string()), address)
        .remedy(remedy)
}

/// Configured names without a dot, of which kubectl on a laptop may not find any.
#[must_use]
pub fn unqualified_names(names: &[Wanted]) -> Option<Finding> {
    let is_short = |wanted: &&Wanted| matches!(&wanted.name, ServingName::Dns(name) if !name.contains('.') && name != "localhost");
    perhaps_not_found(
        &names.iter().filter(is_short).collect::<Vec<_>>(),
        "a name without a dot is found where the router or a search domain knows it",
        "",
    )
}

/// The configured names that kubectl on a laptop may not find.
#[must_use]
pub fn hidden_names(seen: &[ObservedName]) -> Option<Finding> {
    let names = seen.iter().map(|(wanted, _)| wanted);
    perhaps_not_found(
        &names.filter(|wanted| wanted.name.is_mdns()).collect::<Vec<_>>(),
        "mDNS answers for .local, and the kubectl of many systems does not ask it",
        "; or configure a name without .local",
    )
}

/// `or` ends the words of the remedy.
fn perhaps_not_found(names: &[&Wanted], why: &str, or: &str) -> Option<Finding> {
    let first = names.first()?;
    let list = names.iter().map(|wanted| wanted.name.to_string()).collect::<Vec<_>>().join(", ");
    let message = format!("whether laptops can resolve {list} is unknown here: {why}");
    let explain = format!(
        "if kubectl prints \"no such host\", add the name there, with the address of this Pi in place of \
         ADDRESS{or}"
    );
    let remedy =
        Remedy::new(explain).command(format!("echo 'ADDRESS {}' | sudo tee -a /etc/hosts", first.name));
    // Only the laptops could tell.
    let finding = Finding::new(Code::NameNotFound, message).milder(Severity::Unknown).remedy(remedy);
    let saw =
        |finding: Finding, wanted: &&Wanted| finding.saw(wanted.origin.clone(), wanted.name.to_string());
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
    fn apart(self) -> i64 {
        self.there - self.here
    }
}

/// The handshake at `endpoint` for `name`, both of which the file `kubeconfig` says.
#[must_use]
pub fn handshake(
    endpoint: &str,
    name: &ServingName,
    seen: &Observation,
    clocks: Option<Clocks>,
    kubeconfig: &str,
) -> Finding {
    let place = Place::file(endpoint);
    match &seen.outcome {
        Outcome::Proven => {
            let message = format!("{endpoint} has a certificate of its cluster's CA for {name}");
            Finding::new(Code::ServingNamesOk, message)
        }
        Outcome::NotServed => {
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
        Outcome::Dates(why) => dates(place, endpoint, why, clocks),
        Outcome::Untrusted(why) => Finding::new(
            Code::CertificateUntrusted,
            format!("{endpoint} is not the server that the kubeconfig is for: {why}"),
        )
        .saw(place, why),
        Outcome::Unreachable(silence) => unreachable(place, endpoint, silence),
    }
}

fn not_in_certificate(name: &ServingName, near: Option<&str>, all: &[String], kubeconfig: &str) -> Remedy {
    let served = near.map_or_else(String::new, |near| {
        format!("; or keep the certificate and have kubectl verify `{near}`, with the last command")
    });
    let remedy = match k3d::cluster::of_served(all) {
        Some(cluster) => {
            let mut remedy = k3d::verdict::serve(cluster, &name.to_string(), all);
            remedy.explain += &served;
            remedy
        }
        None => {
            Remedy::new(format!("on the Pi, have k3s serve the name with the first three commands{served}"))
                .command("sudo mkdir -p /etc/rancher/k3s/config.yaml.d")
                .command(format!(
                    "echo 'tls-san+: [\"{name}\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/91-{}.yaml",
                    name.to_string().replace(':', "-")
                ))
                .command("sudo weaver-node-agent repair names")
        }
    };
    let file = quoted(kubeconfig);
    match near.filter(|near| near.parse::<ServingName>().is_ok()) {
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
        None => "it is unknown whose clock is wrong".to_owned(),
        Some(clocks) if clocks.apart().abs() <= CLOCKS => {
            "both clocks agree, so it is the certificate that is out of date".to_owned()
        }
        Some(clocks) => format!("{}, so one of the two clocks is wrong", apart(clocks)),
    };
    Finding::new(
        Code::CertificateDates,
        format!("the certificate at {endpoint} is not valid at this machine's time: {why}; {whose}"),
    )
    .saw(place, why)
}

fn apart(clocks: Clocks) -> String {
    let (seconds, than) = match clocks.apart() {
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
#[must_use]
pub fn clocks(clocks: Clocks) -> Option<Finding> {
    (clocks.apart().abs() > CLOCKS).then(|| Finding::new(Code::ClocksDiffer, apart(clocks)))
}

fn unreachable(place: Place, endpoint: &str, silence: &Silence) -> Finding {
    let (code, message) = match silence {
        Silence::Refused(why) => (Code::ConnectionRefused, format!("nothing listens at {endpoint}: {why}")),
        Silence::Late(why) | Silence::Unanswered(why) => {
            (Code::ServerSilent, format!("{endpoint} does not answer: {why}"))
        }
    };
    Finding::new(code, message).saw(place, silence.why())
}

/// The Kubernetes versions that Config Weaver is made for: minor versions of 1.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 33..=37;

/// Whether the server's version is one of them. `version` is as the server says it, such as `v1.36.4+k3s1`.
#[must_use]
pub fn version(version: &str) -> Option<Finding> {
    let (first, last) = (VERSIONS.start(), VERSIONS.end());
    let minor = version.strip_prefix("v1.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    match minor {
        Some(minor) if VERSIONS.contains(&minor) => None,
        _ => Some(Finding::new(
            Code::VersionNotSupported,
            format!("the API server is {version}; Config Weaver is made for 1.{first} to 1.{last}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{
        k3s_config::Setting,
        serving::{Stage, wanted},
    };
    use proptest::prelude::*;

    fn seen(outcome: Outcome, served: &[&str]) -> Observation {
        Observation { outcome, served: served.iter().map(|s| (*s).to_owned()).collect() }
    }

    #[test]
    fn a_name_that_is_not_found_is_the_fault_of_this_machine() {
        let name: ServingName = "raspi".parse().unwrap();
        let missing = lookup(&name, &Err("no such host".to_owned()), false).unwrap();
        assert_eq!((missing.code, missing.severity()), (Code::NameNotFound, Severity::Fail));
        assert_eq!(missing.remedy.unwrap().commands, ["echo 'ADDRESS raspi' | sudo tee -a /etc/hosts"]);
        let far = Ok(vec![IpAddr::from([192, 168, 1, 7])]);
        assert_eq!(lookup(&name, &far, false), None);
        let local = lookup(&"raspi.local".parse().unwrap(), &far, false).unwrap();
        assert_eq!(local.severity(), Severity::Warn);
        assert!(local.message.contains("not mDNS"), "{}", local.message);
        assert_eq!(
            local.remedy.unwrap().commands,
            ["echo '192.168.1.7 raspi.local' | sudo tee -a /etc/hosts"]
        );
        assert_eq!(lookup(&"10.0.0.1".parse().unwrap(), &far, false), None);
    }

    #[test]
    fn the_trap_of_127_0_1_1() {
        let here = Ok(vec![IpAddr::from([127, 0, 1, 1])]);
        let name: ServingName = "raspi".parse().unwrap();
        let trap = lookup(&name, &here, false).unwrap();
        assert_eq!((trap.code, trap.severity()), (Code::NameNotFound, Severity::Warn));
        assert!(trap.message.contains("127.0.1.1"), "{}", trap.message);
        assert_eq!(lookup(&name, &here, true), None, "on the Pi itself it is right");
        for local in ["localhost", "k3d.localhost"] {
            assert_eq!(lookup(&local.parse().unwrap(), &here, false), None, "{local}");
        }
    }

    #[test]
    fn a_name_without_a_dot_is_perhaps_not_found() {
        let of = |names: &[&str]| {
            let settings: Vec<_> = names
                .iter()
                .map(|name| Setting { value: (*name).to_owned(), origin: Place::line("/c.yaml", 2) })
                .collect();
            unqualified_names(&wanted(&settings, Stage::Serving).0)
        };
        assert_eq!(of(&["raspi.lan", "192.168.1.7", "localhost"]), None);
        let found = of(&["raspi.lan", "raspi", "pi"]).unwrap();
        assert!(found.message.contains("resolve raspi, pi is unknown"), "{}", found.message);
        assert_eq!((found.severity(), found.evidence.len()), (Severity::Unknown, 2));
    }

    #[test]
    fn a_name_of_mdns_is_served_and_not_found() {
        let of = |names: &[&str]| -> Vec<ObservedName> {
            let setting =
                |name: &&str| Setting { value: (*name).to_owned(), origin: Place::line("/c.yaml", 2) };
            let settings: Vec<_> = names.iter().map(setting).collect();
            let (wanted, _) = wanted(&settings, Stage::Serving);
            wanted.into_iter().map(|name| (name, seen(Outcome::Proven, &[]))).collect()
        };
        assert_eq!(hidden_names(&of(&["pi", "pi.lan", "192.168.1.7", "local"])), None);
        let found = hidden_names(&of(&["pi.lan", "Pi.local", "b.local"])).unwrap();
        assert!(found.message.contains("resolve pi.local, b.local is unknown"), "{}", found.message);
        assert_eq!((found.severity(), found.evidence.len()), (Severity::Unknown, 2));
        assert_eq!(found.remedy.unwrap().commands, ["echo 'ADDRESS pi.local' | sudo tee -a /etc/hosts"]);
    }

    fn silence(kind: io::ErrorKind, why: &str) -> Outcome {
        Outcome::Unreachable(Silence::from(&io::Error::new(kind, why.to_owned())))
    }

    #[test]
    fn each_end_of_a_handshake_has_its_code() {
        let name: ServingName = "raspi".parse().unwrap();
        for (outcome, code) in [
            (Outcome::Proven, Code::ServingNamesOk),
            (Outcome::NotServed, Code::NameNotInCertificate),
            (Outcome::Dates("it has expired".into()), Code::CertificateDates),
            (Outcome::Untrusted("another CA".into()), Code::CertificateUntrusted),
            (silence(io::ErrorKind::ConnectionRefused, "no one there"), Code::ConnectionRefused),
            (silence(io::ErrorKind::TimedOut, "no answer within 5 s"), Code::ServerSilent),
            (silence(io::ErrorKind::NetworkUnreachable, "no route"), Code::ServerSilent),
            // The texts of others decide nothing.
            (silence(io::ErrorKind::Other, "refused"), Code::ServerSilent),
        ] {
            let finding = handshake("raspi:6443", &name, &seen(outcome.clone(), &["raspik3d"]), None, "/k");
            assert_eq!(finding.code, code, "{outcome:?}");
            assert_eq!(finding.severity() == Severity::Ok, outcome == Outcome::Proven);
            assert_eq!(finding.remedy.is_some(), outcome != Outcome::Proven);
        }
        let finding = handshake("raspi:6443", &name, &seen(Outcome::NotServed, &["raspik3d"]), None, "/my k");
        let commands = finding.remedy.unwrap().commands;
        assert!(commands[1].contains("tls-san+: [\"raspi\"]"), "{commands:?}");
        assert!(commands[3].starts_with("kubectl --kubeconfig '/my k' config set-cluster"), "{commands:?}");
        assert!(commands[3].ends_with("--tls-server-name=raspik3d"), "{commands:?}");
        let of_k3d = seen(Outcome::NotServed, &["k3d-edge-serverlb", "raspik3d"]);
        let commands = handshake("raspi:6443", &name, &of_k3d, None, "/k").remedy.unwrap().commands;
        assert_eq!(commands[0], "weaver k3d config edge --name raspi --name raspik3d > k3d.yaml");
        assert!(!commands.iter().any(|command| command.contains("/etc/rancher")), "{commands:?}");
    }

    #[test]
    fn dates_are_judged_by_two_clocks() {
        let name: ServingName = "raspi".parse().unwrap();
        for (clocks, want) in [
            (None, "it is unknown whose clock is wrong"),
            (Some(Clocks { here: 100, there: 110 }), "both clocks agree"),
            (
                Some(Clocks { here: 100, there: 1_800_000_000 }),
                "the server's clock is 20833 days ahead of this machine's",
            ),
            (Some(Clocks { here: 7300, there: 0 }), "the server's clock is 2 h behind this machine's"),
        ] {
            let seen = seen(Outcome::Dates("it is not valid yet".into()), &[]);
            let message = handshake("raspi:6443", &name, &seen, clocks, "/k").message;
            assert!(message.contains(want), "{message}");
        }
        assert_eq!(clocks(Clocks { here: 0, there: 60 }), None);
        assert_eq!(
            clocks(Clocks { here: 0, there: -90 }).unwrap().message,
            "the server's clock is 90 s behind this machine's"
        );
    }

    #[test]
    fn which_versions_are_ours() {
        for good in ["v1.33.0", "v1.36.4+k3s1", "v1.37.1+k3s1"] {
            assert_eq!(version(good), None);
        }
        for bad in ["v1.32.9+k3s1", "v1.38.0", "v2.0.0", "", "1.36"] {
            assert_eq!(version(bad).unwrap().code, Code::VersionNotSupported, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", here: i32, there: i32) {
            let _ = version(&text);
            let _ = lookup(&"pi.local".parse().unwrap(), &Err(text.clone()), false);
            let two = Clocks { here: here.into(), there: there.into() };
            let _ = dates(Place::file("e"), "e", &text, Some(two));
        }
    }
}
