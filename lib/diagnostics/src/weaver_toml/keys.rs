//! Every key of `weaver.toml`. The reader takes names and examples from here, the reference page its table.

use std::fmt;

use self::KeyKind::{Number, OneOf, Table, Text, Texts, Truth};

/// A key as the reference shows it.
#[derive(Debug)]
pub struct KnownKey {
    /// Its section; empty above the first one.
    pub section: &'static str,
    pub name: &'static str,
    pub kind: KeyKind,
    /// The default: a value in backquotes, or a phrase.
    pub default: &'static str,
    /// What it does, as a phrase.
    pub does: &'static str,
    /// A line of the file; `…` replaces the rest of a value that is long or secret.
    pub example: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Text,
    Texts,
    /// A whole number from the first to the second.
    Number(u16, u16),
    Truth,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    Table,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("string"),
            Self::Texts => f.write_str("list of strings"),
            Self::Number(least, most) => write!(f, "{least} to {most}"),
            Self::Truth => f.write_str("`true`, `false`"),
            Self::OneOf(values) => {
                let values: Vec<_> = values.iter().map(|value| format!("`\"{value}\"`")).collect();
                f.write_str(&values.join(", "))
            }
            Self::Table => f.write_str("table"),
        }
    }
}

impl KnownKey {
    /// As messages and the reference name it: `api.names`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name).trim_start_matches('.').to_owned()
    }
}

const fn key(
    (section, name): (&'static str, &'static str),
    kind: KeyKind,
    default: &'static str,
    does: &'static str,
    example: &'static str,
) -> KnownKey {
    KnownKey { section, name, kind, default, does, example }
}

/// In the order of the sample on the card.
pub const KEYS: &[KnownKey] = &[
    key(
        ("", "hostname"),
        Text,
        "the host keeps its name",
        "sets the host name, and the node's name until k3s has started once",
        r#"hostname = "raspi""#,
    ),
    key(
        ("api", "names"),
        Texts,
        "the host name only",
        "adds names and addresses to the API server's certificate",
        r#"names = ["raspi.lan", "192.168.1.20"]"#,
    ),
    key(
        ("ssh", "keys"),
        Texts,
        "none",
        "lets the owners of these public keys log in",
        r#"keys = ["ssh-ed25519 AAAA… me@laptop"]"#,
    ),
    key(
        ("network", "address"),
        Text,
        "DHCP",
        "gives the wired port a fixed address, with its prefix",
        r#"address = "192.168.1.20/24""#,
    ),
    key(
        ("network", "gateway"),
        Text,
        "DHCP",
        "sets the default route; needs `address`",
        r#"gateway = "192.168.1.1""#,
    ),
    key(("network", "dns"), Texts, "DHCP", "sets the name servers", r#"dns = ["192.168.1.1"]"#),
    key(
        ("wifi", "country"),
        Text,
        "required with `ssid`",
        "sets the country whose radio rules hold",
        r#"country = "DE""#,
    ),
    key(("wifi", "ssid"), Text, "no Wi-Fi", "names the Wi-Fi to join", r#"ssid = "attic""#),
    key(
        ("wifi", "password"),
        Text,
        "required with `ssid`",
        "is its password; imported, then blanked",
        r#"password = "…""#,
    ),
    key(
        ("wifi", "hidden"),
        Truth,
        "`false`",
        "joins a Wi-Fi that does not broadcast its name",
        "hidden = true",
    ),
    key(
        ("time", "servers"),
        Texts,
        "Debian's, and those of DHCP",
        "sets the time servers",
        r#"servers = ["pool.ntp.org"]"#,
    ),
    key(
        ("time", "wait_seconds"),
        Number(0, 300),
        "30",
        "limits how long k3s waits for the time",
        "wait_seconds = 30",
    ),
    key(
        ("k3s", "role"),
        OneOf(&["server", "agent"]),
        "`\"server\"`",
        "makes the node a server, or an agent that joins one",
        r#"role = "agent""#,
    ),
    key(
        ("k3s", "server"),
        Text,
        "required on an agent",
        "names the server that an agent joins",
        r#"server = "https://raspi.lan:6443""#,
    ),
    key(
        ("k3s", "token"),
        Text,
        "k3s creates one",
        "is the secret with which nodes join; imported, then blanked",
        r#"token = "…""#,
    ),
    key(
        ("k3s", "options"),
        Table,
        "none",
        "sets further keys of k3s' `config.yaml`",
        r#"options = {disable = ["traefik"]}"#,
    ),
    key(
        ("k3s", "registries"),
        Table,
        "none",
        "sets mirrors of registries and their certificates, as k3s' `registries.yaml` does",
        r#"registries = {mirrors = {"docker.io" = {endpoint = ["https://registry.lan:5000"]}}}"#,
    ),
    key(
        ("storage", "data"),
        Text,
        "it stays on the card",
        "moves the data of k3s to the disk of this label, once",
        r#"data = "LABEL=ssd""#,
    ),
    key(
        ("update", "source"),
        Text,
        "no apt source",
        "names the apt repository of newer packages",
        r#"source = "https://example.com/apt""#,
    ),
    key(
        ("update", "key"),
        Text,
        "required with `source`",
        "names the file with the repository's public key",
        r#"key = "config-weaver.asc""#,
    ),
    key(
        ("update", "when"),
        OneOf(&["daily", "weekly"]),
        "no updates by timer",
        "installs what is newer, in the night",
        r#"when = "weekly""#,
    ),
    key(
        ("update", "security"),
        Truth,
        "`false`",
        "installs Debian's security updates once a day",
        "security = true",
    ),
    key(
        ("update", "reboot"),
        Text,
        "`false`",
        "lets the card reboot for them in this time of the night",
        r#"reboot = "03:30-04:30""#,
    ),
    key(
        ("backup", "target"),
        Text,
        "no backups by timer",
        "names the directory for backups, on another disk",
        r#"target = "/mnt/usb""#,
    ),
    key(
        ("backup", "when"),
        OneOf(&["hourly", "daily", "weekly"]),
        "`\"daily\"`",
        "sets how often a backup is made",
        r#"when = "weekly""#,
    ),
    key(
        ("backup", "keep"),
        Number(1, 1000),
        "`7`",
        "sets how many backups of this node are kept",
        "keep = 30",
    ),
    key(("backup", "volumes"), Truth, "`false`", "includes the local-path volumes", "volumes = true"),
    key(
        ("backup", "recipient"),
        Text,
        "not encrypted",
        "encrypts backups for this public key of age",
        r#"recipient = "age1…""#,
    ),
    key(
        ("status", "page"),
        Truth,
        "shown; hidden on an agent without a `hostname`",
        "serves the card's page on port 9480",
        "page = false",
    ),
    key(
        ("status", "listen"),
        Texts,
        "all addresses of the card",
        "limits the page to these addresses",
        r#"listen = ["192.168.1.20"]"#,
    ),
    key(
        ("status", "announce"),
        Truth,
        "as `page`; `false` with `listen`",
        "announces the card to `weaver find`",
        "announce = false",
    ),
];

#[cfg(test)]
mod tests;
