//! What the API server's audit log must say of every scenario, whatever else it tests; and what no log of a program may
//! have: a token ([`holds_no_token`]).

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::poll::eventually;
use crate::rbac;

/// Name of every tenant's account here.
pub const ACCOUNT: &str = "sync";
/// User of the operator's own requests.
const OPERATOR: &str = "system:serviceaccount:config-weaver:weaver-operator";

/// An audit log, of which each event is read and parsed once: that of the shared server gets long, and is polled.
pub struct Audit {
    path: PathBuf,
    read: Mutex<AuditEvents>,
}

/// What was read so far, in the order of the log.
pub struct AuditEvents {
    end: u64,
    events: Vec<Value>,
}

impl Deref for AuditEvents {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.events
    }
}

impl Audit {
    /// The whole of it.
    pub fn of(path: PathBuf) -> Self {
        Self::after(path, 0)
    }

    /// What is written from now on; what was before is of other tests.
    pub fn from_now(path: PathBuf) -> Self {
        let end = length(&path);
        Self::after(path, end)
    }

    fn after(path: PathBuf, end: u64) -> Self {
        Self { path, read: Mutex::new(AuditEvents { end, events: Vec::new() }) }
    }

    /// Every event up to now, whose line is complete.
    pub fn events(&self) -> MutexGuard<'_, AuditEvents> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text_after(&self.path, read.end).unwrap_or_default();
        let complete = text.rfind('\n').map_or(0, |last| last + 1);
        read.end += complete as u64;
        // The first line may have been begun before.
        read.events.extend(text[..complete].lines().filter_map(|line| serde_json::from_str(line).ok()));
        read
    }

    /// How often the operator's program has asked for `verb` on a `ConfigMap` or `Secret` of `namespace`.
    pub fn requests(&self, namespace: &str, verb: &str) -> usize {
        requests_in(&self.events(), namespace, verb).count()
    }

    /// How many of them the API server says it has done.
    pub fn changes(&self, namespace: &str, verb: &str) -> usize {
        requests_in(&self.events(), namespace, verb).filter(|event| is_done(event)).count()
    }
}

/// Does the API server say that it has done it?
pub fn is_done(event: &Value) -> bool {
    event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300)
}

/// Of a log that is not there: nothing.
pub fn length(log: &Path) -> u64 {
    log.metadata().map_or(0, |file| file.len())
}

fn text_after(log: &Path, start: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // Of the shared log, another's line may be cut in a character.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Checks the log for a world with these namespaces, of which `tenants` have ConfigMapSyncs:
/// 1. the operator's own account never asked for a ConfigMap or a Secret, anywhere;
/// 2. each such request of the operator's program in this world was made by an account of one of its tenants;
/// 3. each that was for all namespaces at once was made by an account that tenants have, in whichever world;
/// 4. the log saw this world at all, so that silence is not mistaken for innocence;
/// 5. whatever the operator's own account asked for, anywhere, its manifest grants, or it is a token.
pub async fn check(audit: &Audit, namespaces: &[String], tenants: &[String]) {
    let events = eventually("the audit log has seen this world", || async {
        let events = audit.events();
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

fn requests_in<'a>(events: &'a [Value], namespace: &str, verb: &str) -> impl Iterator<Item = &'a Value> {
    let of_interest = move |event: &&Value| {
        is_operators_program(event)
            && is_content(event)
            && target(event) == Some(namespace)
            && event["verb"] == verb
    };
    events.iter().filter(of_interest)
}

/// The operators of this server that have changed anything, in the order of their first writes. Their leases are left
/// out, and so is what changes nothing: a token that was minted, a question about rights.
///
/// One that wrote after another had begun to is a failure: two have written at once.
pub fn writers_in_turn(audit: &Audit) -> Vec<String> {
    writers_with_late(audit, 0)
}

/// The same, where one was stopped with so many writes under way: these arrive at the API server when it wakes.
pub fn writers_with_late(audit: &Audit, under_way: usize) -> Vec<String> {
    let mut late = 0;
    let events = audit.events();
    let is_write = |event: &&Value| {
        let verb = event["verb"].as_str().unwrap_or_default();
        let what = event["objectRef"]["resource"].as_str().unwrap_or_default();
        is_operators_program(event)
            && ["create", "update", "patch", "delete"].contains(&verb)
            && ["configmaps", "secrets", "configmapsyncs", "resourcesyncs", "servicetokens", "events"]
                .contains(&what)
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
        if writers.iter().any(|known| known == process) {
            late += 1;
            assert!(late <= under_way, "{process} wrote after another: {change:#}");
            continue;
        }
        writers.push(process.to_owned());
    }
    writers
}

fn is_operators_program(event: &Value) -> bool {
    event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("weaver-operator/"))
}

/// No line of a program's log after its byte `start` contains anything that looks like a token of a `ServiceAccount`.
pub fn holds_no_token(log: &Path, start: u64) {
    let text = text_after(log, start).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_is_written_is_read_once_its_line_is_complete_and_nothing_twice() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, r#"{{"verb": "of another test"}}"#).unwrap();
        let audit = Audit::from_now(file.path().to_owned());
        write!(file, r#"{{"verb": "get"}}{}{{"verb": "#, '\n').unwrap();
        let verbs = || audit.events().iter().map(|event| event["verb"].clone()).collect::<Vec<_>>();
        assert_eq!(verbs(), ["get"]);
        writeln!(file, r#""list"}}"#).unwrap();
        assert_eq!(verbs(), ["get", "list"]);
        assert_eq!(Audit::of(file.path().to_owned()).events().len(), 3);
    }
}
