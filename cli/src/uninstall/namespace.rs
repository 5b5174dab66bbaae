//! The operator's own namespace: it goes when nothing is in it but what Kubernetes and Config Weaver put there.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use tokio::time::Instant;
use weaver_api::{GROUP, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};
use weaver_operator::lease::record::NAME as LEASE;

use super::part::Part;
use crate::stdout::say;

/// At most so many strangers are named.
const MOST: usize = 8;

/// Deletes the namespace, unless something of somebody else is in it.
pub async fn remove(client: &Client, deadline: Instant) -> anyhow::Result<()> {
    let Some(part) = Part::find::<Namespace>(client, None, OPERATOR_NAMESPACE).await? else { return Ok(()) };
    let strangers = strangers(client).await?;
    if !strangers.is_empty() {
        say(stays(&strangers));
        return Ok(());
    }
    part.delete(client).await?;
    part.is_gone_by(client, deadline).await
}

/// That it stays, and why.
pub fn stays(strangers: &[String]) -> String {
    let more = strangers.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = strangers.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    format!("Namespace {OPERATOR_NAMESPACE} stays, because others have put something there: {named}{more}")
}

/// What is in the namespace and not ours, of all kinds that the API server can list.
pub async fn strangers(client: &Client) -> anyhow::Result<Vec<String>> {
    let discovery = Discovery::new(client.clone()).run().await.context(
        "asking which kinds there are: an APIService that does not answer (`kubectl get apiservices`) is to be mended or \
         deleted first, since no namespace can go before",
    )?;
    let mut strangers = Vec::new();
    for (resource, capabilities) in
        discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources)
    {
        // Ours are deleted before; what is no object of its own, or the same one in another group, need not be asked for.
        let is_looked_at = capabilities.scope == Scope::Namespaced
            && capabilities.supports_operation(verbs::LIST)
            && resource.group != GROUP;
        if !is_looked_at {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), OPERATOR_NAMESPACE, &resource);
        let found = api.list_metadata(&ListParams::default()).await;
        let found =
            found.with_context(|| format!("listing what is in {OPERATOR_NAMESPACE}: {}", resource.plural))?;
        let names = found.items.iter().map(kube::ResourceExt::name_any);
        strangers.extend(
            names
                .filter(|name| !is_expected(&resource.kind, name))
                .map(|name| format!("{} {name}", resource.kind)),
        );
    }
    strangers.sort();
    strangers.dedup();
    Ok(strangers)
}

/// Is it there in every namespace, or in ours because we put it there?
fn is_expected(kind: &str, name: &str) -> bool {
    match kind {
        "Event" => true,
        "ConfigMap" => name == "kube-root-ca.crt",
        "ServiceAccount" => name == "default" || name == OPERATOR_ACCOUNT,
        "Role" | "RoleBinding" => name == OPERATOR_ACCOUNT,
        "Lease" => name == LEASE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kubernetes_and_we_put_there_is_expected() {
        for (kind, name, expected) in [
            ("Event", "any.17", true),
            ("ConfigMap", "kube-root-ca.crt", true),
            ("ConfigMap", "settings", false),
            ("ServiceAccount", "default", true),
            ("ServiceAccount", "weaver-operator", true),
            ("ServiceAccount", "robot", false),
            ("Role", "weaver-operator", true),
            ("Role", "weaver-mint-sync", false),
            ("Lease", "weaver-operator", true),
            ("Lease", "other", false),
            ("Deployment", "weaver-operator", false),
        ] {
            assert_eq!(is_expected(kind, name), expected, "{kind} {name}");
        }
    }

    #[test]
    fn strangers_are_named_and_not_without_end() {
        let many: Vec<String> = (0..10).map(|number| format!("Secret {number}")).collect();
        let said = stays(&many);
        assert!(said.contains("Secret 0, Secret 1") && said.ends_with("Secret 7 and 2 more"), "{said}");
        assert!(stays(&many[..1]).ends_with("Secret 0"));
    }
}
