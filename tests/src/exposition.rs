//! A page of metrics, read into its families and samples.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the metric.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// A metric as it is declared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Family {
    /// As queries name it: a counter with `_total`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub help: String,
    /// Labels with the values that were reported.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// All samples of a page; a line that is none ends the test.
pub fn samples(page: &str) -> Vec<Sample> {
    page.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).map(|label| {
        let (label, text) = label.split_once('=').unwrap_or_else(|| panic!("no label: {line}"));
        (label.to_owned(), text.trim_matches('"').to_owned())
    });
    Sample { name: name.to_owned(), labels: labels.collect(), value: value.parse().unwrap() }
}

/// What a page declares, in its order.
pub fn families(page: &str) -> Vec<Family> {
    let samples = samples(page);
    let line = |what: &str| {
        let what = format!("# {what} ");
        page.lines().filter_map(move |line| Some(line.strip_prefix(&what)?.split_once(' ')?.to_owned()))
    };
    let helps: BTreeMap<&str, &str> = line("HELP").collect();
    line("TYPE")
        .map(|(family, kind)| {
            let name = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
            let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for sample in samples.iter().filter(|sample| sample.name == name) {
                for (label, value) in &sample.labels {
                    labels.entry(label.clone()).or_default().insert(value.clone());
                }
            }
            let help = helps.get(family).unwrap_or_else(|| panic!("{family} has no help"));
            Family { name, kind: kind.to_owned(), help: (*help).to_owned(), labels }
        })
        .collect()
}
