//! What tests of generated accounts share: a writer that may make them, and who has asked for what.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ListParams;
use serde_json::{Value, json};
use weaver_api::ownership::TOKEN_UID_LABEL;

use crate::audit::is_done;
use crate::tenant::ACCOUNT;
use crate::world::{World, eventually};

/// The spec of so many accounts `bot-1`, …, with the keys `001`, ….
pub fn bots(count: usize) -> Value {
    json!({
        "writer": {"serviceAccount": {"name": ACCOUNT}},
        "generate": {"count": count, "name": "bot-{{n}}", "key": "{{padded}}"},
    })
}

/// A tenant whose account may fill the Secret `bots`, and make accounts and mint for them.
pub async fn team(world: &World) -> String {
    let team = world.writer("team", "bots").await;
    grant(world, &team, &["create", "list", "patch", "delete"]).await;
    team
}

/// Lets the tenant mint, and do this to accounts; replaces what was granted before.
pub async fn grant(world: &World, team: &str, verbs: &[&str]) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
    ]);
    world.grant_rules(team, team, "makes-accounts", rules).await;
}

/// The accounts with our label.
pub async fn made(world: &World, team: &str) -> Vec<ServiceAccount> {
    let labelled = ListParams::default().labels(TOKEN_UID_LABEL);
    world.accounts(team).list(&labelled).await.unwrap().items
}

/// Waits until there are `count` such accounts.
pub async fn there_are(world: &World, team: &str, count: usize) {
    eventually(&format!("{count} accounts are there"), || async {
        let found = made(world, team).await.len();
        if found == count { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Who has asked for `verb` on the accounts `bot-…` of `team`, or on their tokens, and got it.
pub fn askers(world: &World, team: &str, verb: &str, subresource: Option<&str>) -> BTreeSet<String> {
    let events = world.audit.events();
    let of_interest = events.iter().filter(|event| {
        let object = &event["objectRef"];
        object["resource"] == "serviceaccounts"
            && object["namespace"] == team
            && object["subresource"].as_str() == subresource
            && object["name"].as_str().is_some_and(|name| name.starts_with("bot-"))
            && event["verb"] == verb
            && is_done(event)
    });
    of_interest.filter_map(|event| event["user"]["username"].as_str().map(str::to_owned)).collect()
}
