//! Whether the operator has done what an object asks for, and waiting for that.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use weaver_api::conditions::READY;
use weaver_client::conditions::condition;
use weaver_client::{WaitProgress, Why};

use super::store::Store;
use crate::connection;
use crate::stdout::note;

/// A shorter wait prints no message.
const QUIET: Duration = Duration::from_secs(1);

/// Why an object is not Ready as it is now; `None` if it is.
fn unready(object: &DynamicObject) -> Option<String> {
    let now = object.metadata.generation.unwrap_or_default();
    let is_current = |observed: Option<i64>| observed.is_some_and(|observed| observed >= now);
    match condition(object, READY) {
        Some(ready) if is_current(object.data["status"]["observedGeneration"].as_i64()) => {
            let is_ready = ready.status == "True" && is_current(ready.observed_generation);
            (!is_ready).then(|| ready.to_string())
        }
        _ => Some(format!(
            "the operator has not reconciled its latest change; check with `weaver doctor{}`",
            connection::flags()
        )),
    }
}

/// Waits until the object is Ready, at most until the limit, or until Ctrl-C; the error is why it is not. On a
/// terminal, it prints what it waits for.
pub async fn wait(store: &Store, name: &str, limit: Duration) -> Result<(), String> {
    let (begun, is_terminal) = (Instant::now(), io::stderr().is_terminal());
    let (mut reported, mut last) = (String::new(), String::new());
    let judge = |found: Option<&DynamicObject>| {
        let Some(found) = found else { return WaitProgress::Never("it was deleted meanwhile".into()) };
        let Some(why) = unready(found) else { return WaitProgress::Reached };
        if is_terminal && begun.elapsed() >= QUIET && reported != why {
            note!("waiting for {}: {why}", store.object_key(name));
            reported.clone_from(&why);
        }
        last.clone_from(&why);
        WaitProgress::NotYet(why)
    };
    let waited = tokio::select! {
        waited = store.objects.wait(name, limit, judge) => waited,
        _ = tokio::signal::ctrl_c() => return Err(format!("interrupted: {last}")),
    };
    waited.map(|_| ()).map_err(|error| match error.why {
        Why::TimedOut { .. } | Why::Never(_) => error.why.to_string(),
        why => format!("{:#}", store.said(why)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_is_ready_only_as_it_is_now() {
        let object = |status: &str, observed: i64, of_ready: i64| {
            let ready = json!({"type": "Ready", "status": status, "reason": "R", "message": "one\ntwo",
                               "observedGeneration": of_ready});
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "conditions": [ready]}})
        };
        let unready = |object: Value| unready(&serde_json::from_value(object).unwrap());
        assert_eq!(unready(object("True", 2, 2)), None);
        assert_eq!(unready(object("False", 2, 2)).as_deref(), Some("Ready=False (R) one"));
        assert!(unready(object("True", 2, 1)).is_some());
        for old in [object("True", 1, 1), json!({"metadata": {"generation": 1}})] {
            let said = unready(old).unwrap();
            assert!(
                said.contains("has not reconciled its latest change; check with `weaver doctor`"),
                "{said}"
            );
        }
    }
}
