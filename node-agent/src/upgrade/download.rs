//! Fetches a file of a release, with the TLS library of this program: the card has no curl.
//!
//! Guarantees: never from `https` on to `http`; a silent server ends it. Failure: one line that names the address. The
//! content must not be used before its hash was verified.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::{Request, Response, Uri, header};
use http_body_util::BodyExt as _;
use kube::{Client, Config, client::Body};
use weaver_host::progress::Progress;

const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);
/// A release is one away from where its files are.
const REDIRECTIONS: usize = 5;
/// Bytes of a file that is read as text.
const TEXT: usize = 64 * 1024;

/// Passes each part of the file at `address` to `take`.
///
/// # Errors
/// It cannot be fetched whole, or taken.
pub async fn fetch(address: &str, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let answer = open(address).await.with_context(|| format!("cannot fetch {address}"))?;
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

/// The text at `address`.
///
/// # Errors
/// It cannot be fetched, or is none.
pub async fn text(address: &str) -> anyhow::Result<String> {
    let mut all = Vec::new();
    let take = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        ensure!(all.len() <= TEXT, "{address} is too long for a list of hashes");
        Ok(())
    };
    fetch(address, take).await?;
    String::from_utf8(all).with_context(|| format!("{address} is not text"))
}

async fn open(address: &str) -> anyhow::Result<Response<Body>> {
    let mut uri: Uri = address.parse().context("it is not a URL")?;
    for _ in 0..REDIRECTIONS {
        let answer = ask(&uri).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        ensure!(answer.status().is_redirection(), "the server answered {}", answer.status());
        let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        let next: Uri =
            to.and_then(|to| to.parse().ok()).context("the server redirects without an address")?;
        ensure!(next.scheme() == uri.scheme(), "the server redirects from {:?} to {next}", uri.scheme_str());
        uri = next;
    }
    bail!("too many redirects")
}

/// kube's client works with any server: with the system's trust anchors unless it is given others.
async fn ask(uri: &Uri) -> anyhow::Result<Response<Body>> {
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).context("it is not a complete URL")?;
    let mut config = Config::new(format!("{scheme}://{authority}").parse()?);
    (config.connect_timeout, config.read_timeout) = (Some(CONNECT), Some(SILENCE));
    // A user who waits wants an immediate answer.
    config.default_retry = false;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(header::USER_AGENT, "weaver-node-agent").body(Body::empty())?;
    Ok(Client::try_from(config)?.send(request).await?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

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
        text(&address).await.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn the_address_is_asked_as_it_is_and_a_redirection_is_followed() {
        let moved = answer("302 Found", "Location: HERE/elsewhere?signature=a%2Fb\r\n", "");
        assert_eq!(reported(vec![moved, answer("200 OK", "", "abc")]).await.as_deref(), Ok("abc"));
    }

    #[tokio::test]
    async fn what_goes_wrong_is_reported_in_one_line_with_the_address() {
        let forever = answer("302 Found", "Location: HERE/again\r\n", "");
        for (answers, want) in [
            (vec![answer("404 Not Found", "", "no")], "the server answered 404 Not Found"),
            (vec![answer("302 Found", "", "")], "the server redirects without an address"),
            (
                vec![answer("302 Found", "Location: https://127.0.0.1:1/\r\n", "")],
                "redirects from Some(\"http\") to",
            ),
            (vec![forever; REDIRECTIONS], "too many redirects"),
            (vec![answer("200 OK", "", "abc").replace("Length: 3", "Length: 9")], "the download broke off"),
            (vec![answer("200 OK", "", &"a".repeat(TEXT + 1))], "too long for a list of hashes"),
            (vec![], "cannot fetch http://127.0.0.1"),
        ] {
            let error = reported(answers).await.unwrap_err();
            assert!(
                error.contains(want) && error.contains("/download/v1.36.4%2Bk3s1/sums.txt"),
                "{error} {want}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
