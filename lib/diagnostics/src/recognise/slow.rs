//! A datastore that is too slow for leases.

use super::details::{Details, after, has_any};

/// Shorter ones are ordinary at a first start, and no lease is lost by one.
const LEASE: f64 = 10.0;

/// As Go writes a time: `1.677823309s`, `1m2.5s`, `812ms`.
fn seconds(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.split_once('m').filter(|(_, rest)| *rest != "s").unwrap_or(("0", text));
    let seconds = seconds.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok())?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds)
}

/// Of Kubernetes, by namespace and name; HDFS and others have leases too.
pub(super) fn lease(line: &str) -> Option<Details> {
    after(line, "ailed to renew lease ", &[' ', ':'])?.contains('/').then(Details::default)
}

/// Statements that are run in the background, for which no lease waits.
const BACKGROUND: &[&str] = &["COMPACT", "DELETE ", "PRAGMA ", "VACUUM"];

/// `Slow SQL (started: …) (total time: 12.6s): SELECT …`, or `Slow SQL: SELECT …" duration=12.6s started=…`.
pub(super) fn database(line: &str) -> Option<Details> {
    let took = after(line, "total time: ", &[')']).or_else(|| after(line, "duration=", &[' ', '"']))?;
    let took = seconds(took).filter(|took| *took >= LEASE)?;
    let (_, rest) = line.split_once("total time: ").or_else(|| line.split_once("low SQL"))?;
    let (_, statement) = rest.split_once(": ")?;
    if BACKGROUND.iter().any(|first| statement.trim_start().starts_with(first)) {
        return None;
    }
    Some(Details::message(format!(
        "a statement of k3s' database took {took:.0} s; leases are lost after 10 s, and it needs writes of at most 10 ms"
    )))
}

/// SQLite gives up a write that waited for another one. Others have such a database, too: who speaks is a part of
/// Kubernetes.
pub(super) fn locked(line: &str) -> Option<Details> {
    let is_of_kubernetes = has_any(line, &["level=", "k3s", "Error from server", ".go:"]);
    is_of_kubernetes.then(waits)
}

fn waits() -> Details {
    Details::message(
        "writes to k3s' database wait for each other until they are given up: the disk is too slow for them",
    )
}

/// kine's own log. k3s#11269, k3s#1242
pub(super) fn locked_for_kine(line: &str) -> Option<Details> {
    has_any(line, &["Compact failed", "failed to delete revision", "range on /registry/", "error in txn"])
        .then(waits)
}

/// etcd warns from 100 ms on, which is ordinary for a card.
pub(super) fn etcd(line: &str) -> Option<Details> {
    let took = seconds(after(line, "\"took\":\"", &['"'])?)?;
    // It elects another leader when a second has passed; a card takes some.
    (took >= LEASE / 2.0).then(|| {
        Details::message(format!("etcd waited {took:.0} s for the disk; it needs writes of at most 10 ms"))
    })
}

/// By how much etcd's leader was late with its heartbeat to the other servers: they elect another one after a second.
pub(super) fn heartbeat(line: &str) -> Option<Details> {
    let late = seconds(after(line, "\"exceeded-duration\":\"", &['"'])?)?;
    (late >= LEASE / 2.0).then(|| {
        Details::message(format!(
            "etcd was {late:.0} s late with its heartbeat, because the disk or the board is too slow"
        ))
    })
}

/// A lease that a part of k3s wants and does not get, in words that stand there once at each start.
pub(super) fn lock(line: &str) -> Option<Details> {
    let is_silent = has_any(
        line,
        &["deadline exceeded", "Client.Timeout exceeded", "i/o timeout", "request timed out", "timed out"],
    );
    (is_silent && line.contains("127.0.0.1:64"))
        .then(|| Details::message("the API server does not answer in time, and leases are being lost"))
}

pub(super) fn not_ready(_: &str) -> Details {
    Details::message("k3s gave up because its API server was not ready in time")
}

/// A request that the API server traced because it took long: `(total time: 10006ms)`.
pub(super) fn trace(line: &str) -> Option<Details> {
    // A client times its own wait, also where nothing answers: `"Reflector ListAndWatch"
    // name:…/tools/cache/reflector.go:231`.
    if !line.contains("Trace[") || line.contains("/reflector.go:") || line.contains("/factory.go:") {
        return None;
    }
    let took = after(line, "total time: ", &[')'])?.strip_suffix("ms")?.parse::<f64>().ok()? / 1000.0;
    (took >= LEASE).then(|| Details::message(format!("the API server took {took:.0} s for one request")))
}
