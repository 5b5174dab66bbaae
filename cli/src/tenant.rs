//! `weaver tenant`: grants the operator the right to mint tokens for one account of one namespace, and takes it back;
//! makes namespace and account as well.
//! Anyone who asks whether it is granted needs the right to ask about others' rights.
//!
//! Applied twice it changes nothing. Anyone who runs it needs the right to write Roles in that namespace.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow, ensure};
use clap::Subcommand;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use kube::api::{Api, DeleteParams, Preconditions};
use serde::de::DeserializeOwned;
use weaver_api::names::{dns_label, dns_subdomain};
use weaver_api::{OPERATOR_ACCOUNT, minting};
use weaver_diagnostics::yaml_text;
use weaver_tenant::Account;

use crate::resource::kind::Kind;
use crate::resource::store::{self, Store};
use crate::stdout::{note, say, show};
use crate::{connection, grant};

#[derive(Subcommand)]
pub enum TenantVerb {
    /// Create namespace and ServiceAccount if missing, and allow the operator to act as it
    Init {
        /// Namespace of the tenant
        namespace: String,
        /// ServiceAccount in that namespace
        #[arg(default_value = "sync")]
        account: String,
        /// Print what is missing as manifests without creating it
        #[arg(long)]
        dry_run: bool,
    },
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
    /// Forbid the operator to act as ACCOUNT of NAMESPACE: it can mint no more tokens for it
    Revoke {
        /// Namespace of the tenant
        namespace: String,
        /// ServiceAccount in that namespace
        account: String,
    },
}

pub async fn run(verb: TenantVerb) -> anyhow::Result<()> {
    match verb {
        TenantVerb::Init { namespace, account, dry_run } => init(namespace, account, dry_run).await,
        TenantVerb::Allow { namespace, account, dry_run } => allow(namespace, account, dry_run).await,
        TenantVerb::Check { namespace, account } => check(namespace, account).await,
        TenantVerb::Revoke { namespace, account } => revoke(namespace, account).await,
    }
}

fn of(namespace: &str, account: &str) -> Account {
    Account { namespace: namespace.into(), name: account.into() }
}

async fn check(namespace: String, account: String) -> anyhow::Result<()> {
    valid(&namespace, &account)?;
    let client = connection::client().await?;
    let exists = grant::exists(&client, &of(&namespace, &account)).await?;
    let flags = connection::flags();
    let remedy = format!("kubectl -n {namespace} create serviceaccount {account}{flags}");
    let there = if exists { "exists".to_owned() } else { format!("does not exist: {remedy}") };
    say(format_args!("ServiceAccount {namespace}/{account} {there}"));
    let allowed = grant::may_mint(&client, &namespace, Some(&account)).await?;
    if allowed {
        say("the operator may act as it");
    } else {
        let allow = minting::command(&namespace, &account);
        say(format_args!("the operator may not act as it: {allow}{flags}"));
    }
    if grant::may_mint(&client, &namespace, None).await? {
        say(format_args!(
            "WARNING: the operator may act as every ServiceAccount of {namespace}, also those of other programs. \
            Find the Role or ClusterRole that lets {OPERATOR_ACCOUNT} create serviceaccounts/token without \
            resourceNames, and delete its binding"
        ));
    }
    ensure!(exists && allowed, "no resource can use ServiceAccount {namespace}/{account} yet");
    Ok(())
}

async fn revoke(namespace: String, account: String) -> anyhow::Result<()> {
    valid(&namespace, &account)?;
    let client = connection::client().await?;
    let (role, _) = minting::grant(&namespace, &account);
    let name = role.metadata.name.unwrap_or_default();
    // The binding first: without it the Role grants nothing.
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), &namespace);
    let bound = delete(&bindings, &name, minting::is_bound).await?;
    let granted =
        delete(&Api::<Role>::namespaced(client.clone(), &namespace), &name, minting::is_granted).await?;
    for (kind, ended) in [("rolebinding", bound), ("role", granted)] {
        if ended == Deletion::NotOurs {
            note!(
                "the {kind} {namespace}/{name} is not as `weaver tenant allow` makes it, and was left as it is: look at \
                 it with `kubectl -n {namespace} get {kind} {name} -o yaml{}`",
                connection::flags()
            );
        }
    }
    ensure!(
        !grant::still_mints(&client, &of(&namespace, &account)).await?,
        "the operator may still act as ServiceAccount {namespace}/{account}, by a Role or ClusterRole that lets \
         {OPERATOR_ACCOUNT} create serviceaccounts/token there: find it with \
         `kubectl get rolebindings,clusterrolebindings -A -o wide{}`, and delete its binding",
        connection::flags()
    );
    if [bound, granted].contains(&Deletion::Done) {
        say(format_args!(
            "the operator can mint no more tokens for ServiceAccount {namespace}/{account}. A token that it holds is \
            valid for up to an hour, tokens in Secrets of ServiceTokens for up to a day; delete the ServiceAccount \
            to revoke them at once"
        ));
    } else {
        say(format_args!("the operator was not allowed to act as ServiceAccount {namespace}/{account}"));
    }
    Ok(())
}

/// What became of an object that was to be deleted.
#[derive(Clone, Copy, PartialEq)]
enum Deletion {
    Done,
    /// There was none.
    Unneeded,
    /// Someone else made it, or has changed it since: it stays.
    NotOurs,
}

/// Deletes it as it is when `is_ours` looks at it.
async fn delete<K>(api: &Api<K>, name: &str, is_ours: impl Fn(&K) -> bool) -> anyhow::Result<Deletion>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    let doing = || format!("deleting the {} {name}", K::kind(&()));
    let Some(found) = api.get_opt(name).await.with_context(doing)? else { return Ok(Deletion::Unneeded) };
    if !is_ours(&found) {
        return Ok(Deletion::NotOurs);
    }
    let (uid, resource_version) = (found.meta().uid.clone(), found.meta().resource_version.clone());
    let preconditions = Some(Preconditions { uid, resource_version });
    match api.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(Deletion::Done),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Deletion::Unneeded),
        Err(error) => Err(error).with_context(doing),
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
        show(format_args!("{}---\n{}", yaml_text::write(&role), yaml_text::write(&binding)));
        return Ok(());
    }
    let (client, flags) = (connection::client().await?, connection::flags());
    ensure!(
        grant::exists(&client, &of(&namespace, &account)).await?,
        "ServiceAccount {namespace}/{account} does not exist: create it with `kubectl -n {namespace} \
         create serviceaccount {account}{flags}`, or both with `weaver tenant init {namespace} {account}{flags}`"
    );
    grant::make(&client, &[grant::GrantObject::Role(role), grant::GrantObject::Binding(binding)]).await?;
    say(format_args!("the operator may now act as ServiceAccount {namespace}/{account}"));
    Ok(())
}

async fn init(namespace: String, account: String, dry_run: bool) -> anyhow::Result<()> {
    valid(&namespace, &account)?;
    let client = connection::client().await?;
    let account = of(&namespace, &account);
    let store = Store::all(Kind::ConfigMapSync, &client);
    let exists = store.has_namespace(&namespace).await;
    let parts = grant::lacking(&client, &account, &BTreeSet::new()).await?;
    if dry_run {
        let made = (exists == Some(false)).then(|| yaml_text::write(&store::namespace(&namespace)));
        let all: Vec<String> =
            made.into_iter().chain(parts.iter().map(grant::GrantObject::manifest)).collect();
        show(all.join("---\n"));
        return Ok(());
    }
    if exists == Some(false) {
        say(format_args!("Namespace {namespace}"));
        store.create_namespace(&namespace, false).await?;
    }
    grant::show(&parts);
    grant::make(&client, &parts).await?;
    say(format_args!("the operator may act as {account}"));
    Ok(())
}
