//! What the next reconciliation does with one copy: the decision of the operator's own code, as text and as the keys
//! that differ. Pure. Of content only the names of keys are kept.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, OFFER_TO_ANNOTATION, Owner};
use weaver_copies::content::Difference;
use weaver_copies::copy::DesiredCopy;
use weaver_copies::metadata::is_adopted;
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{CopyStep, PreviousOwner, StaleCopy, Takes, by_object, stale_copy};
use weaver_copies::sources::SpecSource;

/// The most keys of one copy that are named; one more is kept, as a sign that there are others.
pub const MAX_DIFFERENCES: usize = 60;

/// Where to show what is found of each copy.
pub type Show<'a> = &'a (dyn Fn(PlannedCopy) + Sync);

/// A copy, and what the next reconciliation does with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlannedCopy {
    pub copy: ObjectKey,
    pub step: PlannedStep,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PlannedStep {
    Keep,
    Create(Vec<Difference>),
    Update(Vec<Difference>),
    /// It has no ownership labels, and the spec says `Adopt`.
    Adopt(Vec<Difference>),
    /// It is deleted and created again.
    Replace(Vec<Difference>),
    /// The spec does not ask for it any more.
    Delete,
    /// The same, and it belonged to someone else before: it becomes an ordinary object.
    Release,
    /// It is not touched. Why.
    Refuse(String),
    /// Why it is not known.
    Unknown(String),
}

impl PlannedStep {
    /// For a copy that the spec requests, by the existing object.
    pub fn of(copy: &DesiredCopy, takes: Takes<'_>, found: Option<&Object>) -> Self {
        let few = |mut all: Vec<Difference>| {
            all.truncate(MAX_DIFFERENCES + 1);
            all
        };
        let differences = || few(found.map(|found| copy.differences(found)).unwrap_or_default());
        match by_object(copy, takes, found) {
            CopyStep::Keep => Self::Keep,
            CopyStep::Create => Self::Create(few(copy.additions())),
            CopyStep::Update(PreviousOwner::Ours, _) => Self::Update(differences()),
            CopyStep::Update(..) => Self::Adopt(differences()),
            CopyStep::Replace(_) => Self::Replace(differences()),
            CopyStep::Refuse(foreign) => Self::Refuse(foreign.to_string()),
            CopyStep::Inspect => Self::Unknown("was not checked".into()),
        }
    }

    /// For a namespace that is selected and excludes copies of the namespace `tenant`, or that `source` excludes from
    /// its copies.
    pub fn closed(tenant: &str, source: &str) -> Self {
        Self::Refuse(format!(
            "the namespace accepts no copies from {tenant}: its annotation {ACCEPT_FROM_ANNOTATION} excludes it, or the \
             annotation {OFFER_TO_ANNOTATION} of {source} excludes the namespace"
        ))
    }

    /// For an object that the spec does not request; `None` where it is no copy of this resource.
    pub fn of_stale(
        owner: &Owner,
        source: &SpecSource,
        copy: &ObjectKey,
        found: &ObjectMeta,
    ) -> Option<Self> {
        let is_ours = stale_copy(owner, source, copy.kind, found) == StaleCopy::Ours;
        is_ours.then(|| if is_adopted(found) { Self::Release } else { Self::Delete })
    }

    /// What a write would change, by key.
    pub fn differences(&self) -> &[Difference] {
        match self {
            Self::Create(all) | Self::Update(all) | Self::Adopt(all) | Self::Replace(all) => all,
            Self::Keep | Self::Delete | Self::Release | Self::Refuse(_) | Self::Unknown(_) => &[],
        }
    }
}

impl fmt::Display for PlannedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("holds the copy"),
            Self::Create(_) => f.write_str("does not exist"),
            Self::Update(_) => f.write_str("is a copy and differs"),
            Self::Adopt(_) => f.write_str("is not a copy yet and would be adopted"),
            Self::Replace(_) => f.write_str("is a copy that can only be deleted and created again"),
            Self::Delete => f.write_str("is a copy that the spec does not ask for, and would be deleted"),
            Self::Release => f.write_str(
                "existed before it was adopted, and is no longer a target: it would become an ordinary object",
            ),
            Self::Refuse(why) => write!(f, "is not touched: {why}"),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}

/// A line of `weaver sync explain`.
impl fmt::Display for PlannedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.copy, self.step)?;
        if let PlannedStep::Update(all) | PlannedStep::Replace(all) = &self.step {
            let keys: Vec<String> = all.iter().take(MAX_DIFFERENCES).map(ToString::to_string).collect();
            let more = if all.len() > MAX_DIFFERENCES { " and more" } else { "" };
            write!(f, ": {}{more}", keys.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weaver_api::kind::ObjectKind;
    use weaver_api::v1beta1::{ConfigMapSyncSpec, Source};
    use weaver_api::validate::{ValidSync, validate};
    use weaver_copies::content::{Content, FieldEffect};
    use weaver_copies::copy::source_reference;
    use weaver_copies::metadata::Metadata;

    use super::*;

    fn object(kind: ObjectKind, value: Value) -> Object {
        let mut value = value;
        value["apiVersion"] = json!("v1");
        value["kind"] = json!(kind.as_str());
        serde_json::from_value(value).unwrap()
    }

    fn owner() -> Owner {
        Owner { namespace: "team-a".into(), name: "sync".into(), uid: "u1".into() }
    }

    fn spec(policy: &str) -> ValidSync {
        let spec: ConfigMapSyncSpec = serde_json::from_value(json!({
            "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a", "name": "settings"},
            "targets": {"namespaces": ["foo"]}, "conflictPolicy": policy,
        }))
        .unwrap();
        validate(Some(&spec)).unwrap()
    }

    /// Of a source with these keys.
    fn desired(kind: ObjectKind, data: &Value) -> DesiredCopy {
        let source = object(kind, json!({"metadata": {}, "data": data}));
        let key = ObjectKey { kind, namespace: "team-a".into(), name: "settings".into() };
        let metadata = Metadata::new(&owner(), &source_reference(&key), &source.metadata, &spec("Refuse"));
        DesiredCopy::new(owner(), kind, "settings", metadata, Content::of(&source))
    }

    fn words(step: &PlannedStep) -> Vec<String> {
        let sign = |change| match change {
            FieldEffect::Added => '+',
            FieldEffect::Removed => '-',
            FieldEffect::Changed => '~',
        };
        step.differences().iter().map(|one| format!("{}{one}", sign(one.change))).collect()
    }

    #[test]
    fn a_plan_names_the_keys_and_never_what_they_hold() {
        for kind in ObjectKind::OF_CONFIG_MAP_SYNC {
            let copy = desired(kind, &json!({"a": "c2VjcmV0", "b": "Yg=="}));
            let created = PlannedStep::of(&copy, Takes::default(), None);
            assert_eq!(words(&created), ["+data.a", "+data.b"]);
            let mut found: Object = serde_json::from_slice(&copy.create_json("foo")).unwrap();
            assert_eq!(PlannedStep::of(&copy, Takes::default(), Some(&found)), PlannedStep::Keep);
            found.data = serde_json::from_value(json!({"b": "WA==", "c": "Yw=="})).unwrap();
            let updated = PlannedStep::of(&copy, Takes::default(), Some(&found));
            assert_eq!(words(&updated), ["+data.a", "~data.b", "-data.c"]);
            let line = PlannedCopy { copy: copy.object_key("foo"), step: updated }.to_string();
            assert_eq!(line, format!("{kind} foo/settings: is a copy and differs: data.a, data.b, data.c"));
            for secret in ["c2VjcmV0", "WA==", "Yw=="] {
                assert!(!format!("{line} {created:?}").contains(secret), "{secret}");
            }
            found.immutable = Some(true);
            let replaced = PlannedStep::of(&copy, Takes::default(), Some(&found));
            assert!(matches!(replaced, PlannedStep::Replace(_)), "{replaced:?}");
            assert_eq!(words(&replaced).last().unwrap(), "~immutable");
        }
    }

    #[test]
    fn what_is_someone_elses_is_adopted_only_where_the_spec_says_so() {
        let copy = desired(ObjectKind::CONFIG_MAP, &json!({"a": "1"}));
        let theirs = object(ObjectKind::CONFIG_MAP, json!({"metadata": {}, "data": {"b": "2"}}));
        let refused = PlannedStep::of(&copy, Takes::default(), Some(&theirs));
        assert!(matches!(refused, PlannedStep::Refuse(_)) && words(&refused).is_empty(), "{refused:?}");
        let adopted = PlannedStep::of(&copy, Takes { unlabeled: true, ..Takes::default() }, Some(&theirs));
        assert!(matches!(adopted, PlannedStep::Adopt(_)), "{adopted:?}");
        assert_eq!(words(&adopted)[..2], ["+data.a", "-data.b"]);
    }

    #[test]
    fn a_stale_copy_is_deleted_an_adopted_one_released_and_another_not_named() {
        let copy = desired(ObjectKind::CONFIG_MAP, &json!({"a": "1"}));
        let source: Source =
            serde_json::from_value(json!({"namespace": "team-a", "name": "settings"})).unwrap();
        let of = |meta: &ObjectMeta| {
            PlannedStep::of_stale(&owner(), &SpecSource::from(&source), &copy.object_key("old"), meta)
        };
        let created: Object = serde_json::from_slice(&copy.create_json("old")).unwrap();
        let mut meta = created.metadata;
        assert_eq!(of(&meta), Some(PlannedStep::Delete));
        let adopted = weaver_copies::metadata::adopted(meta.clone());
        assert_eq!(of(&adopted), Some(PlannedStep::Release));
        meta.labels = None;
        meta.annotations = None;
        assert_eq!(of(&meta), None);
    }
}
