//! The rules of a `ConfigMapSync`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::fault::{SpecFault, shown};
use super::fields::{SpecFaults, entry};
use super::merge::{MAX_KEYS, check_copy_name, check_merge};
use super::valid_sync::{CopyNames, Sources, ValidSync};
use super::values::{
    ValueRule, annotation_key, annotation_value, data_key, label_key, label_value, name_pattern, name_prefix,
    name_suffix, namespace, object_name,
};
use crate::v1beta1::{
    ConfigMapSyncSpec, Expression, ImmutablePolicy, Keys, Operator, Selector, Source, Targets,
};

/// Most namespaces in one list.
const MAX_NAMESPACES: usize = 1_000;
/// Most patterns of names.
const MAX_PATTERNS: usize = 32;
/// Most labels or annotations that are added to a copy, and most labels of a selector.
const MAX_LABELS: usize = 32;
/// Most expressions of a selector.
const MAX_EXPRESSIONS: usize = 16;
/// Most values of an expression.
const MAX_VALUES: usize = 64;
/// Longest selector of sources, in bytes: it is part of an address.
const MAX_QUERY: usize = 8_192;
/// Seconds between two comparisons, and the step in which they are given.
const RESYNC: [i32; 2] = [60, 86_400];
const RESYNC_STEP: i32 = 10;

/// Checks the spec of a `ConfigMapSync`. One that is absent lacks all that is required.
///
/// # Errors
/// Every rule that is broken, in the order of the fields.
pub fn validate(spec: Option<&ConfigMapSyncSpec>) -> Result<ValidSync, Vec<SpecFault>> {
    let absent = ConfigMapSyncSpec::default();
    let spec = spec.unwrap_or(&absent);
    let mut faults = SpecFaults::default();
    let account = faults.required(
        "spec.serviceAccount.name",
        spec.service_account.as_ref().and_then(|account| account.name.as_deref()),
        object_name,
        "name a ServiceAccount of this namespace",
    );
    let source = spec.source.clone().unwrap_or_default();
    let source_namespace = faults.required(
        "spec.source.namespace",
        source.namespace.as_deref(),
        namespace,
        "name the namespace of the object to copy",
    );
    let sources = sources(&source, &mut faults);
    let targets = spec.targets.clone().unwrap_or_default();
    check_targets(&targets, &mut faults);
    check_copy_name(spec, &source, &targets, &mut faults);
    let keys = spec.keys.clone().unwrap_or_default();
    check_keys(&keys, &mut faults);
    check_merge(spec.merge.as_ref(), &source, &targets, &mut faults);
    let [soonest, latest] = RESYNC;
    let resync = spec.resync_seconds;
    if !(soonest..=latest).contains(&resync) || resync % RESYNC_STEP != 0 {
        let remedy = format!("write a multiple of {RESYNC_STEP} from {soonest} to {latest}");
        faults.broken("spec.resyncSeconds", format!("{resync} is not allowed: {remedy}"));
    }

    let copy_names = match targets.name {
        Some(name) => CopyNames::Fixed(name),
        None => CopyNames::Around(
            targets.name_prefix.unwrap_or_default(),
            targets.name_suffix.unwrap_or_default(),
        ),
    };
    let exclude: BTreeSet<String> = targets.exclude.into_iter().collect();
    let named: BTreeSet<String> =
        targets.namespaces.into_iter().filter(|namespace| !exclude.contains(namespace)).collect();
    let mut valid = ValidSync {
        account,
        source_kind: source.kind.into(),
        source_namespace,
        sources,
        copy_names,
        targets: named,
        names_source_namespace: false,
        patterns: targets.patterns.into_iter().collect(),
        selector: targets.selector,
        exclude,
        labels: targets.labels,
        annotations: targets.annotations,
        keys,
        merge: spec.merge.clone(),
        conflict_policy: spec.conflict_policy,
        immutable_policy: ImmutablePolicy::Replace,
        source_deletion_policy: spec.source_deletion_policy,
        deletion_policy: spec.deletion_policy,
        resync: Duration::from_secs(u64::from(resync.unsigned_abs())),
        suspend: spec.suspend,
        dry_run: spec.dry_run,
    };
    valid.names_source_namespace =
        valid.spares_own_namespace() && valid.targets.remove(&valid.source_namespace);
    faults.unless_any(valid)
}

fn sources(source: &Source, faults: &mut SpecFaults) -> Sources {
    let field = "spec.source.selector";
    match (&source.name, &source.selector) {
        (None, None) if !source.names.is_empty() => Sources::Listed(source.names.clone()),
        (name, None) => {
            let remedy = "name the object to copy, or select objects by their labels in spec.source.selector";
            Sources::Named(faults.required("spec.source.name", name.as_deref(), object_name, remedy))
        }
        (name, Some(selector)) => {
            if let Some(name) = name {
                faults.text("spec.source.name", name, object_name);
                faults.broken(
                    "spec.source.name",
                    "and spec.source.selector exclude each other: drop one of them".to_owned(),
                );
            }
            if selector.is_empty() {
                faults.broken(
                    field,
                    "asks for no label, and would copy all that the namespace has: ask for one, such as \
                     matchLabels: {share: \"true\"}"
                        .to_owned(),
                );
            }
            check_selector(field, selector, faults);
            let length = selector.query().len();
            if length > MAX_QUERY {
                let remedy = "use fewer or shorter values";
                faults.broken(
                    field,
                    format!(
                        "has {length} characters in a request; at most {MAX_QUERY} are allowed: {remedy}"
                    ),
                );
            }
            Sources::Selected(selector.clone())
        }
    }
}

fn check_targets(targets: &Targets, faults: &mut SpecFaults) {
    if targets.namespaces.is_empty() && !targets.has_selection() {
        faults.missing(
            "spec.targets",
            "name namespaces in spec.targets.namespaces, or select them by spec.targets.patterns or \
             spec.targets.selector (copies made before stay; delete the resource to remove them)",
        );
    }
    check_namespaces("spec.targets.namespaces", &targets.namespaces, "use a second resource", faults);
    let field = "spec.targets.patterns";
    faults.size(field, targets.patterns.len(), MAX_PATTERNS, "use a second resource");
    faults.each_once(field, &targets.patterns, name_pattern);
    if let Some(selector) = &targets.selector {
        check_selector("spec.targets.selector", selector, faults);
    }
    check_namespaces("spec.targets.exclude", &targets.exclude, "name or select fewer namespaces", faults);
    if let Some(name) = &targets.name {
        faults.text("spec.targets.name", name, object_name);
    }
    for (field, part, rule) in [
        ("spec.targets.namePrefix", &targets.name_prefix, name_prefix as ValueRule),
        ("spec.targets.nameSuffix", &targets.name_suffix, name_suffix),
    ] {
        if let Some(part) = part {
            faults.text(field, part, rule);
        }
    }
    faults.labels_or_annotations(
        "spec.targets.labels",
        &targets.labels,
        MAX_LABELS,
        [label_key, label_value],
    );
    faults.labels_or_annotations(
        "spec.targets.annotations",
        &targets.annotations,
        MAX_LABELS,
        [annotation_key, annotation_value],
    );
}

fn check_namespaces(field: &str, names: &[String], remedy: &str, faults: &mut SpecFaults) {
    faults.size(field, names.len(), MAX_NAMESPACES, remedy);
    faults.each_once(field, names, namespace);
}

fn check_selector(selector_field: &str, selector: &Selector, faults: &mut SpecFaults) {
    let field = &format!("{selector_field}.matchLabels");
    faults.size(field, selector.match_labels.len(), MAX_LABELS, "drop some");
    faults.entries(field, &selector.match_labels, label_key, label_value);
    let field = &format!("{selector_field}.matchExpressions");
    faults.size(field, selector.match_expressions.len(), MAX_EXPRESSIONS, "drop some");
    for (index, expression) in selector.match_expressions.iter().enumerate() {
        check_expression(&format!("{field}[{index}]"), expression, faults);
    }
}

fn check_expression(field: &str, expression: &Expression, faults: &mut SpecFaults) {
    faults.text(format!("{field}.key"), &expression.key, label_key);
    let values = format!("{field}.values");
    match expression.operator {
        None => faults.missing(format!("{field}.operator"), "write In, NotIn, Exists or DoesNotExist"),
        Some(Operator::In | Operator::NotIn) if expression.values.is_empty() => faults
            .broken(&values, "are none, but In and NotIn need one: add it, or write Exists or DoesNotExist"),
        Some(Operator::Exists | Operator::DoesNotExist) if !expression.values.is_empty() => {
            faults.broken(&values, "are not allowed with Exists and DoesNotExist: remove them");
        }
        Some(_) => {}
    }
    faults.size(&values, expression.values.len(), MAX_VALUES, "use a second expression");
    faults.each_once(&values, &expression.values, label_value);
}

fn check_keys(keys: &Keys, faults: &mut SpecFaults) {
    for (field, list) in [("spec.keys.include", &keys.include), ("spec.keys.exclude", &keys.exclude)] {
        faults.size(field, list.len(), MAX_KEYS, "use a second resource");
        faults.each_once(field, list, data_key);
    }
    let field = "spec.keys.rename";
    faults.size(field, keys.rename.len(), MAX_KEYS, "use a second resource");
    faults.entries(field, &keys.rename, data_key, data_key);
    check_renamed(field, keys, faults);
}

/// Each renamed key is copied, and no two keys get one name. The schema cannot say this.
fn check_renamed(field: &str, keys: &Keys, faults: &mut SpecFaults) {
    let include: BTreeSet<&String> = keys.include.iter().collect();
    let exclude: BTreeSet<&String> = keys.exclude.iter().collect();
    // Keys that are known to be copied under their own names.
    let kept = include.difference(&exclude).filter(|key| !keys.rename.contains_key(**key));
    let mut taken: BTreeMap<&String, &String> = kept.map(|key| (*key, *key)).collect();
    for (key, name) in &keys.rename {
        if exclude.contains(key) {
            faults.broken(
                entry(field, key),
                "is without effect: drop it, or take the key out of spec.keys.exclude",
            );
        } else if !include.is_empty() && !include.contains(key) {
            faults
                .broken(entry(field, key), "is without effect: drop it, or add the key to spec.keys.include");
        } else if let Some(other) = taken.insert(name, key) {
            let clash = format!("{} is the name of key {} already", shown(name), shown(other));
            faults.broken(entry(field, key), format!("{clash}: give each key a name of its own"));
        }
    }
}

#[cfg(test)]
#[path = "config_map_sync_tests.rs"]
mod tests;
