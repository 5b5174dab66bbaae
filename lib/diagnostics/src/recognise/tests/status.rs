//! The figures of docs/status.md are those of the corpus.

use std::collections::BTreeMap;

use super::{UNRELATED, known};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/status.md");

/// How many texts each code has.
fn texts() -> BTreeMap<&'static str, usize> {
    let mut texts = BTreeMap::new();
    for (code, _) in known() {
        *texts.entry(code).or_default() += 1;
    }
    texts
}

/// The rows of the table without their titles, by the letter of their codes: `A | 17 | A-01 4, A-02 7 |`.
fn rows() -> BTreeMap<char, String> {
    let mut rows: BTreeMap<char, Vec<(&str, usize)>> = BTreeMap::new();
    for (code, count) in texts() {
        rows.entry(code.chars().next().unwrap()).or_default().push((code, count));
    }
    let row = |codes: Vec<(&str, usize)>| {
        let sum: usize = codes.iter().map(|(_, count)| count).sum();
        let of: Vec<String> = codes.into_iter().map(|(code, count)| format!("{code} {count}")).collect();
        format!("| {sum} | {} |", of.join(", "))
    };
    rows.into_iter().map(|(letter, codes)| (letter, row(codes))).collect()
}

#[test]
fn the_table_of_wordings_is_that_of_the_corpus() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let table: Vec<&str> = page.lines().skip_while(|line| *line != "| codes | texts | of them |").collect();
    let shown: BTreeMap<char, String> = table
        .iter()
        .skip(2)
        .take_while(|line| line.starts_with("| "))
        .filter_map(|line| {
            let (title, rest) = line[2..].split_once(": ")?;
            Some((title.chars().next()?, rest[rest.find(" | ")? + 1..].to_owned()))
        })
        .collect();
    assert_eq!(shown, rows(), "write these into docs/status.md: {:#?}", rows());
}

#[test]
fn the_numbers_of_its_text_are_those_of_the_corpus() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for want in [
        format!(
            "has {} texts of others with the code of each, of the {} codes",
            known().count(),
            texts().len()
        ),
        format!("so it does for the {} codes that only Config Weaver prints", super::reasons::OURS.len()),
        format!("the same words with another cause | {} | none |", UNRELATED.lines().count()),
    ] {
        assert!(page.contains(&want), "docs/status.md lacks: {want}");
    }
}
