//! `weaver uninstall`: Config Weaver leaves a cluster, and what is not ours does not notice.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::v1beta1::NodeReport;
use weaver_tests::alone::OwnOperator;
use weaver_tests::cli::{Said, drawn, ended, weaver_on};
use weaver_tests::sync_kinds::SyncedKind;
use weaver_tests::world::{World, eventually};

const LEFT: &str = "nothing of Config Weaver is left in this cluster";

/// A cluster with everything: copies in two namespaces, a Secret with a token, a grant, and what others have made.
struct Cluster {
    alone: OwnOperator,
    world: World,
    team: String,
    foo: String,
}

impl Cluster {
    async fn start(name: &str) -> Self {
        let alone = OwnOperator::direct(&["--lease", "12"]).await;
        let world = alone.world(name);
        let (team, foo) = world.synced().await;
        world.grant_writer(&team, "tokens").await;
        world.robot(&team, "robot").await;
        world.service_token(&team, "tokens", &[("a", "robot")]).await;
        world.fresh(&team, "tokens").await;
        world.config_map(&foo, "theirs", &[("of", "someone")]).await;
        let cluster = Self { alone, world, team, foo };
        cluster.done(&["tenant", "allow", &cluster.team, "sync"]).await;
        cluster
    }

    /// Runs `weaver` as the administrator.
    async fn weaver(&self, arguments: &[&str]) -> Said {
        ended(self.command(arguments)).await
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        weaver_on(&self.alone.own, arguments)
    }

    async fn done(&self, arguments: &[&str]) -> String {
        let said = self.weaver(arguments).await;
        assert!(said.done, "{arguments:?}: {said:?}");
        said.out
    }

    fn client(&self) -> Client {
        self.world.client.clone()
    }

    async fn copy(&self) -> ConfigMap {
        self.world.config_maps(&self.foo).get("settings").await.unwrap()
    }

    async fn theirs(&self) -> [ConfigMap; 2] {
        [
            self.world.config_maps(&self.foo).get("theirs").await.unwrap(),
            self.world.config_maps(&self.team).get("settings").await.unwrap(),
        ]
    }

    /// All that was ever put there by us is gone, and a second run says so.
    async fn is_out(&self) {
        let client = self.client();
        let crds =
            Api::<CustomResourceDefinition>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        let ours = crds.iter().filter(|crd| crd.spec.group == weaver_api::GROUP);
        assert_eq!(ours.map(kube::ResourceExt::name_any).collect::<Vec<_>>(), Vec::<String>::new());
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
        for name in ["weaver-accounts", "weaver-deletions", "weaver-node-reports"] {
            assert!(policies.get_opt(name).await.unwrap().is_none(), "{name}");
        }
        let roles: Api<ClusterRole> = Api::all(client.clone());
        for name in ["weaver-operator", "weaver-node-reports"] {
            assert!(roles.get_opt(name).await.unwrap().is_none(), "{name}");
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        assert!(namespaces.get_opt(OPERATOR_NAMESPACE).await.unwrap().is_none());
        let name = "weaver-mint-sync";
        let granted: Api<Role> = Api::namespaced(client.clone(), &self.team);
        assert!(granted.get_opt(name).await.unwrap().is_none());
        let bound: Api<RoleBinding> = Api::namespaced(client, &self.team);
        assert!(bound.get_opt(name).await.unwrap().is_none());
        // What a tenant has written by itself is the tenant's.
        assert!(granted.get_opt("mint").await.unwrap().is_some());
        let again = self.done(&["uninstall", "--yes"]).await;
        assert!(again.starts_with(LEFT), "{again}");
    }
}

/// Uid and resourceVersion of all that may be touched; not of the lease, which the operator renews.
fn state(cluster: &Cluster) -> String {
    let kinds = "configmaps,secrets,serviceaccounts,namespaces,roles,rolebindings,clusterroles,clusterrolebindings,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions,\
                 configmapsyncs,resourcesyncs,servicetokens,nodereports";
    let columns = "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name,U:.metadata.uid,\
                   V:.metadata.resourceVersion";
    cluster.alone.own.kubectl(&["get", kinds, "--all-namespaces", "--output", columns])
}

/// The same, once the operator and the API server have done all they had to do.
async fn settled_state(cluster: &Cluster) -> String {
    eventually("nothing changes any more", || async {
        let first = state(cluster);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = state(cluster);
        if first == second { Ok(second) } else { Err(second) }
    })
    .await
}

#[tokio::test]
async fn kept_copies_are_the_same_to_the_byte_and_all_else_is_gone() {
    let cluster = Cluster::start("uninstall-keep").await;
    let (copy, theirs) = (cluster.copy().await, cluster.theirs().await);
    let token = cluster.world.tokens(&cluster.team, "tokens").await;
    // First nothing is written: not in a dry run, not without a terminal to ask on, not while an agent would put
    // it back.
    let before = settled_state(&cluster).await;
    let said = cluster.done(&["uninstall", "--dry-run"]).await;
    for words in [
        &format!("to be deleted: ConfigMapSync {}/sync; what they made stays", cluster.team)[..],
        &format!("to be deleted: ServiceToken {}/tokens", cluster.team),
        &format!("to be deleted: Role {}/weaver-mint-sync", cluster.team),
        "copies: 1",
        "is the leader and cleans up",
        "to be deleted: CustomResourceDefinition configmapsyncs.weaver.example.com",
        "to be deleted: Namespace config-weaver",
        "a dry run: nothing was written",
    ] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    let said = cluster.weaver(&["uninstall"]).await;
    assert!(!said.done && said.err.contains("no terminal to ask on; pass --yes"), "{said:?}");
    assert!(
        before.contains("weaver-mint-sync") && before == state(&cluster),
        "{before}\n{}",
        state(&cluster)
    );

    let reports: Api<NodeReport> = Api::all(cluster.client());
    let report = json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "NodeReport", "metadata": {"name": "raspi"}});
    reports.create(&PostParams::default(), &serde_json::from_value(report).unwrap()).await.unwrap();
    let said = cluster.done(&["uninstall", "--dry-run"]).await;
    assert!(said.contains("would be refused: a node agent reports raspi"), "{said}");
    let said = cluster.weaver(&["uninstall", "--yes"]).await;
    assert!(
        !said.done && said.err.contains("a node agent reports raspi") && said.err.contains("systemctl"),
        "{said:?}"
    );
    let pause = |reason| json!({"metadata": {"annotations": {"weaver.example.com/paused": reason}}});
    cluster.world.mark_namespace(OPERATOR_NAMESPACE, pause(Some("a backup"))["metadata"].clone()).await;
    let said = cluster.weaver(&["uninstall", "--yes", "--agents-stopped"]).await;
    assert!(
        !said.done
            && said.err.contains("nothing was done: all resources are paused (a backup): `weaver resume`"),
        "{said:?}"
    );
    cluster.world.mark_namespace(OPERATOR_NAMESPACE, pause(None)["metadata"].clone()).await;

    let said = cluster.done(&["uninstall", "--yes", "--agents-stopped"]).await;
    assert!(said.contains("copies that stay: 1; `weaver orphans list`"), "{said}");
    assert_eq!((cluster.copy().await, cluster.theirs().await), (copy, theirs));
    assert_eq!(cluster.world.tokens(&cluster.team, "tokens").await, token);
    cluster.is_out().await;
    let orphans = cluster.done(&["orphans", "list"]).await;
    assert!(
        orphans.contains(&format!("ConfigMap/{}/settings\tcopy of ConfigMapSync", cluster.foo)),
        "{orphans}"
    );
    let said = cluster.done(&["orphans", "delete", "--all"]).await;
    assert!(said.contains("is deleted"), "{said}");
    cluster.world.finish().await;
}

#[tokio::test]
async fn a_live_operator_deletes_the_copies_and_foreign_objects_stay() {
    let cluster = Cluster::start("uninstall-delete").await;
    let theirs = cluster.theirs().await;
    // Someone has put an object into our namespace, and widened a grant by hand.
    cluster.world.config_map(OPERATOR_NAMESPACE, "theirs", &[("of", "someone")]).await;
    let roles: Api<Role> = Api::namespaced(cluster.client(), &cluster.foo);
    let role = json!({"metadata": {"name": "weaver-mint-other"}, "rules": []});
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let (said, drawn) = drawn(cluster.command(&["uninstall", "--copies", "delete", "--yes"])).await;
    assert!(drawn.contains("asking for their deletion") && !said.contains("asking for"), "{drawn:?}");
    assert!(said.contains("Namespace config-weaver stays") && said.contains("ConfigMap theirs"), "{said}");
    assert!(said.contains(&format!("Role {}/weaver-mint-other stays", cluster.foo)), "{said}");
    assert!(roles.get_opt("weaver-mint-other").await.unwrap().is_some());
    assert_eq!(cluster.theirs().await, theirs);
    cluster.world.lacks(&cluster.foo, "settings").await;
    let secrets = cluster.world.secrets(&cluster.team);
    assert!(secrets.get_opt("tokens").await.unwrap().is_none());
    let said = cluster.done(&["uninstall", "--yes"]).await;
    assert!(said.starts_with(LEFT) && said.contains("Namespace config-weaver stays"), "{said}");
    cluster.world.config_maps(OPERATOR_NAMESPACE).delete("theirs", &DeleteParams::default()).await.unwrap();
    cluster.done(&["uninstall", "--yes"]).await;
    cluster.is_out().await;
    cluster.world.finish().await;
}

#[tokio::test]
async fn without_an_operator_the_person_deletes_what_the_ownership_labels_name_and_no_more() {
    let mut cluster = Cluster::start("uninstall-dead").await;
    let world = &cluster.world;
    let (bar, baz) = (world.target(&cluster.team, "bar").await, world.target(&cluster.team, "baz").await);
    // One that says that its copies stay, and a copy that was someone's before.
    let mut stays = world.spec(&cluster.team, &[&bar]);
    stays["deletionPolicy"] = json!("Orphan");
    world.sync(&cluster.team, "stays", stays).await;
    world.config_map(&baz, "settings", &[("of", "someone")]).await;
    let mut adopts = world.spec(&cluster.team, &[&baz]);
    adopts["conflictPolicy"] = json!("Adopt");
    world.sync(&cluster.team, "adopts", adopts).await;
    world.holds(&baz, "settings", &[("a", "1")]).await;
    world.condition(&cluster.team, "stays", "Ready", "True", "Synced").await;
    // Objects of another kind: a copy, its source, and one of someone else that a ResourceSync does not touch.
    let of = SyncedKind::Gadget;
    of.grant(world, &cluster.team, &[&cluster.team, &cluster.foo, &bar]).await;
    of.object(world, &cluster.team, &[("a", "1")]).await;
    of.object(world, &bar, &[("of", "someone")]).await;
    of.sync(world, &cluster.team, of.spec(world, &cluster.team, &[&cluster.foo, &bar])).await;
    of.holds(world, &cluster.foo, &[("a", "1")]).await;
    of.condition(world, &cluster.team, "Ready", "False", "Conflict").await;
    // What bears the label of a resource that this run does not delete.
    let ownership = json!({"metadata": {"labels": {"weaver.example.com/sync-uid": "u0"},
        "annotations": {"weaver.example.com/sync": "elsewhere/other/u0"}}});
    let params = PatchParams::default();
    world.config_maps(&cluster.foo).patch("theirs", &params, &Patch::Merge(&ownership)).await.unwrap();
    let theirs = cluster.theirs().await;
    let kept = world.config_maps(&bar).get("settings").await.unwrap();
    // One of them has another finalizer too.
    let held = |finalizers| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let both = held(json!(["weaver.example.com/cleanup", "example.com/theirs"]));
    world.syncs(&cluster.team).patch("stays", &params, &both).await.unwrap();
    // Its lease lasts for 12 s yet, and the foreign finalizer holds one of them for as long as anything is waited for.
    cluster.alone.operator.kill();
    let delete = |seconds| ["uninstall", "--copies", "delete", "--yes", "--wait", seconds];
    let said = cluster.weaver(&delete("40")).await;
    assert!(said.out.contains("its copies stay: spec.deletionPolicy: Orphan"), "{said:?}");
    assert!(!said.done && said.err.contains("finalizer example.com/theirs holds it"), "{said:?}");
    let world = &cluster.world;
    let left = world.syncs(&cluster.team).list(&ListParams::default()).await.unwrap();
    assert_eq!(left.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), ["stays"]);
    world.syncs(&cluster.team).patch("stays", &params, &held(json!(null))).await.unwrap();
    cluster.done(&delete("100")).await;
    world.lacks(&cluster.foo, "settings").await;
    of.lacks(world, &cluster.foo).await;
    of.holds(world, &cluster.team, &[("a", "1")]).await;
    of.holds(world, &bar, &[("of", "someone")]).await;
    assert_eq!(world.config_maps(&bar).get("settings").await.unwrap(), kept);
    let adopted = world.config_maps(&baz).get("settings").await.unwrap();
    assert!(!adopted.labels().contains_key("weaver.example.com/sync-uid"), "{adopted:?}");
    assert_eq!(cluster.theirs().await, theirs);
    assert!(world.secrets(&cluster.team).get_opt("tokens").await.unwrap().is_none());
    cluster.is_out().await;
    cluster.world.finish().await;
}

#[tokio::test]
async fn a_run_that_was_killed_at_any_moment_is_done_by_the_next_one() {
    let mut cluster = Cluster::start("uninstall-killed").await;
    let (copy, theirs) = (cluster.copy().await, cluster.theirs().await);
    let token = cluster.world.tokens(&cluster.team, "tokens").await;
    cluster.alone.operator.kill();
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(cluster.client(), OPERATOR_NAMESPACE);
    leases.delete("weaver-operator", &DeleteParams::default()).await.unwrap();
    let mut killed = 0;
    for milliseconds in [50, 100, 200, 300, 400, 500, 700, 900, 1_200] {
        let mut command = cluster.command(&["uninstall", "--yes"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(milliseconds), child.wait()).await;
        if let Ok(ended) = ended {
            assert!(ended.unwrap().success());
        } else {
            child.kill().await.unwrap();
            killed += 1;
        }
    }
    assert!(killed > 1, "none was killed");
    cluster.done(&["uninstall", "--yes"]).await;
    assert_eq!((cluster.copy().await, cluster.theirs().await), (copy, theirs));
    assert_eq!(cluster.world.tokens(&cluster.team, "tokens").await, token);
    cluster.is_out().await;
    cluster.world.finish().await;
}
