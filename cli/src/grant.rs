//! What an account needs for a tenant's work, created with the rights of the user: the ServiceAccount, the operator's
//! right to request its tokens, and the Roles at the source and in the targets.
//!
//! Each object is shown before it is created. An account is never changed; a Role of ours is replaced whole, so that a
//! second run changes nothing. The API server refuses what the user may not grant.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, minting};
use weaver_client::{Objects, Why};
use weaver_copies::rights::{self, Right};
use weaver_diagnostics::yaml_text;
use weaver_tenant::Account;

use crate::review;
use crate::stdout::say;

/// The field manager, as the API server records it.
const MANAGER: &str = "weaver";

/// How long the API server may take to judge by what was deleted.
const PATIENCE: Duration = Duration::from_secs(5);

/// An object that is missing.
pub enum GrantObject {
    Account(ServiceAccount),
    Role(Role),
    Binding(RoleBinding),
}

/// The objects to create for `account`, in an order that works.
fn parts(account: &Account, exists: bool, may_mint: bool, missing: &BTreeSet<Right>) -> Vec<GrantObject> {
    let mut parts = Vec::new();
    if !exists {
        let mut made = ServiceAccount::default();
        made.metadata.name = Some(account.name.clone());
        made.metadata.namespace = Some(account.namespace.clone());
        parts.push(GrantObject::Account(made));
    }
    let minting = (!may_mint).then(|| minting::grant(&account.namespace, &account.name));
    for (role, binding) in minting.into_iter().chain(rights::roles(account, missing)) {
        parts.extend([GrantObject::Role(role), GrantObject::Binding(binding)]);
    }
    parts
}

/// The objects to create for the account, for the operator's right to act as it, and for its `missing` rights.
pub async fn lacking(
    client: &Client,
    account: &Account,
    missing: &BTreeSet<Right>,
) -> anyhow::Result<Vec<GrantObject>> {
    let exists = exists(client, account).await?;
    let may_mint =
        review::known(client, &operator(), minting(&account.namespace, Some(&account.name))).await?;
    Ok(parts(account, exists, may_mint, missing))
}

pub async fn exists(client: &Client, account: &Account) -> anyhow::Result<bool> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace);
    let found = accounts.get_opt(&account.name).await.with_context(|| format!("looking up {account}"))?;
    Ok(found.is_some())
}

/// Does the API server let the operator mint tokens for this account; or, without one, for every account there?
pub async fn may_mint(client: &Client, namespace: &str, account: Option<&str>) -> anyhow::Result<bool> {
    review::allowed(client, &operator(), minting(namespace, account)).await
}

/// Does it let the operator mint them still, when what was deleted has had time to have its effect? `false` where the
/// user may not ask.
pub async fn still_mints(client: &Client, account: &Account) -> anyhow::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    while review::known(client, &operator(), minting(&account.namespace, Some(&account.name))).await? {
        if Instant::now() > deadline {
            return Ok(true);
        }
        sleep(PATIENCE / 25).await;
    }
    Ok(false)
}

fn operator() -> Account {
    Account { namespace: OPERATOR_NAMESPACE.into(), name: OPERATOR_ACCOUNT.into() }
}

fn minting(namespace: &str, account: Option<&str>) -> ResourceAttributes {
    ResourceAttributes {
        group: Some(String::new()),
        resource: Some("serviceaccounts".into()),
        subresource: Some("token".into()),
        verb: Some("create".into()),
        namespace: Some(namespace.into()),
        name: account.map(Into::into),
        ..ResourceAttributes::default()
    }
}

/// Names each object, in a line.
pub fn show(parts: &[GrantObject]) {
    for part in parts {
        say(part.line());
    }
}

/// Makes each object, unless the API server would refuse one of the Roles.
///
/// # Errors
/// Someone else would be granted the same, or has been meanwhile; or the API server refuses one: a Role before anything
/// is made, another object when those before it are there.
pub async fn make(client: &Client, parts: &[GrantObject]) -> anyhow::Result<()> {
    for role in roles(parts) {
        is_only_ours(client, role, parts).await.context("nothing was granted")?;
        apply(client, role, true).await.context("nothing was granted")?;
    }
    for part in parts {
        match part {
            GrantObject::Account(account) => create(client, account).await,
            GrantObject::Role(role) => {
                // There may be many before it.
                is_only_ours(client, role, parts).await?;
                apply(client, role, false).await
            }
            GrantObject::Binding(binding) => apply(client, binding, false).await,
        }?;
    }
    for role in roles(parts) {
        is_only_ours(client, role, parts).await.context("it was granted")?;
    }
    Ok(())
}

fn roles(parts: &[GrantObject]) -> impl Iterator<Item = &Role> {
    parts.iter().filter_map(|part| if let GrantObject::Role(role) = part { Some(role) } else { None })
}

/// The names of Roles can be guessed: anyone who may bind an empty one could have it filled for themselves.
async fn is_only_ours(client: &Client, role: &Role, parts: &[GrantObject]) -> anyhow::Result<()> {
    let api: Api<RoleBinding> = Api::namespaced(client.clone(), &role.namespace().unwrap_or_default());
    let bindings = Objects::new(api, MANAGER);
    let mut pages = bindings.pages(ListParams::default());
    loop {
        let page = match pages.next_page().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(()),
            // A user who may not read bindings may still grant the rights that they have.
            Err(error) if matches!(&error.why, Why::Refused(status) if status.is_forbidden()) => {
                return Ok(());
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("looking for other RoleBindings to {}", reference(role)));
            }
        };
        if let Some(other) = page.items.iter().find(|binding| is_to_others(binding, role, parts)) {
            return Err(anyhow!(
                "{} gives {} to others too; delete one of the two",
                reference(other),
                reference(role)
            ));
        }
    }
}

/// Does `binding` give the Role to anyone but those to whom `parts` are to give it? Ours has the Role's own name, which
/// can be guessed as well.
fn is_to_others(binding: &RoleBinding, role: &Role, parts: &[GrantObject]) -> bool {
    let who = |binding: &RoleBinding| -> BTreeSet<_> {
        let subjects = binding.subjects.iter().flatten();
        subjects.map(|one| (one.kind.clone(), one.namespace.clone(), one.name.clone())).collect()
    };
    let is_same = |ours: &RoleBinding| {
        (ours.namespace(), ours.name_any()) == (binding.namespace(), binding.name_any())
            && who(ours) == who(binding)
    };
    let is_ours = parts.iter().any(|part| matches!(part, GrantObject::Binding(ours) if is_same(ours)));
    binding.role_ref.kind == "Role" && binding.role_ref.name == role.name_any() && !is_ours
}

/// An account that someone has created meanwhile is a success.
async fn create(client: &Client, account: &ServiceAccount) -> anyhow::Result<()> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace().unwrap_or_default());
    let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    match api.create(&params, account).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(kube::Error::Api(status)) => Err(anyhow!("{}", status.message)),
        Err(error) => Err(error.into()),
    }
    .with_context(|| format!("creating {}", reference(account)))
}

async fn apply<K>(client: &Client, object: &K, dry_run: bool) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let params = PatchParams { dry_run, ..PatchParams::apply(MANAGER).force() };
    match api.patch(&object.name_any(), &params, &Patch::Apply(object)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(anyhow!("{}", status.message)),
        Err(error) => Err(error.into()),
    }
    .with_context(|| format!("writing {}", reference(object)))
}

fn reference<K: Resource<DynamicType = ()>>(object: &K) -> String {
    format!("{} {}/{}", K::kind(&()), object.namespace().unwrap_or_default(), object.name_any())
}

impl GrantObject {
    /// What it is, and what it grants.
    pub fn line(&self) -> String {
        match self {
            Self::Account(account) => reference(account),
            Self::Role(role) => {
                let rules: Vec<String> = role.rules.iter().flatten().map(allows).collect();
                format!("{}: {}", reference(role), rules.join("; "))
            }
            Self::Binding(binding) => {
                let subjects = binding.subjects.iter().flatten();
                let subjects: Vec<String> = subjects
                    .map(|one| {
                        format!("{} {}/{}", one.kind, one.namespace.as_deref().unwrap_or_default(), one.name)
                    })
                    .collect();
                format!("{}: to {}", reference(binding), subjects.join(", "))
            }
        }
    }

    /// As YAML for `kubectl apply`.
    pub fn manifest(&self) -> String {
        match self {
            Self::Account(account) => yaml_text::write(account),
            Self::Role(role) => yaml_text::write(role),
            Self::Binding(binding) => yaml_text::write(binding),
        }
    }
}

/// `get, list, watch configmaps settings`.
fn allows(rule: &PolicyRule) -> String {
    let resources = rule.resources.iter().flatten().chain(rule.resource_names.iter().flatten());
    format!("{} {}", rule.verbs.join(", "), resources.map(String::as_str).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use weaver_api::kind::ObjectKind;
    use weaver_copies::rights::{for_source, for_target};

    use super::*;

    fn account() -> Account {
        Account { namespace: "team-a".into(), name: "sync".into() }
    }

    fn lines(exists: bool, may_mint: bool, missing: &BTreeSet<Right>) -> Vec<String> {
        parts(&account(), exists, may_mint, missing).iter().map(GrantObject::line).collect()
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        assert_eq!(lines(true, true, &BTreeSet::new()), Vec::<String>::new());
        assert_eq!(lines(false, true, &BTreeSet::new()), ["ServiceAccount team-a/sync"]);
        assert_eq!(
            lines(true, false, &BTreeSet::new()),
            [
                "Role team-a/weaver-mint-sync: create serviceaccounts/token sync",
                "RoleBinding team-a/weaver-mint-sync: to ServiceAccount config-weaver/weaver-operator",
            ]
        );
    }

    #[test]
    fn a_role_for_each_place_that_lacks_a_right_and_no_more_than_it_needs() {
        let source = for_source(ObjectKind::SECRET, "team-a", Some("registry"));
        let all: BTreeSet<Right> = source.into_iter().chain(for_target(ObjectKind::SECRET, "foo")).collect();
        let one_each: BTreeSet<Right> = all.iter().filter(|right| right.verb == "get").cloned().collect();
        for missing in [&all, &one_each] {
            assert_eq!(
                lines(true, true, missing),
                [
                    "Role foo/weaver:team-a:sync:target:secrets: create, delete, get, list, update, watch secrets",
                    "RoleBinding foo/weaver:team-a:sync:target:secrets: to ServiceAccount team-a/sync",
                    "Role team-a/weaver:team-a:sync:source:secrets:registry: get, list, watch secrets registry",
                    "RoleBinding team-a/weaver:team-a:sync:source:secrets:registry: to ServiceAccount team-a/sync",
                ]
            );
        }
    }

    #[test]
    fn a_binding_of_our_name_is_ours_only_with_our_subjects() {
        let (role, ours) = minting::grant("team-a", "sync");
        let parts = [GrantObject::Role(role.clone()), GrantObject::Binding(ours.clone())];
        let mut planted = ours.clone();
        let mut mallory = planted.subjects.as_ref().unwrap()[0].clone();
        mallory.name = "mallory".into();
        let mut shared = ours.clone();
        shared.subjects.as_mut().unwrap().push(mallory.clone());
        planted.subjects = Some(vec![mallory]);
        let mut theirs = ours.clone();
        theirs.metadata.name = Some("theirs".into());
        let mut of_another = planted.clone();
        of_another.role_ref.name = "another".into();
        for (binding, expected) in
            [(&ours, false), (&planted, true), (&shared, true), (&theirs, true), (&of_another, false)]
        {
            assert_eq!(is_to_others(binding, &role, &parts), expected, "{binding:?}");
        }
    }

    #[test]
    fn each_manifest_says_what_it_is() {
        let missing = for_target(ObjectKind::CONFIG_MAP, "foo").into_iter().collect();
        let parts = parts(&account(), false, false, &missing);
        let kinds: Vec<String> = parts
            .iter()
            .map(|part| {
                let value: serde_json::Value = serde_saphyr::from_str(&part.manifest()).unwrap();
                format!("{} {}", value["apiVersion"].as_str().unwrap(), value["kind"].as_str().unwrap())
            })
            .collect();
        let rbac = "rbac.authorization.k8s.io/v1";
        let role = [format!("{rbac} Role"), format!("{rbac} RoleBinding")];
        assert_eq!(kinds, [&["v1 ServiceAccount".to_owned()][..], &role, &role].concat());
    }
}
