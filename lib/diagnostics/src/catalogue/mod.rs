//! The catalogue: one row for each code, which says how severe it is, what it means, why it happens and what helps. A
//! finding says it of this host, with evidence; unless it has a better remedy, it has that of the row.
//!
//! A new code is one row in the file of its category. `docs/reference/codes.md` is this table; `make generate`
//! writes it.

#[macro_use]
mod cluster;
#[macro_use]
mod connection;
#[macro_use]
mod host;
#[macro_use]
mod join;
#[macro_use]
mod k3d;
#[macro_use]
mod k3s;
#[macro_use]
mod node;
#[macro_use]
mod tls;
#[macro_use]
mod weaver_toml;
mod category;
mod code;

use std::fmt::Write as _;

pub use category::Category;
pub use code::{Code, CodeRow};

/// The code that a user means by `N-01`, `n-01` or `memory-cgroup-absent`.
#[must_use]
pub fn find(text: &str) -> Option<Code> {
    Code::ALL
        .iter()
        .copied()
        .find(|code| code.id().eq_ignore_ascii_case(text) || code.name().eq_ignore_ascii_case(text))
}

/// The entry of a code for a user.
#[must_use]
pub fn text(code: Code) -> String {
    let CodeRow { severity, title, cause, remedy, commands, links, .. } = *code.row();
    let mut text = format!("{code} ({severity})\n{title}\n\nWhy: {cause}\n");
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
N-01` prints an entry; `… 2>&1 | weaver explain` recognises what other programs print. The word after a title is the worst
severity of the code: `fail` stops the next step, `warn` and `unknown` never do.
"
    .to_owned();
    for (category, letter, title) in Category::ALL {
        let _ = write!(page, "\n## {letter}: {title}\n");
        let mut codes: Vec<Code> =
            Code::ALL.iter().copied().filter(|code| code.row().category == category).collect();
        codes.sort_by_key(|code| code.id());
        for code in codes {
            let CodeRow { severity, title, cause, remedy, commands, links, .. } = *code.row();
            let _ = write!(page, "\n### {} {}\n\n", code.id(), code.name());
            let _ = writeln!(page, "{title} (`{severity}`) {cause}");
            if !remedy.is_empty() {
                let _ = write!(page, "\n**What helps:** {remedy}\n");
            }
            if !commands.is_empty() {
                let commands: Vec<&str> = commands.iter().map(|command| &**command).collect();
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
    use crate::finding::Severity;

    #[test]
    fn each_code_belongs_to_a_category_and_says_what_helps() {
        for code in Code::ALL {
            let CodeRow { category, id, severity, title, cause, remedy, commands, .. } = *code.row();
            assert!(
                Category::ALL.iter().any(|(of, letter, _)| *of == category && id.starts_with(*letter)),
                "{code}"
            );
            assert!(cause.ends_with('.') && title.ends_with('.'), "{code}");
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/codes.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page(),
            "docs/reference/codes.md differs from the catalogue: run `make generate`"
        );
    }
}
