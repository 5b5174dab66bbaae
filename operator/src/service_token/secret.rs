//! What the Secret of a `ServiceToken` looks like. Pure.
//!
//! Its data is wholly ours, key by key: one that is not minted now keeps its value to the byte. Its metadata is shared
//! with other people ([`Metadata`]). It is owned by its resource and deleted with it; it is recognised by that owner
//! reference, or by an annotation that says the same.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use secrecy::{ExposeSecret as _, SecretString};
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{Owner, holds_tokens_of, is_service_token};
use weaver_api::v1beta1::ServiceToken;
use weaver_tenant::claims::{Claims, NotAToken};

use super::plan::SeenSecret;
use weaver_copies::metadata::Metadata;
use weaver_copies::object::{Object, ObjectKey};

/// The desired Secret, except for its tokens.
pub struct DesiredSecret {
    pub owner: Owner,
    pub object_key: ObjectKey,
    pub reference: OwnerReference,
    metadata: Metadata,
}

impl DesiredSecret {
    /// The Secret `name` of `resource`, which is `owner`.
    pub fn new(owner: Owner, resource: &ServiceToken, name: &str) -> Self {
        let reference = OwnerReference {
            api_version: ServiceToken::api_version(&()).into(),
            kind: ServiceToken::kind(&()).into(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            // No one who deletes the resource is to wait for the Secret.
            block_owner_deletion: None,
        };
        Self {
            object_key: ObjectKey {
                kind: ObjectKind::SECRET,
                namespace: owner.namespace.clone(),
                name: name.to_owned(),
            },
            metadata: Metadata::of_tokens(&owner, &resource.metadata),
            reference,
            owner,
        }
    }

    /// What is found, without a secret.
    pub fn seen(&self, found: &Object) -> SeenSecret {
        let meta = &found.metadata;
        let data = found.data.iter().flatten();
        SeenSecret {
            uid: meta.uid.clone().unwrap_or_default(),
            is_ours: holds_tokens_of(&self.owner, meta),
            is_immutable: found.immutable == Some(true),
            is_terminating: meta.deletion_timestamp.is_some(),
            keys: data.map(|(key, value)| (key.clone(), claims(value))).collect(),
        }
    }

    /// Has it the labels, annotations and owner that it is to have?
    pub fn is_marked(&self, found: &ObjectMeta) -> bool {
        self.metadata.is_on(found) && self.is_owned(found)
    }

    /// Does it go with its resource?
    pub fn is_owned(&self, found: &ObjectMeta) -> bool {
        found.owner_references.iter().flatten().any(|one| *one == self.reference)
    }

    /// A new one, empty: its uid is what tokens are bound to.
    pub fn create(&self) -> Object {
        let meta = self.metadata.of_new(&self.object_key.namespace, &self.object_key.name);
        Object { type_: Some("Opaque".to_owned()), ..self.with(meta, BTreeMap::new()) }
    }

    /// `found` without what is `removed` and with what was `minted`. Its uid and resourceVersion go with it and are the
    /// precondition of the write.
    pub fn update(
        &self,
        found: &Object,
        removed: &BTreeSet<String>,
        minted: &BTreeMap<String, SecretString>,
    ) -> Object {
        let mut data = found.data.clone().unwrap_or_default();
        data.retain(|key, _| !removed.contains(key));
        data.extend(minted.iter().map(|(key, token)| (key.clone(), STANDARD.encode(token.expose_secret()))));
        let object = self.with(self.metadata.put_on(&found.metadata), data);
        Object { type_: found.type_.clone(), immutable: found.immutable, ..object }
    }

    /// With our owner reference replacing one to a resource of the same name that is gone.
    fn with(&self, mut meta: ObjectMeta, data: BTreeMap<String, String>) -> Object {
        let owners = meta.owner_references.get_or_insert_default();
        owners.retain(|owner| !is_service_token(owner) || owner.name != self.owner.name);
        owners.push(self.reference.clone());
        let kind = ObjectKind::SECRET.as_str().to_owned();
        Object { api_version: "v1".into(), kind, metadata: meta, data: Some(data), ..Object::default() }
    }
}

fn claims(value: &str) -> Result<Claims, NotAToken> {
    let bytes = STANDARD.decode(value).map_err(|_| NotAToken)?;
    Claims::read(std::str::from_utf8(&bytes).map_err(|_| NotAToken)?)
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn resource(labels: &serde_json::Value) -> ServiceToken {
        serde_json::from_value(json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken",
            "metadata": {
                "name": "ci", "namespace": "team-a", "uid": "u1", "labels": labels,
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"},
            },
        }))
        .unwrap()
    }

    fn desired(labels: &serde_json::Value) -> DesiredSecret {
        let owner = Owner { namespace: "team-a".into(), name: "ci".into(), uid: "u1".into() };
        DesiredSecret::new(owner, &resource(labels), "tokens")
    }

    #[test]
    fn the_secret_is_owned_and_carries_what_its_resource_does_and_no_more() {
        let made = json!(desired(&json!({"team": "a"})).create());
        assert_eq!(
            made,
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {},
                "metadata": {
                    "name": "tokens", "namespace": "team-a",
                    "labels": {"team": "a", "app.kubernetes.io/managed-by": "config-weaver"},
                    "annotations": {
                        "note": "x", "weaver.example.com/token": "team-a/ci/u1",
                        "weaver.example.com/keys": r#"{"labels":["team"],"annotations":["note"]}"#,
                    },
                    "ownerReferences": [{
                        "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken", "name": "ci",
                        "uid": "u1", "controller": true,
                    }],
                },
            })
        );
    }

    #[test]
    fn only_what_is_named_changes_and_others_labels_stay() {
        let before = desired(&json!({"old": "1"}));
        let mut found = before.create();
        found.metadata.labels.as_mut().unwrap().insert("theirs".into(), "1".into());
        found.metadata.resource_version = Some("7".into());
        let data = [("keep", "AA=="), ("drop", "AQ=="), ("renew", "Ag==")];
        found.data = Some(data.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let now = desired(&json!({"new": "1"}));
        assert!(before.is_marked(&found.metadata) && !now.is_marked(&found.metadata));
        let minted =
            [("renew".to_owned(), "fresh".to_owned().into()), ("add".to_owned(), "more".to_owned().into())];
        let after = now.update(&found, &["drop".to_owned()].into(), &minted.into());
        assert!(now.is_marked(&after.metadata));
        let stored = json!(after);
        assert_eq!(stored["data"], json!({"keep": "AA==", "renew": "ZnJlc2g=", "add": "bW9yZQ=="}));
        let labels = json!({"new": "1", "theirs": "1", "app.kubernetes.io/managed-by": "config-weaver"});
        assert_eq!(stored["metadata"]["labels"], labels);
        assert_eq!(stored["metadata"]["resourceVersion"], "7", "the precondition");
        assert_eq!(stored["type"], "Opaque");
    }

    #[test]
    fn the_owner_of_a_restored_secret_is_the_living_one() {
        let desired = desired(&json!({}));
        let mut found = desired.create();
        let owners = found.metadata.owner_references.as_mut().unwrap();
        owners[0].uid = "dead".into();
        owners.push(OwnerReference { kind: "Pod".into(), ..OwnerReference::default() });
        assert!(desired.seen(&found).is_ours && !desired.is_marked(&found.metadata));
        let after = desired.update(&found, &BTreeSet::new(), &BTreeMap::new());
        let owners: Vec<_> =
            after.metadata.owner_references.as_ref().unwrap().iter().map(|one| &one.kind).collect();
        assert_eq!(owners, ["Pod", "ServiceToken"]);
        assert!(desired.is_marked(&after.metadata));
    }

    #[test]
    fn what_is_found_is_seen_without_its_secrets() {
        let account = json!({"namespace": "team-a", "serviceaccount": {"name": "robot", "uid": "u-1"}});
        let claims = json!({"iat": 100, "exp": 3_700, "kubernetes.io": account});
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}.c2lnbmVk", part(&json!({"alg": "RS256"})), part(&claims));
        let found: Object = serde_json::from_value(json!({
            "metadata": {"name": "tokens", "uid": "s-1", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "immutable": true,
            "data": {"a": STANDARD.encode(&text), "b": STANDARD.encode("hunter2"), "c": "%", "d": STANDARD.encode([255])},
        }))
        .unwrap();
        let seen = desired(&json!({})).seen(&found);
        assert_eq!((seen.is_ours, seen.is_immutable, seen.is_terminating), (false, true, true));
        assert_eq!(seen.keys["a"].as_ref().unwrap().account.name, "robot");
        assert!(["b", "c", "d"].iter().all(|key| seen.keys[*key] == Err(NotAToken)));
        let shown = format!("{seen:?}");
        assert!(!shown.contains("hunter2") && !shown.contains(&text), "{shown}");
    }
}
