//! Whether the operator has done what an object asks for, and waiting until it has.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use weaver_api::conditions::READY;

use super::deletion::sentence;
use super::kind::{condition, generation, name};
use super::store::Store;
use crate::stdout::note;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(200);
/// What takes no longer needs no word in between.
const QUIET: Duration = Duration::from_secs(1);

/// Why an object is not Ready as it is now; `None` if it is.
pub fn unready(object: &Value) -> Option<String> {
    let now = generation(object);
    let is_current = |observed: &Value| observed.as_i64().is_some_and(|observed| observed >= now);
    match condition(object, READY) {
        Some(ready) if is_current(&object["status"]["observedGeneration"]) => {
            let is_ready = ready["status"] == "True" && is_current(&ready["observedGeneration"]);
            (!is_ready).then(|| sentence(ready))
        }
        _ => Some(
            "the operator has not looked at it as it is now; `weaver doctor` says whether it runs".into(),
        ),
    }
}

/// How waiting ended.
#[derive(Debug, Eq, PartialEq)]
pub enum Waited {
    /// The object is Ready.
    Ready,
    /// It is not, and why not.
    Not(String),
}

/// Waits until the object is Ready, for so long, or until Ctrl-C. A terminal is told what it waits for.
pub async fn wait(store: &Store, object: &Value, limit: Duration) -> Waited {
    let begun = Instant::now();
    let (mut told, is_told) = (String::new(), io::stderr().is_terminal());
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        // An API server that gives no answer just now may give one in a moment.
        let why = match store.get(name(object)).await {
            Ok(Some(found)) => match unready(&found) {
                None => return Waited::Ready,
                Some(why) => why,
            },
            Ok(None) => return Waited::Not("somebody else deleted it".into()),
            Err(error) => format!("{error:#}"),
        };
        if begun.elapsed() >= limit {
            return Waited::Not(format!("not within {} s: {why}", limit.as_secs()));
        }
        if is_told && begun.elapsed() >= QUIET && told != why {
            note!("waiting for {}: {why}", store.kind.place(object));
            told.clone_from(&why);
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = &mut interrupted => return Waited::Not(format!("interrupted: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_ready_only_as_it_is_now() {
        let object = |status: &str, observed: i64, of_ready: i64| {
            let ready = json!({"type": "Ready", "status": status, "reason": "R", "message": "one\ntwo",
                               "observedGeneration": of_ready});
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "conditions": [ready]}})
        };
        assert_eq!(unready(&object("True", 2, 2)), None);
        assert_eq!(unready(&object("False", 2, 2)).as_deref(), Some("Ready=False (R) one"));
        assert!(unready(&object("True", 2, 1)).is_some());
        for old in [object("True", 1, 1), json!({"metadata": {"generation": 1}})] {
            let said = unready(&old).unwrap();
            assert!(said.contains("has not looked at it as it is now; `weaver doctor`"), "{said}");
        }
    }
}
