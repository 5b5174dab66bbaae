//! Prometheus' own checker of rules, which says whether an alert fires on what was scraped.
//!
//! Samples become the series of a rule test: a gauge has its last value throughout, and a counter grows evenly, so that
//! over the range of the alert's expression it grows by what came between the two scrapes. The state lasts for as long
//! as the alert's `for`, at the end of which `promtool` is asked.

use std::path::Path;
use std::process::Command;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::exposition::Sample;
use crate::monitoring::alerts;
use crate::tools;

/// Runs it in `deploy/monitoring`: whether it is content, and what it prints.
pub fn run(arguments: &[&str], test: Option<&Path>) -> (bool, String) {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring");
    let output = Command::new(tools::path("promtool/promtool"))
        .current_dir(rules)
        .args(arguments)
        .args(test)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Does this alert fire on what came between two scrapes, if it lasts?
pub fn fires(alert: &str, before: &[Sample], now: &[Sample]) -> bool {
    let rule = alerts().into_iter().find(|rule| rule.alert == alert);
    let rule = rule.unwrap_or_else(|| panic!("there is no alert {alert}"));
    let range = rule.expr.split_once('[').map_or(0, |(_, rest)| minutes(rest.split(']').next().unwrap()));
    let at = range + minutes(&rule.r#for);
    let series: Vec<Value> = now.iter().map(|sample| series(sample, before, range, at)).collect();
    let rules = format!("{}/../deploy/monitoring/alerts.yaml", env!("CARGO_MANIFEST_DIR"));
    let test = json!({
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": series,
            // With an alert that fires the test fails, and says which.
            "alert_rule_test": [{"alertname": rule.alert, "eval_time": format!("{at}m"), "exp_alerts": []}],
        }],
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.json");
    std::fs::write(&path, test.to_string()).unwrap();
    let (is_silent, said) = run(&["test", "rules"], Some(&path));
    let got = format!("alertname=\"{}\"", rule.alert);
    assert!(is_silent || said.split("got:").skip(1).any(|got_them| got_them.contains(&got)), "{said}");
    !is_silent
}

/// A moment on the clock of a rule test, which begins at 0.
fn on_the_tests_clock(moment: f64) -> f64 {
    // 0 is none.
    if moment > 0.0 { (moment - Timestamp::now().as_duration().as_secs_f64()).max(1.0) } else { 0.0 }
}

/// Of a series that is scraped for the first time no growth is known; a counter that is less than it was began at 0.
fn series(sample: &Sample, before: &[Sample], range: u64, at: u64) -> Value {
    let then = before.iter().find(|then| (&then.name, &then.labels) == (&sample.name, &sample.labels));
    let then = then.map_or(sample.value, |then| then.value);
    let values = if sample.name.ends_with("_total") && range > 0 {
        let start = if sample.value < then { 0.0 } else { then };
        #[allow(clippy::cast_precision_loss, reason = "some minutes")]
        let step = (sample.value - start) / range as f64;
        format!("{start}+{step}x{at}")
    } else if sample.name.ends_with("_expiry_timestamp_seconds") {
        format!("{}x{at}", on_the_tests_clock(sample.value))
    } else {
        format!("{}x{at}", sample.value)
    };
    let labels: Vec<String> =
        sample.labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    json!({"series": format!("{}{{{}}}", sample.name, labels.join(",")), "values": values})
}

fn minutes(duration: &str) -> u64 {
    let (number, unit) = duration.split_at(duration.len() - 1);
    let number: u64 = number.parse().unwrap();
    match unit {
        "m" => number,
        "h" => number * 60,
        _ => panic!("{duration} is neither in minutes nor in hours"),
    }
}

#[cfg(test)]
mod tests {
    use super::fires;
    use crate::exposition::samples;

    #[test]
    fn gauges_counters_new_series_and_restarts() {
        for (alert, before, now, want) in [
            ("WeaverTwoLeaders", "", "weaver_leading{i=\"1\"} 1\nweaver_leading{i=\"2\"} 1\n", true),
            ("WeaverTwoLeaders", "", "weaver_leading{i=\"1\"} 1\nweaver_leading{i=\"2\"} 0\n", false),
            ("WeaverNoLeader", "", "", true),
            (
                "WeaverMintingRefused",
                "weaver_tokens_total{result=\"forbidden\"} 3\n",
                "weaver_tokens_total{result=\"forbidden\"} 4\n",
                true,
            ),
            (
                "WeaverMintingRefused",
                "weaver_tokens_total{result=\"forbidden\"} 3\n",
                "weaver_tokens_total{result=\"forbidden\"} 3\n",
                false,
            ),
            ("WeaverMintingRefused", "", "weaver_tokens_total{result=\"forbidden\"} 3\n", false),
            (
                "WeaverMintingRefused",
                "weaver_tokens_total{result=\"forbidden\"} 3\n",
                "weaver_tokens_total{result=\"forbidden\"} 2\n",
                true,
            ),
            // 60 writes are allowed, and two for each target.
            (
                "WeaverWriteStorm",
                "weaver_writes_total{change=\"updated\"} 0\n",
                "weaver_writes_total{change=\"updated\"} 63\nweaver_targets{state=\"synced\"} 1\n",
                true,
            ),
            (
                "WeaverWriteStorm",
                "weaver_writes_total{change=\"updated\"} 0\n",
                "weaver_writes_total{change=\"updated\"} 61\nweaver_targets{state=\"synced\"} 1\n",
                false,
            ),
        ] {
            assert_eq!(fires(alert, &samples(before), &samples(now)), want, "{alert}: {now}");
        }
    }
}
