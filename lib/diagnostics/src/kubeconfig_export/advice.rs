//! What a user sees about a name: that it is not served, and what to do; that kubectl may not find it, and the line for
//! /etc/hosts.

use std::{fmt, net::IpAddr};

use crate::{
    finding_text::clean,
    k3d,
    laptop::System,
    san::{ServingName, nearest},
};

/// No certificate of the cluster's CA carries the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotServed {
    pub name: ServingName,
    /// Whether it was meant for `tls-server-name` only.
    pub is_tls_server_name: bool,
    /// Where the certificate was seen.
    pub endpoint: String,
    /// The names in it.
    pub served: Vec<String>,
}

impl std::error::Error for NotServed {}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = (&self.name, self.name.to_string());
        let near = nearest(&text, &self.served);
        writeln!(f, "{name} is not served: the certificate at {} does not have it", self.endpoint)?;
        let served = self.served.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
        let served = if served.is_empty() { "no names at all" } else { &served };
        writeln!(f, "  served: {served}")?;
        if let Some(near) = near {
            writeln!(f, "  nearest: {near}")?;
        }
        if self.is_tls_server_name {
            return write!(f, "give --tls-server-name one of the served names");
        }
        if let Some(cluster) = k3d::cluster::of_served(&self.served) {
            let remedy = k3d::verdict::serve(cluster, &text, &self.served);
            write!(f, "{}:", remedy.explain)?;
            for command in &remedy.commands {
                write!(f, "\n    {command}")?;
            }
            return self.keep(f, &format!(" --k3d {cluster}"));
        }
        let file = text.replace(':', "-");
        writeln!(f, "to have it served, do one of these on the Pi:")?;
        writeln!(f, "  in weaver.toml on the boot partition, then reboot:")?;
        writeln!(f, "    [api]\n    names = [\"{name}\"]   # added to what is there")?;
        writeln!(f, "  or as a drop-in of k3s:")?;
        writeln!(f, "    sudo mkdir -p /etc/rancher/k3s/config.yaml.d")?;
        writeln!(
            f,
            "    echo 'tls-san+: [\"{name}\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/91-{file}.yaml"
        )?;
        write!(f, "    sudo systemctl restart k3s")?;
        self.keep(f, "")
    }
}

impl NotServed {
    /// The way without another certificate.
    fn keep(&self, f: &mut fmt::Formatter<'_>, flag: &str) -> fmt::Result {
        let name = &self.name;
        let near = nearest(&name.to_string(), &self.served);
        // Any served name will do: it is verified like every other.
        let is_usable =
            |served: &&str| !matches!(served.parse::<ServingName>(), Err(_) | Ok(ServingName::Wildcard(_)));
        let usable = self.served.iter().map(String::as_str).find(is_usable);
        if let Some(served) = near.filter(|near| !near.starts_with("*.")).or(usable) {
            write!(f, "\nor keep the certificate, and have kubectl verify a name that it has:")?;
            write!(f, "\n    weaver kubeconfig export {name}{flag} --tls-server-name {served}")?;
        }
        Ok(())
    }
}

/// What may keep kubectl on another machine from finding the name. `address` is that of the Pi, where known.
pub fn hard_to_find(name: &ServingName, address: Option<IpAddr>) -> Option<String> {
    let why = match name {
        ServingName::Ip(ip) if ip.is_loopback() => return Some(only_here(name)),
        ServingName::Dns(dns) if dns == "localhost" => return Some(only_here(name)),
        name if name.is_mdns() => "kubectl asks DNS and /etc/hosts only, not mDNS, which answers for .local",
        ServingName::Dns(dns) if !dns.contains('.') => {
            "a name without a dot is found only where the router or a search domain knows it"
        }
        _ => return None,
    };
    let address = address.map_or_else(|| "ADDRESS-OF-THE-PI".to_owned(), |address| address.to_string());
    Some(format!(
        "kubectl may not find {name}: {why}. If it prints \"no such host\", type on the laptop:\n    {}",
        System::HERE.add_name(&format!("{address} {name}"))
    ))
}

fn only_here(name: &ServingName) -> String {
    format!(
        "{name} means the machine that uses it: on another one the kubeconfig does not reach this cluster"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(name: &str, served: &[&str], is_tls_server_name: bool) -> String {
        NotServed {
            name: name.parse().unwrap(),
            is_tls_server_name,
            endpoint: "127.0.0.1:6443".to_owned(),
            served: served.iter().map(|s| (*s).to_owned()).collect(),
        }
        .to_string()
    }

    #[test]
    fn a_name_that_is_not_served() {
        let want = "\
raspi is not served: the certificate at 127.0.0.1:6443 does not have it
  served: kubernetes, raspik3d
  nearest: raspik3d
to have it served, do one of these on the Pi:
  in weaver.toml on the boot partition, then reboot:
    [api]
    names = [\"raspi\"]   # added to what is there
  or as a drop-in of k3s:
    sudo mkdir -p /etc/rancher/k3s/config.yaml.d
    echo 'tls-san+: [\"raspi\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/91-raspi.yaml
    sudo systemctl restart k3s
or keep the certificate, and have kubectl verify a name that it has:
    weaver kubeconfig export raspi --tls-server-name raspik3d";
        assert_eq!(reported("raspi", &["kubernetes", "raspik3d"], false), want);
    }

    #[test]
    fn without_a_near_name_any_served_one_is_offered() {
        let text = reported("fd00::1", &["*.pi.lan", "kubernetes"], false);
        assert!(text.ends_with("export fd00::1 --tls-server-name kubernetes"), "{text}");
        assert!(text.contains("/91-fd00--1.yaml") && !text.contains("nearest"), "{text}");
        let text = reported("pi", &[], false);
        assert!(text.contains("served: no names at all") && text.ends_with("restart k3s"), "{text}");
    }

    #[test]
    fn what_is_no_name_in_a_certificate_is_in_no_command() {
        for hostile in ["raspi;evil", "raspi$(evil)", "raspi\nevil", "k3d--a-server-0", "k3d-a;evil-server-0"]
        {
            let text = reported("raspi", &[hostile, "*.lan"], false);
            let (_, typed) = text.split_once("  served: ").unwrap().1.split_once('\n').unwrap();
            for part in ["evil", " -a", "--k3d", "*.lan"] {
                assert!(!typed.contains(part), "{hostile:?}: {text}");
            }
        }
    }

    #[test]
    fn a_tls_server_name_that_is_not_served() {
        let text = reported("raspi", &["raspik3d"], true);
        assert!(
            text.ends_with("  nearest: raspik3d\ngive --tls-server-name one of the served names"),
            "{text}"
        );
    }

    #[test]
    fn names_that_kubectl_may_not_find() {
        for (name, address, want) in [
            ("pi.local", Some("192.168.1.7"), Some("echo '192.168.1.7 pi.local' | sudo tee -a /etc/hosts")),
            ("pi", Some("fd00::7"), Some("echo 'fd00::7 pi' | sudo tee -a /etc/hosts")),
            ("pi", None, Some("echo 'ADDRESS-OF-THE-PI pi'")),
            ("localhost", None, Some("localhost means the machine that uses it")),
            ("127.0.0.1", None, Some("127.0.0.1 means the machine that uses it")),
            ("::1", None, Some("does not reach this cluster")),
            ("pi.lan", None, None),
            ("192.168.1.7", None, None),
        ] {
            let reported = hard_to_find(&name.parse().unwrap(), address.map(|a: &str| a.parse().unwrap()));
            match want {
                Some(want) => {
                    assert!(
                        reported.as_ref().is_some_and(|reported| reported.contains(want)),
                        "{name}: {reported:?}"
                    );
                }
                None => assert_eq!(reported, None, "{name}"),
            }
        }
    }
}
