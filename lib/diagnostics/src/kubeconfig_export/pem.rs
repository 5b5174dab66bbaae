//! Certificates and keys in a kubeconfig: base64 of PEM. No message contains any of it.

use crate::weaver_toml::ssh_key::base64;

/// The expected content of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// One certificate or more, and nothing else.
    Certificates,
    /// A private key, which is not encrypted.
    Key,
}

impl Holds {
    fn takes(self, label: &str) -> bool {
        match self {
            Self::Certificates => label == "CERTIFICATE",
            Self::Key => {
                matches!(label, "PRIVATE KEY" | "EC PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PARAMETERS")
            }
        }
    }
}

/// The value without the white space that base64 may have, if it has the expected content.
pub fn normal(data: &str, holds: Holds) -> Option<String> {
    let data: String = data.split_ascii_whitespace().collect();
    let text = String::from_utf8(base64(&data)?).ok()?;
    let labels: Vec<_> = blocks(&text)?.into_iter().map(|(label, _)| label).collect();
    let is_whole = match holds {
        Holds::Certificates => !labels.is_empty(),
        Holds::Key => labels.iter().filter(|label| label.ends_with("PRIVATE KEY")).count() == 1,
    };
    (is_whole && labels.iter().all(|label| holds.takes(label))).then_some(data)
}

/// The certificates in a value as DER, if it contains nothing else.
pub fn certificates(data: &str) -> Option<Vec<Vec<u8>>> {
    let text = String::from_utf8(base64(&normal(data, Holds::Certificates)?)?).ok()?;
    Some(blocks(&text)?.into_iter().map(|(_, der)| der).collect())
}

/// The labels and the DER of its PEM blocks; none if one is truncated or is not DER.
fn blocks(text: &str) -> Option<Vec<(&str, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find("-----BEGIN ") {
        let (label, body) = rest[begin + "-----BEGIN ".len()..].split_once("-----")?;
        let (body, after) = body.split_once(&format!("-----END {label}-----"))?;
        let der = base64(&body.split_ascii_whitespace().collect::<String>())?;
        // A SEQUENCE; the parameters of a curve are an OBJECT IDENTIFIER.
        if !matches!(der.first(), Some(0x30 | 0x06)) {
            return None;
        }
        found.push((label, der));
        rest = after;
    }
    (!rest.contains("-----END ")).then_some(found)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Base64 of a PEM certificate with an empty SEQUENCE.
    pub const CERTIFICATE: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    /// Three CAs. Base64 without padding: two of them, one behind the other, are a bundle.
    pub const CA: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQoK";
    pub const NEW_CA: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BRUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQoK";
    pub const OTHER_CA: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BRUMKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQoK";
    /// The same of an EC key.
    pub const KEY: &str =
        "LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk1BQT0KLS0tLS1FTkQgRUMgUFJJVkFURSBLRVktLS0tLQo=";

    #[test]
    fn labels_of_whole_blocks() {
        let block =
            |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let certificate = block("CERTIFICATE", "MAA=");
        for (text, want) in [
            (certificate.clone(), Some(vec!["CERTIFICATE"])),
            (format!("a note\n{certificate}{certificate}"), Some(vec!["CERTIFICATE"; 2])),
            (block("CERTIFICATE", "M\r\nAA="), Some(vec!["CERTIFICATE"])),
            (block("CERTIFICATE", "TWFu"), None),
            (block("CERTIFICATE", ""), None),
            (block("CERTIFICATE", "*"), None),
            (certificate[..30].to_owned(), None),
            (certificate[20..].to_owned(), None),
            (String::new(), Some(vec![])),
        ] {
            let found = blocks(&text).map(|found| found.into_iter().map(|(label, _)| label).collect());
            assert_eq!(found, want, "{text:?}");
        }
    }

    #[test]
    fn the_certificates_of_a_bundle() {
        assert_eq!(certificates(CA), Some(vec![vec![0x30, 0]]));
        assert_eq!(certificates(&format!("{NEW_CA}\n{CA}")), Some(vec![vec![0x30, 1, 1], vec![0x30, 0]]));
        for none in ["", KEY, "Q0E="] {
            assert_eq!(certificates(none), None, "{none}");
        }
    }

    #[test]
    fn only_what_is_asked_for_is_taken() {
        assert_eq!(normal(CERTIFICATE, Holds::Certificates).as_deref(), Some(CERTIFICATE));
        assert_eq!(normal(KEY, Holds::Key).as_deref(), Some(KEY));
        let folded = format!("\n {} \n{}", &KEY[..12], &KEY[12..]);
        assert_eq!(normal(&folded, Holds::Key).as_deref(), Some(KEY));
        for (data, holds) in [
            (KEY, Holds::Certificates),
            (CERTIFICATE, Holds::Key),
            ("", Holds::Certificates),
            ("Q0E=", Holds::Certificates),
            ("!", Holds::Key),
            ("/w==", Holds::Key),
        ] {
            assert_eq!(normal(data, holds), None, "{data}");
        }
    }
}
