//! Words for a shell.

/// The text as one word of a POSIX shell; as it is where nothing in it means anything to one.
#[must_use]
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_a_word() {
        for (text, want) in [
            ("/home/a/.kube/config", "/home/a/.kube/config"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("*.lan", "'*.lan'"),
            ("$(reboot)", "'$(reboot)'"),
        ] {
            assert_eq!(quoted(text), want);
        }
    }
}
