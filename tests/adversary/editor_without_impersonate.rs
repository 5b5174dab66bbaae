//! A user who may write our kinds in a namespace and may not impersonate its accounts. Each test is one way to have
//! the operator do something else with the rights of such an account.

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use weaver_api::convert::ANNOTATION;
use weaver_tests::person::{ClusterUser, refusal};
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

mod deletions;
mod finalizers;
mod metadata;

/// All annotations of an object together, in bytes.
const MOST: usize = 256 * 1_024;

fn objects(client: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(weaver_api::GROUP, version, kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

async fn patched(api: &Api<DynamicObject>, name: &str, patch: &Value) -> kube::Result<DynamicObject> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

fn padded(pad: &Value) -> Value {
    json!({"metadata": {"annotations": {"pad": pad}}})
}

/// One object, as the attacker accesses it at both versions, and as the administrator does.
struct Attack {
    new: Api<DynamicObject>,
    old: Api<DynamicObject>,
    admin: Api<DynamicObject>,
    name: &'static str,
}

impl Attack {
    async fn on(world: &World, team: &str, kind: &str, name: &'static str) -> Self {
        let mallory = ClusterUser::new(world, team, "mallory").await;
        let status = json!([{"apiGroups": [weaver_api::GROUP], "resources": ["configmapsyncs/status"], "verbs": ["*"]}]);
        mallory.granted(world, team, "status", status).await;
        let attack = Self {
            new: objects(&mallory.client, "v1beta1", kind, team),
            old: objects(&mallory.client, "v1alpha1", kind, team),
            admin: objects(&world.client, "v1beta1", kind, team),
            name,
        };
        eventually("the attacker has rights", || async { attack.old.get(name).await }).await;
        attack
    }

    /// What is stored: the spec, and the text in which conversion carries.
    async fn stored(&self) -> (Value, Option<String>) {
        let object = self.admin.get(self.name).await.unwrap();
        let text = object.metadata.annotations.and_then(|all| all.get(ANNOTATION).cloned());
        (object.data["spec"].clone(), text)
    }

    /// How long `pad` may be until the annotations are full.
    async fn room(&self) -> usize {
        let annotations = self.admin.get(self.name).await.unwrap().metadata.annotations.unwrap_or_default();
        let others = annotations.iter().filter(|(key, _)| *key != "pad");
        MOST - "pad".len() - others.map(|(key, value)| key.len() + value.len()).sum::<usize>()
    }

    /// The two commands, with this many bytes less than the limit: the stored object stays as it is.
    async fn pads_and_strips(&self, less: usize) {
        let before = self.stored().await;
        let pad = "x".repeat(self.room().await - less);
        patched(&self.new, self.name, &padded(&json!(pad))).await.unwrap();
        // Written at v1alpha1 with the annotations full, and when they are free again.
        patched(&self.old, self.name, &json!({"metadata": {"labels": {"seen": format!("{less}")}}}))
            .await
            .unwrap();
        assert_eq!(self.stored().await, before, "{less}");
        // And without the text in which conversion carries, at either version.
        for api in [&self.old, &self.new] {
            let nulled = json!({"metadata": {"annotations": {"pad": null, ANNOTATION: null}}});
            let _ = patched(api, self.name, &nulled).await;
            assert_eq!(self.stored().await, before, "{less}");
        }
        patched(&self.old, self.name, &padded(&Value::Null)).await.unwrap();
        assert_eq!(self.stored().await, before, "{less}");
    }

    /// The object that is read at v1alpha1 while its annotations are full says more than v1alpha1 can show, and that
    /// cannot be removed there.
    async fn takes_the_field(&self) {
        let before = self.stored().await;
        let pad = "x".repeat(self.room().await);
        patched(&self.new, self.name, &padded(&json!(pad))).await.unwrap();
        let field = |object: DynamicObject| object.data["spec"]["roundTrip"].clone();
        assert!(field(self.old.get(self.name).await.unwrap()).is_string());
        for taken in [
            json!({"spec": {"roundTrip": null}}),
            json!({"spec": {"roundTrip": r#"{"version":"v1beta1"}"#}}),
            json!({"spec": null}),
            json!({"spec": {"roundTrip": null}, "metadata": {"annotations": {"pad": null}}}),
        ] {
            let error = patched(&self.old, self.name, &taken).await.unwrap_err().to_string();
            assert!(error.contains("more than v1alpha1 can show; edit it at v1beta1"), "{taken}: {error}");
        }
        patched(&self.new, self.name, &padded(&Value::Null)).await.unwrap();
        let planted = json!({"spec": {"roundTrip": r#"{"version":"v1beta1","spec":{"suspend":true}}"#}});
        let error = patched(&self.old, self.name, &planted).await.unwrap_err().to_string();
        assert!(error.contains("spec.roundTrip cannot be changed, added or removed"), "{error}");
        assert_eq!(self.stored().await, before);
    }
}

#[tokio::test]
async fn who_fills_the_annotations_up_and_writes_at_v1alpha1_copies_no_private_key_and_no_excluded_namespace()
{
    let world = World::new("pad-and-strip").await;
    let team = world.tenant().await;
    let (one, two) = (world.target(&team, "one").await, world.target(&team, "two").await);
    world.config_map(&team, "settings", &[("public", "p"), ("private", "TOP-SECRET")]).await;
    let mut spec = world.spec(&team, &[&one, &two]);
    spec["targets"]["exclude"] = json!([two]);
    spec["keys"] = json!({"include": ["public"]});
    world.sync(&team, "conf", spec).await;
    world.holds(&one, "settings", &[("public", "p")]).await;

    let attack = Attack::on(&world, &team, "ConfigMapSync", "conf").await;
    // Conversion is proven for each number of bytes without a server; here, that the policies let it do its work.
    for less in [0, 60, 2_000] {
        attack.pads_and_strips(less).await;
    }
    attack.takes_the_field().await;
    // The operator has seen all of it, when it has copied what came last.
    world.config_map(&team, "settings", &[("public", "q"), ("private", "TOP-SECRET")]).await;
    world.holds(&one, "settings", &[("public", "q")]).await;
    assert!(world.config_maps(&two).get_opt("settings").await.unwrap().is_none());
    world.finish().await;
}

#[tokio::test]
async fn who_fills_the_annotations_up_makes_no_secret_a_config_map_and_has_no_copy_deleted() {
    let world = World::new("pad-secret").await;
    let team = world.tenant().await;
    let target = world.namespace("target").await;
    world.grant_secrets(&team, &team, &["get", "list", "watch"]).await;
    world.grant_secrets(&team, &target, &TARGET).await;
    let secret = world.secret(&team, "settings", "Opaque", &[("a", b"1")]).await;
    let mut spec = world.spec(&team, &[&target]);
    spec["source"]["kind"] = json!("Secret");
    spec["deletionPolicy"] = json!("Orphan");
    world.sync(&team, "conf", spec).await;
    world.holds_secret(&target, "settings", &secret).await;

    let attack = Attack::on(&world, &team, "ConfigMapSync", "conf").await;
    for less in [0, 60, 130] {
        attack.pads_and_strips(less).await;
    }
    attack.takes_the_field().await;
    attack.new.delete("conf", &DeleteParams::default()).await.unwrap();
    eventually("it is gone", || async { attack.admin.get_opt("conf").await.unwrap().map_or(Ok(()), Err) })
        .await;
    world.holds_secret(&target, "settings", &secret).await;
    world.finish().await;
}

/// A ServiceToken, filled: the writer is another account than the token's, which is not to be minted before 2030.
async fn service_token(world: &World) -> String {
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    let spec = json!({
        "writer": {"serviceAccount": {"name": "sync"}},
        "tokens": [{"key": "other", "serviceAccount": {"name": "robot"}},
                   {"key": "token", "serviceAccount": {"name": "robot"}, "notBefore": "2030-01-01T00:00:00Z"}],
    });
    world.apply_service_token(&team, "tokens", spec).await;
    world.tokens_that(&team, "tokens", "are there", |now| now.contains_key("other")).await;
    team
}

#[tokio::test]
async fn who_fills_the_annotations_up_changes_neither_the_writer_nor_the_tokens() {
    let world = World::new("pad-token").await;
    let team = service_token(&world).await;
    let attack = Attack::on(&world, &team, "ServiceToken", "tokens").await;
    let before = attack.stored().await;
    // Here the pad itself is judged: the operator would copy it to the Secret.
    refusal(patched(&attack.new, "tokens", &padded(&json!("x"))).await).unwrap();
    for less in [0, 60] {
        let pad = padded(&json!("x".repeat(attack.room().await - less)));
        patched(&attack.admin, "tokens", &pad).await.unwrap();
        for (api, nulled) in [
            (&attack.old, json!({"pad": null})),
            (&attack.new, json!({ANNOTATION: null, "pad": null})),
            (&attack.old, json!({ANNOTATION: null, "pad": null})),
        ] {
            refusal(patched(api, "tokens", &json!({"metadata": {"annotations": nulled}})).await).unwrap();
        }
        let finalizer = json!({"metadata": {"finalizers": ["example.com/theirs"]}});
        patched(&attack.old, "tokens", &finalizer).await.unwrap();
        patched(&attack.old, "tokens", &json!({"metadata": {"finalizers": null}})).await.unwrap();
        assert_eq!(attack.stored().await, before, "{less}");
        patched(&attack.admin, "tokens", &padded(&Value::Null)).await.unwrap();
    }
    let now = world.tokens(&team, "tokens").await;
    assert!(!now.contains_key("token"), "not before 2030");
    world.finish().await;
}

#[tokio::test]
async fn what_conversion_carries_is_judged_like_the_spec_at_either_version_and_for_either_kind() {
    let world = World::new("round-trip").await;
    let team = service_token(&world).await;
    let mut spec = world.spec(&team, &[&team]);
    spec["targets"] = json!({"namespaces": ["nowhere"], "exclude": ["elsewhere"]});
    world.sync(&team, "conf", spec).await;
    for (kind, name) in [("ConfigMapSync", "conf"), ("ServiceToken", "tokens")] {
        let attack = Attack::on(&world, &team, kind, name).await;
        let with = |text: Value| json!({"metadata": {"annotations": {ANNOTATION: text}}});
        let round_trip = json!({"version": "v1alpha1", "dropped": true}).to_string();
        // The mark that an older release left, and text of someone else.
        for text in [round_trip, "theirs".to_owned()] {
            patched(&attack.admin, name, &with(json!(text))).await.unwrap();
            let before = attack.stored().await;
            for (api, changed) in [
                (&attack.new, Value::Null),
                (&attack.new, json!(format!("{text} "))),
                (&attack.old, Value::Null),
                (&attack.old, json!(r#"{"version":"v1beta1"}"#)),
                (&attack.old, json!(r#"{"version":"v1beta1","spec":{"suspend":true,"renewAtPercent":1}}"#)),
            ] {
                let said = refusal(patched(api, name, &with(changed.clone())).await);
                assert!(said.is_ok(), "{kind} {text} {changed}: {said:?}");
            }
            assert_eq!(attack.stored().await, before);
        }
        // Nor may the spec go, as a whole: the operator would let go of what it has made.
        refusal(patched(&attack.new, name, &json!({"spec": null})).await).unwrap();
        refusal(patched(&attack.old, name, &json!({"spec": null})).await).unwrap();
        let no_account = json!({"spec": {"serviceAccount": null, "source": null, "syncToNamespaces": null}});
        refusal(patched(&attack.old, name, &no_account).await).unwrap();
    }
    world.finish().await;
}

#[tokio::test]
async fn a_write_of_the_status_at_v1alpha1_changes_no_spec() {
    let world = World::new("old-status-write").await;
    let (team, foo) = world.synced().await;
    let attack = Attack::on(&world, &team, "ConfigMapSync", "sync").await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["keys"] = json!({"include": ["a"]});
    world.sync(&team, "sync", spec).await;
    for less in [0, 60, 1_000] {
        let pad = "x".repeat(attack.room().await - less);
        patched(&attack.new, "sync", &padded(&json!(pad))).await.unwrap();
        let before = attack.stored().await.0;
        let status = json!({
            "metadata": {"annotations": {"pad": null, ANNOTATION: r#"{"version":"v1beta1"}"#}},
            "spec": {"serviceAccount": {"name": "other"}, "roundTrip": null}, "status": {"test": "t".repeat(100_000)},
        });
        attack.old.patch_status("sync", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        assert_eq!(attack.stored().await.0, before, "{less}");
        let cleared = json!({"status": {"test": null}});
        attack.old.patch_status("sync", &PatchParams::default(), &Patch::Merge(&cleared)).await.unwrap();
        patched(&attack.new, "sync", &padded(&Value::Null)).await.unwrap();
    }
    world.finish().await;
}
