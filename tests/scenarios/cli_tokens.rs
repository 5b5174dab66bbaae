//! `weaver token` next to the operator that acts on what it makes: applied, waited for, looked at, deleted.

use std::time::Duration;

use serde_json::{Value, json};
use weaver_tests::cli::{done, fed, weaver};
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::world::{World, eventually_within};

/// The garbage collector of a server that has just learnt of a kind looks at it half a minute later.
const COLLECTED: Duration = Duration::from_secs(90);

fn manifest(team: &str, expires: i64, account: &str) -> String {
    json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken",
        "metadata": {"name": "robot", "namespace": team},
        "spec": {
            "writer": {"serviceAccount": {"name": ACCOUNT}},
            "tokens": [{"key": "token", "serviceAccount": {"name": account}, "expirationSeconds": expires}],
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_token_is_applied_waited_for_and_its_secret_left_behind_unseen() {
    let world = World::new("cli-tokens").await;
    let team = world.writer("team", "robot").await;
    world.robot(&team, "robot").await;
    let said = fed(&["apply", "-f", "-", "--wait"], &manifest(&team, 900, "robot")).await;
    assert!(said.done && said.out.ends_with("servicetoken.weaver.example.com/robot ready\n"), "{said:?}");
    let secret = world.secrets(&team).get("robot").await.unwrap();
    let token = String::from_utf8(secret.data.unwrap()["token"].0.clone()).unwrap();
    assert_eq!(token.split('.').count(), 3, "it is a token");

    let table = done(&["token", "list", "-n", &team]).await;
    let cells: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((cells[0], cells[1], cells[3], cells[4]), ("robot", "True", "1/1", "robot"), "{table}");
    for format in ["json", "yaml"] {
        let shown = done(&["token", "get", "robot", "-n", &team, "-o", format]).await;
        let read: Value = serde_saphyr::from_str(&shown).unwrap();
        assert_eq!(read["status"]["tokens"][0]["key"], "token");
        assert!(!shown.contains(&token), "no verb shows a token");
    }

    // An account that there is not: what was before comes back.
    let hopeless = manifest(&team, 900, "ghost");
    let said = fed(&["apply", "-f", "-", "--wait=2", "--rollback-on-failure"], &hopeless).await;
    assert!(!said.done && said.err.ends_with("robot: its previous state is restored\n"), "{said:?}");
    let spec = world.service_tokens(&team).get("robot").await.unwrap().spec.spec.unwrap();
    assert_eq!(spec.tokens[0].service_account.as_ref().unwrap().name.as_deref(), Some("robot"));

    // Meanwhile the Secret had no token; the operator writes one again.
    world.tokens_that(&team, "robot", "are back", |tokens| tokens.contains_key("token")).await;
    let said = weaver(&["token", "delete", "robot", "-n", &team, "--orphan"]).await;
    assert!(said.done && said.out.ends_with("robot deleted, the objects that it made stay\n"), "{said:?}");
    eventually_within(COLLECTED, "the resource is gone", || async {
        world.service_tokens(&team).get_opt("robot").await.unwrap().map_or(Ok(()), Err)
    })
    .await;
    let kept = world.secrets(&team).get("robot").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_none() && kept.data.unwrap().contains_key("token"));
    world.finish().await;
}
