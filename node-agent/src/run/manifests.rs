//! The manifests that the agent applies next to the definitions: built in, so that what it installs is
//! what it was built with.

use anyhow::Context as _;
use kube::core::DynamicObject;

const RBAC: &str = include_str!("../../../deploy/rbac/operator.yaml");

/// All objects in the order in which they are applied.
///
/// # Errors
/// A manifest does not parse; a test ensures that all do.
pub fn all() -> anyhow::Result<Vec<DynamicObject>> {
    serde_saphyr::from_multiple(RBAC).context("a built-in manifest")
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
        // Only the installer writes definitions.
        assert!(!kinds.contains(&"CustomResourceDefinition"));
    }
}
