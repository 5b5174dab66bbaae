//! The generated `CustomResourceDefinition`s: `deploy/crds/`, the copies inside the programs and
//! `weaver crd show` are these bytes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};
use kube::CustomResourceExt as _;

use crate::{schema, v1alpha1, v1beta1, webhook};

/// First line of every generated file.
pub const HEADER: &str = "# Generated from the types in lib/api by `make generate`; do not edit.\n";

/// The version that is stored, of every kind.
pub const STORED: &str = "v1beta1";

/// All definitions, in the order in which they are installed; versions newest first.
///
/// Each converts by webhook and names no CA. So a definition that was applied by hand fails closed: the API
/// server trusts no webhook until the installer has written the CA that signed its certificate. The strategy
/// `None` would drop every field that the other version does not have.
pub fn all() -> Vec<CustomResourceDefinition> {
    [
        vec![v1beta1::ConfigMapSync::crd(), v1alpha1::ConfigMapSync::crd()],
        vec![v1beta1::ResourceSync::crd()],
        vec![v1beta1::ServiceToken::crd(), v1alpha1::ServiceToken::crd()],
        vec![v1beta1::NodeReport::crd()],
    ]
    .into_iter()
    .filter_map(in_one)
    .map(schema::finished)
    .collect()
}

/// One definition of several versions, of which the first is the stored one.
fn in_one(versions: Vec<CustomResourceDefinition>) -> Option<CustomResourceDefinition> {
    let mut definitions = versions.into_iter();
    let mut whole = definitions.next()?;
    whole.spec.versions.extend(definitions.flat_map(|older| older.spec.versions));
    whole.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".into(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                url: Some(webhook::URL.into()),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".into()],
        }),
    });
    Some(whole)
}

/// One definition as a manifest.
///
/// # Errors
/// Only if the definition cannot be written as YAML, which a test rules out.
pub fn manifest(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    Ok(format!("{HEADER}{}", serde_saphyr::to_string(crd)?))
}

#[cfg(test)]
#[path = "crds_tests.rs"]
mod tests;
