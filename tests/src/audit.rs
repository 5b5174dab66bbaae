//! What the API server's audit log must say of every scenario, whatever else it tests.

use std::path::Path;

use serde_json::Value;

use crate::poll::eventually;
use crate::rbac;

/// Name of every tenant's account here.
pub const ACCOUNT: &str = "sync";
/// User of the operator's own requests.
const OPERATOR: &str = "system:serviceaccount:config-weaver:weaver-operator";

/// Checks the log for a world with these namespaces, of which `tenants` hold ConfigMapSyncs:
/// 1. the operator's own account never asked for a ConfigMap or a Secret, anywhere;
/// 2. each such request of the operator's program in this world was made by an account of one of its tenants;
/// 3. each that was for all namespaces at once was made by an account that tenants have, in whichever world;
/// 4. the log saw this world at all, so that silence is not mistaken for innocence;
/// 5. whatever the operator's own account asked for, anywhere, its manifest grants, or it is a token.
pub async fn check(log: &Path, namespaces: &[String], tenants: &[String]) {
    let events = eventually("the audit log has seen this world", || async {
        let events = events(log);
        let seen = events.iter().any(|event| namespaces.iter().any(|name| target(event) == Some(name)));
        if seen { Ok(events) } else { Err(events.len()) }
    })
    .await;
    let granted = rbac::granted();
    for event in own(&events).filter(|event| !is_minting(event)) {
        assert!(
            granted.iter().any(|right| right.covers(event)),
            "nothing grants the operator this: {event:#}"
        );
    }
    for event in events.iter().filter(|event| is_content(event)) {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        assert_ne!(user, OPERATOR, "the operator itself asked for content: {event:#}");
        // A token of a deleted account is no identity at all, and gets nothing but a 401.
        let refused = event["responseStatus"]["code"] == 401;
        if is_operators_program(event) && target(event).is_none() && !refused {
            let of_a_tenant =
                user.starts_with("system:serviceaccount:") && user.ends_with(&format!(":{ACCOUNT}"));
            assert!(of_a_tenant, "content of all namespaces was asked for by a stranger: {event:#}");
        }
        let here = target(event).is_some_and(|name| namespaces.iter().any(|known| known == name));
        if is_operators_program(event) && here && !refused {
            let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split(':').next());
            assert!(
                account.is_some_and(|namespace| tenants.iter().any(|known| known == namespace)),
                "content of this world was asked for by a stranger: {event:#}"
            );
        }
    }
}

/// How often the operator's program has asked for `verb` on a `ConfigMap` of `namespace`.
#[must_use]
pub fn requests(log: &Path, namespace: &str, verb: &str) -> usize {
    let events = events(log);
    let of_interest = |event: &&Value| {
        is_operators_program(event)
            && is_content(event)
            && target(event) == Some(namespace)
            && event["verb"] == verb
    };
    events.iter().filter(of_interest).count()
}

/// The operators of this server that have changed anything, in the order of their first writes. Their leases are apart,
/// and so is what changes nothing: a token that was minted, a question about rights.
///
/// One that wrote after another had begun to is a failure: two have written at once.
#[must_use]
pub fn writers_in_turn(log: &Path) -> Vec<String> {
    let events = events(log);
    let is_write = |event: &&Value| {
        let verb = event["verb"].as_str().unwrap_or_default();
        let what = event["objectRef"]["resource"].as_str().unwrap_or_default();
        is_operators_program(event)
            && ["create", "update", "patch", "delete"].contains(&verb)
            && ["configmaps", "secrets", "configmapsyncs", "servicetokens", "events"].contains(&what)
    };
    let mut changes: Vec<&Value> = events.iter().filter(is_write).collect();
    // All of one form, with six digits after the seconds.
    changes.sort_by_key(|event| event["requestReceivedTimestamp"].as_str());
    let mut writers: Vec<String> = Vec::new();
    for change in changes {
        let process = change["userAgent"].as_str().unwrap_or_default();
        if writers.last().is_some_and(|last| last == process) {
            continue;
        }
        assert!(!writers.iter().any(|known| known == process), "{process} wrote after another: {change:#}");
        writers.push(process.to_owned());
    }
    writers
}

fn is_operators_program(event: &Value) -> bool {
    event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("weaver-operator/"))
}

/// Every complete line of the log.
#[must_use]
pub fn events(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// No line of a program's log holds anything that looks like a token of a `ServiceAccount`.
pub fn holds_no_token(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    for line in text.lines() {
        assert!(!line.contains("eyJ"), "{}: this line holds a token, cut here: {:.60}", log.display(), line);
    }
}

/// Those of the operator's own account.
pub fn own(events: &[Value]) -> impl Iterator<Item = &Value> {
    events.iter().filter(|event| event["user"]["username"] == OPERATOR)
}

/// Tenants grant it, for an account each.
fn is_minting(event: &Value) -> bool {
    let what = ["resource", "subresource"].map(|part| event["objectRef"][part].as_str());
    what == [Some("serviceaccounts"), Some("token")] && event["verb"] == "create"
}

fn is_content(event: &Value) -> bool {
    matches!(event["objectRef"]["resource"].as_str(), Some("configmaps" | "secrets"))
}

fn target(event: &Value) -> Option<&str> {
    event["objectRef"]["namespace"].as_str()
}
