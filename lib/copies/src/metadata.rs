//! Labels and annotations of a copy: the source's, those that the spec adds, and the ownership labels and annotations;
//! and those of a Secret of tokens: its resource's, and the ownership ones. Pure.
//!
//! Other people put labels, annotations, finalizers and owners of their own on a copy, and those stay. So that a key
//! which we set once can be taken away again, the copy itself remembers which keys are ours
//! ([`KEYS_ANNOTATION`]); the operator's memory may be lost at any time.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use weaver_api::ownership::{ADOPTED_ANNOTATION, KEYS_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, Owner};
use weaver_api::ownership::{
    SOURCE_ANNOTATION, SYNC_ANNOTATION, SYNC_UID_LABEL, TOKEN_ANNOTATION, TOKEN_UID_LABEL,
};
use weaver_api::schema::{NEVER_COPIED, is_reserved};
use weaver_api::validate::{ValidAccount, ValidSync};

use super::content::{Difference, unequal};

type Map = BTreeMap<String, String>;

/// The labels and annotations that an object of ours should have, ownership labels and annotations included.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    labels: Map,
    annotations: Map,
}

/// Which keys of a copy are ours, besides the ownership labels and annotations.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct AppliedKeys {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

impl Metadata {
    /// What copies of `owner` carry. `reference` names the source, whose metadata is `source`.
    pub fn new(owner: &Owner, reference: &str, source: &ObjectMeta, spec: &ValidSync) -> Self {
        let ownership = (owner.labels(), owner.annotations(reference));
        let labels = copied(source.labels.as_ref(), &spec.labels);
        Self::marked(labels, copied(source.annotations.as_ref(), &spec.annotations), ownership)
    }

    /// What the Secret of the `ServiceToken` `owner` carries, whose metadata is `resource`.
    pub fn of_tokens(owner: &Owner, resource: &ObjectMeta) -> Self {
        let one = |key: &str, value: String| Map::from([(key.to_owned(), value)]);
        let ownership =
            (one(MANAGED_BY_LABEL, MANAGED_BY.to_owned()), one(TOKEN_ANNOTATION, owner.to_string()));
        let from = |map: &Option<Map>| copied(map.as_ref(), &Map::new());
        Self::marked(from(&resource.labels), from(&resource.annotations), ownership)
    }

    /// What an account carries that the `ServiceToken` `owner` makes.
    pub fn of_account(owner: &Owner, account: &ValidAccount) -> Self {
        let text = |key: &str, value: String| (key.to_owned(), value);
        let labels = Map::from([
            text(MANAGED_BY_LABEL, MANAGED_BY.to_owned()),
            text(TOKEN_UID_LABEL, owner.uid.clone()),
        ]);
        let annotations = Map::from([text(TOKEN_ANNOTATION, owner.to_string())]);
        Self::marked(account.labels.clone(), account.annotations.clone(), (labels, annotations))
    }

    fn marked(mut labels: Map, mut annotations: Map, ownership: (Map, Map)) -> Self {
        let ours = AppliedKeys {
            labels: labels.keys().cloned().collect(),
            annotations: annotations.keys().cloned().collect(),
        };
        labels.extend(ownership.0);
        annotations.extend(ownership.1);
        if ours != AppliedKeys::default() {
            #[expect(clippy::expect_used, reason = "two sets of texts")]
            let keys = serde_json::to_string(&ours).expect("sets of texts can be written as JSON");
            annotations.insert(KEYS_ANNOTATION.into(), keys);
        }
        Self { labels, annotations }
    }

    /// Does `found` carry all of it, and nothing that was ours and is not wanted any more?
    pub fn is_on(&self, found: &ObjectMeta) -> bool {
        let has = |found: &Option<Map>, (key, value): (&String, &String)| {
            found.as_ref().and_then(|found| found.get(key)) == Some(value)
        };
        self.labels.iter().all(|pair| has(&found.labels, pair))
            && self.annotations.iter().all(|pair| has(&found.annotations, pair))
            && found.annotations.as_ref().and_then(|all| all.get(KEYS_ANNOTATION))
                == self.annotations.get(KEYS_ANNOTATION)
    }

    /// What `found` lacks of it, or has in another form, and what was ours and is not wanted any more: names of keys.
    pub fn differences(&self, found: &ObjectMeta) -> Vec<Difference> {
        let wanted = self.put_on(found);
        let empty = Map::new();
        let of = |map: &Option<Map>| map.clone().unwrap_or_else(|| empty.clone());
        let labels = unequal("metadata.labels", &of(&wanted.labels), &of(&found.labels));
        let annotations = unequal("metadata.annotations", &of(&wanted.annotations), &of(&found.annotations));
        [labels, annotations].concat()
    }

    /// `seen` with it, and without what was ours and is not wanted any more. Its uid and resourceVersion stay.
    pub fn put_on(&self, seen: &ObjectMeta) -> ObjectMeta {
        let before = AppliedKeys::on(seen);
        let mut metadata = ObjectMeta { managed_fields: None, ..seen.clone() };
        let labels = metadata.labels.get_or_insert_default();
        labels.retain(|key, _| is_reserved(key) || !before.labels.contains(key));
        labels.extend(self.labels.clone());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.remove(KEYS_ANNOTATION);
        annotations.retain(|key, _| is_reserved(key) || !before.annotations.contains(key));
        annotations.extend(self.annotations.clone());
        metadata
    }

    /// The source that it names; nothing where it is not that of a copy.
    pub fn source(&self) -> &str {
        self.annotations.get(SOURCE_ANNOTATION).map_or("", String::as_str)
    }

    /// That of a new copy.
    pub fn of_new(&self, namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace.into()),
            labels: Some(self.labels.clone()),
            annotations: Some(self.annotations.clone()),
            ..ObjectMeta::default()
        }
    }

    /// Gives each part of it, in an order of its own.
    pub(crate) fn parts(&self, mut part: impl FnMut(&[u8])) {
        for (what, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            part(what.as_bytes());
            for (key, value) in map {
                part(key.as_bytes());
                part(value.as_bytes());
            }
        }
    }
}

impl AppliedKeys {
    /// As the copy remembers them; none, where someone has written something else there.
    fn on(found: &ObjectMeta) -> Self {
        let text = found.annotations.as_ref().and_then(|annotations| annotations.get(KEYS_ANNOTATION));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// Was this copy an object of someone else's before?
pub fn is_adopted(meta: &ObjectMeta) -> bool {
    meta.annotations.iter().flatten().any(|(key, _)| key == ADOPTED_ANNOTATION)
}

pub fn adopted(mut meta: ObjectMeta) -> ObjectMeta {
    meta.annotations.get_or_insert_default().insert(ADOPTED_ANNOTATION.into(), "true".into());
    meta
}

/// `meta` without our ownership labels and annotations: an adopted object that is released.
pub fn released(mut meta: ObjectMeta) -> ObjectMeta {
    if let Some(labels) = &mut meta.labels {
        labels
            .retain(|key, value| key != SYNC_UID_LABEL && !(key == MANAGED_BY_LABEL && value == MANAGED_BY));
    }
    let ours = [SYNC_ANNOTATION, SOURCE_ANNOTATION, KEYS_ANNOTATION, ADOPTED_ANNOTATION];
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|key, _| !ours.contains(&key.as_str()));
    }
    meta.managed_fields = None;
    meta
}

/// Annotations that were fields before there were fields for them: without them a copy gets the cluster's default.
const ASKS: [&str; 2] = ["kubernetes.io/ingress.class", "volume.beta.kubernetes.io/storage-class"];

/// Those of another object that are copied, and those that the spec adds, which win.
fn copied(source: Option<&Map>, added: &Map) -> Map {
    let is_copied = |key: &str| {
        ASKS.contains(&key) || !is_reserved(key) && !NEVER_COPIED.iter().any(|prefix| key.starts_with(prefix))
    };
    let own = source.into_iter().flatten().filter(|(key, _)| is_copied(key));
    own.chain(added).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests;
