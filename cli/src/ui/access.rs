//! Who may request a page. Pure, but for the secrets, which are random.
//!
//! Every program of this machine can connect to a page on the loopback interface, and so can each web page in a browser
//! on it. Guarantees: without a secret that is only printed, the only answer is a refusal. The address works once; from
//! then on a cookie is the credential, which the browser sends only to these pages: a cookie has no port, so its path
//! is random. `Host` keeps out names that an attacker points here (DNS rebinding), `Origin` and `Sec-Fetch-Site`
//! requests of other pages.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use axum::http::{HeaderMap, Method, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

const COOKIE: &str = "weaver-ui";
/// The header in which the browser says which site the request comes from.
const SITE: &str = "sec-fetch-site";
/// Random bytes of each secret.
const RANDOM: usize = 32;

/// What opens the pages of one run.
pub struct UiAccess {
    hosts: Vec<String>,
    /// The path prefix of every page, with `/` at both ends.
    pub prefix: String,
    /// In every page and in no request: what the next program at this port cannot know.
    pub run: String,
    token: String,
    session: String,
    is_used: AtomicBool,
}

#[derive(Debug, Eq, PartialEq)]
pub enum RequestAdmission {
    /// It has the cookie.
    Allowed,
    /// It has the token of the address, for the first time: it gets the cookie.
    First,
    Refused(Denial),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Denial {
    /// It names another host.
    Host,
    /// It comes from another page.
    Origin,
    /// Its token was used before.
    Used,
    /// It has no credential.
    Credential,
}

impl Denial {
    pub fn why(self) -> &'static str {
        match self {
            Self::Host => "this page is served to 127.0.0.1 and localhost only",
            Self::Origin => "another page asked for this one",
            Self::Used => {
                "this address was opened before, and works once; if that was not you, end `weaver ui` with Ctrl-C"
            }
            Self::Credential => "no valid cookie, and no token in the address",
        }
    }
}

/// The values of a browser's `Host`: it leaves out the default port.
fn hosts(port: u16) -> Vec<String> {
    let names = ["127.0.0.1", "localhost"];
    let usual = names.iter().filter(|_| port == 80).map(|name| (*name).to_owned());
    usual.chain(names.map(|name| format!("{name}:{port}"))).collect()
}

impl UiAccess {
    pub fn new(port: u16) -> anyhow::Result<Self> {
        let (prefix, token, session) = (random()?, random()?, random()?);
        Ok(Self {
            run: random()?,
            hosts: hosts(port),
            prefix: format!("/{prefix}/"),
            token,
            session,
            is_used: AtomicBool::new(false),
        })
    }

    /// The address that a user opens.
    pub fn address(&self) -> String {
        format!("http://{}{}?token={}", self.hosts[0], self.prefix, self.token)
    }

    /// The cookie, as the answer to the first request sets it.
    pub fn cookie(&self) -> String {
        format!("{COOKIE}={}; Path={}; HttpOnly; SameSite=Strict", self.session, self.prefix)
    }

    /// Judges a request by its head.
    pub fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> RequestAdmission {
        match self.judge(method, uri, headers) {
            // Of two at once, only one is the first.
            RequestAdmission::First if self.is_used.swap(true, Ordering::SeqCst) => {
                RequestAdmission::Refused(Denial::Used)
            }
            admission => admission,
        }
    }

    fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> RequestAdmission {
        let Some(host) = self.host(uri, headers) else { return RequestAdmission::Refused(Denial::Host) };
        if !is_own_origin(headers, host) {
            return RequestAdmission::Refused(Denial::Origin);
        }
        let is_here = uri.path().starts_with(&self.prefix);
        if is_here && self.has_cookie(headers) {
            // Browsers define a site by its host, whatever its port.
            let is_own_site = all(headers, SITE).is_none_or(|site| matches!(site, "same-origin" | "none"));
            let says_origin = headers.contains_key(header::ORIGIN);
            return if is_own_site && (says_origin || *method != Method::POST) {
                RequestAdmission::Allowed
            } else {
                RequestAdmission::Refused(Denial::Origin)
            };
        }
        let token = uri.query().and_then(|query| query.strip_prefix("token="));
        match token {
            Some(token) if is_here && *method == Method::GET && is_equal(token, &self.token) => {
                if self.is_used.load(Ordering::SeqCst) {
                    RequestAdmission::Refused(Denial::Used)
                } else {
                    RequestAdmission::First
                }
            }
            _ => RequestAdmission::Refused(Denial::Credential),
        }
    }

    /// The requested host, if it is one of ours, in whichever part of the request it is.
    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Option<&str> {
        let host = all(headers, header::HOST.as_str())?;
        if uri.authority().is_some_and(|authority| authority.as_str() != host) {
            return None;
        }
        self.hosts.iter().find(|own| *own == host).map(String::as_str)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies =
            values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        cookies.filter(|(name, _)| *name == COOKIE).any(|(_, value)| is_equal(value, &self.session))
    }
}

/// The one value of a header; one that is there twice, or is no text, is as good as a wrong one.
fn all<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().unwrap_or_default();
    Some(if values.next().is_some() { "" } else { value })
}

fn is_own_origin(headers: &HeaderMap, host: &str) -> bool {
    all(headers, header::ORIGIN.as_str()).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

/// Compares in constant time.
fn is_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// A new secret, as text for an address.
pub fn random() -> anyhow::Result<String> {
    let mut bytes = [0; RANDOM];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).ok().context("this system has no random numbers")?;
    ensure!(bytes != [0; RANDOM], "this system has no random numbers");
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const HOST: (&str, &str) = ("host", "127.0.0.1:4000");

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
        });
        pairs.collect()
    }

    fn twice(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn refused(why: Denial) -> RequestAdmission {
        RequestAdmission::Refused(why)
    }

    #[test]
    fn the_address_works_once_and_then_the_cookie() {
        let access = UiAccess::new(4000).unwrap();
        let uri: Uri = access.address().strip_prefix("http://127.0.0.1:4000").unwrap().parse().unwrap();
        let first = |headers: &HeaderMap| access.admit(&Method::GET, &uri, headers);
        assert_eq!(first(&headers(&[("host", "evil.test:4000")])), refused(Denial::Host));
        assert_eq!(first(&headers(&[HOST, ("origin", "http://evil.test")])), refused(Denial::Origin));
        // From a file that leads here, and typed into another program.
        assert_eq!(first(&headers(&[HOST, (SITE, "cross-site")])), RequestAdmission::First);
        assert_eq!(first(&headers(&[HOST])), refused(Denial::Used));
        let cookie = access.cookie();
        let cookie = cookie.split(';').next().unwrap();
        assert_eq!(first(&headers(&[HOST, ("cookie", cookie)])), RequestAdmission::Allowed, "opened again");
        assert!(access.cookie().ends_with(&format!("Path={}; HttpOnly; SameSite=Strict", access.prefix)));
    }

    #[test]
    fn who_may_ask() {
        let access = UiAccess::new(4000).unwrap();
        let secret = format!("weaver-ui={}", access.session);
        let cookie = ("cookie", secret.as_str());
        let two = format!("a=b; weaver-ui=wrong; {secret}");
        let own = ("origin", "http://127.0.0.1:4000");
        for (method, pairs, expected) in [
            (Method::GET, vec![HOST, cookie], RequestAdmission::Allowed),
            (Method::GET, vec![("host", "localhost:4000"), cookie], RequestAdmission::Allowed),
            (Method::GET, vec![HOST, ("cookie", two.as_str())], RequestAdmission::Allowed),
            (Method::GET, vec![HOST, cookie, (SITE, "same-origin")], RequestAdmission::Allowed),
            (Method::POST, vec![HOST, cookie, own], RequestAdmission::Allowed),
            (Method::GET, vec![HOST], refused(Denial::Credential)),
            (Method::GET, vec![HOST, ("cookie", "weaver-ui=")], refused(Denial::Credential)),
            (Method::GET, vec![cookie], refused(Denial::Host)),
            (Method::GET, vec![("host", "127.0.0.1"), cookie], refused(Denial::Host)),
            (Method::GET, vec![("host", "evil.test:4000"), cookie], refused(Denial::Host)),
            (Method::GET, vec![("host", "127.0.0.1:4000.evil.test"), cookie], refused(Denial::Host)),
            (Method::GET, vec![HOST, HOST, cookie], refused(Denial::Host)),
            (Method::GET, vec![HOST, cookie, (SITE, "same-site")], refused(Denial::Origin)),
            (Method::GET, vec![HOST, cookie, (SITE, "cross-site")], refused(Denial::Origin)),
            (Method::POST, vec![HOST, cookie], refused(Denial::Origin)),
            (Method::POST, vec![HOST, cookie, ("origin", "null")], refused(Denial::Origin)),
            (Method::POST, vec![HOST, cookie, ("origin", "https://127.0.0.1:4000")], refused(Denial::Origin)),
            (Method::POST, vec![HOST, cookie, ("origin", "http://127.0.0.1:4001")], refused(Denial::Origin)),
            (Method::POST, vec![HOST, cookie, ("origin", "http://localhost:4000")], refused(Denial::Origin)),
            (Method::POST, vec![HOST, cookie, own, own], refused(Denial::Origin)),
        ] {
            let uri: Uri = access.prefix.parse().unwrap();
            assert_eq!(access.admit(&method, &uri, &twice(&pairs)), expected, "{method} {pairs:?}");
        }
    }

    #[test]
    fn nothing_is_answered_outside_of_the_prefix_or_to_an_address_with_another_host() {
        let access = UiAccess::new(4000).unwrap();
        let secret = format!("weaver-ui={}", access.session);
        let token = format!("/?token={}", access.token);
        let of = |uri: &str| {
            access.admit(&Method::GET, &uri.parse().unwrap(), &headers(&[HOST, ("cookie", &secret)]))
        };
        assert_eq!(of("/"), refused(Denial::Credential));
        assert_eq!(of(&token), refused(Denial::Credential));
        assert_eq!(of("/favicon.ico"), refused(Denial::Credential));
        assert_eq!(of(&format!("http://evil.test{}", access.prefix)), refused(Denial::Host));
        assert_eq!(of(&format!("http://127.0.0.1:4000{}", access.prefix)), RequestAdmission::Allowed);
    }

    #[test]
    fn no_two_runs_have_a_secret_in_common() {
        let (one, other) = (UiAccess::new(1).unwrap(), UiAccess::new(1).unwrap());
        let all = [&one.token, &one.session, &one.prefix, &other.token, &other.session, &other.prefix];
        assert!(all.iter().collect::<std::collections::BTreeSet<_>>().len() == 6);
        assert!(all.iter().all(|secret| secret.len() >= 43));
        assert!(!is_equal("", &one.token) && !is_equal(&one.token[..42], &one.token));
    }

    #[test]
    fn at_the_usual_port_a_browser_says_none() {
        assert_eq!(hosts(81), ["127.0.0.1:81", "localhost:81"]);
        assert_eq!(hosts(80), ["127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"]);
    }
}
