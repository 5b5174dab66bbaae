//! The release at an address that the user has configured: a directory that `make release` has filled.
//!
//! Guarantees: nothing is asked but this address and where its server redirects, which is never from `https` on to
//! `http`; each answer has at most 4 MiB, all of them together end after 30 s; with a key, no list is used before its
//! signature was verified. Failure: the address, and what to do; an address that is refused is not repeated, since it
//! may have a password in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use http::{StatusCode, Uri};
use serde::Serialize;
use tokio::time::timeout;
use weaver_diagnostics::kubeconfig_export::server_url::is_loopback;
use weaver_installer::download::{self, OtherAnswer};

use crate::connection::USER_AGENT;
use crate::verify::read_if_there;
use crate::verify::release::{LIMIT, PROVENANCE, ReadFile, Release, SIGNATURE, SUMS};
use crate::verify::signature::MinisignKey;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReleaseAddress {
    /// A URL without a slash at its end.
    Server(String),
    Directory(PathBuf),
}

impl fmt::Display for ReleaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(url) => f.write_str(url),
            Self::Directory(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What the release says of itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundRelease {
    pub address: String,
    pub version: String,
    /// The key that has signed it, where a key was given.
    pub signed_by: Option<String>,
}

/// The address of a release; plain HTTP only from this machine, or where a key proves what comes.
pub fn address(text: &str, has_key: bool) -> Result<ReleaseAddress, &'static str> {
    const FORM: &str = "write https://HOST/DIRECTORY or file:/DIRECTORY";
    if text.is_empty() {
        return Err("it is empty: without WEAVER_RELEASES and --releases no one is asked");
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("it has a blank or a control character in it");
    }
    if let Some(path) = text.strip_prefix("file:") {
        let path = Path::new(path.strip_prefix("//").unwrap_or(path));
        return if path.has_root() { Ok(ReleaseAddress::Directory(path.to_owned())) } else { Err(FORM) };
    }
    if text.contains(['?', '#']) {
        return Err("it has a `?` or a `#`: write the address of the directory alone");
    }
    let uri: Uri = text.parse().map_err(|_| FORM)?;
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else { return Err(FORM) };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("it has a user or a password in it, which is not sent: name an address that needs none");
    }
    match scheme {
        "https" => {}
        // Of an IPv6 address the host has its brackets.
        "http" if has_key || is_loopback(host.trim_matches(['[', ']'])) => {}
        "http" => return Err("anyone on the way can change what comes by http: use https, or pass --key"),
        _ => return Err(FORM),
    }
    Ok(ReleaseAddress::Server(text.trim_end_matches('/').to_owned()))
}

/// The version of the release that is there.
pub async fn look(at: &ReleaseAddress, key: Option<&MinisignKey>) -> anyhow::Result<FoundRelease> {
    let looking = timeout(PATIENCE, read(at, key));
    looking.await.with_context(|| format!("{at}: no whole answer within {} s", PATIENCE.as_secs()))?
}

async fn read(at: &ReleaseAddress, key: Option<&MinisignKey>) -> anyhow::Result<FoundRelease> {
    let list = at.file(SUMS).await?.with_context(|| {
        format!("there is no release at {at}, since it has no {SUMS}: name the directory that has one")
    })?;
    let signature = match key {
        None => None,
        Some(key) => {
            let name = format!("{SUMS}{SIGNATURE}");
            let file = at.file(&name).await?;
            Some((key, file.with_context(|| format!("the release at {at} is not signed: it has no {name}"))?))
        }
    };
    let provenance = at.file(PROVENANCE).await?;
    let signed = signature.as_ref().map(|(key, file)| (*key, file));
    let release = Release::judge(&list, signed, provenance.as_ref(), None)?;
    Ok(FoundRelease {
        address: at.to_string(),
        version: release.version()?.to_owned(),
        signed_by: key.map(|key| key.id.clone()),
    })
}

impl ReleaseAddress {
    /// A file of the release, if it is there.
    async fn file(&self, name: &str) -> anyhow::Result<Option<ReadFile>> {
        let url = match self {
            Self::Directory(path) => return read_if_there(&path.join(name)),
            Self::Server(url) => url,
        };
        let at = format!("{url}/{name}");
        match download::whole(&at, USER_AGENT, LIMIT).await {
            Ok(bytes) => Ok(Some(ReadFile { at, bytes })),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    let answer = error.downcast_ref::<OtherAnswer>();
    answer.is_some_and(|OtherAnswer(status)| [StatusCode::NOT_FOUND, StatusCode::GONE].contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_directory_and_protected() {
        let server = |url: &str| Ok(ReleaseAddress::Server(url.to_owned()));
        for (text, has_key, want) in [
            ("https://files.example.com/latest/", false, server("https://files.example.com/latest")),
            ("https://files.example.com", false, server("https://files.example.com")),
            ("http://127.0.0.1:8000/x", false, server("http://127.0.0.1:8000/x")),
            ("http://[::1]:8000", false, server("http://[::1]:8000")),
            ("http://localhost/x", false, server("http://localhost/x")),
            ("http://nas.lan/x", true, server("http://nas.lan/x")),
            ("file:/media/usb/dist", false, Ok(ReleaseAddress::Directory("/media/usb/dist".into()))),
            ("file:///media/usb/dist", false, Ok(ReleaseAddress::Directory("/media/usb/dist".into()))),
        ] {
            assert_eq!(address(text, has_key), want, "{text}");
        }
        for (text, why) in [
            ("", "it is empty"),
            ("http://nas.lan/x", "use https, or pass --key"),
            ("http://127.0.0.1.example.com/", "use https, or pass --key"),
            ("http://localhost.example.com/", "use https, or pass --key"),
            ("https://me:hunter2@files.example.com/", "a user or a password"),
            ("https://hunter2@files.example.com/", "a user or a password"),
            ("https://files.example.com/?token=hunter2", "a `?`"),
            ("https://files.example.com/a b", "a blank"),
            ("https://files.example.com/\u{1b}[2J", "a control character"),
            ("ftp://files.example.com/", "write https://HOST/DIRECTORY"),
            ("files.example.com/latest", "write https://HOST/DIRECTORY"),
            ("latest", "write https://HOST/DIRECTORY"),
            ("https://", "write https://HOST/DIRECTORY"),
            ("file:dist", "file:/DIRECTORY"),
            ("file://nas/dist", "file:/DIRECTORY"),
        ] {
            let said = address(text, false).unwrap_err();
            assert!(said.contains(why) && !said.contains("hunter2"), "{text}: {said}");
        }
    }
}
