//! Words for a shell.

/// The text as one word for the shell of who reads it: on Windows that is PowerShell, where a quote ends otherwise.
pub fn quoted(text: &str) -> String {
    if cfg!(windows) { powershell(text) } else { posix(text) }
}

/// The text as one word of a POSIX shell, which may be that of another machine; as it is where nothing in it means
/// anything to one.
pub fn posix(text: &str) -> String {
    if is_plain(text, "-_./:,+@%") { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// PowerShell takes typographic quotes for quotes, too. Two of them are one in the text.
fn powershell(text: &str) -> String {
    if is_plain(text, "-_./:+") {
        return text.to_owned();
    }
    let mut word = String::from("'");
    for c in text.chars() {
        let is_quote = matches!(c, '\'' | '\u{2018}'..='\u{201b}');
        word.extend(std::iter::repeat_n(c, if is_quote { 2 } else { 1 }));
    }
    word + "'"
}

fn is_plain(text: &str, signs: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
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
            assert_eq!(posix(text), want);
        }
    }

    #[test]
    fn no_quote_ends_a_word_of_powershell() {
        for (text, want) in [
            ("raspi.lan", "raspi.lan"),
            (r"C:\Users\a\config", r"'C:\Users\a\config'"),
            ("pi'; calc; '", "'pi''; calc; '''"),
            ("pi\u{2019}; calc", "'pi\u{2019}\u{2019}; calc'"),
            ("$(calc)", "'$(calc)'"),
            ("a,b", "'a,b'"),
            ("@a", "'@a'"),
            ("", "''"),
        ] {
            assert_eq!(powershell(text), want);
        }
    }
}
