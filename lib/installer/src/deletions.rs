//! The admission policy that keeps `kubectl delete --cascade=orphan` of a ConfigMapSync from removing its copies:
//! `deploy/admission/deletions.yaml`, which has the rules and their reasons.

use super::guard::Guard;
use super::report::InstallError;

const MANIFEST: &str = include_str!("../../../deploy/admission/deletions.yaml");

/// Of the policy and of its binding.
pub const NAME: &str = "weaver-deletions";

/// As this program was built with them.
///
/// # Errors
/// The manifest does not parse; a test keeps that from being built.
pub fn built_in() -> Result<Guard, InstallError> {
    Guard::parse(MANIFEST)
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_policy_refuses_what_it_cannot_judge_at_every_version() {
        let Guard { policy, binding } = built_in().unwrap();
        assert_eq!((policy.name_any(), binding.name_any()), (NAME.into(), NAME.into()));
        assert_eq!(
            (binding.spec.policy_name, binding.spec.validation_actions),
            (NAME.into(), vec!["Deny".into()])
        );
        let spec = json!(policy.spec);
        assert_eq!(
            (&spec["failurePolicy"], &spec["matchConstraints"]["matchPolicy"]),
            (&json!("Fail"), &json!("Equivalent"))
        );
        let rules = &spec["matchConstraints"]["resourceRules"];
        assert_eq!(rules[0]["apiVersions"], json!([weaver_api::crds::STORED]));
        assert_eq!(rules[0]["resources"], json!(["configmapsyncs", "resourcesyncs"]));
        assert_eq!(rules[0]["operations"], json!(["CREATE", "UPDATE", "DELETE"]));
    }
}
