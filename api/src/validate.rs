//! The rules a `ConfigMapSync` must keep, in one pure function.
//!
//! The planner and the `weaver` tool use it. It finds every fault at once, names each field by its path, and
//! never guesses a value: a spec with a fault is not acted upon at all.

use std::collections::BTreeSet;

use crate::names::{NameFault, dns_label, dns_subdomain};
use crate::v1alpha1::ConfigMapSyncSpec;

/// Most targets that one `ConfigMapSync` may name.
pub const MAX_TARGETS: usize = 1_000;

/// A spec that keeps all rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidSync {
    /// `ServiceAccount` of the resource's own namespace.
    pub account: String,
    /// Namespace of the source.
    pub source_namespace: String,
    /// Name of the source, and of the copies.
    pub source_name: String,
    /// Namespaces that get a copy, without the source's own.
    pub targets: BTreeSet<String>,
    /// The source's own namespace was among the targets. It is left out: the object of that name there *is*
    /// the source, which is never written.
    pub names_source_namespace: bool,
}

/// One broken rule.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SpecFault {
    /// The object has no spec.
    #[error("spec is missing: set spec.source and spec.syncToNamespaces")]
    NoSpec,
    /// A field that the work cannot be done without.
    #[error("{field} is missing: {remedy}")]
    Missing {
        /// Path of the field.
        field: &'static str,
        /// What to write there.
        remedy: &'static str,
    },
    /// A name that no object can have.
    #[error("{field} {shown:?} {fault}")]
    Name {
        /// Path of the field.
        field: String,
        /// The value, cut where it is long.
        shown: String,
        /// The rule it breaks.
        fault: NameFault,
    },
    /// More targets than [`MAX_TARGETS`].
    #[error(
        "spec.syncToNamespaces names {0} namespaces; at most {MAX_TARGETS} are allowed: use a second ConfigMapSync"
    )]
    TooManyTargets(usize),
}

/// Checks a spec.
///
/// # Errors
/// Every rule that is broken, in the order of the fields.
pub fn validate(spec: Option<&ConfigMapSyncSpec>) -> Result<ValidSync, Vec<SpecFault>> {
    let Some(spec) = spec else {
        return Err(vec![SpecFault::NoSpec]);
    };
    let mut faults = Vec::new();

    let account = required(
        spec.service_account.name.as_deref(),
        "spec.serviceAccount.name",
        "name a ServiceAccount of this namespace",
        dns_subdomain,
        &mut faults,
    );
    let source = spec.source.clone().unwrap_or_default();
    let source_name = required(
        source.name.as_deref(),
        "spec.source.name",
        "name the ConfigMap to copy",
        dns_subdomain,
        &mut faults,
    );
    let source_namespace = required(
        source.namespace.as_deref(),
        "spec.source.namespace",
        "name the namespace of the ConfigMap to copy",
        dns_label,
        &mut faults,
    );

    if spec.sync_to_namespaces.is_empty() {
        faults.push(SpecFault::Missing {
            field: "spec.syncToNamespaces",
            remedy: "name at least one namespace (copies made before stay; delete the ConfigMapSync to remove them)",
        });
    }
    for (index, namespace) in spec.sync_to_namespaces.iter().enumerate() {
        if let Err(fault) = dns_label(namespace) {
            let field = format!("spec.syncToNamespaces[{index}]");
            faults.push(SpecFault::Name { field, shown: shown(namespace), fault });
        }
    }
    let mut targets: BTreeSet<String> = spec.sync_to_namespaces.iter().cloned().collect();
    if targets.len() > MAX_TARGETS {
        faults.push(SpecFault::TooManyTargets(targets.len()));
    }

    match (account, source_name, source_namespace) {
        (Some(account), Some(source_name), Some(source_namespace)) if faults.is_empty() => {
            let names_source_namespace = targets.remove(&source_namespace);
            Ok(ValidSync { account, source_namespace, source_name, targets, names_source_namespace })
        }
        _ => Err(faults),
    }
}

fn required(
    value: Option<&str>,
    field: &'static str,
    remedy: &'static str,
    rule: fn(&str) -> Result<(), NameFault>,
    faults: &mut Vec<SpecFault>,
) -> Option<String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        faults.push(SpecFault::Missing { field, remedy });
        return None;
    };
    match rule(value) {
        Ok(()) => Some(value.to_owned()),
        Err(fault) => {
            faults.push(SpecFault::Name { field: field.into(), shown: shown(value), fault });
            None
        }
    }
}

/// A value as an error shows it: whole where it is short, its beginning where it is not.
fn shown(value: &str) -> String {
    const MOST: usize = 40;
    if value.chars().count() <= MOST {
        return value.to_owned();
    }
    value.chars().take(MOST).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::v1alpha1::{ServiceAccountRef, Source};

    fn spec(targets: &[&str]) -> ConfigMapSyncSpec {
        ConfigMapSyncSpec {
            service_account: ServiceAccountRef { name: Some("sync".into()) },
            source: Some(Source { name: Some("settings".into()), namespace: Some("team-a".into()) }),
            sync_to_namespaces: targets.iter().map(|&target| target.to_owned()).collect(),
            test_num: None,
        }
    }

    fn faults(spec: &ConfigMapSyncSpec) -> Vec<String> {
        validate(Some(spec)).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn b29_a_missing_spec_source_or_target_is_named() {
        assert_eq!(validate(None), Err(vec![SpecFault::NoSpec]));
        let found = faults(&ConfigMapSyncSpec::default());
        for (fault, field) in found.iter().zip([
            "spec.serviceAccount.name",
            "spec.source.name",
            "spec.source.namespace",
            "spec.syncToNamespaces",
        ]) {
            assert!(fault.starts_with(&format!("{field} is missing")), "{fault}");
        }
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_target_of_300_characters_is_named_by_its_place() {
        let long = "x".repeat(300);
        let found = faults(&spec(&["foo", &long]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("spec.syncToNamespaces[1] \"xxx"), "{}", found[0]);
        assert!(found[0].contains("has 300 characters; at most 63"), "{}", found[0]);
    }

    #[test]
    fn duplicate_targets_are_one() {
        let valid = validate(Some(&spec(&["foo", "bar", "foo"]))).unwrap();
        assert_eq!(valid.targets, BTreeSet::from(["bar".to_owned(), "foo".to_owned()]));
    }

    #[test]
    fn b3_the_sources_own_namespace_is_never_a_target() {
        let valid = validate(Some(&spec(&["team-a", "foo"]))).unwrap();
        assert_eq!(valid.targets, BTreeSet::from(["foo".to_owned()]));
        assert!(valid.names_source_namespace);
    }

    #[test]
    fn b28_short_and_dotted_account_names_are_accepted() {
        for name in ["a", "0", "sa.v2", "x".repeat(253).as_str()] {
            let mut spec = spec(&["foo"]);
            spec.service_account.name = Some(name.into());
            assert!(validate(Some(&spec)).is_ok(), "{name}");
        }
    }

    #[test]
    fn more_than_a_thousand_targets_are_refused() {
        let names: Vec<String> = (0..=MAX_TARGETS).map(|n| format!("ns-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(validate(Some(&spec(&names))), Err(vec![SpecFault::TooManyTargets(1_001)]));
        assert!(validate(Some(&spec(&names[1..]))).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_a_set_of_valid_namespaces_without_the_sources(
            targets in proptest::collection::vec("[a-c.-]{0,4}|team-a|[a-z]{60,70}", 0..6)
        ) {
            let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
            if let Ok(valid) = validate(Some(&spec(&targets))) {
                prop_assert!(valid.targets.iter().all(|target| dns_label(target).is_ok()));
                prop_assert!(!valid.targets.contains("team-a"));
                prop_assert_eq!(valid.names_source_namespace, targets.contains(&"team-a"));
                prop_assert!(targets.iter().all(|t| *t == "team-a" || valid.targets.contains(*t)));
            }
        }
    }
}
