//! Which rights an account lacks for a ConfigMapSync or ResourceSync, checked with the rights of the user.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use anyhow::bail;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, OFFER_TO_ANNOTATION};
use weaver_api::validate::ValidSync;
use weaver_api::{OPERATOR_NAMESPACE, pattern};
use weaver_client::pages::each_page;
use weaver_copies::namespace::{Traits, selects};
use weaver_copies::rights::{Right, for_sources, for_target};
use weaver_tenant::Account;
use weaver_tenant::review::denied;

use crate::review;

/// Prints a note next to the answer.
pub type Tell<'a> = &'a (dyn Fn(&str) + Sync);

/// What an account lacks.
pub struct MissingRights {
    /// What a Role can grant.
    pub rights: BTreeSet<Right>,
    /// Whether the namespaces of all of them exist for certain.
    pub exist: bool,
    /// Whether it lacks any right, one in a namespace that does not exist too.
    pub any: bool,
}

/// Asks the API server.
pub async fn named(
    client: &Client,
    account: &Account,
    spec: &ValidSync,
    targets: &BTreeSet<String>,
    tell: Tell<'_>,
) -> anyhow::Result<MissingRights> {
    let missing = denied(needed(spec, targets), |right| review::allowed(client, account, right)).await?;
    Ok(of(client, missing, tell).await)
}

/// What must be granted: all that is needed where the user may not ask.
pub async fn to_grant(
    client: &Client,
    account: &Account,
    spec: &ValidSync,
    targets: &CopyTargets,
    tell: Tell<'_>,
) -> anyhow::Result<BTreeSet<Right>> {
    let (targets, kept_out) = granted(spec, targets)?;
    for line in &kept_out {
        tell(line);
    }
    let missing = denied(needed(spec, &targets), |right| review::known(client, account, right)).await?;
    Ok(of(client, missing, tell).await.rights)
}

/// In which of the targets a Role is made, and notes on the others. A pattern like `*` is meant for the user's own
/// namespaces: not for those of Kubernetes and of the operator, nor for one that excludes their copies.
fn granted(spec: &ValidSync, targets: &CopyTargets) -> anyhow::Result<(BTreeSet<String>, Vec<String>)> {
    if !targets.is_complete {
        bail!(
            "nothing was granted: which namespaces spec.targets selects could not be listed; name them in \
             spec.targets.namespaces, or ask someone who may list namespaces"
        );
    }
    let (mut granted, mut system, mut closed) = (BTreeSet::new(), Vec::new(), 0);
    for target in &targets.all {
        let is_named = spec.targets.contains(target);
        if !is_named && (target.starts_with("kube-") || target == OPERATOR_NAMESPACE) {
            system.push(target.as_str());
        } else if !is_named && targets.closed.contains(target) {
            closed += 1;
        } else {
            granted.insert(target.clone());
        }
    }
    let system = (!system.is_empty()).then(|| {
        format!(
            "nothing is granted in {}: spec.targets selects them and does not name them; list them in \
             spec.targets.namespaces to grant rights there",
            system.join(", ")
        )
    });
    let closed = (closed > 0).then(|| {
        format!(
            "nothing is granted in {closed} of the selected namespaces: their annotation {ACCEPT_FROM_ANNOTATION} \
             excludes copies from this one, or the annotation {OFFER_TO_ANNOTATION} of {} excludes them",
            spec.source_namespace
        )
    });
    Ok((granted, system.into_iter().chain(closed).collect()))
}

/// Reports of a namespace that does not exist that there is nothing to grant in it.
async fn of(client: &Client, missing: BTreeSet<Right>, tell: Tell<'_>) -> MissingRights {
    let any = !missing.is_empty();
    let presence = presence(client, &missing).await;
    for (namespace, presence) in &presence {
        match presence {
            Presence::There => {}
            Presence::Absent => tell(&format!(
                "namespace {namespace} does not exist: create it, or take it out of the spec; there is nothing to grant in it"
            )),
            Presence::Hidden(why) => {
                tell(&format!("it is unknown whether namespace {namespace} exists: {why}"));
            }
        }
    }
    let (rights, exist) = grantable(missing, &presence);
    MissingRights { rights, exist, any }
}

/// A namespace, as the user may see it.
#[derive(Debug, Eq, PartialEq)]
enum Presence {
    There,
    Absent,
    /// The API server does not answer. Why.
    Hidden(String),
}

/// Each namespace in which a right is missing.
async fn presence(client: &Client, missing: &BTreeSet<Right>) -> BTreeMap<String, Presence> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let names: BTreeSet<&String> = missing.iter().map(|right| &right.namespace).collect();
    let mut presence = BTreeMap::new();
    for name in names {
        let seen = match namespaces.get_metadata_opt(name).await {
            Ok(Some(_)) => Presence::There,
            Ok(None) => Presence::Absent,
            Err(error) => Presence::Hidden(error.to_string()),
        };
        presence.insert(name.clone(), seen);
    }
    presence
}

/// Those of the `missing` rights that a Role can grant, since a namespace that does not exist cannot contain one; and
/// do all the others' namespaces exist for certain?
fn grantable(missing: BTreeSet<Right>, presence: &BTreeMap<String, Presence>) -> (BTreeSet<Right>, bool) {
    let of = |right: &Right| presence.get(&right.namespace);
    let grantable: BTreeSet<Right> =
        missing.into_iter().filter(|right| of(right) != Some(&Presence::Absent)).collect();
    let exist = grantable.iter().all(|right| of(right) == Some(&Presence::There));
    (grantable, exist)
}

/// Where the copies go.
pub struct CopyTargets {
    /// Named and, as far as the user may list namespaces, selected ones.
    pub all: BTreeSet<String>,
    /// Those that let no copies of this tenant in, or that the source's namespace lets none out to; as far as
    /// the user may list namespaces.
    pub closed: BTreeSet<String>,
    /// Are all of them known?
    pub is_complete: bool,
}

/// Those of a sync in the namespace `tenant`.
pub async fn targets(client: &Client, tenant: &str, spec: &ValidSync, tell: Tell<'_>) -> CopyTargets {
    let mut targets = CopyTargets { all: spec.targets.clone(), closed: BTreeSet::new(), is_complete: true };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut traits: BTreeMap<String, Traits> = BTreeMap::new();
    let listed = each_page(&namespaces, "", |page| {
        traits
            .extend(page.into_iter().map(|meta| (meta.name.clone().unwrap_or_default(), Traits::of(&meta))));
        ControlFlow::Continue(())
    });
    match listed.await {
        Ok(()) => {
            let source = traits.get(&spec.source_namespace).cloned().unwrap_or_default();
            for (name, traits) in traits {
                targets.look_at(tenant, spec, name, &traits, &source);
            }
            for one in &spec.patterns {
                let count = targets.all.iter().filter(|target| pattern::matches(one, target)).count();
                tell(&format!("targets that match {one} now: {count}"));
            }
        }
        // Those that are named are known.
        Err(_) if !spec.has_selection() => {}
        Err(error) => {
            targets.is_complete = false;
            tell(&format!("the selected namespaces could not be listed with your rights: {error}"));
        }
    }
    targets
}

impl CopyTargets {
    /// Adds a namespace that is there, if it is selected, and notes whether it is closed.
    fn look_at(&mut self, tenant: &str, spec: &ValidSync, name: String, traits: &Traits, source: &Traits) {
        let is_target = spec.targets.contains(&name) || selects(spec, &name, traits);
        if traits.terminating || !is_target {
            return;
        }
        if !traits.accepts(tenant) || !source.offers(&name) {
            self.closed.insert(name.clone());
        }
        self.all.insert(name);
    }
}

fn needed(spec: &ValidSync, targets: &BTreeSet<String>) -> Vec<Right> {
    let source = for_sources(spec);
    let targets = targets.iter().flat_map(|target| for_target(spec.source_kind, target));
    source.into_iter().chain(targets).collect()
}

#[cfg(test)]
mod tests {
    use weaver_api::kind::ObjectKind;
    use weaver_api::validate::validate;

    use super::*;

    fn valid(targets: &serde_json::Value) -> ValidSync {
        let spec = serde_json::json!({
            "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a", "name": "settings"},
            "targets": targets,
        });
        validate(Some(&serde_json::from_value(spec).unwrap())).unwrap()
    }

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[test]
    fn a_pattern_asks_for_no_role_in_a_namespace_of_the_system_or_that_lets_no_copy_in() {
        let targets = CopyTargets {
            all: names(["app", "config-weaver", "kube-public", "shut", "shut-2"]),
            closed: names(["kube-public", "shut", "shut-2"]),
            is_complete: true,
        };
        for (spec, expected, said) in [
            (
                serde_json::json!({"patterns": ["*"]}),
                names(["app"]),
                ["in config-weaver, kube-public:", "in 2 of"].as_slice(),
            ),
            (
                serde_json::json!({"patterns": ["*"], "namespaces": ["kube-public", "shut"]}),
                names(["app", "kube-public", "shut"]),
                &["in config-weaver:", "in 1 of"],
            ),
            (
                serde_json::json!({"namespaces": ["config-weaver", "kube-public", "shut", "shut-2"]}),
                targets.all.clone(),
                &[],
            ),
        ] {
            let (granted, kept_out) = granted(&valid(&spec), &targets).unwrap();
            assert_eq!(granted, expected, "{spec}");
            assert_eq!(kept_out.len(), said.len(), "{kept_out:?}");
            assert!(kept_out.iter().zip(said).all(|(line, part)| line.contains(part)), "{kept_out:?}");
        }
    }

    #[test]
    fn what_is_selected_and_not_known_is_not_granted_in_part() {
        let targets = CopyTargets { all: names(["app"]), closed: BTreeSet::new(), is_complete: false };
        let spec = valid(&serde_json::json!({"patterns": ["*"], "namespaces": ["app"]}));
        let error = granted(&spec, &targets).unwrap_err().to_string();
        assert!(
            error.contains("nothing was granted") && error.contains("spec.targets.namespaces"),
            "{error}"
        );
    }

    #[test]
    fn a_namespace_that_is_selected_may_let_no_copy_in() {
        let spec = valid(&serde_json::json!({"patterns": ["app-*"], "namespaces": ["app-0"]}));
        let mut targets = CopyTargets { all: names(["app-0"]), closed: BTreeSet::new(), is_complete: true };
        for (name, accept_from, terminating) in [
            ("app-0", Some("none"), false),
            ("app-1", None, false),
            ("app-2", Some("none"), false),
            ("app-3", Some("team-b, team-a"), false),
            ("app-4", None, true),
            ("other", Some("none"), false),
        ] {
            let traits =
                Traits { terminating, accept_from: accept_from.map(str::to_owned), ..Traits::default() };
            targets.look_at("team-a", &spec, name.to_owned(), &traits, &Traits::default());
        }
        assert_eq!(targets.all, names(["app-0", "app-1", "app-2", "app-3"]));
        assert_eq!(targets.closed, names(["app-0", "app-2"]), "one that is named may be closed, too");
        // The owner of the source must allow it, too.
        let source = Traits { offer_to: Some("app-5".into()), ..Traits::default() };
        for name in ["app-5", "app-6"] {
            targets.look_at("team-a", &spec, name.to_owned(), &Traits::default(), &source);
        }
        assert_eq!(targets.closed, names(["app-0", "app-2", "app-6"]));
    }

    #[test]
    fn what_is_missing_in_a_namespace_of_the_system_is_explained() {
        let all = names(["app", "kube-system"]);
        let needed = needed(&valid(&serde_json::json!({"patterns": ["*"]})), &all);
        let namespaces: BTreeSet<String> = needed.into_iter().map(|right| right.namespace).collect();
        assert_eq!(namespaces, names(["app", "kube-system", "team-a"]));
    }

    #[test]
    fn no_role_is_printed_for_a_namespace_that_does_not_exist() {
        let missing = || -> BTreeSet<Right> {
            ["there", "absent", "hidden"]
                .into_iter()
                .flat_map(|name| for_target(ObjectKind::CONFIG_MAP, name))
                .collect()
        };
        let presence = |hidden: Presence| -> BTreeMap<String, Presence> {
            [("there", Presence::There), ("absent", Presence::Absent), ("hidden", hidden)]
                .map(|(name, presence)| (name.to_owned(), presence))
                .into()
        };
        for (hidden, printed, known) in [
            (Presence::Hidden("403".into()), vec!["hidden", "there"], false),
            (Presence::There, vec!["hidden", "there"], true),
            (Presence::Absent, vec!["there"], true),
        ] {
            let (grantable, exist) = grantable(missing(), &presence(hidden));
            let names: BTreeSet<&str> = grantable.iter().map(|right| right.namespace.as_str()).collect();
            assert_eq!((names.into_iter().collect::<Vec<_>>(), exist), (printed, known));
        }
    }
}
