//! Fetches a file of a release over HTTPS, with the TLS library of the programs: a card has no curl.
//!
//! Guarantees: never from `https` on to `http`; a silent server ends it. Failure: one line that names the address. The
//! content must not be used before its hash or its signature was verified.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use kube::{Client, Config, client::Body};
use weaver_host::progress::Progress;

const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);
/// A release is one away from where its files are.
const REDIRECTIONS: usize = 5;

/// The server has answered, and not with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server answered {0}")]
pub struct OtherAnswer(pub StatusCode);

/// Passes each part of the file at `address` to `take`; the program names itself as `user_agent`.
///
/// # Errors
/// It cannot be fetched whole, or taken.
pub async fn fetch(
    address: &str,
    user_agent: &str,
    mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let answer = open(address, user_agent).await.with_context(|| format!("cannot fetch {address}"))?;
    let length =
        answer.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let progress = Progress::of_bytes(address, length);
    let mut body = answer.into_body();
    while let Some(part) = body.frame().await {
        let part = part.with_context(|| format!("{address}: the download broke off"))?;
        if let Ok(bytes) = part.into_data() {
            take(&bytes)?;
            progress.more(bytes.len() as u64);
        }
    }
    Ok(())
}

/// The whole file at `address`, which has at most so many bytes.
///
/// # Errors
/// It cannot be fetched, or is longer.
pub async fn whole(address: &str, user_agent: &str, most: usize) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    let take = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        ensure!(all.len() <= most, "{address} has more than {} KiB", most >> 10);
        Ok(())
    };
    fetch(address, user_agent, take).await?;
    Ok(all)
}

async fn open(address: &str, user_agent: &str) -> anyhow::Result<Response<Body>> {
    let mut uri: Uri = address.parse().context("it is not a URL")?;
    for _ in 0..REDIRECTIONS {
        let answer = ask(&uri, user_agent).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        ensure!(answer.status().is_redirection(), OtherAnswer(answer.status()));
        let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        let to: Uri = to.and_then(|to| to.parse().ok()).context("the server redirects without an address")?;
        uri = next(uri, to)?;
    }
    bail!("too many redirects")
}

/// Where a redirect from `uri` leads. A query may be a signature, so none is in the error.
fn next(uri: Uri, to: Uri) -> anyhow::Result<Uri> {
    if to.authority().is_none() && to.path().starts_with('/') {
        let mut parts = uri.into_parts();
        parts.path_and_query = to.into_parts().path_and_query;
        return Uri::from_parts(parts).context("the server redirects without an address");
    }
    let scheme = |uri: &Uri| uri.scheme_str().unwrap_or("no scheme").to_owned();
    let (from, onto) = (scheme(&uri), scheme(&to));
    ensure!(from == onto, "the server redirects from {from} to {onto} at {}", to.host().unwrap_or("no host"));
    Ok(to)
}

/// kube's client works with any server: with the system's trust anchors unless it is given others.
async fn ask(uri: &Uri, user_agent: &str) -> anyhow::Result<Response<Body>> {
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).context("it is not a complete URL")?;
    let mut config = Config::new(format!("{scheme}://{authority}").parse()?);
    (config.connect_timeout, config.read_timeout) = (Some(CONNECT), Some(SILENCE));
    // A user who waits wants an immediate answer.
    config.default_retry = false;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(header::USER_AGENT, user_agent).body(Body::empty())?;
    Ok(Client::try_from(config)?.send(request).await?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    const MOST: usize = 64 * 1024;

    /// Gives one of these answers a request, in their order; where it is.
    fn server(answers: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let here = address.clone();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    asked.push(byte[0]);
                }
                let path = String::from_utf8(asked).unwrap().split(' ').nth(1).unwrap().to_owned();
                let answer = answer.replace("HERE", &here).replace("ASKED", &path);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    fn answer(status: &str, headers: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    async fn reported(answers: Vec<String>) -> Result<String, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = format!("{}/download/v1.36.4%2Bk3s1/sums.txt", server(answers));
        let got = whole(&address, "weaver-test", MOST).await;
        got.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn the_address_is_asked_as_it_is_and_a_redirection_is_followed() {
        let moved = answer("302 Found", "Location: HERE/elsewhere?signature=a%2Fb\r\n", "");
        assert_eq!(reported(vec![moved, answer("200 OK", "", "abc")]).await.as_deref(), Ok("abc"));
        let on_the_server = answer("302 Found", "Location: /elsewhere?signature=a%2Fb\r\n", "");
        assert_eq!(reported(vec![on_the_server, answer("200 OK", "", "abc")]).await.as_deref(), Ok("abc"));
    }

    #[tokio::test]
    async fn what_goes_wrong_is_reported_in_one_line_with_the_address() {
        let forever = answer("302 Found", "Location: HERE/again\r\n", "");
        for (answers, want) in [
            (vec![answer("404 Not Found", "", "no")], "the server answered 404 Not Found"),
            (vec![answer("302 Found", "", "")], "the server redirects without an address"),
            (
                vec![answer("302 Found", "Location: https://127.0.0.1:1/?signature=x\r\n", "")],
                "redirects from http to https at 127.0.0.1",
            ),
            (vec![forever; REDIRECTIONS], "too many redirects"),
            (vec![answer("200 OK", "", "abc").replace("Length: 3", "Length: 9")], "the download broke off"),
            (vec![answer("200 OK", "", &"a".repeat(MOST + 1))], "has more than 64 KiB"),
            (vec![], "cannot fetch http://127.0.0.1"),
        ] {
            let error = reported(answers).await.unwrap_err();
            assert!(
                error.contains(want) && error.contains("/download/v1.36.4%2Bk3s1/sums.txt"),
                "{error} {want}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(!error.contains("signature"), "{error}");
        }
    }
}
