//! Whatever appears first: source, target namespace, account, rights and resource lead to the same state in any order.

use std::fmt;

use futures::{StreamExt as _, stream};
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

/// Orders under way at once.
const AT_ONCE: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
enum OrderedObject {
    Source,
    Namespace,
    Account,
    Rights,
    Resource,
}

const PARTS: [OrderedObject; 5] = [
    OrderedObject::Source,
    OrderedObject::Namespace,
    OrderedObject::Account,
    OrderedObject::Rights,
    OrderedObject::Resource,
];

struct Order(Vec<OrderedObject>);

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |part: &OrderedObject| match part {
            OrderedObject::Source => 's',
            OrderedObject::Namespace => 'n',
            OrderedObject::Account => 'a',
            OrderedObject::Rights => 'r',
            OrderedObject::Resource => 'x',
        };
        f.write_str(&self.0.iter().map(letter).collect::<String>())
    }
}

/// Every order of these parts.
fn orders(parts: &[OrderedObject]) -> Vec<Vec<OrderedObject>> {
    if parts.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: &OrderedObject| {
        let rest: Vec<OrderedObject> = parts.iter().copied().filter(|part| part != first).collect();
        let first = *first;
        orders(&rest).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    parts.iter().flat_map(with_first).collect()
}

/// Lets the parts appear one after the other; whenever there is a resource, the operator has looked at it in between.
async fn appear(world: &World, order: &Order) {
    let team = world.namespace(&format!("{order}-team")).await;
    world.allow_minting(&team).await;
    let foo = world.name(&format!("{order}-foo"));
    let mut resource = false;
    for part in &order.0 {
        match part {
            OrderedObject::Source => drop(world.config_map(&team, "settings", &[("a", "1")]).await),
            OrderedObject::Namespace => drop(world.namespace(&format!("{order}-foo")).await),
            OrderedObject::Account => world.account(&team).await,
            // Bound in all namespaces: in one that is not there yet there can be no Role.
            OrderedObject::Rights => world.grant_everywhere(&team, &TARGET).await,
            OrderedObject::Resource => {
                world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
                resource = true;
            }
        }
        let syncs = world.syncs(&team);
        eventually(&format!("{order}: the resource has been looked at"), || async {
            let status = if resource { syncs.get("sync").await.unwrap().status } else { None };
            if !resource || status.is_some() { Ok(()) } else { Err("no status") }
        })
        .await;
    }
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let conditions = world.syncs(&team).get("sync").await.unwrap().status.unwrap_or_default().conditions;
    let truths: Vec<String> =
        conditions.iter().map(|condition| format!("{}={}", condition.type_, condition.status)).collect();
    let expected = [
        "Ready=True",
        "SourceFound=True",
        "Authorized=True",
        "TargetsSynced=True",
        "Conflicted=False",
        "Paused=False",
        "Migrated=True",
        "Progressing=False",
    ];
    assert_eq!(truths, expected, "{order}");
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn every_order_of_appearance_ends_in_the_same_state() {
    let world = World::new("orders").await;
    let all = orders(&PARTS);
    assert_eq!(all.len(), 120);
    stream::iter(all)
        .map(|order| {
            let world = &world;
            async move { appear(world, &Order(order)).await }
        })
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
    world.finish().await;
}
