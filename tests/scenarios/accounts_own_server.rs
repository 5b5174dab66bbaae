//! The admission policy as a thing that is installed: put back, turned off, reported; and no obstacle to the operator.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use weaver_api::ownership::FINALIZER;
use weaver_api::v1beta1::{
    ConfigMapSync, ConfigMapSyncFields, ServiceToken, ServiceTokenFields, ServiceTokenSpec,
};
use weaver_installer::accounts::NAME;
use weaver_installer::deletions;
use weaver_tests::alone::OwnOperator;
use weaver_tests::own::OwnServer;
use weaver_tests::person::{ClusterUser, refusal};
use weaver_tests::world::{World, eventually, given};

/// A server with the policy, and someone there who may not impersonate anyone.
struct Scene {
    own: OwnServer,
    world: World,
    team: String,
    person: ClusterUser,
}

impl Scene {
    async fn start(name: &str) -> Self {
        let own = OwnServer::start().await;
        own.install().await.unwrap();
        let world = World::on(own.client.clone(), name, own.logs());
        let team = world.tenant().await;
        let person = ClusterUser::by(&own.server.kubeconfig(), &world, &team, "alice").await;
        Self { own, world, team, person }
    }

    fn policies(&self) -> Api<ValidatingAdmissionPolicy> {
        Api::all(self.own.client.clone())
    }

    fn bindings(&self) -> Api<ValidatingAdmissionPolicyBinding> {
        Api::all(self.own.client.clone())
    }

    /// Tries to create a resource as that person; nothing is kept.
    async fn tried(&self) -> kube::Result<ConfigMapSync> {
        let syncs: Api<ConfigMapSync> = Api::namespaced(self.person.client.clone(), &self.team);
        let spec = serde_json::from_value(self.world.spec(&self.team, &["foo"])).unwrap();
        let sync = ConfigMapSync::new("sync", ConfigMapSyncFields { spec: Some(spec) });
        syncs.create(&PostParams { dry_run: true, ..PostParams::default() }, &sync).await
    }

    async fn is_refused(&self) {
        eventually("the user is refused", || async { refusal(self.tried().await) }).await;
    }

    async fn is_let_through(&self) {
        eventually("the user is let through", || async { self.tried().await }).await;
    }

    async fn acts(&self, actions: &[&str]) {
        let binding = self.bindings().get(NAME).await.unwrap();
        assert_eq!(binding.spec.validation_actions, actions);
    }
}

/// What `weaver doctor` says by this kubeconfig, as `(code, severity, message)`.
fn doctor(kubeconfig: &Path) -> Vec<(String, String, String)> {
    let output = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"))
        .env("DOCKER_HOST", "unix:///nonexistent")
        .args(["doctor", "-o", "json", "--kubeconfig"])
        .arg(kubeconfig)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| (text(finding, "code"), text(finding, "severity"), text(finding, "message")))
        .collect()
}

/// What it says of the policy.
fn of_policy(kubeconfig: &Path) -> Vec<(String, String, String)> {
    let mut findings = doctor(kubeconfig);
    findings.retain(|(code, ..)| ["A-06", "A-07"].contains(&code.as_str()));
    findings
}

#[tokio::test]
async fn turned_off_it_stays_off_and_what_was_deleted_or_changed_comes_back() {
    let scene = Scene::start("policy").await;
    let kubeconfig = scene.own.server.kubeconfig();
    scene.is_refused().await;
    assert_eq!(of_policy(&kubeconfig), []);
    let warns = |words: &str| {
        let found = of_policy(&kubeconfig);
        let [(_, severity, message)] = found.as_slice() else { panic!("{words}: {found:?}") };
        assert!(severity == "warn" && message.contains(words), "{words}: {found:?}");
    };

    // Its owner turns it off.
    let audit = json!({"spec": {"validationActions": ["Audit"]}});
    scene.bindings().patch(NAME, &PatchParams::default(), &Patch::Merge(&audit)).await.unwrap();
    scene.is_let_through().await;
    warns("[Audit]");
    let report = scene.own.install().await.unwrap();
    assert!(!report.changed() && report.admission[1].to_string().contains("left unchanged"), "{report:?}");
    scene.acts(&["Audit"]).await;
    scene.is_let_through().await;

    // And on again: deleted, it is made again.
    scene.bindings().delete(NAME, &DeleteParams::default()).await.unwrap();
    warns("there is no ValidatingAdmissionPolicyBinding");
    scene.own.install().await.unwrap();
    scene.acts(&["Deny"]).await;
    scene.is_refused().await;

    scene.policies().delete(NAME, &DeleteParams::default()).await.unwrap();
    warns("there is no ValidatingAdmissionPolicy ");
    scene.is_let_through().await;
    scene.own.install().await.unwrap();
    scene.is_refused().await;

    let tampered = json!({"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}});
    scene.policies().patch(NAME, &PatchParams::default(), &Patch::Merge(&tampered)).await.unwrap();
    warns("of another version");
    scene.is_let_through().await;
    scene.own.install().await.unwrap();
    scene.is_refused().await;
    assert_eq!(of_policy(&kubeconfig), []);
}

#[tokio::test]
async fn the_api_server_finds_no_fault_with_the_rules_and_a_second_install_writes_nothing() {
    let scene = Scene::start("policy-types").await;
    for name in [NAME, deletions::NAME] {
        eventually("its expressions are checked against the kinds", || async {
            let policy = scene.policies().get(name).await.unwrap();
            let status = policy.status.unwrap_or_default();
            let is_current = status.observed_generation == policy.metadata.generation;
            match status.type_checking.filter(|_| is_current) {
                Some(checked) if checked.expression_warnings.is_none() => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }
    let version = || async { scene.policies().get(NAME).await.unwrap().metadata.resource_version };
    let before = version().await;
    assert!(!scene.own.install().await.unwrap().changed());
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn more_accounts_than_are_asked_about_are_refused_where_another_definition_lets_them_in() {
    let scene = Scene::start("policy-many").await;
    scene.is_refused().await;
    scene.person.has_cluster_role(&scene.world, &scene.team, "edit").await;
    scene.is_let_through().await;
    let most = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/tokens/maxItems";
    let more = json!([{"op": "replace", "path": most, "value": 17}]).to_string();
    scene.own.kubectl(&["patch", "crd", "servicetokens.weaver.example.com", "--type=json", "-p", &more]);
    let tokens: Api<ServiceToken> = Api::namespaced(scene.person.client.clone(), &scene.team);
    let account = json!({"name": "robot"});
    let listed = (1..=17).map(|number| json!({"key": format!("key-{number}"), "serviceAccount": account}));
    let spec = json!({"writer": {"serviceAccount": account}, "tokens": listed.collect::<Vec<_>>()});
    let spec: ServiceTokenSpec = serde_json::from_value(spec).unwrap();
    let token = ServiceToken::new("many", ServiceTokenFields { spec: Some(spec) });
    let words = eventually("only the policy is in the way", || async {
        refusal(tokens.create(&PostParams::default(), &token).await)
    })
    .await;
    assert!(words.contains("more than 17 ServiceAccounts are named"), "{words}");
}

#[tokio::test]
async fn who_may_not_look_at_policies_sees_that_nothing_is_known() {
    let scene = Scene::start("policy-unseen").await;
    let mut kubeconfig = Kubeconfig::read_from(scene.own.server.kubeconfig()).unwrap();
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
        user.impersonate = Some(scene.person.name.clone());
    }
    let path = scene.own.dir().join("person.kubeconfig");
    std::fs::write(&path, json!(kubeconfig).to_string()).unwrap();
    let found = doctor(&path);
    let unknown = |(code, severity, message): &(String, String, String)| {
        code == "A-05" && severity == "unknown" && message.starts_with("looking for the admission policy")
    };
    assert!(found.iter().any(unknown), "{found:?}");
    assert!(!found.iter().any(|(code, ..)| code == "A-06"), "{found:?}");
}

#[tokio::test]
async fn the_operator_holds_and_releases_without_the_right_to_impersonate_anyone() {
    let scene = Scene::start("policy-operator").await;
    scene.is_refused().await;
    let Scene { own, world, team, .. } = scene;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;

    // Where a list is a word, the API server refuses every write that leaves it there; our definition never lets that
    // in, another one has.
    let namespaces = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/targets";
    let own_schema = own.kubectl(&["get", "crd", "configmapsyncs.weaver.example.com", "-o", "json"]);
    let own_schema: Value = serde_json::from_str(&own_schema).unwrap();
    let other = |schema: &Value| {
        let patch = json!([{"op": "replace", "path": namespaces, "value": schema}]).to_string();
        own.kubectl(&["patch", "crd", "configmapsyncs.weaver.example.com", "--type=json", "-p", &patch]);
    };
    // A rule of the definition names this field of it.
    let name = json!({"name": {"type": "string"}});
    other(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": name}));
    let raw: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &team, &ApiResource::erase::<ConfigMapSync>(&()));
    let mut spec = world.spec(&team, &[]);
    spec["targets"] = json!({"namespaces": "foo"});
    let odd = json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
                     "metadata": {"name": "odd", "finalizers": [FINALIZER]}, "spec": spec});
    let odd: DynamicObject = serde_json::from_value(odd).unwrap();
    eventually("the other definition lets it in", || async {
        raw.create(&PostParams::default(), &odd).await
    })
    .await;
    other(own_schema.pointer(namespaces).unwrap());
    own.install().await.unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    eventually("our definition lets no one write it", || async {
        match raw.patch("odd", &PatchParams::default(), &Patch::Merge(&label)).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
            other => Err(other.map(drop).map_err(|error| error.to_string())),
        }
    })
    .await;

    let _alone = OwnOperator::direct_on(own, &[]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    raw.delete("odd", &DeleteParams::default()).await.unwrap();
    eventually("it is released", || async { raw.get_opt("odd").await.unwrap().map_or(Ok(()), Err) }).await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;
    world.finish().await;
}
