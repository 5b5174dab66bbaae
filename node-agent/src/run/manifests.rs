//! The manifests that the agent applies: built in, so that what it installs is
//! what it was built with.

use anyhow::Context as _;
use kube::core::DynamicObject;

const RBAC: &str = include_str!("../../../deploy/rbac/operator.yaml");
const CRDS: &[&str] = &[include_str!("../../../deploy/crds/configmapsyncs.yaml")];

/// All objects in the order in which they are applied.
///
/// # Errors
/// A manifest does not parse; a test keeps that from being built.
pub fn all() -> anyhow::Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for text in std::iter::once(&RBAC).chain(CRDS) {
        objects.extend(serde_saphyr::from_multiple::<DynamicObject>(text).context("a built-in manifest")?);
    }
    Ok(objects)
}

/// The names of the custom resource definitions among them.
#[must_use]
pub fn definitions(objects: &[DynamicObject]) -> Vec<String> {
    let is_crd = |o: &&DynamicObject| o.types.as_ref().is_some_and(|t| t.kind == "CustomResourceDefinition");
    objects.iter().filter(is_crd).filter_map(|o| o.metadata.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_manifests_parse_and_hold_what_minting_needs() {
        let objects = all().unwrap();
        let kinds: Vec<_> = objects.iter().map(|o| o.types.as_ref().unwrap().kind.as_str()).collect();
        assert_eq!(kinds[0], "Namespace");
        assert_eq!(objects[0].metadata.name.as_deref(), Some(weaver_api::OPERATOR_NAMESPACE));
        let account = &objects[kinds.iter().position(|k| *k == "ServiceAccount").unwrap()];
        assert_eq!(account.metadata.name.as_deref(), Some(weaver_api::OPERATOR_ACCOUNT));
        assert_eq!(account.metadata.namespace.as_deref(), Some(weaver_api::OPERATOR_NAMESPACE));
        assert_eq!(definitions(&objects), ["configmapsyncs.weaver.example.com"]);
    }
}
