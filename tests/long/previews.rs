//! Preview environments: a namespace for each branch of a repository, with a ConfigMapSync that copies into it,
//! deleted in the order that is nearest at hand: the namespaces first.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually_within};

const COUNT: usize = 100;

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn a_hundred_syncs_whose_target_namespaces_are_gone_are_deleted_within_seconds() {
    let world = World::new("previews").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let previews = world.namespaces("preview", COUNT).await;
    for preview in &previews {
        world.grant(&team, preview, &TARGET).await;
        world.sync(&team, preview, world.spec(&team, &[preview])).await;
    }
    for preview in &previews {
        world.holds(preview, "settings", &[("a", "1")]).await;
        world.condition(&team, preview, "Ready", "True", "Synced").await;
    }
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let delete = async |preview: &String| namespaces.delete(preview, &DeleteParams::default()).await.unwrap();
    stream::iter(&previews).for_each_concurrent(8, async |preview| drop(delete(preview).await)).await;
    for preview in &previews {
        eventually_within(Duration::from_mins(6), "the namespace is gone", || async {
            namespaces.get_opt(preview).await.unwrap().map_or(Ok(()), |found| Err(found.status))
        })
        .await;
    }
    let syncs = world.syncs(&team);
    let begun = Instant::now();
    for preview in &previews {
        syncs.delete(preview, &DeleteParams::default()).await.unwrap();
    }
    eventually_within(Duration::from_secs(30), "all of them are gone", || async {
        let left = syncs.list(&kube::api::ListParams::default()).await.unwrap().items.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    println!("{COUNT} syncs were gone after {:?}", begun.elapsed());
    world.finish().await;
}
