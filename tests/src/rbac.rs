//! The rights of the operator's own account: those that `deploy/rbac/operator.yaml` grants, and the same without one.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("../../deploy/rbac/operator.yaml");

/// One verb on one resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RbacRight {
    /// Only in this namespace.
    pub namespace: Option<String>,
    pub group: String,
    pub resource: String,
    /// Only these objects, where any are named.
    pub names: Option<Vec<String>>,
    /// What may be done.
    pub verb: String,
}

/// All rights of the manifest, one by one.
pub fn granted() -> Vec<RbacRight> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(MANIFEST).unwrap();
    let mut rights = Vec::new();
    for object in objects {
        match object["kind"].as_str().unwrap() {
            "ClusterRole" => {
                let role: ClusterRole = serde_json::from_value(object).unwrap();
                rights.extend(one_by_one(None, role.rules.unwrap()));
            }
            "Role" => {
                let role: Role = serde_json::from_value(object).unwrap();
                rights.extend(one_by_one(role.metadata.namespace.as_deref(), role.rules.unwrap()));
            }
            _ => {}
        }
    }
    rights
}

fn one_by_one(namespace: Option<&str>, rules: Vec<PolicyRule>) -> Vec<RbacRight> {
    let mut rights = Vec::new();
    for rule in rules {
        let groups = rule.api_groups.unwrap();
        let [group] = &groups[..] else { panic!("one group in each rule: {groups:?}") };
        for resource in rule.resources.unwrap() {
            rights.extend(rule.verbs.iter().map(|verb| RbacRight {
                namespace: namespace.map(str::to_owned),
                group: group.clone(),
                resource: resource.clone(),
                names: rule.resource_names.clone(),
                verb: verb.clone(),
            }));
        }
    }
    rights
}

impl RbacRight {
    /// Does this rule allow the request of an audit event?
    pub fn covers(&self, event: &Value) -> bool {
        let asked = &event["objectRef"];
        let word = |field: &str| asked[field].as_str().unwrap_or_default();
        let resource = match word("subresource") {
            "" => word("resource").to_owned(),
            subresource => format!("{}/{subresource}", word("resource")),
        };
        let name_fits = self.names.as_ref().is_none_or(|names| names.iter().any(|name| name == word("name")));
        event["verb"] == self.verb
            && word("apiGroup") == self.group
            && resource == self.resource
            && self.namespace.as_ref().is_none_or(|namespace| namespace == word("namespace"))
            && name_fits
    }

    pub(crate) fn rule(&self) -> Value {
        let mut rule =
            json!({"apiGroups": [&self.group], "resources": [&self.resource], "verbs": [&self.verb]});
        if let Some(names) = &self.names {
            rule["resourceNames"] = json!(names);
        }
        rule
    }

    /// As a review's `resourceAttributes`.
    pub(crate) fn attributes(&self, namespace: &str) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let name = self.names.iter().flatten().next();
        json!({
            "namespace": self.namespace.as_deref().unwrap_or(namespace), "group": self.group, "verb": self.verb,
            "resource": resource, "subresource": subresource, "name": name,
        })
    }
}
