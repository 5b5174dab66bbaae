//! What the operator counts, read as a scraper reads it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weaver_tests::world::{World, eventually, given};

/// The metrics of the operator under test; it logs where they are.
async fn scrape() -> String {
    let log = std::fs::read_to_string(given("WEAVER_TEST_OPERATOR_LOG")).unwrap();
    let line = log.lines().find(|line| line.contains("metrics are served")).expect("the address is logged");
    let address = line.split_once("address=").unwrap().1.split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/openmetrics-text"), "{head}");
    text.to_owned()
}

fn value(text: &str, series: &str) -> u64 {
    let of_series = |line: &str| line.strip_prefix(series).and_then(|rest| rest.trim().parse().ok());
    text.lines().find_map(of_series).unwrap_or_default()
}

#[tokio::test]
async fn work_is_counted_and_nobody_is_named() {
    let world = World::new("metrics").await;
    let (created, minted) =
        (r#"weaver_writes_total{change="Created"}"#, r#"weaver_tokens_total{result="Minted"}"#);
    let before = scrape().await;
    let (team, foo) = world.synced().await;
    let after = scrape().await;
    for series in [created, minted] {
        assert!(value(&after, series) > value(&before, series), "{series}\n{after}");
    }
    let watches = r#"weaver_requests_total{identity="Tenant",method="watch",code="2xx"}"#;
    assert!(value(&after, watches) > 0 && value(&after, "weaver_visit_seconds_count") > 0, "{after}");
    eventually("the states of this world are told", || async {
        let text = scrape().await;
        let told = value(&text, r#"weaver_targets{state="synced"}"#) > 0
            && value(&text, r#"weaver_resources{ready="true"}"#) > 0
            && value(&text, r#"weaver_watches{state="synced"}"#) > 0;
        if told { Ok(()) } else { Err(text) }
    })
    .await;
    assert!(!after.contains(&team) && !after.contains(&foo), "{after}");
    assert!(after.ends_with("# EOF\n"));
    world.finish().await;
}
