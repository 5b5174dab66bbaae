//! The rules of sources that are merged, and of what copies of one or of several are called.

use super::fields::SpecFaults;
use super::values::{data_key, object_name};
use crate::v1beta1::{ConfigMapSyncSpec, Merge, Source, Targets};

/// Most sources that are merged by their names: each is watched by itself.
const MAX_NAMES: usize = 32;
/// Most keys in one list.
pub(super) const MAX_KEYS: usize = 256;

/// Several sources are named where they are merged, and there alone; and the one copy has a name.
pub(super) fn check_merge(
    merge: Option<&Merge>,
    source: &Source,
    targets: &Targets,
    faults: &mut SpecFaults,
) {
    let field = "spec.source.names";
    faults.size(
        field,
        source.names.len(),
        MAX_NAMES,
        "select sources by their labels in spec.source.selector",
    );
    faults.each_once(field, &source.names, object_name);
    if !source.names.is_empty() {
        if source.name.is_some() || source.selector.is_some() {
            faults.broken(field, "and spec.source.name or selector exclude each other: drop one of them");
        }
        if merge.is_none() {
            faults.broken(field, "are for sources that are merged: add `merge: {}`, or use spec.source.name");
        }
    }
    let Some(merge) = merge else { return };
    if source.name.is_some() {
        faults.broken(
            "spec.merge",
            "is for several sources: list them in spec.source.names, not in spec.source.name",
        );
    }
    if targets.name.is_none() {
        faults.missing("spec.targets.name", "name the one copy that the sources make");
    }
    let field = "spec.merge.join";
    faults.size(field, merge.join.len(), MAX_KEYS, "use a second resource");
    faults.each_once(field, &merge.join, data_key);
}

/// A name is for the copies of one source, and so is said in one way. The schema cannot say this.
pub(super) fn check_copy_name(
    spec: &ConfigMapSyncSpec,
    source: &Source,
    targets: &Targets,
    faults: &mut SpecFaults,
) {
    let field = "spec.targets.name";
    if targets.name.is_none() {
        return;
    }
    if source.selector.is_some() && spec.merge.is_none() {
        faults.broken(
            field,
            "is one name for the copies of all that spec.source.selector selects: use namePrefix or \
             nameSuffix instead"
                .to_owned(),
        );
    } else if targets.name_prefix.is_some() || targets.name_suffix.is_some() {
        faults.broken(field, "and namePrefix or nameSuffix exclude each other: drop one of them".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::config_map_sync::validate;
    use super::super::fault::SpecFault;
    use super::super::valid_sync::{Sources, ValidSync};
    use crate::v1beta1::ConfigMapSyncSpec;

    fn spec_of(source: &Value, targets: &Value, merge: &Value) -> ConfigMapSyncSpec {
        let mut spec = json!({
            "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a"},
            "targets": {"namespaces": ["foo", "team-a"]}, "merge": merge,
        });
        for (part, more) in [("source", source), ("targets", targets)] {
            for (field, value) in more.as_object().into_iter().flatten() {
                spec[part][field] = value.clone();
            }
        }
        serde_json::from_value(spec).unwrap()
    }

    fn judged(source: &Value, targets: &Value, merge: &Value) -> Result<ValidSync, Vec<String>> {
        let fields = |faults: Vec<SpecFault>| faults.iter().map(|fault| fault.field().to_owned()).collect();
        validate(Some(&spec_of(source, targets, merge))).map_err(fields)
    }

    #[test]
    fn what_is_merged_is_listed_or_selected_and_makes_one_copy_of_a_name() {
        let (listed, selected) =
            (json!({"names": ["b", "a"]}), json!({"selector": {"matchLabels": {"a": "b"}}}));
        let (named, all) = (json!({"name": "a"}), json!({"name": "all"}));
        let many: Vec<String> = (0..33).map(|number| format!("s{number}")).collect();
        for (source, targets, merge, fields) in [
            (&listed, &all, json!({}), [].as_slice()),
            (&selected, &all, json!({"clashPolicy": "First", "join": ["ca.crt"]}), &[]),
            (&listed, &all, json!(null), &["spec.source.names"]),
            (&named, &all, json!({}), &["spec.merge"]),
            (&listed, &json!({}), json!({}), &["spec.targets.name"]),
            (&listed, &json!({"name": "all", "namePrefix": "a-"}), json!({}), &["spec.targets.name"]),
            (&json!({"names": ["a"], "name": "b"}), &all, json!({}), &["spec.source.names", "spec.merge"]),
            (&json!({"names": ["a", "a"]}), &all, json!({}), &["spec.source.names[1]"]),
            (&json!({"names": ["A"]}), &all, json!({}), &["spec.source.names[0]"]),
            (&json!({"names": many}), &all, json!({}), &["spec.source.names"]),
            (
                &listed,
                &all,
                json!({"join": ["a/b", "c", "c"]}),
                &["spec.merge.join[0]", "spec.merge.join[2]"],
            ),
        ] {
            let found = judged(source, targets, &merge).err().unwrap_or_default();
            assert_eq!(found, fields, "{source} {targets} {merge}");
        }
    }

    #[test]
    fn a_merged_copy_may_stand_next_to_its_sources_but_not_in_the_place_of_one() {
        let listed = json!({"names": ["b", "a"]});
        let valid = judged(&listed, &json!({"name": "all"}), &json!({})).unwrap();
        assert_eq!(valid.sources, Sources::Listed(vec!["b".into(), "a".into()]));
        assert_eq!((valid.merged_name(), valid.targets.len(), valid.source_name()), (Some("all"), 2, None));
        let over = judged(&listed, &json!({"name": "a"}), &json!({})).unwrap();
        assert!(over.names_source_namespace && over.targets.len() == 1);
        let selected = json!({"selector": {"matchLabels": {"a": "b"}}});
        assert!(judged(&selected, &json!({"name": "all"}), &json!({})).unwrap().names_source_namespace);
    }
}
