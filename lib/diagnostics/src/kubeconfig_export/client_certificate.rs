//! The client certificate of a kubeconfig and its key: is it there, is it of now, and is the key its own?
//!
//! What X.509 says is for the caller to read; here it is found and judged. No certificate and no key is in a message.

use std::fmt;
use std::path::Path;

use crate::{
    finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity},
    kubeconfig::in_force,
    text_file::TextFile,
    weaver_toml::ssh_key::base64,
    yaml_node::{self, YamlNode},
};

/// What `kubectl config view` writes instead of a value, and what users write.
const LEFT_OUT: [&str; 3] = ["DATA+OMITTED", "REDACTED", "DATA-OMITTED"];

/// A certificate in PEM and, where it can be read, its key.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Where the kubeconfig has it, or names its file.
    pub place: Place,
    pub certificate: String,
    pub key: Option<String>,
    /// Whether the user has a token as well, which the API server tries where it does not take the certificate.
    pub has_token: bool,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a client certificate at {}", self.place)
    }
}

/// Whose file it is, which decides how it gets a new certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The one that k3s writes.
    K3s,
    Copy,
}

/// What its dates say by this machine's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dates {
    /// It ended on this day, such as `2025-01-01`.
    Expired(String),
    /// It begins on this day, such as `2030-01-01`.
    NotYet(String),
}

/// The certificate of the user in force; `read` gives the text of a file. Also what cannot be one.
pub fn find(
    file: &TextFile,
    context: Option<&str>,
    read: impl Fn(&Path) -> Option<String>,
) -> (Option<ClientCertificate>, Vec<Finding>) {
    let Ok(root) = yaml_node::parse(&file.text) else { return (None, Vec::new()) };
    let Ok([(_, cluster), (_, user)]) = in_force(&root, context) else { return (None, Vec::new()) };
    let mut findings = Vec::new();
    let mut value = |body: &YamlNode, field: &str, label: &str| {
        let node = body.get(&format!("{field}-data"))?;
        let data = node.as_str().filter(|data| !data.is_empty())?;
        let place = Place::at(&file.path, node.line, node.column);
        let text = pem(data, label);
        if text.is_none() {
            findings.push(no_pem(&place, field, data));
        }
        Some((place, text))
    };
    value(cluster, "certificate-authority", "CERTIFICATE");
    let token =
        user.get("token").filter(|node| node.as_str().is_some_and(|text| LEFT_OUT.contains(&text.trim())));
    let is_set = |node: &YamlNode| {
        node.as_str().is_some_and(|text| !text.is_empty() && !LEFT_OUT.contains(&text.trim()))
    };
    let has_token = ["token", "tokenFile"].into_iter().any(|field| user.get(field).is_some_and(is_set));
    let certificate = value(user, "client-certificate", "CERTIFICATE");
    let key = value(user, "client-key", "PRIVATE KEY");
    findings.extend(token.map(|node| no_token(Place::at(&file.path, node.line, node.column))));
    let named = |field: &str| {
        let node = user.get(field)?;
        let path = Path::new(&file.path).parent().unwrap_or(Path::new("")).join(node.as_str()?);
        Some((Place::at(&file.path, node.line, node.column), read(&path)))
    };
    let certificate = certificate.or_else(|| named("client-certificate"));
    let key = key.or_else(|| named("client-key")).and_then(|(_, text)| text);
    let found = certificate
        .and_then(|(place, text)| Some(ClientCertificate { place, certificate: text?, key, has_token }));
    (found, findings)
}

/// The text of which a value is the base64, where it has a whole block of that kind. What else is in it, kubectl skips.
fn pem(data: &str, label: &str) -> Option<String> {
    let data: String = data.split_ascii_whitespace().collect();
    let text = String::from_utf8(base64(&data)?).ok()?;
    let end = format!("{label}-----");
    let has = |mark: &str| {
        text.split(mark)
            .skip(1)
            .any(|rest| rest.split('\n').next().is_some_and(|line| line.trim_end().ends_with(&end)))
    };
    (has("-----BEGIN ") && has("-----END ")).then_some(text)
}

/// The word in its place is no token.
fn no_token(place: Place) -> Finding {
    let what = "token was left out when the file was copied: the API server refuses the word in its place";
    let remedy = Remedy::new("copy the file itself, or print it with its secrets");
    Finding::at(Code::KubeconfigUnusable, place, what)
        .remedy(remedy.command("kubectl config view --raw --minify --flatten"))
}

fn no_pem(place: &Place, field: &str, data: &str) -> Finding {
    let (what, remedy) = if LEFT_OUT.contains(&data.trim()) {
        ("was left out when the file was copied", "copy the file itself, or print it with its secrets")
    } else if data.contains("-----BEGIN") {
        ("is PEM; write its base64 encoding", "encode it, or take a new copy")
    } else {
        ("is not the base64 of PEM, or is cut off", "take a new copy")
    };
    let message = format!("{place}: {field}-data {what}: kubectl cannot use it");
    let remedy = Remedy::new(remedy).command("kubectl config view --raw --minify --flatten");
    Finding::new(Code::KubeconfigUnusable, message)
        .saw(place.clone(), format!("{field}-data {what}"))
        .remedy(remedy)
}

/// The key is another certificate's.
pub fn other_key(place: &Place) -> Finding {
    let what = "the client key does not belong to the client certificate";
    Finding::new(Code::KubeconfigUnusable, format!("{place}: {what}: kubectl cannot use them"))
        .saw(place.clone(), what)
        .remedy(super::lint::on_the_pi())
}

/// By its dates the API server refuses it.
pub fn dates(held: &ClientCertificate, dates: &Dates, whose: Whose) -> Finding {
    let place = &held.place;
    let then = if held.has_token { "; the token next to it may still be valid" } else { "" };
    let message = match dates {
        Dates::Expired(end) => format!("{place}: the client certificate expired on {end}{then}"),
        Dates::NotYet(begin) => format!("{place}: the client certificate is not valid before {begin}{then}"),
    };
    let remedy = match (dates, whose) {
        (Dates::NotYet(_), _) => {
            Remedy::new("compare the clocks of this machine and of the one that k3s runs on").command("timedatectl")
        }
        (Dates::Expired(_), Whose::K3s) => {
            Remedy::new("restart k3s, which renews what has expired and writes this file again")
                .command(RESTART_K3S)
        }
        (Dates::Expired(_), Whose::Copy) => Remedy::new(
            "take a new copy; if the file on the Pi has expired too, first restart k3s there: `sudo systemctl restart k3s`",
        )
        .command("weaver kubeconfig fetch USER@HOST"),
    };
    let finding = Finding::new(Code::CredentialsRefused, message)
        .saw(place.clone(), "client certificate")
        .remedy(remedy);
    if held.has_token { finding.milder(Severity::Warn) } else { finding }
}

#[cfg(test)]
mod tests {
    use super::super::pem::tests::{CERTIFICATE, KEY};
    use super::*;
    use proptest::prelude::*;

    fn found(cluster: &str, user: &str) -> (Option<ClientCertificate>, Vec<Finding>) {
        let text = format!(
            "current-context: a\ncontexts:\n- {{name: a, context: {{cluster: c, user: u}}}}\nclusters:\n\
             - {{name: c, cluster: {cluster}}}\nusers:\n- {{name: other, user: {{client-key-data: hunter2}}}}\n\
             - name: u\n  user: {user}\n"
        );
        let file = TextFile::new("/home/me/.kube/config", text);
        let read = |path: &Path| (path == Path::new("/home/me/.kube/me.crt")).then(|| "PEM".to_owned());
        let (certificate, findings) = find(&file, None, read);
        assert!(!format!("{certificate:?}{findings:?}").contains("hunter2"), "{findings:?}");
        (certificate, findings)
    }

    #[test]
    fn the_certificate_is_in_the_file_or_next_to_it() {
        let (held, findings) =
            found("{}", &format!("{{client-certificate-data: {CERTIFICATE}, client-key-data: {KEY}}}"));
        let held = held.unwrap();
        assert_eq!((held.place.line, findings.len()), (Some(9), 0));
        assert!(held.certificate.starts_with("-----BEGIN CERTIFICATE") && held.key.is_some());
        let (held, findings) = found("{}", "{client-certificate: me.crt, client-key: /gone}");
        let held = held.unwrap();
        assert!(!held.has_token);
        assert_eq!((held.certificate.as_str(), held.key, findings.len()), ("PEM", None, 0));
        for (token, has_token) in [
            ("token: hunter2", true),
            ("tokenFile: /t", true),
            ("token: REDACTED", false),
            ("token: ''", false),
        ] {
            let (held, _) = found("{}", &format!("{{client-certificate: me.crt, {token}}}"));
            assert_eq!(held.unwrap().has_token, has_token, "{token}");
        }
        for user in [
            "{token: hunter2}",
            "{client-certificate: /gone}",
            "{exec: {command: x}}",
            "{client-certificate-data: ''}",
        ] {
            assert_eq!(found("{}", user), (None, Vec::new()), "{user}");
        }
    }

    #[test]
    fn what_is_no_certificate_or_key_is_named_with_its_place() {
        let good = format!("{{client-certificate-data: {CERTIFICATE}, client-key-data: {KEY}}}");
        for (cluster, user, want) in [
            (
                "{certificate-authority-data: DATA+OMITTED}",
                good.as_str(),
                ":5:51: certificate-authority-data was left out",
            ),
            ("{}", "{token: REDACTED}", ":9:17: token was left out"),
            ("{}", "{client-certificate-data: REDACTED}", ":9:35: client-certificate-data was left out"),
            ("{}", "{client-key-data: DATA+OMITTED, token: hunter2}", ":9:27: client-key-data was left out"),
            (
                "{}",
                "{client-certificate-data: \"-----BEGIN CERTIFICATE-----\"}",
                "client-certificate-data is PEM",
            ),
            (
                "{}",
                "{client-certificate-data: aHVudGVyMg==}",
                "client-certificate-data is not the base64 of PEM",
            ),
            (
                "{}",
                &format!("{{client-key-data: {CERTIFICATE}}}"),
                "client-key-data is not the base64 of PEM",
            ),
            (
                "{}",
                &format!("{{client-certificate-data: {}}}", &CERTIFICATE[..40]),
                "is not the base64 of PEM, or is cut off",
            ),
        ] {
            let (_, findings) = found(cluster, user);
            assert_eq!(findings.len(), 1, "{cluster} {user}: {findings:?}");
            assert_eq!(findings[0].code, Code::KubeconfigUnusable);
            assert!(findings[0].message.contains(want), "{}", findings[0].message);
        }
    }

    #[test]
    fn the_remedy_is_by_whose_file_it_is() {
        let place = Place::line("/k", 3);
        let held = |has_token| {
            let (place, certificate) = (place.clone(), String::new());
            ClientCertificate { place, certificate, key: None, has_token }
        };
        let (expired, not_yet) =
            (Dates::Expired("2025-01-01".to_owned()), Dates::NotYet("2030-01-01".to_owned()));
        for (at, whose, says, command) in [
            (&expired, Whose::K3s, "expired on 2025-01-01", "sudo systemctl restart k3s"),
            (&expired, Whose::Copy, "expired on 2025-01-01", "weaver kubeconfig fetch USER@HOST"),
            (&not_yet, Whose::K3s, "not valid before 2030-01-01", "timedatectl"),
            (&not_yet, Whose::Copy, "not valid before 2030-01-01", "timedatectl"),
        ] {
            let finding = dates(&held(false), at, whose);
            assert!(finding.message.ends_with(says) && finding.code == Code::CredentialsRefused);
            assert_eq!(finding.severity(), Severity::Fail);
            assert_eq!(finding.remedy.unwrap().commands, [command]);
        }
        let with_token = dates(&held(true), &expired, Whose::Copy);
        assert!(with_token.message.ends_with("; the token next to it may still be valid"));
        assert_eq!(with_token.severity(), Severity::Warn);
        assert!(other_key(&place).message.starts_with("/k:3: the client key does not belong"));
    }

    proptest! {
        #[test]
        fn never_panics(data in "\\PC{0,20}|[A-Za-z0-9+/=]{0,40}") {
            let user = yaml_like(&data);
            let _ = found(&user, &user);
        }
    }

    fn yaml_like(data: &str) -> String {
        format!(
            "{{client-certificate-data: {data:?}, client-key-data: {data:?}, certificate-authority-data: {data:?}}}"
        )
    }
}
