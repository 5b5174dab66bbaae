//! Values of k3s' settings that are strings, and that k3s does not take as they are. Pure.
//!
//! Only what k3s refuses in every version that is supported: a newer one may know more.

use std::net::IpAddr;

/// What `disable` knows by name; a manifest of the owner's has its own.
pub const PACKAGED: [&str; 8] =
    ["coredns", "servicelb", "traefik", "local-storage", "metrics-server", "ccm", "runtimes", "rolebindings"];

/// `service-cidr` where nothing is set.
pub const DEFAULT_SERVICES: &str = "10.43.0.0/16";

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueFault {
    /// What must be there instead, after "must be".
    pub wanted: String,
    /// A value that is right.
    pub example: String,
    /// k3s does not start with it.
    pub stops: bool,
}

fn stops(wanted: &str, example: &str) -> ValueFault {
    ValueFault { wanted: wanted.to_owned(), example: example.to_owned(), stops: true }
}

fn passes(wanted: &str, example: &str) -> ValueFault {
    ValueFault { stops: false, ..stops(wanted, example) }
}

/// What is wrong with a value of this flag; the value may be a secret of others, and is not repeated.
pub fn fault(flag: &str, text: &str) -> Option<ValueFault> {
    match flag {
        "flannel-backend" => backend(text),
        "secrets-encryption-provider" => {
            let is_one = text.is_empty() || ["aescbc", "secretbox"].contains(&text);
            (!is_one).then(|| stops("aescbc or secretbox: k3s does not start with any other value", "secretbox"))
        }
        "node-ip" | "node-external-ip" => {
            let is_address = |part: &str| part.is_empty() || part.parse::<IpAddr>().is_ok();
            let wanted = "an IP address: k3s does not start with a name or a prefix";
            if !text.split(',').all(is_address) {
                return Some(stops(wanted, "192.168.1.5"));
            }
            let is_of_no_other =
                |part: &str| part.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
            let wanted = "an address of this machine at which other nodes reach it, not a loopback address";
            text.split(',').any(is_of_no_other).then(|| passes(wanted, "192.168.1.5"))
        }
        "etcd-snapshot-schedule-cron" => {
            let wanted = "five fields of cron, or a word such as @daily: with any other value k3s makes no snapshots";
            (!is_schedule(text)).then(|| passes(wanted, "\"0 */12 * * *\""))
        }
        "server" => server(text),
        "snapshotter" => ["overlay", "overlay2", "overlay-fs"].contains(&text).then(|| {
            stops("overlayfs: containerd has no snapshotter of the given name, and does not start", "overlayfs")
        }),
        "disable" => text.split(',').find_map(not_packaged),
        "node-label" => text.split(',').find_map(|label| reserved_label(label).or_else(|| spaced_label(label))),
        "node-taint" => (!text.split(',').all(is_taint)).then(|| {
            stops(
                "KEY=VALUE:EFFECT, where EFFECT is NoSchedule, PreferNoSchedule or NoExecute: the kubelet does not start \
                 with any other value",
                "[\"dedicated=db:NoSchedule\"]",
            )
        }),
        "cluster-cidr" | "service-cidr" => {
            let is_network = |part: &str| {
                let network = part.trim().split_once('/');
                part.is_empty()
                    || network.is_some_and(|(ip, bits)| ip.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok())
            };
            (!text.split(',').all(is_network)).then(|| {
                let example = if flag == "cluster-cidr" { "10.42.0.0/16" } else { "10.43.0.0/16" };
                stops("a network with its prefix length: k3s does not start with any other value", example)
            })
        }
        "datastore-endpoint" => (!is_dsn(text)).then(|| {
            stops(
                "an address in the form of its driver, for MySQL `tcp(HOST:PORT)`: k3s does not start with any other value",
                "\"mysql://USER:PASSWORD@tcp(HOST:3306)/DATABASE\"",
            )
        }),
        _ => None,
    }
}

fn backend(text: &str) -> Option<ValueFault> {
    let name = text.split('=').next().unwrap_or_default();
    match name {
        "" | "none" | "vxlan" | "host-gw" | "wireguard-native" | "tailscale" => None,
        "ipsec" | "wireguard" => Some(stops(
            &format!(
                "wireguard-native: {name} was removed from k3s in v1.27, and k3s does not start with it"
            ),
            "wireguard-native",
        )),
        _ => Some(stops(
            "vxlan, host-gw, wireguard-native or none: k3s does not start with any other value",
            "vxlan",
        )),
    }
}

/// A time as k3s' library takes it: minute, hour, day, month, weekday.
fn is_schedule(text: &str) -> bool {
    const NAMES: [&[&str]; 5] = [
        &[],
        &[],
        &[],
        &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ];
    const LAST: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('@') {
        let words = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        return words.contains(&rest) || rest.starts_with("every ");
    }
    // A zone may stand before them.
    let zone = |field: &&str| field.starts_with("TZ=") || field.starts_with("CRON_TZ=");
    let fields: Vec<_> = text.split_whitespace().skip_while(zone).collect();
    let is_value = |at: usize, value: &str| {
        let (first, last) = LAST[at];
        value.parse().is_ok_and(|number: u32| (first..=last).contains(&number))
            || NAMES[at].contains(&value.to_ascii_lowercase().as_str())
    };
    let is_part = |at: usize, part: &str| {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let is_range = match range.split_once('-') {
            Some((from, to)) => is_value(at, from) && is_value(at, to),
            None => range == "*" || range == "?" || is_value(at, range),
        };
        is_range && step.is_none_or(|step| step.parse().is_ok_and(|step: u32| step > 0))
    };
    fields.len() == LAST.len()
        && fields.iter().enumerate().all(|(at, field)| field.split(',').all(|part| is_part(at, part)))
}

/// A label of Kubernetes' own names, of which a kubelet may set few.
fn reserved_label(label: &str) -> Option<ValueFault> {
    const ALLOWED: [&str; 11] = [
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
    ];
    let key = label.split('=').next()?.trim();
    let domain = key.split_once('/')?.0;
    let is_below = |name: &str| domain == name || domain.ends_with(&format!(".{name}"));
    let is_reserved = is_below("kubernetes.io") || is_below("k8s.io");
    let is_allowed =
        ALLOWED.contains(&key) || is_below("node.kubernetes.io") || is_below("kubelet.kubernetes.io");
    (is_reserved && !is_allowed).then(|| {
        stops(
            "a label outside of kubernetes.io and k8s.io: the kubelet does not start with one of these. Set a role later: \
             `kubectl label node NAME node-role.kubernetes.io/worker=true`",
            "[\"role=worker\"]",
        )
    })
}

/// A label with a space inside its name or its value; at their ends the kubelet cuts spaces off.
fn spaced_label(label: &str) -> Option<ValueFault> {
    let (name, value) = label.split_once('=').unwrap_or((label, ""));
    let has_space = [name, value].iter().any(|part| part.trim().contains(char::is_whitespace));
    has_space
        .then(|| stops("NAME=VALUE without spaces: with one the node does not register", "[\"role=worker\"]"))
}

fn server(url: &str) -> Option<ValueFault> {
    const EXAMPLE: &str = "https://SERVER:6443";
    if url.is_empty() {
        return None;
    }
    if !url.starts_with("https://") {
        return Some(stops("a URL with https://: k3s does not start with any other value", EXAMPLE));
    }
    if url.contains(['<', '>', '{', '}', '$', ' ']) {
        let wanted =
            "a URL with a name or an address as its host: the given one has a character that no host has";
        return Some(passes(wanted, EXAMPLE));
    }
    let wanted =
        "a URL with the port of the API server, which is usually 6443: without one k3s connects to port 443";
    without_port(url).then(|| passes(wanted, EXAMPLE))
}

/// Whether a URL of https names its host only, with a path or without.
fn without_port(url: &str) -> bool {
    let authority = url.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let port = authority.rsplit_once(']').map_or(authority, |(_, port)| port);
    !authority.is_empty() && !port.contains(':')
}

fn is_taint(taint: &str) -> bool {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    taint.is_empty()
        || taint
            .trim()
            .rsplit_once(':')
            .is_some_and(|(key, effect)| !key.is_empty() && effects.contains(&effect))
}

/// Of `MySQL` only, whose address is in brackets behind the name of a protocol.
fn is_dsn(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("mysql://") else { return true };
    // Without the slash the driver takes none of it.
    let Some((before_database, _)) = rest.rsplit_once('/') else { return rest.is_empty() };
    let address = before_database.rsplit_once('@').map_or(before_database, |(_, address)| address);
    matches!(address, "" | "tcp" | "unix") || address.contains('(') && address.ends_with(')')
}

/// The component that was meant: one letter too few, or two the wrong way round.
fn misspelled(part: &str) -> Option<&'static str> {
    let plain = part.replace('_', "-");
    let is_near = |known: &&str| {
        let distance = strsim::damerau_levenshtein(&plain, known);
        known.len() > 4 && plain.len() <= known.len() && plain != **known && distance == 1
            || plain == **known && *part != **known
    };
    PACKAGED.iter().find(|known| is_near(known)).copied()
}

/// What components are called elsewhere.
const ALIASES: [(&str, &str); 6] = [
    ("klipper", "servicelb"),
    ("klipper-lb", "servicelb"),
    ("svclb", "servicelb"),
    ("metrics", "metrics-server"),
    ("ingress", "traefik"),
    ("traefik-ingress", "traefik"),
];

/// What is switched off by a setting of its own.
fn not_packaged(part: &str) -> Option<ValueFault> {
    if ["true", "false"].contains(&part) {
        let wanted = "names of packaged components, and k3s knows none that is called so";
        return Some(passes(wanted, "[traefik]"));
    }
    let alias = || ALIASES.iter().find(|(alias, _)| *alias == part).map(|(_, meant)| *meant);
    if let Some(meant) = misspelled(part).or_else(alias) {
        let wanted = format!("names of packaged components, and {part} is not one: is {meant} meant?");
        return Some(passes(&wanted, &format!("[{meant}]")));
    }
    let setting = match part {
        "flannel" => "flannel-backend: none",
        "kube-proxy" => "disable-kube-proxy: true",
        "network-policy" => "disable-network-policy: true",
        "helm-controller" => "disable-helm-controller: true",
        "cloud-controller" => "disable-cloud-controller: true",
        "local-path" | "local-path-provisioner" => "disable: [local-storage]",
        _ => return None,
    };
    let wanted = format!("names of packaged components, and {part} is not one: write `{setting}`");
    Some(passes(&wanted, "[traefik]"))
}

/// Whether there are networks of IPv4 and of IPv6; `None` where one is no network.
pub fn families(texts: &[&str]) -> Option<(bool, bool)> {
    let mut seen = (false, false);
    for part in texts.iter().flat_map(|text| text.split(',')).filter(|part| !part.is_empty()) {
        match part.trim().split_once('/')?.0.parse::<IpAddr>().ok()? {
            IpAddr::V4(_) => seen.0 = true,
            IpAddr::V6(_) => seen.1 = true,
        }
    }
    (seen.0 || seen.1).then_some(seen)
}

/// Whether an address is in one of these networks of its family; `None` where one of them is none.
pub fn is_within(address: &str, networks: &str) -> Option<bool> {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    let address = address.split(',').next()?.trim().parse::<IpAddr>().ok()?;
    let mut is_within = None;
    for network in networks.split(',') {
        let (ip, prefix) = network.trim().split_once('/')?;
        let (ip, prefix) = (ip.parse::<IpAddr>().ok()?, prefix.parse::<u32>().ok()?);
        if ip.is_ipv4() == address.is_ipv4() && prefix > 0 && prefix <= 128 {
            let is_same = (bits(ip) ^ bits(address)).leading_zeros() >= prefix;
            is_within = Some(is_within.unwrap_or(false) || is_same);
        }
    }
    is_within
}

#[cfg(test)]
mod tests;
