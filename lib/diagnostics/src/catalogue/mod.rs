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
pub fn find(text: &str) -> Option<Code> {
    Code::ALL
        .iter()
        .copied()
        .find(|code| code.id().eq_ignore_ascii_case(text) || code.name().eq_ignore_ascii_case(text))
}

/// The entry of a code for a user.
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
}
