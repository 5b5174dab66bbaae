//! The table of k3s' flags, which are the keys of its configuration files.

use crate::k3s_upgrade::Role;

const TABLE: &str = include_str!("flags.txt");
/// The newest k3s that the table knows, of v1.
pub const NEWEST: u32 = 37;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagKind {
    Bool,
    Int,
    Duration,
    Text,
    List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFlag {
    pub name: &'static str,
    /// Its short form, of one letter.
    short: &'static str,
    pub on_server: bool,
    pub on_agent: bool,
    pub kind: FlagKind,
    /// The last minor version that had it.
    pub until: Option<u32>,
    /// What does the same now.
    pub instead: Option<&'static str>,
    /// No release before v1.N has it.
    pub since: Option<u32>,
}

impl KnownFlag {
    /// Whether k3s in this role has it.
    pub const fn is_of(&self, role: Role) -> bool {
        match role {
            Role::Server => self.on_server,
            Role::Agent => self.on_agent,
        }
    }
}

/// Every flag that k3s has or had.
pub fn all() -> impl Iterator<Item = KnownFlag> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row)
}

/// The flag of this name, long or short.
pub fn find(name: &str) -> Option<KnownFlag> {
    all().find(|flag| flag.name == name || (flag.short == name && name != "-"))
}

/// The name that was most likely meant, of those that k3s in this role has.
pub fn nearest(given: &str, role: Role) -> Option<&'static str> {
    let plain = |key: &str| key.to_ascii_lowercase().replace(['_', ' ', '-'], "");
    // Names of the environment's variables begin so.
    let given = plain(given.trim_start_matches("K3S_"));
    let distance = |flag: &KnownFlag| {
        let known = plain(flag.name);
        let is_plural = given.strip_suffix('s') == Some(&known) || known.strip_suffix('s') == Some(&given);
        if is_plural { 0 } else { strsim::damerau_levenshtein(&given, &known) }
    };
    let flags = all().filter(|flag| flag.is_of(role) && flag.until.is_none());
    let nearest = flags.map(|flag| (distance(&flag), flag.name)).min()?;
    // Of a short word another letter makes another word.
    (nearest.0 <= given.chars().count() / 5).then_some(nearest.1)
}

fn row(line: &'static str) -> Option<KnownFlag> {
    let mut columns = line.split_whitespace();
    let mut next = || columns.next().map(|text| Some(text).filter(|text| *text != "-"));
    let (name, short, role, kind) = (next()??, next()?, next()??, next()??);
    let (until, instead, since) = (next()?, next()?, next()?);
    Some(KnownFlag {
        name,
        short: short.unwrap_or("-"),
        on_server: role != "agent",
        on_agent: role != "server",
        kind: match kind {
            "bool" => FlagKind::Bool,
            "int" => FlagKind::Int,
            "duration" => FlagKind::Duration,
            "list" => FlagKind::List,
            _ => FlagKind::Text,
        },
        until: until.and_then(|minor| minor.parse().ok()),
        instead,
        since: since.and_then(|minor| minor.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_flag_and_none_is_there_twice() {
        let lines: Vec<_> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(all().count(), lines.len());
        for line in &lines {
            let [_, short, role, kind, until, instead, since] =
                line.split_whitespace().collect::<Vec<_>>()[..]
            else {
                panic!("{line}")
            };
            assert!(short.len() == 1 && ["server", "agent", "both"].contains(&role), "{line}");
            assert!(["bool", "int", "duration", "text", "list"].contains(&kind), "{line}");
            assert!(until == "-" || until.parse::<u32>().is_ok_and(|minor| minor < NEWEST), "{line}");
            assert!(since == "-" || since.parse::<u32>().is_ok_and(|minor| minor <= NEWEST), "{line}");
            let successor = find(instead);
            assert!(instead == "-" || successor.is_some_and(|flag| flag.until.is_none()), "{line}");
        }
        let mut names: Vec<_> = all().map(|flag| flag.name).collect();
        names.dedup();
        assert_eq!(names.len(), lines.len(), "the table is in the order of its names");
        assert!(names.is_sorted());
    }

    #[test]
    fn a_flag_is_found_by_its_long_and_short_name() {
        for (name, want) in [
            ("tls-san", Some("tls-san")),
            ("t", Some("token")),
            ("i", Some("node-ip")),
            ("v", Some("v")),
            ("-", None),
            ("", None),
            ("tls_san", None),
        ] {
            assert_eq!(find(name).map(|flag| flag.name), want, "{name}");
        }
        assert!(!find("disable").unwrap().is_of(Role::Agent));
        assert!(!find("disable-apiserver-lb").unwrap().is_of(Role::Server));
        assert_eq!(find("no-deploy").unwrap().instead, Some("disable"));
        assert_eq!(find("write-kubeconfig-name").unwrap().since, Some(37));
        assert_eq!(find("tls-san").unwrap().since, None);
    }

    #[test]
    fn what_was_meant() {
        for (given, role, want) in [
            ("tls_san", Role::Server, Some("tls-san")),
            ("tlsSan", Role::Server, Some("tls-san")),
            ("tls-sans", Role::Server, Some("tls-san")),
            ("node-labels", Role::Agent, Some("node-label")),
            ("kubelet-args", Role::Agent, Some("kubelet-arg")),
            ("kube-apisever-arg", Role::Server, Some("kube-apiserver-arg")),
            ("write-kubeconfg-mode", Role::Server, Some("write-kubeconfig-mode")),
            ("flannel-bakend", Role::Server, Some("flannel-backend")),
            ("K3S_TOKEN", Role::Server, Some("token")),
            ("K3S_NODE_NAME", Role::Agent, Some("node-name")),
            ("tls_san", Role::Agent, None),
            ("max-pods", Role::Server, None),
            ("names", Role::Server, None),
            ("x", Role::Server, None),
            ("", Role::Server, None),
        ] {
            assert_eq!(nearest(given, role), want, "{given}");
        }
    }
}
