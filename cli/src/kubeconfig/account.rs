//! The credential of a limited account instead of the administrator's: a token, minted for this one file.

use std::path::Path;

use anyhow::Context as _;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use weaver_diagnostics::shell::quoted;
use weaver_tenant::Account;

use super::refusal::KubeconfigRefusal;

/// The token, and when it expires.
pub struct AccountCredential {
    pub token: String,
    pub expires: Timestamp,
}

/// `NAMESPACE/NAME`.
pub fn account(text: &str) -> Result<Account, &'static str> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.'))
    };
    match text.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => {
            Ok(Account { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("write NAMESPACE/NAME"),
    }
}

/// Mints a token of an existing account, with the administrator's rights.
pub async fn mint(
    client: Client,
    kubeconfig: Option<&Path>,
    account: &Account,
    days: u16,
) -> anyhow::Result<AccountCredential> {
    let Account { namespace, name } = account;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
    let what = || format!("requesting a token of ServiceAccount {namespace}/{name}");
    if accounts.get_opt(name).await.with_context(what)?.is_none() {
        let kubectl = kubeconfig.map_or_else(
            || "kubectl".to_owned(),
            |path| format!("kubectl --kubeconfig {}", quoted(&path.display().to_string())),
        );
        let is_there = namespaces.get_opt(namespace).await.with_context(what)?.is_some();
        let mut lines = vec![format!(
            "there is no ServiceAccount {namespace}/{name}; create one that may read everything but Secrets:"
        )];
        if !is_there {
            lines.push(format!("{kubectl} create namespace {namespace}"));
        }
        lines.push(format!("{kubectl} -n {namespace} create serviceaccount {name}"));
        lines.push(format!(
            "{kubectl} create clusterrolebinding {namespace}-{name}-view --clusterrole=view \
             --serviceaccount={namespace}:{name}"
        ));
        return Err(KubeconfigRefusal(lines).into());
    }
    let seconds = i64::from(days) * 24 * 60 * 60;
    let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer =
        accounts.create_token_request(name, &PostParams::default(), &request).await.with_context(what)?;
    let status = answer.status.unwrap_or_default();
    let token = status
        .token
        .filter(|token| !token.is_empty())
        .with_context(|| format!("{}: the answer has no token", what()))?;
    let expires =
        status.expiration_timestamp.map_or_else(|| Timestamp::now() + seconds.seconds(), |time| time.0);
    Ok(AccountCredential { token, expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_an_account_is_written() {
        let found = account("team-a/laptop.1").unwrap();
        assert_eq!((&*found.namespace, &*found.name), ("team-a", "laptop.1"));
        for bad in ["", "team-a", "team-a/", "/laptop", "a/b/c", "Team/laptop", "a/b;c"] {
            assert!(account(bad).is_err(), "{bad}");
        }
    }
}
