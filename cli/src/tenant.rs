//! `weaver tenant`: grants the operator the right to mint tokens for one account of one namespace, and takes it back.
//! Anyone who asks whether it is granted needs the right to ask about others' rights.
//!
//! Applied twice it changes nothing. Anyone who runs it needs the right to write Roles in that namespace.

use anyhow::{Context as _, anyhow, ensure};
use clap::Subcommand;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_api::names::{dns_label, dns_subdomain};
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, minting};
use weaver_tenant::Account;

use crate::stdout::{say, show};
use crate::{connection, review};

#[derive(Subcommand)]
pub enum Verb {
    /// Allow the operator to act as ACCOUNT of NAMESPACE
    Allow {
        /// Namespace of the tenant
        namespace: String,
        /// ServiceAccount in that namespace
        account: String,
        /// Print the Role and RoleBinding without applying them
        #[arg(long)]
        dry_run: bool,
    },
    /// Check whether the operator may act as ACCOUNT of NAMESPACE, and whether it has more rights than it should
    Check {
        /// Namespace of the tenant
        namespace: String,
        /// ServiceAccount in that namespace
        account: String,
    },
    /// Revoke it: the operator can mint no more tokens for ACCOUNT of NAMESPACE
    Revoke {
        /// Namespace of the tenant
        namespace: String,
        /// ServiceAccount in that namespace
        account: String,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Allow { namespace, account, dry_run } => allow(namespace, account, dry_run).await,
        Verb::Check { namespace, account } => check(namespace, account).await,
        Verb::Revoke { namespace, account } => revoke(namespace, account).await,
    }
}

async fn check(namespace: String, account: String) -> anyhow::Result<()> {
    valid(&namespace, &account)?;
    let client = connection::client().await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let exists = accounts.get_opt(&account).await.context("looking up the ServiceAccount")?.is_some();
    let remedy = format!("kubectl -n {namespace} create serviceaccount {account}");
    let there = if exists { "exists".to_owned() } else { format!("does not exist: {remedy}") };
    say(format_args!("ServiceAccount {namespace}/{account} {there}"));
    let allowed = may_mint(&client, &namespace, Some(&account)).await?;
    if allowed {
        say("the operator may act as it");
    } else {
        say(format_args!("the operator may not act as it: {}", minting::command(&namespace, &account)));
    }
    if may_mint(&client, &namespace, None).await? {
        say(format_args!(
            "WARNING: the operator may act as every account of {namespace}, those of other programs too: \
             find the Role \
             or ClusterRole that lets {OPERATOR_ACCOUNT} create serviceaccounts/token without \
             resourceNames, and drop it"
        ));
    }
    ensure!(exists && allowed, "no resource uses ServiceAccount {namespace}/{account}");
    Ok(())
}

/// Does the API server let the operator mint tokens for this account; or, without one, for every account there?
async fn may_mint(client: &Client, namespace: &str, account: Option<&str>) -> anyhow::Result<bool> {
    let operator = Account { namespace: OPERATOR_NAMESPACE.into(), name: OPERATOR_ACCOUNT.into() };
    let minting = ResourceAttributes {
        group: Some(String::new()),
        resource: Some("serviceaccounts".into()),
        subresource: Some("token".into()),
        verb: Some("create".into()),
        namespace: Some(namespace.into()),
        name: account.map(Into::into),
        ..ResourceAttributes::default()
    };
    review::allowed(client, &operator, minting).await
}

async fn revoke(namespace: String, account: String) -> anyhow::Result<()> {
    valid(&namespace, &account)?;
    let client = connection::client().await?;
    let (role, _) = minting::grant(&namespace, &account);
    let name = role.metadata.name.unwrap_or_default();
    // The binding first: without it the Role grants nothing.
    let bound = delete(&Api::<RoleBinding>::namespaced(client.clone(), &namespace), &name).await?;
    let granted = delete(&Api::<Role>::namespaced(client, &namespace), &name).await?;
    if bound || granted {
        say(format_args!(
            "the operator mints no more tokens for ServiceAccount {namespace}/{account}; the one it may \
             hold lives for \
             an hour at most, those that ServiceTokens put into Secrets for as long as they ask for, up to a day: delete the \
             ServiceAccount to end all of them at once"
        ));
    } else {
        say(format_args!("the operator was not allowed to act as ServiceAccount {namespace}/{account}"));
    }
    Ok(())
}

/// Was it there?
async fn delete<K>(api: &Api<K>, name: &str) -> anyhow::Result<bool>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("deleting the {} {name}", K::kind(&()))),
    }
}

fn valid(namespace: &str, account: &str) -> anyhow::Result<()> {
    dns_label(namespace).map_err(|fault| anyhow!("NAMESPACE {namespace:?} {fault}"))?;
    dns_subdomain(account).map_err(|fault| anyhow!("ACCOUNT {account:?} {fault}"))
}

async fn allow(namespace: String, account: String, dry_run: bool) -> anyhow::Result<()> {
    valid(&namespace, &account)?;
    let (role, binding) = minting::grant(&namespace, &account);
    if dry_run {
        show(format_args!("{}---\n{}", manifest(&role)?, manifest(&binding)?));
        return Ok(());
    }

    let client = connection::client().await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let found = accounts
        .get_opt(&account)
        .await
        .with_context(|| format!("looking up ServiceAccount {namespace}/{account}"))?;
    ensure!(
        found.is_some(),
        "ServiceAccount {namespace}/{account} does not exist: create it with `kubectl -n {namespace} \
         create serviceaccount {account}`"
    );
    apply(&Api::<Role>::namespaced(client.clone(), &namespace), &role).await?;
    apply(&Api::<RoleBinding>::namespaced(client, &namespace), &binding).await?;
    say(format_args!("the operator may now act as ServiceAccount {namespace}/{account}"));
    Ok(())
}

async fn apply<K>(api: &Api<K>, object: &K) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let name = object.meta().name.as_deref().unwrap_or_default();
    api.patch(name, &PatchParams::apply("weaver").force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("writing {} {name}", K::kind(&())))?;
    Ok(())
}

/// An object as YAML. Not every type of k8s-openapi writes its apiVersion by itself; these do.
fn manifest<K: Serialize>(object: &K) -> anyhow::Result<String> {
    serde_saphyr::to_string(object).context("writing a manifest as YAML")
}
