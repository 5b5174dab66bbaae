//! Prints `docs/reference/codes.md`; `make generate` writes it.

use std::fmt::Write as _;

use weaver_diagnostics::catalogue::{Category, Code, CodeRow};

fn main() {
    print!("{}", page());
}

/// The page of documentation, in Markdown.
fn page() -> String {
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
