//! Metrics, read as a scraper reads them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::eventually;

/// Head and body of the answer of the operator that writes this log, where it says last that it is served. What was
/// started again may not have said so yet.
async fn get(log: &Path, path: &str) -> (String, String) {
    eventually("the operator answers where it says that its metrics are", || async {
        let log = std::fs::read_to_string(log).unwrap();
        let said = log.lines().rev().find(|line| line.contains("metrics are served"));
        let address = said.and_then(|line| line.split_once("address=")?.1.split_whitespace().next());
        get_at(address.ok_or_else(|| log.clone())?, path).await.map_err(|error| error.to_string())
    })
    .await
}

/// Head and body of the answer.
async fn get_at(address: &str, path: &str) -> io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    Ok((head.to_owned(), text.to_owned()))
}

/// What the operator that writes this log says of its health at `path`, and whether it says that all is well.
pub async fn health(log: &Path, path: &str) -> (bool, Value) {
    let (head, text) = get(log, path).await;
    let code = head.split(' ').nth(1).unwrap();
    assert!(["200", "503"].contains(&code), "{head}");
    (code == "200", serde_json::from_str(&text).unwrap())
}

/// What was reported at one moment.
#[derive(Clone, Debug)]
pub struct ReportedMetrics(pub String);

impl ReportedMetrics {
    /// Of the operator that writes this log, in which it says where they are.
    pub async fn scrape(log: &Path) -> Self {
        Self::of(&get(log, "/metrics").await)
    }

    /// What is reported at this address.
    pub async fn at(address: &str) -> Self {
        Self::of(&get_at(address, "/metrics").await.unwrap())
    }

    fn of((head, text): &(String, String)) -> Self {
        assert!(head.contains("application/openmetrics-text"), "{head}");
        Self(text.clone())
    }

    /// One series, by its name and labels as they are written; 0 if it is not exported.
    pub fn value(&self, series: &str) -> u64 {
        self.0.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok()).unwrap_or_default()
    }

    /// The sum of a counter over all its labels.
    pub fn sum(&self, counter: &str) -> u64 {
        self.series(counter).map(|(_, value)| value).sum()
    }

    /// Requests to the API server by method, `watch` counted separately.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let mut by_method = BTreeMap::new();
        for (labels, value) in self.series("weaver_requests_total") {
            let method = labels.split_once("method=\"").and_then(|(_, rest)| rest.split('"').next());
            *by_method.entry(method.unwrap_or_default().to_owned()).or_default() += value;
        }
        by_method
    }

    fn series<'a>(&'a self, counter: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        self.0.lines().filter_map(move |line| {
            let (labels, value) = line.strip_prefix(counter)?.rsplit_once(' ')?;
            Some((labels, value.parse().ok()?))
        })
    }
}
