//! docs/how-to/troubleshoot.md maps symptoms to every code there is, and to the right one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;

use weaver_diagnostics::finding::{Code, Place};
use weaver_diagnostics::recognise::Recogniser;

const PAGE: &str = include_str!("../../../docs/how-to/troubleshoot.md");
const CODES: &str = include_str!("../../../docs/reference/codes.md");

/// As the page links to a code.
fn link(code: Code) -> String {
    format!("[{}](../reference/codes.md#{}-{})", code.id(), code.id().to_lowercase(), code.name())
}

/// The rows of the tables that say what is said, and of which code it is.
fn said() -> Vec<(&'static str, &'static str)> {
    let tables = PAGE.split(" says | code |\n|---|---|\n").skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    rows.map(|row| {
        let (words, code) = row.rsplit_once(" | ").unwrap();
        (words.trim_start_matches("| `").trim_end_matches('`'), code.trim_end_matches(" |"))
    })
    .collect()
}

#[test]
fn what_is_said_is_recognised_as_the_code_next_to_it() {
    let recogniser = Recogniser::new().unwrap();
    let rows = said();
    assert!(rows.len() > 25, "{}", rows.len());
    for (words, code) in rows {
        let finding = recogniser.judge(words.as_bytes(), || Place::file("page"));
        assert_eq!(finding.map(|finding| link(finding.code)).as_deref(), Some(code), "{words}");
    }
}

#[test]
fn each_code_that_is_no_good_news_is_led_to_and_each_link_leads_somewhere() {
    let wanted: BTreeSet<String> =
        Code::ALL.iter().filter(|code| !code.id().ends_with("-00")).map(|code| link(*code)).collect();
    let links = PAGE.split("](../reference/codes.md#").skip(1).map(|rest| rest.split(')').next().unwrap());
    let known: BTreeSet<String> =
        Code::ALL.iter().map(|code| format!("{}-{}", code.id().to_lowercase(), code.name())).collect();
    for anchor in links {
        assert!(known.contains(anchor), "no code is called {anchor}");
    }
    let missing: Vec<&String> = wanted.iter().filter(|link| !PAGE.contains(link.as_str())).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    for code in Code::ALL {
        let heading = format!("### {} {}\n", code.id(), code.name());
        assert!(CODES.contains(&heading), "{heading}");
    }
}
