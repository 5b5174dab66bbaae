//! The installer on a real API server: what it writes, what it refuses, and that it may be killed.

use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use weaver_api::{crds, v1alpha1, v1beta1};
use weaver_installer::{self as installer, accounts};
use weaver_tests::cli::{drawn, ended, weaver_on};
use weaver_tests::own::OwnServer;
use weaver_tests::world::{eventually, given};

const SYNCS: &str = "configmapsyncs.weaver.example.com";

/// How long a webhook is waited for that does not run; of a server that is ready, nothing else is.
const BRIEF: Duration = Duration::from_secs(3);

fn definitions(own: &OwnServer) -> Api<CustomResourceDefinition> {
    Api::all(own.client.clone())
}

async fn definition(own: &OwnServer, name: &str) -> CustomResourceDefinition {
    definitions(own).get(name).await.unwrap()
}

fn ca_bundle(crd: &CustomResourceDefinition) -> Option<Vec<u8>> {
    let webhook = crd.spec.conversion.as_ref()?.webhook.as_ref()?;
    webhook.client_config.as_ref()?.ca_bundle.as_ref().map(|bundle| bundle.0.clone())
}

fn stored_versions(crd: &CustomResourceDefinition) -> Vec<String> {
    crd.status.clone().unwrap_or_default().stored_versions.unwrap_or_default()
}

fn old_syncs(own: &OwnServer) -> Api<DynamicObject> {
    Api::namespaced_with(own.client.clone(), "default", &ApiResource::erase::<v1alpha1::ConfigMapSync>(&()))
}

async fn create_old(own: &OwnServer, name: &str) {
    let object = json!({
        "apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync", "metadata": {"name": name},
        "spec": {"source": {"name": "s", "namespace": "default"}, "syncToNamespaces": ["foo", "foo"], "testNum": 5},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    eventually("v1alpha1 is served", || async {
        old_syncs(own).create(&PostParams::default(), &object).await
    })
    .await;
}

#[tokio::test]
async fn a_second_install_writes_nothing_and_a_drifted_ca_bundle_is_repaired() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let names: Vec<String> = crds::all().into_iter().filter_map(|crd| crd.metadata.name).collect();
    assert_eq!(names.len(), 4);
    let mut versions = Vec::new();
    for name in &names {
        let crd = definition(&own, name).await;
        assert_eq!(ca_bundle(&crd), Some(own.webhook.address().ca_bundle.into_bytes()), "{name}");
        assert_eq!(stored_versions(&crd), ["v1beta1"], "{name}");
        versions.push(crd.metadata.resource_version);
    }
    own.install().await.unwrap();
    for (name, version) in names.iter().zip(&versions) {
        assert_eq!(
            definition(&own, name).await.metadata.resource_version,
            *version,
            "{name} was written again"
        );
    }

    let drift = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
    definitions(&own).patch(SYNCS, &PatchParams::default(), &Patch::Merge(&drift)).await.unwrap();
    assert_eq!(ca_bundle(&definition(&own, SYNCS).await), None);
    own.install().await.unwrap();
    assert!(ca_bundle(&definition(&own, SYNCS).await).is_some());
    create_old(&own, "after").await;
}

#[tokio::test]
async fn a_definition_applied_by_hand_fails_closed_until_the_installer_has_run() {
    let own = OwnServer::start().await;
    own.apply("deploy/crds/configmapsyncs.yaml").await;
    let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync", "metadata": {"name": "a"}});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let error = eventually("the kind is known", || async {
        match old_syncs(&own).create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code != 404 => Ok(status.message),
            other => Err(other.map(drop).map_err(|error| error.to_string())),
        }
    })
    .await;
    assert!(error.contains("conversion webhook"), "{error}");
    own.install().await.unwrap();
    create_old(&own, "a").await;
}

#[tokio::test]
async fn without_an_answer_of_the_webhook_no_definition_is_written_and_the_policy_is() {
    let mut own = OwnServer::start().await;
    own.webhook.kill();
    let address = own.webhook.address();
    let error = format!("{:#}", anyhow(own.install_within(BRIEF).await.unwrap_err()));
    assert!(error.contains(&address.url), "{error}");
    for crd in crds::all() {
        let name = crd.metadata.name.unwrap();
        assert!(definitions(&own).get_opt(&name).await.unwrap().is_none(), "{name}");
    }
    // The admission policies are installed whatever else fails.
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(own.client.clone());
    policies.get(accounts::NAME).await.unwrap();
    own.webhook.start();
    own.install().await.unwrap();
    // A dead webhook does not prevent restoring it.
    own.webhook.kill();
    policies.delete(accounts::NAME, &DeleteParams::default()).await.unwrap();
    own.install_within(BRIEF).await.unwrap_err();
    policies.get(accounts::NAME).await.unwrap();
}

fn anyhow(error: impl std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

/// A definition of someone else under one of our names, changed by `edit` from a plain one.
async fn foreign(own: &OwnServer, edit: serde_json::Value) {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicetokens.weaver.example.com"},
        "spec": {
            "group": "weaver.example.com", "scope": "Namespaced",
            "names": {"kind": "ServiceToken", "plural": "servicetokens", "singular": "servicetoken", "listKind": "ServiceTokenList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "serviceAccount": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}}],
        },
    });
    json_merge(&mut crd, edit);
    let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
    definitions(own).create(&PostParams::default(), &crd).await.unwrap();
}

fn json_merge(into: &mut serde_json::Value, patch: serde_json::Value) {
    match (into, patch) {
        (serde_json::Value::Object(into), serde_json::Value::Object(patch)) => {
            for (key, value) in patch {
                json_merge(into.entry(key).or_insert_with(|| json!({})), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

async fn refused(own: &OwnServer) -> String {
    let before = definition(own, "servicetokens.weaver.example.com").await;
    let error = anyhow(own.install().await.unwrap_err());
    let after = definition(own, "servicetokens.weaver.example.com").await;
    assert_eq!(after.spec, before.spec, "a refused definition stays as it is");
    assert!(
        definitions(own).get_opt(SYNCS).await.unwrap().is_none(),
        "all is judged before anything is written"
    );
    error
}

#[tokio::test]
async fn another_scope_is_refused_with_the_number_of_objects_and_the_way_out() {
    let own = OwnServer::start().await;
    foreign(&own, json!({"spec": {"scope": "Cluster"}})).await;
    let tokens: Api<DynamicObject> =
        Api::all_with(own.client.clone(), &ApiResource::erase::<v1alpha1::ServiceToken>(&()));
    for name in ["one", "two"] {
        let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ServiceToken", "metadata": {"name": name}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        eventually("the kind is served", || async { tokens.create(&PostParams::default(), &object).await })
            .await;
    }
    let error = refused(&own).await;
    for words in ["scope", "Cluster", "Namespaced", "2 ", "kubectl"] {
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
    assert!(tokens.get_opt("one").await.unwrap().is_some());
}

#[tokio::test]
async fn someone_elses_definition_of_the_same_name_is_left_alone() {
    let own = OwnServer::start().await;
    for (what, edit, words) in [
        (
            "kind",
            json!({"spec": {"names": {"kind": "Other", "listKind": "OtherList", "singular": "other"}}}),
            "Other",
        ),
        (
            "field",
            json!({"spec": {"versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"theirs": {"type": "string"}}}}}}}]}}),
            "spec.theirs",
        ),
        (
            "version",
            json!({"spec": {"versions": [{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
            "v2",
        ),
    ] {
        foreign(&own, edit).await;
        let error = refused(&own).await;
        assert!(error.contains(words), "{what}: {error}");
        let name = "servicetokens.weaver.example.com";
        definitions(&own).delete(name, &DeleteParams::default()).await.unwrap();
        eventually("it is gone", || async {
            definitions(&own).get_opt(name).await.unwrap().map_or(Ok(()), |crd| Err(crd.metadata.finalizers))
        })
        .await;
    }
}

#[tokio::test]
async fn upstreams_objects_are_rewritten_and_only_then_its_version_is_dropped() {
    let mut own = OwnServer::start().await;
    own.apply("tests/fixtures/upstream-crd.yaml").await;
    for number in 0..20 {
        create_old(&own, &format!("sync-{number}")).await;
    }
    let bare = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync", "metadata": {"name": "bare"}});
    old_syncs(&own).create(&PostParams::default(), &serde_json::from_value(bare).unwrap()).await.unwrap();
    own.install().await.unwrap();
    assert_eq!(stored_versions(&definition(&own, SYNCS).await), ["v1alpha1", "v1beta1"]);
    let new: Api<v1beta1::ConfigMapSync> = Api::default_namespaced(own.client.clone());
    // Stored at v1alpha1 without all that v1beta1 requires, it can be written to all the same.
    for change in
        [json!({"metadata": {"finalizers": ["example.com/a"]}}), json!({"metadata": {"finalizers": null}})]
    {
        new.patch("bare", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }
    let status = json!({"status": {"observedGeneration": 1}});
    let bare = new.patch_status("bare", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(bare.metadata.generation, Some(1), "nothing of its spec has changed");
    // What is stored at v1alpha1 needs the webhook to be read at v1beta1; what is rewritten does not.
    own.webhook.kill();
    assert!(new.get("sync-7").await.is_err());
    // The API server may still have all of them converted in its cache, and can then rewrite them; else it cannot.
    let migrated = installer::migrate(&own.client, |_| ()).await.is_ok();
    let left = stored_versions(&definition(&own, SYNCS).await);
    assert_eq!(
        left == ["v1beta1"],
        migrated,
        "a version goes when nothing is stored at it, and only then: {left:?}"
    );
    own.webhook.start();
    eventually("the migration", || async { installer::migrate(&own.client, |_| ()).await.map_err(anyhow) })
        .await;
    assert_eq!(stored_versions(&definition(&own, SYNCS).await), ["v1beta1"]);
    own.webhook.kill();
    for number in 0..20 {
        let sync = new.get(&format!("sync-{number}")).await.unwrap();
        assert_eq!(sync.spec.spec.unwrap().targets.unwrap().namespaces, ["foo"]);
    }
    own.webhook.start();
    let version = definition(&own, SYNCS).await.metadata.resource_version;
    installer::migrate(&own.client, |_| ()).await.unwrap();
    assert_eq!(definition(&own, SYNCS).await.metadata.resource_version, version);
    eventually("v1alpha1", || async { old_syncs(&own).get("sync-3").await }).await;
    assert_eq!(old_syncs(&own).get("sync-3").await.unwrap().data["spec"]["testNum"], 5);
}

/// Two pages of objects: how many are done is counted on a terminal, and nowhere else.
#[tokio::test]
async fn a_migration_counts_the_objects_on_a_terminal() {
    let own = OwnServer::start().await;
    own.apply("tests/fixtures/upstream-crd.yaml").await;
    for number in 0..60 {
        create_old(&own, &format!("sync-{number}")).await;
    }
    own.install().await.unwrap();
    let (out, drawn) = drawn(weaver_on(&own, &["crd", "migrate"])).await;
    assert!(drawn.contains(" of 60  ") && drawn.contains(SYNCS), "{drawn:?}");
    assert!(out.contains("60 objects rewritten, 0 were already") && !out.contains(" of 60"), "{out}");
    let quiet = ended(weaver_on(&own, &["crd", "migrate"])).await;
    assert!(quiet.done && quiet.err.is_empty(), "{quiet:?}");
}

#[tokio::test]
async fn an_install_that_was_killed_at_any_moment_is_done_by_the_next_one() {
    let own = OwnServer::start().await;
    own.apply("tests/fixtures/upstream-crd.yaml").await;
    create_old(&own, "kept").await;
    let address = own.webhook.address();
    let weaver = |verb: &str| {
        let mut command = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
        command.args(["crd", verb, "--kubeconfig"]).arg(own.server.kubeconfig());
        if verb != "migrate" {
            command.args(["--webhook", &address.url]);
        }
        if verb == "install" {
            command.arg("--certificates").arg(own.dir().join("webhook"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for verb in ["install", "migrate"] {
        for milliseconds in [1, 10, 20, 40, 80, 120, 200, 400] {
            let mut child = weaver(verb).spawn().unwrap();
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let output = weaver(verb).output().unwrap();
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(stored_versions(&definition(&own, SYNCS).await), ["v1beta1"]);
    assert_eq!(old_syncs(&own).get("kept").await.unwrap().data["spec"]["testNum"], 5);
    let diff = weaver("diff").output().unwrap();
    assert_eq!(diff.status.code(), Some(0), "{}", String::from_utf8_lossy(&diff.stdout));
}
