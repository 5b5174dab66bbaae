//! What the operator counts, read as a scraper reads it.

use weaver_tests::metrics::ReportedMetrics;
use weaver_tests::world::{World, eventually, given};

#[tokio::test]
async fn work_is_counted_and_no_one_is_named() {
    let world = World::new("metrics").await;
    let log = given("WEAVER_TEST_OPERATOR_LOG");
    let (created, minted) =
        (r#"weaver_writes_total{change="created"}"#, r#"weaver_tokens_total{result="minted"}"#);
    let before = ReportedMetrics::scrape(&log).await;
    let (team, foo) = world.synced().await;
    let after = ReportedMetrics::scrape(&log).await;
    for series in [created, minted] {
        assert!(after.value(series) > before.value(series), "{series}\n{}", after.0);
    }
    let watches = r#"weaver_requests_total{identity="tenant",method="watch",code="2xx"}"#;
    assert!(
        after.value(watches) > 0 && after.value("weaver_reconciliation_seconds_count") > 0,
        "{}",
        after.0
    );
    eventually("the states of this world are in the metrics", || async {
        let now = ReportedMetrics::scrape(&log).await;
        let reported = now.value(r#"weaver_targets{state="synced"}"#) > 0
            && now.value(r#"weaver_resources{ready="true"}"#) > 0
            && now.value(r#"weaver_watches{state="synced"}"#) > 0;
        if reported { Ok(()) } else { Err(now.0) }
    })
    .await;
    assert!(!after.0.contains(&team) && !after.0.contains(&foo), "{}", after.0);
    assert!(after.0.ends_with("# EOF\n"));
    world.finish().await;
}
