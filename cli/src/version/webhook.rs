//! The version of a webhook that runs in the cluster: the tag of its image, since it says none of its own and no label
//! of an installation does.

use anyhow::{Context as _, anyhow, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use super::report::WebhookVersion;

/// The labels that deploy/kubernetes and the chart give it.
const LABELS: &str = "app.kubernetes.io/name=weaver-operator,app.kubernetes.io/component=webhook";
/// Its container there.
const CONTAINER: &str = "webhook";
/// Deployments that are read.
const MOST: u32 = 10;

/// The Deployments of the webhook in the namespace of its Service.
pub async fn read(client: &Client, namespace: &str) -> anyhow::Result<Vec<WebhookVersion>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let listed = api.list(&ListParams::default().labels(LABELS).limit(MOST)).await;
    let found = listed.map_err(|error| refusal(error, namespace))?;
    ensure!(!found.items.is_empty(), "no Deployment in the namespace {namespace} has the labels {LABELS}");
    Ok(found.items.iter().map(version).collect())
}

fn refusal(error: kube::Error, namespace: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.is_forbidden() => {
            anyhow!("you may not list Deployments in the namespace {namespace}")
        }
        other => anyhow::Error::from(other).context(format!("listing Deployments in {namespace}")),
    }
}

fn version(deployment: &Deployment) -> WebhookVersion {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let container = pod.and_then(|pod| pod.containers.iter().find(|one| one.name == CONTAINER));
    let image = container.and_then(|container| container.image.as_deref());
    let name = deployment.name_any();
    let version = image
        .with_context(|| format!("the Deployment {name} has no container {CONTAINER} with an image"))
        .and_then(|image| {
            tag(image).with_context(|| format!("the image of the Deployment {name} has no tag: {image}"))
        });
    WebhookVersion { version: version.map(str::to_owned).into(), deployment: name }
}

/// The tag of `HOST:PORT/NAME:TAG@DIGEST`, of which only the name is always there.
fn tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    name.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_the_tag_of_the_webhooks_own_image() {
        let no_tag = |image: &str| format!("unknown: the image of the Deployment w has no tag: {image}");
        let digest = format!("localhost/weaver-operator@sha256:{}", "0".repeat(64));
        for (container, image, expected) in [
            ("webhook", "localhost/weaver-operator:0.1.0", "0.1.0".to_owned()),
            ("webhook", "registry.lan:5000/weaver-operator:0.2.0-rc.1", "0.2.0-rc.1".to_owned()),
            ("webhook", "registry.lan:5000/weaver-operator:0.2.0@sha256:0a", "0.2.0".to_owned()),
            ("webhook", "registry.lan:5000/weaver-operator", no_tag("registry.lan:5000/weaver-operator")),
            ("webhook", digest.as_str(), no_tag(&digest)),
            (
                "other",
                "localhost/weaver-operator:0.1.0",
                "unknown: the Deployment w has no container webhook with an image".to_owned(),
            ),
        ] {
            let containers =
                json!([{"name": "proxy", "image": "proxy:9.9.9"}, {"name": container, "image": image}]);
            let whole = json!({"metadata": {"name": "w"}, "spec": {
                "selector": {}, "template": {"spec": {"containers": containers}}}});
            let found = version(&serde_json::from_value(whole).unwrap());
            assert_eq!(
                (found.deployment.as_str(), found.version.said(String::clone)),
                ("w", expected),
                "{image}"
            );
        }
    }

    #[test]
    fn what_may_not_be_listed_is_said_in_plain_words() {
        for (code, reason, expected) in [
            (403, "Forbidden", "you may not list Deployments in the namespace config-weaver"),
            (500, "InternalError", "listing Deployments in config-weaver: "),
        ] {
            let status = Status::failure("deployments.apps: no", reason).with_code(code);
            let said = format!("{:#}", refusal(kube::Error::Api(Box::new(status)), "config-weaver"));
            assert!(said.starts_with(expected), "{said}");
            assert_eq!(said.contains("deployments.apps"), code != 403, "{said}");
        }
    }
}
