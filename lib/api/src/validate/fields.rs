//! Judges fields one after the other and gathers what is wrong, in that order.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::{SpecFault, cut, shown};
use super::values::ValueRule;
use crate::schema::is_reserved;

/// Longest key of a map that a path shows whole: the longest that a label can have.
const KEY_SHOWN: usize = 317;

/// The faults found so far.
#[derive(Default)]
pub(super) struct SpecFaults(Vec<SpecFault>);

impl SpecFaults {
    /// What was made of a spec, if there was no fault.
    pub(super) fn unless_any<T>(self, valid: T) -> Result<T, Vec<SpecFault>> {
        if self.0.is_empty() { Ok(valid) } else { Err(self.0) }
    }

    pub(super) fn missing(&mut self, field: impl Into<String>, remedy: &'static str) {
        self.0.push(SpecFault::Missing { field: field.into(), remedy });
    }

    /// `fault` follows the name of the field.
    pub(super) fn broken(&mut self, field: impl Into<String>, fault: impl Into<String>) {
        self.0.push(SpecFault::Broken { field: field.into(), fault: fault.into() });
    }

    /// Text that keeps `rule`.
    pub(super) fn text(&mut self, field: impl Into<String>, text: &str, rule: ValueRule) {
        if let Err(fault) = rule(text) {
            self.broken(field, format!("{} {fault}", shown(text)));
        }
    }

    /// Text that must be there; empty is as good as absent. What comes back is of use only without a fault.
    pub(super) fn required(
        &mut self,
        field: impl Into<String>,
        text: Option<&str>,
        rule: ValueRule,
        remedy: &'static str,
    ) -> String {
        match text.filter(|text| !text.is_empty()) {
            Some(text) => self.text(field, text, rule),
            None => self.missing(field, remedy),
        }
        text.unwrap_or_default().to_owned()
    }

    /// A list or a map that is not too long.
    pub(super) fn size(&mut self, field: &str, found: usize, most: usize, remedy: &str) {
        if found > most {
            self.broken(field, format!("has {found} entries; at most {most} are allowed: {remedy}"));
        }
    }

    /// Items that keep `rule`, each once.
    pub(super) fn each_once(&mut self, field: &str, items: &[String], rule: ValueRule) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            self.text(format!("{field}[{index}]"), item, rule);
            if !seen.insert(item) {
                self.duplicate(&format!("{field}[{index}]"), item);
            }
        }
    }

    /// Labels or annotations that an object of ours is to carry.
    pub(super) fn labels_or_annotations(
        &mut self,
        field: &str,
        labels_or_annotations: &BTreeMap<String, String>,
        most: usize,
        [key, value]: [ValueRule; 2],
    ) {
        self.size(field, labels_or_annotations.len(), most, "drop some");
        for reserved in labels_or_annotations.keys().filter(|key| is_reserved(key)) {
            let whose =
                "belongs to Kubernetes, to this operator or to a deployment tool: use a key of your own";
            self.broken(field, format!("key {} {whose}", shown(reserved)));
        }
        self.entries(field, labels_or_annotations, key, value);
    }

    /// `item` is in its list for the second time.
    pub(super) fn duplicate(&mut self, field: &str, item: &str) {
        self.broken(field, format!("{} is listed twice: list it once", shown(item)));
    }

    /// Keys and values of a map. The path of a key is that of the map, as the API server has it.
    pub(super) fn entries(
        &mut self,
        field: &str,
        map: &BTreeMap<String, String>,
        key_rule: ValueRule,
        value_rule: ValueRule,
    ) {
        for (key, value) in map {
            if let Err(fault) = key_rule(key) {
                self.broken(field, format!("key {} {fault}", shown(key)));
            }
            self.text(entry(field, key), value, value_rule);
        }
    }
}

/// Path of one entry of a map.
pub(super) fn entry(field: &str, key: &str) -> String {
    format!("{field}.{}", cut(key, KEY_SHOWN))
}
