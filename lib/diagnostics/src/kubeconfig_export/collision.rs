//! May a kubeconfig be merged into the one that a user has? Decided before a byte is written.
//!
//! Guarantees: no context but the exported one gets another server or another credential, unless it uses the cluster
//! and the user both and the user says `--force`: a token of one cluster never goes to the server of another.

use serde_json::Value;

use super::authority::server_of;
use super::document::LISTS;
use super::document::{Document, name_of, shown, text_of};

/// Why it may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Collision {
    /// Another context uses the cluster or the user, so its credential would go to another server.
    #[error(
        "context `{other}` uses cluster or user `{name}`: merged under this name, the kubeconfig would change \
         `{other}`, too; {}",
        way_out(*.whole)
    )]
    Used {
        /// The name of the exported entries.
        name: String,
        other: String,
        /// Whether it uses both, so that `--force` can replace them together.
        whole: bool,
    },
    /// The entry that is there is not an earlier export of the same server.
    #[error("{what} `{name}` exists and is not an earlier export of the same server; {}", way_out(true))]
    Foreign {
        /// Cluster, user or context.
        what: &'static str,
        name: String,
    },
}

const fn way_out(forcible: bool) -> &'static str {
    if forcible {
        "merge under another name with --context NEW, or replace what is there with --force"
    } else {
        "merge under another name with --context NEW"
    }
}

/// What keeps `exported`, whose three entries have one name, from being merged into `theirs`.
pub fn collision(theirs: &Document, exported: &Document, force: bool) -> Option<Collision> {
    let name = exported.current_context()?;
    let there =
        |list: &str| theirs.entries(list).iter().filter(|entry| name_of(entry).is_some_and(|n| n == name));
    // A name that is missing counts: a context that points to nothing would point to the exported entry.
    let changes = |list: &str| {
        let new = exported.entry(list, &name);
        there(list).count() == 0 || there(list).any(|old| Some(old) != new)
    };
    let (clusters, users) = (changes("clusters"), changes("users"));
    for entry in theirs.entries("contexts") {
        let points_at =
            |key: &str| entry["context"].get(key).and_then(text_of).is_some_and(|used| used == name);
        let (cluster, user) = (points_at("cluster"), points_at("user"));
        let is_other = name_of(entry).is_some_and(|other| other != name);
        let whole = cluster && user;
        if is_other && (cluster && clusters || user && users) && !(whole && force) {
            let other = shown(&name_of(entry).unwrap_or_default());
            return Some(Collision::Used { name: shown(&name), other, whole });
        }
    }
    let is_renewed = there("clusters").next().is_some()
        && there("clusters").all(|old| is_same_server(old, exported.entry("clusters", &name)))
        && there("users")
            .all(|old| has_only(old, "user", &["client-certificate-data", "client-key-data", "token"]))
        && there("contexts").all(|old| {
            let points_at =
                |key: &str| old["context"].get(key).and_then(text_of).is_some_and(|used| used == name);
            has_only(old, "context", &["cluster", "user", "namespace"])
                && points_at("cluster")
                && points_at("user")
        });
    if force || is_renewed {
        return None;
    }
    let list = LISTS.into_iter().find(|list| there(list).next().is_some() && changes(list))?;
    Some(Collision::Foreign { what: list.trim_end_matches('s'), name: shown(&name) })
}

/// Whether the cluster that is there is one of our making, and of the same host and port: it has a CA or verifies
/// nothing. Whether the CA is the same is the question of [`super::authority`].
fn is_same_server(old: &Value, new: Option<&Value>) -> bool {
    let keys = ["server", "certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify"];
    let is_set = |key: &str| old["cluster"].get(key).is_some_and(|value| *value != Value::Bool(false));
    has_only(old, "cluster", &keys)
        && (is_set("certificate-authority-data") || is_set("insecure-skip-tls-verify"))
        && server_of(old).is_some_and(|old| new.and_then(server_of).is_some_and(|new| old == new))
}

/// Whether an entry has a name and a body, and the body no other keys than these.
fn has_only(entry: &Value, body: &str, keys: &[&str]) -> bool {
    let is_entry =
        entry.as_object().is_some_and(|entry| entry.keys().all(|key| key == "name" || key == body));
    is_entry
        && entry[body].as_object().is_some_and(|body| body.keys().all(|key| keys.contains(&key.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_file::TextFile;
    use proptest::prelude::*;

    fn document(text: &str) -> Document {
        Document::parse(&TextFile::new("/k", text)).unwrap()
    }

    fn pi(server: &str, token: &str) -> Document {
        let cluster = serde_json::json!({"server": server, "certificate-authority-data": "x"});
        Document::of_one("pi", &cluster, &serde_json::json!({"token": token}), None)
    }

    fn theirs(clusters: &str, users: &str, contexts: &str) -> Document {
        document(&format!("clusters: [{clusters}]\nusers: [{users}]\ncontexts: [{contexts}]\n"))
    }

    const OURS: &str = "{name: pi, cluster: {server: 'https://PI:6443', certificate-authority-data: old}}";
    const USER: &str = "{name: pi, user: {token: old}}";
    const CONTEXT: &str = "{name: pi, context: {cluster: pi, user: pi, namespace: mine}}";

    /// (without `--force`, with it)
    fn reported(theirs: &Document) -> (Option<Collision>, Option<Collision>) {
        let new = pi("https://pi:6443", "new");
        (collision(theirs, &new, false), collision(theirs, &new, true))
    }

    #[test]
    fn a_new_name_and_the_same_server_again_are_merged() {
        let installed_again = theirs(OURS, USER, CONTEXT);
        let without_context = theirs(OURS, USER, "");
        let work = theirs(
            "{name: work, cluster: {server: w}}",
            "{name: work, user: {exec: {command: x}}}",
            "{name: work, context: {cluster: work, user: work}}",
        );
        for theirs in
            [Document::empty(), installed_again, without_context, work, pi("https://pi:6443", "new")]
        {
            assert_eq!(reported(&theirs), (None, None), "{}", theirs.to_yaml());
        }
    }

    #[test]
    fn a_context_that_would_mix_is_never_replaced() {
        for (clusters, users, context) in [
            (OURS, "", "{cluster: pi, user: work}"),
            (OURS, USER, "{cluster: pi, user: work}"),
            (OURS, USER, "{cluster: work, user: pi}"),
            // It points to nothing: the exported entry would be what it points to.
            ("", "", "{cluster: pi, user: work}"),
            ("", "", "{cluster: work, user: pi}"),
        ] {
            let theirs = theirs(clusters, users, &format!("{{name: work, context: {context}}}, {CONTEXT}"));
            let want = Collision::Used { name: "pi".to_owned(), other: "work".to_owned(), whole: false };
            assert!(!want.to_string().contains("--force") && want.to_string().contains("--context NEW"));
            assert_eq!(reported(&theirs), (Some(want.clone()), Some(want)), "{context}");
        }
        let theirs = theirs(OURS, USER, "{name: other, context: {cluster: pi, user: pi}}");
        let want = Collision::Used { name: "pi".to_owned(), other: "other".to_owned(), whole: true };
        assert_eq!(reported(&theirs), (Some(want), None), "both move together");
    }

    #[test]
    fn what_is_not_ours_is_replaced_with_force_only() {
        let elsewhere = OURS.replace("PI:6443", "work:6443");
        let port = OURS.replace("6443", "6444");
        let system = OURS.replace(", certificate-authority-data: old", "");
        let proxied = OURS.replace("server:", "proxy-url: 'http://p', server:");
        let runs = USER.replace("token: old", "exec: {command: x}");
        let extended = CONTEXT.replace("user: pi", "user: pi, extensions: []");
        for (clusters, users, contexts, what) in [
            (&*elsewhere, USER, CONTEXT, "cluster"),
            (&port, USER, CONTEXT, "cluster"),
            (&proxied, USER, CONTEXT, "cluster"),
            (&system, USER, CONTEXT, "cluster"),
            (&elsewhere, "", "", "cluster"),
            ("", USER, "", "user"),
            (OURS, &runs, CONTEXT, "cluster"),
            (OURS, USER, &extended, "cluster"),
            ("", "", "{name: pi, context: {cluster: work, user: work}}", "context"),
        ] {
            let want = Collision::Foreign { what, name: "pi".to_owned() };
            assert!(want.to_string().contains("--force") && want.to_string().contains("--context NEW"));
            assert_eq!(
                reported(&theirs(clusters, users, contexts)),
                (Some(want), None),
                "{clusters} {users} {contexts}"
            );
        }
    }

    #[test]
    fn a_name_in_a_message_is_no_terminal_sequence() {
        let theirs = theirs("", "", "{name: \"a\\e[2J\", context: {cluster: pi, user: x}}");
        let text = reported(&theirs).0.unwrap().to_string();
        assert!(!text.contains(char::is_control) && text.contains("a\\u{1b}[2J"), "{text}");
    }

    fn any_entry(body: &'static str) -> impl Strategy<Value = Value> {
        let value =
            prop_oneof!["(pi|a|b)".prop_map(Value::from), "https://(pi|a):6443".prop_map(Value::from)];
        let key = "cluster|user|namespace|server|token|exec|certificate-authority-data";
        ("pi|a|b", prop::collection::btree_map(key, value, 0..4))
            .prop_map(move |(name, content)| serde_json::json!({"name": name, body: content}))
    }

    fn any_document() -> impl Strategy<Value = Document> {
        let some = |body| prop::collection::vec(any_entry(body), 0..4);
        (some("cluster"), some("user"), some("context")).prop_map(|(clusters, users, contexts)| {
            let mut document = Document::empty();
            document.set("clusters", clusters.into());
            document.set("users", users.into());
            document.set("contexts", contexts.into());
            document
        })
    }

    proptest! {
        #[test]
        fn no_credential_of_another_context_gets_another_server(theirs in any_document(), force in any::<bool>()) {
            let new = pi("https://pi:6443", "new");
            if collision(&theirs, &new, force).is_none() {
                let merged = super::super::merge::merge(&theirs, &new, false);
                let means = |document: &Document, context: &Value| {
                    let part = |list: &str, key: &str| {
                        let name = context["context"].get(key).and_then(text_of)?;
                        document.entry(list, &name).cloned()
                    };
                    (part("clusters", "cluster"), part("users", "user"))
                };
                let new_pair = (new.entry("clusters", "pi").cloned(), new.entry("users", "pi").cloned());
                for context in theirs.entries("contexts").iter().filter(|c| c["name"] != "pi") {
                    let (before, after) = (means(&theirs, context), means(&merged, context));
                    prop_assert!(before == after || force && after == new_pair, "{:?}", context);
                }
            }
        }
    }
}
