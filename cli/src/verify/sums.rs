//! What SHA256SUMS lists. Pure.
//!
//! Guarantee: each name is a path below the directory of the list, and is there once. Failure: which line, and why the
//! list is refused; none of it is used then.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};

/// Hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// The SHA-256 of each name, in lower case.
pub fn parse(bytes: &[u8]) -> anyhow::Result<BTreeMap<String, String>> {
    ensure!(!bytes.is_empty(), "it is empty: download it again");
    let Ok(text) = std::str::from_utf8(bytes) else {
        bail!("it is not text in UTF-8: download it again");
    };
    ensure!(
        !text.contains('\r'),
        "its lines end with CR LF: they were changed by an editor or a transfer in text mode; download it again in binary mode"
    );
    ensure!(text.ends_with('\n'), "it is cut off: its last line has no end; download it again");
    let mut sums = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let (hash, name) = entry(line).map_err(|why| anyhow::anyhow!("line {number}: {why}"))?;
        ensure!(
            sums.insert(name.to_owned(), hash).is_none(),
            "line {number}: {name} is listed twice; take the list from where the release was published"
        );
    }
    Ok(sums)
}

/// `HASH  NAME`, or `HASH *NAME` where it was read as binary, which is the same on every system of ours.
fn entry(line: &str) -> anyhow::Result<(String, &str)> {
    ensure!(!line.starts_with('\\'), "a name with escapes, which no file of a release has");
    let Some((hash, name)) = line.split_once(' ').filter(|(hash, _)| !hash.is_empty()) else {
        bail!("it is not a SHA-256, two blanks and a name, as sha256sum writes it");
    };
    let digits = hash.chars().filter(char::is_ascii_hexdigit).count();
    ensure!(digits == hash.chars().count(), "it does not begin with a SHA-256, as sha256sum writes it");
    ensure!(digits == DIGITS, "{digits} hexadecimal digits, and a SHA-256 has {DIGITS}");
    let Some(name) = name.strip_prefix([' ', '*']) else {
        bail!("between SHA-256 and name there are two blanks, or a blank and `*`");
    };
    ensure!(
        is_below(name),
        "`{name}` is not a path below the directory of SHA256SUMS: do not use this release"
    );
    Ok((hash.to_ascii_lowercase(), name))
}

/// Is it a path that stays below, on every system?
fn is_below(name: &str) -> bool {
    !name.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "2413fb3709b05939f04cf2e92f7d0897fc2596f9ad0b8a9ea855c7bfebaae892";

    #[test]
    fn lines_of_sha256sum_are_read() {
        let text = format!("{HASH}  a.tar.gz\n{}  apt/pool/b.deb\n{HASH} *c d.zip\n", HASH.to_uppercase());
        let sums = parse(text.as_bytes()).unwrap();
        let expected = ["a.tar.gz", "apt/pool/b.deb", "c d.zip"].map(|name| (name.into(), HASH.into()));
        assert_eq!(sums, BTreeMap::from(expected));
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        let name = |name: &str| format!("{HASH}  {name}\n");
        for (text, why) in [
            (String::new(), "empty"),
            (format!("{HASH}  a\r\n"), "CR LF"),
            (format!("{HASH}  a\n{HASH}  b"), "cut off"),
            (format!("{HASH}  a\n{}", &HASH[..40]), "cut off"),
            (format!("{HASH}  a\n\n"), "line 2: it is not a SHA-256"),
            (format!("{}  a\n", &HASH[..40]), "line 1: 40 hexadecimal digits"),
            (format!("{HASH}0  a\n"), "65 hexadecimal digits"),
            (format!("SHA256 (a) = {HASH}\n"), "does not begin with a SHA-256"),
            ("<!DOCTYPE html>\n".to_owned(), "does not begin with a SHA-256"),
            (format!("\\{HASH}  a\\nb\n"), "escapes"),
            (format!("{HASH} a\n"), "two blanks"),
            (format!("{HASH}  a\n{HASH}  a\n"), "line 2: a is listed twice"),
            (name(""), "not a path below"),
            (name("../a"), "`../a` is not a path below"),
            (name("a/../../b"), "not a path below"),
            (name("/etc/passwd"), "not a path below"),
            (name("a//b"), "not a path below"),
            (name("./a"), "not a path below"),
            (name("..\\a"), "not a path below"),
            (name("C:a"), "not a path below"),
            (name("a\u{1b}[2J"), "not a path below"),
        ] {
            let said = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(why), "{text:?}: {said}");
        }
        assert!(parse(b"\xff\n").unwrap_err().to_string().contains("UTF-8"));
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_the_directory(name in "[./a\\\\:]{0,8}") {
            let Ok(sums) = parse(format!("{HASH}  {name}\n").as_bytes()) else { return Ok(()) };
            for name in sums.keys() {
                let path = std::path::Path::new(name);
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))), "{name}");
            }
        }

        #[test]
        fn any_bytes_are_judged(bytes in any::<Vec<u8>>()) {
            drop(parse(&bytes));
        }
    }
}
