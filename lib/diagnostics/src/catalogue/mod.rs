//! The catalogue: what each code means in general, why it happens and what helps. A finding says it of this host, with
//! what was seen; where it has nothing better, its remedy is the catalogue's.
//!
//! `docs/codes.md` is this table; `make generate` writes it.

mod cluster;
mod connection;
mod host;
mod join;
mod k3s;
mod node;
mod table;
mod tls;

use std::fmt::Write as _;

use crate::finding::{Code, Finding, Remedy, Severity};

pub use table::entry;

/// What is known of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The worst that a finding of this code says.
    pub severity: Severity,
    /// Why it is so.
    pub cause: &'static str,
    /// What to do, in words; empty where there is nothing to do.
    pub remedy: &'static str,
    /// What to type; words in capitals are to be filled in.
    pub commands: &'static [&'static str],
    /// Where it is written about.
    pub links: &'static [&'static str],
}

impl Entry {
    /// As a finding has it.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        self.commands.iter().copied().fold(Remedy::new(self.remedy), Remedy::command)
    }
}

/// A finding as the catalogue has it: as bad as its code can be, with its remedy. Whoever knows better replaces either.
#[must_use]
pub fn finding(code: Code, message: impl Into<String>) -> Finding {
    let entry = entry(code);
    Finding::new(entry.severity, code, message).remedy(entry.remedy())
}

/// What the letter of a code stands for.
const PARTS: [(&str, &str); 11] = [
    ("N", "The node: memory cgroup, names, size"),
    ("H", "The host: power, card, clock, route"),
    ("T", "TLS: certificates and their names"),
    ("K", "Kubeconfig and connection"),
    ("F", "k3s: its files and its start"),
    ("B", "Boot: weaver.toml"),
    ("J", "Joining a server"),
    ("R", "Registries, images, ingress"),
    ("C", "Kinds and objects"),
    ("A", "Accounts and rights"),
    ("L", "Leases"),
];

/// The code that a person means by `N-01`, `n-01` or `memory-cgroup-absent`.
#[must_use]
pub fn find(text: &str) -> Option<Code> {
    Code::ALL
        .iter()
        .copied()
        .find(|code| code.id().eq_ignore_ascii_case(text) || code.name().eq_ignore_ascii_case(text))
}

/// The entry of a code for a person.
#[must_use]
pub fn text(code: Code) -> String {
    let Entry { severity, cause, remedy, commands, links } = entry(code);
    let mut text = format!("{code} ({severity})\n{}\n\nWhy: {cause}\n", code.title());
    if !remedy.is_empty() {
        let _ = writeln!(text, "What helps: {remedy}");
    }
    for command in commands {
        let _ = writeln!(text, "  $ {command}");
    }
    for link in links {
        let _ = writeln!(text, "See {link}");
    }
    text
}

/// The page of documentation, in Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = "\
# Codes

<!-- Written by `make generate` from lib/diagnostics/src/catalogue; edit there. -->

Every finding of `weaver-node-agent` and of `weaver` begins with a code, which never changes its meaning. `weaver explain
N-01` prints an entry; `… 2>&1 | weaver explain` recognises what others print. The word behind a code is the worst that it
says: `fail` stops the next step, `warn` and `unknown` never do.
"
    .to_owned();
    for (letter, title) in PARTS {
        let _ = write!(page, "\n## {letter}: {title}\n");
        let mut codes: Vec<Code> =
            Code::ALL.iter().copied().filter(|code| code.id().starts_with(letter)).collect();
        codes.sort_by_key(|code| code.id());
        for code in codes {
            let Entry { severity, cause, remedy, commands, links } = entry(code);
            let _ = write!(page, "\n### {} {}\n\n", code.id(), code.name());
            let _ = writeln!(page, "{} (`{severity}`) {cause}", code.title());
            if !remedy.is_empty() {
                let _ = write!(page, "\n**What helps:** {remedy}\n");
            }
            if !commands.is_empty() {
                let _ = write!(page, "\n```sh\n{}\n```\n", commands.join("\n"));
            }
            if !links.is_empty() {
                let links: Vec<String> = links.iter().map(|link| format!("<{link}>")).collect();
                let _ = write!(page, "\n{}\n", links.join(" · "));
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_belongs_to_a_part_and_says_what_helps() {
        for code in Code::ALL {
            let Entry { severity, cause, remedy, commands, .. } = entry(*code);
            assert!(PARTS.iter().any(|(letter, _)| code.id().starts_with(letter)), "{code}");
            assert!(cause.ends_with('.') && code.title().ends_with('.'), "{code}");
            assert_eq!(remedy.is_empty(), severity == Severity::Ok, "{code}");
            assert!(!remedy.is_empty() || commands.is_empty(), "{code}");
            // CA rotation invalidates every kubeconfig; strategy None loses fields.
            assert!(!commands.iter().any(|command| command.contains("rotate-ca")), "{code}");
        }
    }

    #[test]
    fn a_code_is_found_by_id_and_by_name() {
        for text in ["N-01", "n-01", "memory-cgroup-absent"] {
            assert_eq!(find(text), Some(Code::MemoryCgroupAbsent));
        }
        assert_eq!(find("N-99"), None);
    }

    #[test]
    fn the_page_has_each_code_once() {
        let page = page();
        for code in Code::ALL {
            assert_eq!(page.matches(&format!("### {} {}\n", code.id(), code.name())).count(), 1, "{code}");
        }
    }

    #[test]
    fn the_committed_page_is_the_one_of_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/codes.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == page(), "docs/codes.md differs from the catalogue: run `make generate`");
    }
}
