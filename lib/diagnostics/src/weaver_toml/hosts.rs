//! The line of the host's own name in `/etc/hosts`.
//!
//! Ours carries a mark; every other line stays as it is.

const MARK: &str = "# weaver.toml";
const FRESH: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";

/// The file with our line for this name, or with none. `None` as text: there is no file.
pub(super) fn with_name(text: Option<&str>, name: Option<&str>) -> String {
    let Some(name) = name else { return text.map_or_else(String::new, without_ours) };
    let line = format!("127.0.1.1 {name} {MARK}\n");
    let text = text.unwrap_or(FRESH);
    if text.split_inclusive('\n').any(|present| present == line) && ours(text).count() == 1 {
        return text.to_owned();
    }
    let rest = without_ours(text);
    // Before any other line of this address: the first one answers what the address is called.
    let mut at = 0;
    for present in rest.split_inclusive('\n') {
        if present.split_whitespace().next() == Some("127.0.1.1") {
            return [&rest[..at], &line, &rest[at..]].concat();
        }
        at += present.len();
    }
    let newline = if rest.is_empty() || rest.ends_with('\n') { "" } else { "\n" };
    [&rest, newline, &line].concat()
}

fn without_ours(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
}

fn ours(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| is_ours(line))
}

fn is_ours(line: &str) -> bool {
    line.starts_with("127.0.1.1 ") && line.trim_end().ends_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_name_gets_its_line_in_hosts() {
        for (text, name, want) in [
            (Some("127.0.0.1 localhost\n"), Some("pi"), "127.0.0.1 localhost\n127.0.1.1 pi # weaver.toml\n"),
            (Some("# mine"), Some("pi"), "# mine\n127.0.1.1 pi # weaver.toml\n"),
            (Some(""), Some("pi"), "127.0.1.1 pi # weaver.toml\n"),
            (
                Some("127.0.1.1 old old.lan\n10.0.0.1 nas\n"),
                Some("pi"),
                "127.0.1.1 pi # weaver.toml\n127.0.1.1 old old.lan\n10.0.0.1 nas\n",
            ),
            (
                Some("127.0.1.1 old # weaver.toml\n10.0.0.1 nas\n127.0.1.1 older # weaver.toml"),
                Some("pi"),
                "10.0.0.1 nas\n127.0.1.1 pi # weaver.toml\n",
            ),
            (Some("127.0.1.1 old # weaver.toml\n10.0.0.1 nas\n"), None, "10.0.0.1 nas\n"),
            (Some("10.0.0.1 nas"), None, "10.0.0.1 nas"),
            (None, None, ""),
        ] {
            let got = with_name(text, name);
            assert_eq!(got, want, "{text:?} {name:?}");
            assert_eq!(with_name(Some(&got), name), got, "a second time");
        }
        assert!(with_name(None, Some("pi")).starts_with("127.0.0.1 localhost\n"));
        let kept = "127.0.0.1 localhost\n127.0.1.1 pi # weaver.toml\n10.0.0.1 nas\n";
        assert_eq!(with_name(Some(kept), Some("pi")), kept, "where it stands it stays");
    }
}
