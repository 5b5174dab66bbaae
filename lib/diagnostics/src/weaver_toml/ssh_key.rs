//! OpenSSH public keys: a line of a `.pub` file.
//!
//! A line that sshd would skip in silence is refused here, since the administrator could not log in to find out. No key
//! is repeated in a message: what was pasted may be the private one.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::fault::Mistake;

const TYPES: &[&str] = &[
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];
/// An RSA key of 16384 bits has 2.8 KB.
const LONGEST: usize = 8 * 1024;
/// How to recognise a private key: PEM, `PuTTY`, and the encoded beginning of OpenSSH's own format.
const PRIVATE: &[&str] = &["PRIVATE KEY", "PuTTY-User-Key-File", "Private-Lines", "b3BlbnNzaC1rZXktdjE"];
const PASTE: &str = "write the one line of the .pub file, such as ~/.ssh/id_ed25519.pub";

/// A key as a line of `authorized_keys`, without space at its ends.
pub(super) fn public_key(text: &str) -> Result<String, Mistake> {
    let wrong = |why: &str| Err(Mistake::new(format!("this ssh key {why}"), PASTE));
    if is_private(text) {
        return Err(Mistake::new(
            "this is a private ssh key, which must not leave your computer",
            format!("remove it from the card, make a new key pair if others saw the card; then {PASTE}"),
        ));
    }
    let line = text.trim();
    if line.is_empty() {
        return wrong("is empty");
    }
    if line.contains(char::is_control) {
        return wrong("is more than one line");
    }
    if line.len() > LONGEST {
        return wrong("is too long to be a key");
    }
    let mut words = line.split_whitespace();
    let (kind, blob) = (words.next().unwrap_or_default(), words.next());
    if kind == "ssh-dss" {
        return wrong("is of the type DSA, which OpenSSH does not accept any more");
    }
    if kind.contains("-cert-v0") {
        return wrong("is a certificate, not a key");
    }
    if !TYPES.contains(&kind) {
        return wrong("does not start with its type (ssh-ed25519, ecdsa-sha2-nistp256, ssh-rsa …)");
    }
    let Some(blob) = blob else { return wrong("has no key after its type") };
    match base64(blob) {
        Some(bytes) if is_key_of(kind, &bytes) => Ok(line.to_owned()),
        Some(_) => wrong("is cut off, or of another type than it says"),
        None => wrong("is damaged: its second field is not base64"),
    }
}

/// Whether this is a private key, or a part of one.
pub(super) fn is_private(text: &str) -> bool {
    PRIVATE.iter().any(|mark| text.contains(mark))
}

/// What makes two lines the same key.
pub(super) fn identity(line: &str) -> &str {
    line.split_whitespace().nth(1).unwrap_or(line)
}

/// Whether the bytes are fields, each with its length, that fill them whole, the first of them the type.
fn is_key_of(kind: &str, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((field, tail)) = tail.split_at_checked(length) else { return false };
        fields.push(field);
        rest = tail;
    }
    let whole = rest.is_empty() && fields.first() == Some(&kind.as_bytes());
    whole
        && match (kind, fields.as_slice()) {
            ("ssh-ed25519", [_, key]) | ("sk-ssh-ed25519@openssh.com", [_, key, _]) => key.len() == 32,
            ("ssh-rsa", [_, _, modulus]) => modulus.len() >= 128,
            ("ssh-ed25519" | "sk-ssh-ed25519@openssh.com" | "ssh-rsa", _) => false,
            (_, fields) => fields.len() >= 3,
        }
}

/// As Go decodes base64: with its padding, whose bits may be any.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes base64 with its padding, and without white space.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop";

    #[test]
    fn public_keys_are_taken() {
        assert_eq!(public_key(ED25519).unwrap(), ED25519);
        assert_eq!(public_key(&format!("  {ED25519}\n")).unwrap(), ED25519);
        let bare = ED25519.trim_end_matches(" me@laptop");
        assert_eq!(public_key(bare).unwrap(), bare);
        assert_eq!(identity(ED25519), identity(bare));
    }

    #[test]
    fn every_other_line_is_refused_and_not_repeated() {
        let cut = ED25519.replace("GBkaGxwdHh8g", "");
        let as_rsa = ED25519.replace("ssh-ed25519", "ssh-rsa");
        let two = format!("{ED25519}\n{ED25519}");
        for (text, why) in [
            ("", "is empty"),
            (" \n", "is empty"),
            (cut.as_str(), "cut off"),
            (as_rsa.as_str(), "another type"),
            (two.as_str(), "more than one line"),
            ("ssh-ed25519", "no key after its type"),
            ("ssh-ed25519 HUNTER2!", "not base64"),
            ("ssh-ed25519 HUNTER2", "not base64"),
            ("ssh-dss AAAAB3NzaHUNTER2", "DSA"),
            ("ssh-ed25519-cert-v01@openssh.com AAAAHUNTER2", "certificate"),
            ("from=\"10.0.0.1\" ssh-ed25519 AAAAHUNTER2", "start with its type"),
            ("HUNTER2", "start with its type"),
            (&format!("ssh-rsa {}", "A".repeat(9000)), "too long"),
        ] {
            let mistake = public_key(text).unwrap_err();
            assert!(mistake.message.contains(why), "{text:?}: {mistake:?}");
            assert!(mistake.remedy.contains(".pub"), "{mistake:?}");
            assert!(!format!("{mistake:?}").contains("HUNTER2"), "{mistake:?}");
        }
    }

    #[test]
    fn a_private_key_is_named_as_such_and_not_repeated() {
        for text in [
            "-----BEGIN OPENSSH PRIVATE KEY-----\nHUNTER2\n-----END OPENSSH PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nHUNTER2",
            "PuTTY-User-Key-File-3: ssh-ed25519\nHUNTER2",
            "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUHUNTER2",
        ] {
            let mistake = public_key(text).unwrap_err();
            assert!(mistake.message.contains("a private ssh key"), "{mistake:?}");
            assert!(!format!("{mistake:?}").contains("HUNTER2"), "{mistake:?}");
        }
    }

    #[test]
    fn base64_is_decoded_or_refused() {
        for (text, want) in [
            ("", Some(&b""[..])),
            ("TQ==", Some(b"M")),
            ("TWE=", Some(b"Ma")),
            ("TWFu", Some(b"Man")),
            ("T", None),
            ("TQ=", None),
            ("A===", None),
            ("T*==", None),
            ("TQ==TQ==", None),
        ] {
            assert_eq!(base64(text).as_deref(), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(ssh-rsa|ssh-ed25519) [A-Za-z0-9+/]{0,40}={0,3}") {
            let _ = public_key(&text);
        }
    }
}
