//! Metrics, read as a scraper reads them.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::eventually;

/// What was told at one moment.
#[derive(Clone, Debug)]
pub struct Metrics(pub String);

impl Metrics {
    /// Of the operator that writes this log, in which it says where they are.
    pub async fn scrape(log: &Path) -> Self {
        let address = eventually("the operator says where its metrics are", || async {
            let log = std::fs::read_to_string(log).unwrap();
            let said = log.lines().rev().find(|line| line.contains("metrics are served"));
            let address = said.and_then(|line| line.split_once("address=")?.1.split_whitespace().next());
            address.map(str::to_owned).ok_or(log.len())
        })
        .await;
        Self::at(&address).await
    }

    /// What is told at this address.
    pub async fn at(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/openmetrics-text"), "{head}");
        Self(text.to_owned())
    }

    /// One series, by its name and labels as they are written; 0 where it is not told.
    #[must_use]
    pub fn value(&self, series: &str) -> u64 {
        self.0.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok()).unwrap_or_default()
    }

    /// The sum of a counter over all its labels.
    #[must_use]
    pub fn sum(&self, counter: &str) -> u64 {
        self.series(counter).map(|(_, value)| value).sum()
    }

    /// Requests to the API server by method, `watch` apart.
    #[must_use]
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
