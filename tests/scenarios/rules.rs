//! Every rule of the definitions, judged by the API server: the third judge of `lib/api/tests/rules.yaml`.

#[path = "../../lib/api/tests/rules_table/mod.rs"]
mod rules_table;

use futures::{StreamExt as _, stream};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use rules_table::{Judge, RuleCase};
use serde_json::{Value, json};
use weaver_tests::world::World;

/// Cases asked at once.
const AT_ONCE: usize = 8;

#[tokio::test]
async fn the_api_server_enforces_every_rule_and_names_the_field() {
    let world = World::new("rules").await;
    let team = world.namespace("team").await;
    let mine: Vec<RuleCase> = rules_table::cases()
        .unwrap()
        .into_iter()
        .filter(|case| case.judges.contains(&Judge::Server))
        .collect();
    assert!(mine.len() > 50, "{}", mine.len());
    let faults: Vec<String> = stream::iter(mine.iter().enumerate())
        .map(|(number, case)| judge(&world, &team, number, case))
        .buffer_unordered(AT_ONCE)
        .filter_map(|fault| async { fault.err() })
        .collect()
        .await;
    assert!(faults.is_empty(), "{} of {} rules:\n{}", faults.len(), mine.len(), faults.join("\n"));
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

/// Sends what is accepted and what is refused; nothing is stored but what a rule about changes needs.
async fn judge(world: &World, team: &str, number: usize, case: &RuleCase) -> Result<(), String> {
    let kind = GroupVersionKind::gvk(weaver_api::GROUP, &case.version, &case.kind);
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), team, &ApiResource::from_gvk(&kind));
    let place = format!("{} {} {} {} ({})", case.kind, case.version, case.keyword, case.field, case.rule);
    let name = format!("rule-{number}");
    if let Some(from) = &case.from {
        let stored = api.create(&PostParams::default(), &object(from, &name, &Value::Null)).await;
        stored.map_err(|error| format!("{place}: {error}"))?;
    }
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let send = async |sent: &Value| {
        if case.from.is_none() {
            return api.create(&dry, &object(sent, &name, &Value::Null)).await;
        }
        loop {
            let version = json!(api.get_metadata(&name).await?.metadata.resource_version);
            match api.replace(&name, &dry, &object(sent, &name, &version)).await {
                // The operator has written its status meanwhile.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                answer => return answer,
            }
        }
    };
    let answer = send(&case.accepted).await.map_err(|error| format!("{place}: not accepted: {error}"))?;
    let answer = serde_json::to_value(answer).map_err(|error| error.to_string())?;
    if let Some(returned) = &case.returned
        && !holds(&answer, returned)
    {
        return Err(format!("{place}: answered {answer}, which does not have {returned}"));
    }
    let Some(refused) = &case.refused else { return Ok(()) };
    match send(refused).await {
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains(&case.field) => Ok(()),
        other => Err(format!("{place}: not refused by its name: {:?}", other.map(|object| object.data))),
    }
}

fn object(sent: &Value, name: &str, version: &Value) -> DynamicObject {
    let mut sent = sent.clone();
    sent["metadata"] = json!({"name": name, "resourceVersion": version});
    serde_json::from_value(sent).unwrap()
}

/// Has `answer` all of `part`?
fn holds(answer: &Value, part: &Value) -> bool {
    match (answer, part) {
        (Value::Object(answer), Value::Object(part)) => {
            part.iter().all(|(key, part)| answer.get(key).is_some_and(|answer| holds(answer, part)))
        }
        (answer, part) => answer == part,
    }
}
