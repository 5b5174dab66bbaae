//! Ownership labels and annotations of a copy, and what they say of its owner.
//!
//! A copy carries the uid of its `ConfigMapSync` or `ResourceSync`, its sync, twice: as a label, by which copies are
//! found, and inside an annotation that also names the resource. Either is enough to know a copy again, so stripping
//! one of the two neither orphans it nor blocks us. Nothing is ever written to a source.
//!
//! The upstream operator labelled its copies *and its sources* in the same way. So its ownership labels and annotations
//! alone never distinguish a copy from a source: [`made_by_upstream`] permits nothing, and the operator judges with
//! what else it knows.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Label on every copy: uid of its sync. Uids fit a label value; names (253) do not.
pub const SYNC_UID_LABEL: &str = "weaver.example.com/sync-uid";
/// Annotation on every copy: `<namespace>/<name>/<uid>` of its sync.
pub const SYNC_ANNOTATION: &str = "weaver.example.com/sync";
/// Annotation on the Secret of a `ServiceToken`: `<namespace>/<name>/<uid>` of it.
pub const TOKEN_ANNOTATION: &str = "weaver.example.com/token";
/// Label on an account that a `ServiceToken` has made: uid of it.
pub const TOKEN_UID_LABEL: &str = "weaver.example.com/token-uid";
/// Label by which the owner of a `ServiceAccount` agrees that its tokens are put into Secrets, where its value
/// is `true`.
pub const ALLOW_TOKENS_LABEL: &str = "weaver.example.com/allow-tokens";
/// Annotation on every copy: `<Kind>/<namespace>/<name>` of its source.
pub const SOURCE_ANNOTATION: &str = "weaver.example.com/source";
/// Annotation on a copy that has labels or annotations besides the ownership ones: which of them are ours, as JSON.
pub const KEYS_ANNOTATION: &str = "weaver.example.com/keys";
/// Annotation on a copy that was someone else's object before. It is never deleted, only released.
pub const ADOPTED_ANNOTATION: &str = "weaver.example.com/adopted";
/// Annotation on a Namespace: from resources of which namespaces it accepts copies, as names with commas between, or
/// `none`. Where it is absent, rights alone decide.
pub const ACCEPT_FROM_ANNOTATION: &str = "weaver.example.com/accept-from";
/// Annotation on a Namespace: to which namespaces copies of its objects may go, as names with commas between,
/// or `none`. Where it is absent, rights alone decide.
pub const OFFER_TO_ANNOTATION: &str = "weaver.example.com/offer-to";
/// Annotation on one of our resources, or on the operator's own namespace for all of them: nothing is written
/// while it is there. Its value is the reason.
pub const PAUSED_ANNOTATION: &str = "weaver.example.com/paused";
/// The longest mark that is ours, in bytes: two names and a uid are 550. A longer value, which anyone with a right to
/// the object may write, is never kept or repeated.
pub const LONGEST_MARK: usize = 1_024;
/// Kubernetes' own label for the tool that manages an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`] on every copy.
pub const MANAGED_BY: &str = "config-weaver";
/// Annotation on a sync: each new value, whatever it is, asks for a fresh look at everything at once.
pub const SYNC_NOW_ANNOTATION: &str = "weaver.example.com/sync-now";
/// Finalizer on a sync: its copies are removed before it is deleted.
pub const FINALIZER: &str = "weaver.example.com/cleanup";

/// Upstream's annotation on copies and sources: name of their `ConfigMapSync`.
pub const UPSTREAM_NAME_ANNOTATION: &str = "configmapsync.io/owner-name";
/// Upstream's annotation on copies and sources: namespace of their `ConfigMapSync`.
pub const UPSTREAM_NAMESPACE_ANNOTATION: &str = "configmapsync.io/owner-namespace";
/// Upstream's label for the same name; a name of more than 63 characters cannot be in it.
pub const UPSTREAM_NAME_LABEL: &str = "cmsOwnerName";
/// Upstream's label for the same namespace.
pub const UPSTREAM_NAMESPACE_LABEL: &str = "cmsOwnerNamespace";
/// Annotation on a `ConfigMapSync` that is being taken over: `<namespace>/<name>` of the source it had when we first
/// saw it. Upstream labels sources as it labels copies, so its ownership labels count only while the source is still
/// that one.
pub const UPSTREAM_SOURCE_ANNOTATION: &str = "weaver.example.com/upstream-source";
/// Upstream's finalizer on a `ConfigMapSync`. While it is there, the upgrade from upstream is not finished.
pub const UPSTREAM_FINALIZER: &str = "configmapsync.io/finalizer";

/// Identity of a sync as its copies carry it, and of a `ServiceToken` as its Secret does.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner {
    /// Namespace of the resource.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
    /// Uid of the resource.
    pub uid: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.name, self.uid)
    }
}

impl Owner {
    /// Reads the value of [`SYNC_ANNOTATION`] or [`TOKEN_ANNOTATION`]; `None` if it is not of our form.
    pub fn parse(annotation: &str) -> Option<Self> {
        if annotation.len() > LONGEST_MARK {
            return None;
        }
        let mut parts = annotation.split('/');
        let owner = Owner {
            namespace: parts.next()?.to_owned(),
            name: parts.next()?.to_owned(),
            uid: parts.next()?.to_owned(),
        };
        let complete = !owner.namespace.is_empty() && !owner.name.is_empty() && !owner.uid.is_empty();
        (complete && parts.next().is_none()).then_some(owner)
    }

    /// The owner that an object's annotation names.
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        meta.annotations.as_ref()?.get(SYNC_ANNOTATION).and_then(|value| Self::parse(value))
    }

    /// The `ServiceToken` whose tokens a Secret holds: the one that its annotation names, else the one that owns it.
    pub fn of_tokens(meta: &ObjectMeta) -> Option<Self> {
        let annotation = meta.annotations.as_ref().and_then(|all| all.get(TOKEN_ANNOTATION));
        let owner = || {
            let owner = meta.owner_references.iter().flatten().find(|owner| is_service_token(owner))?;
            let namespace = meta.namespace.clone().unwrap_or_default();
            Some(Self { namespace, name: owner.name.clone(), uid: owner.uid.clone() })
        };
        annotation.and_then(|value| Self::parse(value)).or_else(owner)
    }

    /// Labels that every copy of this owner carries.
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (SYNC_UID_LABEL.to_owned(), self.uid.clone()),
            (MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned()),
        ])
    }

    /// Annotations that every copy of this owner carries.
    pub fn annotations(&self, source: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (SYNC_ANNOTATION.to_owned(), self.to_string()),
            (SOURCE_ANNOTATION.to_owned(), source.to_owned()),
        ])
    }
}

/// Does it refer to a `ServiceToken` of ours?
pub fn is_service_token(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split_once('/').map(|(group, _)| group);
    let length = reference.name.len() + reference.uid.len();
    reference.kind == "ServiceToken" && group == Some(crate::GROUP) && length <= LONGEST_MARK
}

/// Is it the Secret of the `ServiceToken` `owner`? Either its owner reference or its annotation is enough to know it
/// again. An annotation that names the resource with another uid counts: that uid is dead.
pub fn holds_tokens_of(owner: &Owner, meta: &ObjectMeta) -> bool {
    let refers = meta.owner_references.iter().flatten().any(|reference| reference.uid == owner.uid);
    refers
        || Owner::of_tokens(meta)
            .is_some_and(|named| named.namespace == owner.namespace && named.name == owner.name)
}

/// Is it an account that the `ServiceToken` `owner` has made? Both its label and its owner reference must say
/// so, with the uid of the living resource: tokens of it are put into a Secret, and it is deleted when it is
/// not wanted any more.
pub fn is_made_by(owner: &Owner, meta: &ObjectMeta) -> bool {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(TOKEN_UID_LABEL));
    let refers = |reference: &OwnerReference| is_service_token(reference) && reference.uid == owner.uid;
    label == Some(&owner.uid) && meta.owner_references.iter().flatten().any(refers)
}

/// Whose an object is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ownership {
    /// A copy of the asking resource.
    Ours,
    /// No mark of ours: made by a user or another tool.
    Unlabeled,
    /// A copy of another sync.
    Other {
        /// The other owner, as far as the ownership labels and annotations name it.
        holder: String,
        /// `metadata.uid` of the other sync.
        uid: String,
    },
}

/// Judges an object by its ownership labels and annotations.
///
/// A label or annotation that names the asking resource with another uid is ours too: two living resources never share
/// namespace and name, so that uid is dead (a backup was restored, the CRD re-imported).
pub fn ownership(owner: &Owner, meta: &ObjectMeta) -> Ownership {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(SYNC_UID_LABEL));
    let named = Owner::of(meta);
    let by_label = label == Some(&owner.uid);
    let by_annotation = named.as_ref().is_some_and(|named| {
        named.uid == owner.uid || (named.namespace == owner.namespace && named.name == owner.name)
    });
    if by_label || by_annotation {
        return Ownership::Ours;
    }
    match (named, label) {
        (Some(Owner { namespace, name, uid }), _) => {
            Ownership::Other { holder: format!("ConfigMapSync {namespace}/{name}"), uid }
        }
        (None, Some(uid)) => {
            Ownership::Other { holder: format!("the ConfigMapSync with uid {uid}"), uid: uid.clone() }
        }
        (None, None) => Ownership::Unlabeled,
    }
}

/// Does a mark on the object bear the very uid of `owner`? Of what its name alone says so, an earlier resource of that
/// name made it.
pub fn bears_uid(owner: &Owner, meta: &ObjectMeta) -> bool {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(SYNC_UID_LABEL));
    label == Some(&owner.uid) || Owner::of(meta).is_some_and(|named| named.uid == owner.uid)
}

/// Do upstream's ownership annotations name this very resource? Only its annotations are read, and both must be there:
/// the labels are no proof.
///
/// True for copies and for sources, of now and of before an edit of the spec. It permits nothing by itself.
pub fn made_by_upstream(owner: &Owner, meta: &ObjectMeta) -> bool {
    let value = |key| meta.annotations.as_ref().and_then(|annotations| annotations.get(key));
    value(UPSTREAM_NAME_ANNOTATION) == Some(&owner.name)
        && value(UPSTREAM_NAMESPACE_ANNOTATION) == Some(&owner.namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner { namespace: "team-a".into(), name: "settings".into(), uid: uid.into() }
    }

    fn marked(label: Option<&str>, annotation: Option<&str>) -> ObjectMeta {
        let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        ObjectMeta {
            labels: label.map(|value| one(SYNC_UID_LABEL, value)),
            annotations: annotation.map(|value| one(SYNC_ANNOTATION, value)),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn whose_an_object_is() {
        let other = |holder: &str| Ownership::Other { holder: holder.into(), uid: "u2".into() };
        for (label, annotation, expected) in [
            (None, None, Ownership::Unlabeled),
            (Some("u1"), None, Ownership::Ours),
            (None, Some("team-a/settings/u1"), Ownership::Ours),
            (Some("u2"), Some("team-a/settings/u1"), Ownership::Ours),
            (Some("u0"), Some("team-a/settings/u0"), Ownership::Ours),
            (Some("u2"), Some("team-b/other/u2"), other("ConfigMapSync team-b/other")),
            (Some("u2"), None, other("the ConfigMapSync with uid u2")),
            (None, Some("not ours"), Ownership::Unlabeled),
            (None, Some("a/b/"), Ownership::Unlabeled),
            (None, Some("a/b/u1/c"), Ownership::Unlabeled),
        ] {
            assert_eq!(
                ownership(&owner("u1"), &marked(label, annotation)),
                expected,
                "{label:?} {annotation:?}"
            );
        }
    }

    #[test]
    fn a_secret_of_tokens_is_known_by_its_owner_reference_or_its_annotation() {
        let meta = |uid: Option<&str>, annotation: Option<&str>| -> ObjectMeta {
            let owner = uid.map(|uid| {
                vec![json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken", "name": "other", "uid": uid})]
            });
            let annotations = annotation.map(|value| json!({TOKEN_ANNOTATION: value}));
            serde_json::from_value(json!({"ownerReferences": owner, "annotations": annotations})).unwrap()
        };
        for (uid, annotation, expected) in [
            (Some("u1"), None, true),
            (Some("u2"), None, false),
            (None, Some("team-a/settings/u1"), true),
            (Some("u0"), Some("team-a/settings/u0"), true),
            (None, Some("team-a/other/u2"), false),
            (None, Some("team-a/settings"), false),
            (None, None, false),
        ] {
            assert_eq!(
                holds_tokens_of(&owner("u1"), &meta(uid, annotation)),
                expected,
                "{uid:?} {annotation:?}"
            );
        }
    }

    #[test]
    fn upstreams_ownership_names_a_resource_by_both_annotations_and_never_by_labels() {
        let annotations = |name: Option<&str>, namespace: Option<&str>| ObjectMeta {
            annotations: Some(
                [(UPSTREAM_NAME_ANNOTATION, name), (UPSTREAM_NAMESPACE_ANNOTATION, namespace)]
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                    .collect(),
            ),
            ..ObjectMeta::default()
        };
        for (name, namespace, expected) in [
            (Some("settings"), Some("team-a"), true),
            (Some("settings"), Some("team-b"), false),
            (Some("other"), Some("team-a"), false),
            (Some("settings"), None, false),
            (None, Some("team-a"), false),
            (Some(""), Some(""), false),
            (None, None, false),
        ] {
            let meta = annotations(name, namespace);
            assert_eq!(made_by_upstream(&owner("u1"), &meta), expected, "{name:?} {namespace:?}");
            assert_eq!(ownership(&owner("u1"), &meta), Ownership::Unlabeled, "they are not ours");
        }
        let labels = [(UPSTREAM_NAME_LABEL, "settings"), (UPSTREAM_NAMESPACE_LABEL, "team-a")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let meta = ObjectMeta { labels: Some(BTreeMap::from(labels)), ..ObjectMeta::default() };
        assert!(!made_by_upstream(&owner("u1"), &meta));
    }

    #[test]
    fn an_account_is_ours_by_label_and_owner_and_by_nothing_less() {
        let meta = |label: Option<&str>, reference: Option<(&str, &str)>| -> ObjectMeta {
            let reference = reference.map(|(kind, uid)| {
                json!({"apiVersion": "weaver.example.com/v1beta1", "kind": kind, "name": "settings", "uid": uid})
            });
            serde_json::from_value(json!({
                "labels": label.map(|uid| json!({TOKEN_UID_LABEL: uid})),
                "ownerReferences": reference.map(|reference| json!([reference])),
                "annotations": {TOKEN_ANNOTATION: "team-a/settings/u1"},
            }))
            .unwrap()
        };
        for (label, reference, expected) in [
            (Some("u1"), Some(("ServiceToken", "u1")), true),
            (None, Some(("ServiceToken", "u1")), false),
            (Some("u1"), None, false),
            (Some("u0"), Some(("ServiceToken", "u1")), false),
            (Some("u1"), Some(("ServiceToken", "u0")), false),
            (Some("u1"), Some(("ConfigMapSync", "u1")), false),
            (None, None, false),
        ] {
            assert_eq!(
                is_made_by(&owner("u1"), &meta(label, reference)),
                expected,
                "{label:?} {reference:?}"
            );
        }
    }

    #[test]
    fn an_owner_survives_its_annotation() {
        assert_eq!(Owner::parse(&owner("u1").to_string()), Some(owner("u1")));
        assert_eq!(Owner::parse(&owner(&"u".repeat(LONGEST_MARK)).to_string()), None);
    }
}
