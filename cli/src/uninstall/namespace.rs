//! The operator's own namespace: it is deleted when only objects of Kubernetes and Config Weaver are in it.

use std::ops::ControlFlow;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::discovery::{Discovery, Scope, verbs};
use tokio::time::Instant;
use weaver_api::lease::NAME as LEASE;
use weaver_api::{GROUP, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};
use weaver_client::pages::each_page;

use super::installed_object::InstalledObject;
use crate::connection;
use crate::stdout::say;

/// The most foreign objects that are named.
const MOST: usize = 8;

/// Deletes the namespace, unless it contains an object of someone else.
pub async fn remove(client: &Client, deadline: Instant) -> anyhow::Result<()> {
    let Some(part) = InstalledObject::find::<Namespace>(client, None, OPERATOR_NAMESPACE).await? else {
        return Ok(());
    };
    let strangers = strangers(client).await?;
    if !strangers.is_empty() {
        say(stays(&strangers));
        return Ok(());
    }
    part.delete(client).await?;
    part.is_gone_by(client, deadline).await
}

/// Reports that it stays, and why.
pub fn stays(strangers: &[String]) -> String {
    let more = strangers.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = strangers.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    format!(
        "Namespace {OPERATOR_NAMESPACE} stays, because it contains objects of other programs: {named}{more}"
    )
}

/// The foreign objects in the namespace, of all kinds that the API server can list.
pub async fn strangers(client: &Client) -> anyhow::Result<Vec<String>> {
    let discovery = Discovery::new(client.clone()).run().await.with_context(|| {
        format!(
            "listing the kinds: first fix or delete any APIService that does not answer (`kubectl get apiservices{}`), \
             since no namespace can be deleted before",
            connection::flags()
        )
    })?;
    let mut strangers = Vec::new();
    // Each kind at some version, whichever its group prefers.
    for (resource, capabilities) in
        discovery.groups().flat_map(kube::discovery::ApiGroup::resources_by_stability)
    {
        // Ours are deleted before; and what cannot be deleted by itself is no object of its own, such as metrics of a
        // pod.
        let is_looked_at = capabilities.scope == Scope::Namespaced
            && [verbs::LIST, verbs::DELETE].iter().all(|verb| capabilities.supports_operation(verb))
            && resource.group != GROUP;
        if !is_looked_at {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), OPERATOR_NAMESPACE, &resource);
        let listed = each_page(&api, "", |page| {
            let names = page.into_iter().filter_map(|meta| meta.name);
            let others = names.filter(|name| !is_expected(&resource, name));
            strangers.extend(others.map(|name| format!("{} {name}", resource.kind)));
            ControlFlow::Continue(())
        });
        // A namespace that is not known to be empty stays.
        if let Err(error) = listed.await {
            strangers.push(format!("{}, which cannot be listed: {error}", resource.plural));
        }
    }
    strangers.sort();
    strangers.dedup();
    Ok(strangers)
}

/// Is it there in every namespace, or in ours because we put it there?
fn is_expected(resource: &ApiResource, name: &str) -> bool {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("" | "events.k8s.io", "Event") => true,
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "ServiceAccount") => name == "default" || name == OPERATOR_ACCOUNT,
        ("rbac.authorization.k8s.io", "Role" | "RoleBinding") => name == OPERATOR_ACCOUNT,
        ("coordination.k8s.io", "Lease") => name == LEASE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kubernetes_and_we_put_there_is_expected() {
        for (group, kind, name, expected) in [
            ("", "Event", "any.17", true),
            ("events.k8s.io", "Event", "any.17", true),
            ("example.com", "Event", "birthday", false),
            ("", "ConfigMap", "kube-root-ca.crt", true),
            ("", "ConfigMap", "settings", false),
            ("", "ServiceAccount", "default", true),
            ("", "ServiceAccount", "weaver-operator", true),
            ("", "ServiceAccount", "robot", false),
            ("rbac.authorization.k8s.io", "Role", "weaver-operator", true),
            ("rbac.authorization.k8s.io", "Role", "weaver-mint-sync", false),
            ("coordination.k8s.io", "Lease", "weaver-operator", true),
            ("coordination.k8s.io", "Lease", "other", false),
            ("apps", "Deployment", "weaver-operator", false),
        ] {
            let resource = ApiResource {
                group: group.into(),
                version: "v1".into(),
                api_version: "v1".into(),
                kind: kind.into(),
                plural: String::new(),
            };
            assert_eq!(is_expected(&resource, name), expected, "{group} {kind} {name}");
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
