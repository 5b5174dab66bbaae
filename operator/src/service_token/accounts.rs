//! Which generated accounts are made, changed, kept and removed. Pure.
//!
//! An account is this resource's own only by label and owner reference together, with the uid of the living resource
//! ([`is_made_by`]). Whatever else there is under a wanted name is someone else's: no token of it is minted, nothing of
//! it is changed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use weaver_api::ownership::{Owner, is_made_by};
use weaver_api::validate::ValidAccount;
use weaver_client::merge_patch::difference;
use weaver_copies::metadata::Metadata;

/// What to do with the accounts of one resource.
#[derive(Debug, Default, PartialEq)]
pub struct AccountPlan {
    /// To be made, with this metadata.
    pub make: Vec<ObjectMeta>,
    /// To be changed, by these merge patches, which have the observed state as their precondition.
    pub mark: Vec<(String, Value)>,
    /// Those that exist and stay, with their uid, including those to change.
    pub ready: BTreeMap<String, String>,
    /// Those that are being deleted: they are made again once they are gone.
    pub going: BTreeSet<String>,
    /// Those that have our label and not our owner reference: someone has written one of the two.
    pub foreign: BTreeSet<String>,
    /// Those that are ours and no longer wanted.
    pub surplus: Vec<ObjectMeta>,
}

/// The plan for the accounts `found`, which are those with the label of `owner`. Those that are `used` by the
/// same spec in another way, as its writer or in its list of tokens, are not removed.
pub fn plan(
    owner: &Owner,
    wanted: &[ValidAccount],
    used: &BTreeSet<String>,
    found: &[ObjectMeta],
) -> AccountPlan {
    let found: BTreeMap<&str, &ObjectMeta> =
        found.iter().filter_map(|meta| Some((meta.name.as_deref()?, meta))).collect();
    let names: BTreeSet<&str> = wanted.iter().map(|account| account.name.as_str()).collect();
    let is_surplus = |meta: &ObjectMeta| is_made_by(owner, meta) && meta.deletion_timestamp.is_none();
    let surplus = found
        .iter()
        .filter(|(name, meta)| !names.contains(*name) && !used.contains(**name) && is_surplus(meta));
    let mut plan =
        AccountPlan { surplus: surplus.map(|(_, meta)| (*meta).clone()).collect(), ..AccountPlan::default() };
    for account in wanted {
        let metadata = Metadata::of_account(owner, account);
        let name = account.name.clone();
        match found.get(name.as_str()) {
            None => plan.make.push(metadata.of_new(&owner.namespace, &name)),
            Some(meta) if !is_made_by(owner, meta) => drop(plan.foreign.insert(name)),
            Some(meta) if meta.deletion_timestamp.is_some() => drop(plan.going.insert(name)),
            Some(meta) => {
                if !metadata.is_on(meta) {
                    plan.mark.push((name.clone(), patch(meta, &metadata)));
                }
                plan.ready.insert(name, meta.uid.clone().unwrap_or_default());
            }
        }
    }
    plan
}

/// Changes labels and annotations and nothing else of the account that was seen.
fn patch(seen: &ObjectMeta, metadata: &Metadata) -> Value {
    let wanted = metadata.put_on(seen);
    let part = |meta: &ObjectMeta| json!({"labels": meta.labels, "annotations": meta.annotations});
    let mut changes = difference(&part(seen), &part(&wanted));
    changes["uid"] = json!(seen.uid);
    changes["resourceVersion"] = json!(seen.resource_version);
    json!({"metadata": changes})
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn owner() -> Owner {
        Owner { namespace: "team-a".into(), name: "bots".into(), uid: "u1".into() }
    }

    fn wanted(names: &[&str]) -> Vec<ValidAccount> {
        let account = |name: &&str| ValidAccount {
            name: (*name).to_owned(),
            labels: [("user".to_owned(), (*name).to_owned())].into(),
            annotations: BTreeMap::new(),
        };
        names.iter().map(account).collect()
    }

    /// As it was made for the resource with this uid.
    fn made(name: &str, uid: &str) -> ObjectMeta {
        let owner = Owner { uid: uid.into(), ..owner() };
        let mut meta = Metadata::of_account(&owner, &wanted(&[name])[0]).of_new("team-a", name);
        meta.uid = Some(format!("uid-of-{name}"));
        meta.resource_version = Some("7".into());
        meta.owner_references = Some(vec![OwnerReference {
            api_version: "weaver.example.com/v1beta1".into(),
            kind: "ServiceToken".into(),
            name: "bots".into(),
            uid: uid.into(),
            ..OwnerReference::default()
        }]);
        meta
    }

    fn names(metas: &[ObjectMeta]) -> Vec<&str> {
        metas.iter().filter_map(|meta| meta.name.as_deref()).collect()
    }

    #[test]
    fn accounts_are_made_kept_and_removed_by_name() {
        for (now, found, make, ready, surplus) in [
            (vec!["a", "b"], vec![], vec!["a", "b"], vec![], vec![]),
            (vec!["a", "b"], vec!["a", "b"], vec![], vec!["a", "b"], vec![]),
            (vec!["a", "b"], vec!["b"], vec!["a"], vec!["b"], vec![]),
            (vec!["a"], vec!["a", "b", "c"], vec![], vec!["a"], vec!["b", "c"]),
            (vec!["x"], vec!["a", "b"], vec!["x"], vec![], vec!["a", "b"]),
            (vec![], vec!["a"], vec![], vec![], vec!["a"]),
        ] {
            let found: Vec<_> = found.into_iter().map(|name| made(name, "u1")).collect();
            let plan = plan(&owner(), &wanted(&now), &BTreeSet::new(), &found);
            assert_eq!(names(&plan.make), make, "{now:?}");
            assert_eq!(plan.ready.keys().collect::<Vec<_>>(), ready, "{now:?}");
            assert_eq!(names(&plan.surplus), surplus, "{now:?}");
            assert!(plan.mark.is_empty() && plan.foreign.is_empty() && plan.going.is_empty());
        }
    }

    #[test]
    fn what_the_same_spec_uses_otherwise_is_not_removed() {
        let found = [made("a", "u1"), made("b", "u1")];
        let plan = plan(&owner(), &[], &BTreeSet::from(["b".to_owned()]), &found);
        assert_eq!(names(&plan.surplus), ["a"]);
    }

    #[test]
    fn what_is_not_ours_is_neither_taken_nor_removed() {
        let mut stripped = made("a", "u1");
        stripped.owner_references = None;
        let mut forged = made("b", "u1");
        forged.owner_references.as_mut().unwrap()[0].uid = "u0".into();
        let found = [stripped, forged, made("c", "u0")];
        let plan = plan(&owner(), &wanted(&["a"]), &BTreeSet::new(), &found);
        assert_eq!(plan.foreign.iter().collect::<Vec<_>>(), ["a"]);
        assert_eq!(plan, AccountPlan { foreign: plan.foreign.clone(), ..AccountPlan::default() });
    }

    #[test]
    fn what_is_being_deleted_is_awaited() {
        let mut going = made("a", "u1");
        going.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let found = [going.clone()];
        let expected = AccountPlan { going: ["a".to_owned()].into(), ..AccountPlan::default() };
        assert_eq!(plan(&owner(), &wanted(&["a"]), &BTreeSet::new(), &found), expected);
        assert_eq!(plan(&owner(), &[], &BTreeSet::new(), &found), AccountPlan::default(), "once is enough");
    }

    #[test]
    fn labels_that_were_ours_go_and_those_of_others_stay() {
        let mut found = made("a", "u1");
        found.labels.as_mut().unwrap().insert("theirs".into(), "1".into());
        let mut now = wanted(&["a"]);
        now[0].labels = [("team".to_owned(), "x".to_owned())].into();
        let plan = plan(&owner(), &now, &BTreeSet::new(), &[found]);
        let [(name, patch)] = plan.mark.as_slice() else { panic!("{plan:?}") };
        assert_eq!((name.as_str(), &plan.ready["a"]), ("a", &"uid-of-a".to_owned()));
        assert_eq!(patch["metadata"]["labels"], json!({"user": null, "team": "x"}));
        assert_eq!(patch["metadata"]["resourceVersion"], "7", "the precondition");
        assert_eq!(patch["metadata"]["uid"], "uid-of-a");
    }
}
