//! Values of a `KubeletConfiguration` that are of another type than the field: the kubelet ends with "cannot
//! unmarshal". Pure.

use crate::yaml_node::{YamlNode, YamlValue};

const NUMBERS: [&str; 17] = [
    "containerLogMaxFiles",
    "evictionMaxPodGracePeriod",
    "eventBurst",
    "eventRecordQPS",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "maxOpenFiles",
    "maxParallelImagePulls",
    "maxPods",
    "oomScoreAdj",
    "podPidsLimit",
    "podsPerCore",
    "readOnlyPort",
    "registryBurst",
    "registryPullQPS",
];
const DURATIONS: [&str; 14] = [
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "runtimeRequestTimeout",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
    "volumeStatsAggPeriod",
];
const BOOLEANS: [&str; 8] = [
    "cgroupsPerQOS",
    "enableControllerAttachDetach",
    "failSwapOn",
    "makeIPTablesUtilChains",
    "protectKernelDefaults",
    "rotateCertificates",
    "serializeImagePulls",
    "serverTLSBootstrap",
];
/// Each of their values is a string.
const QUANTITIES: [&str; 5] =
    ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "systemReserved", "kubeReserved"];

/// A value, what is wrong with it, and what to write.
pub(super) type KubeletFault<'n> = (&'n YamlNode, String, &'static str);

/// What is wrong. `is_quoted` says whether a value has quotes, and is a string with any content.
pub(super) fn faults<'n>(root: &'n YamlNode, is_quoted: &dyn Fn(&YamlNode) -> bool) -> Vec<KubeletFault<'n>> {
    let field = |name: &str| root.get(name).filter(|node| matches!(node.value, YamlValue::Scalar(_)));
    let named = |names: &'static [&'static str]| {
        names.iter().filter_map(move |name| Some((*name, field(name)?, field(name)?.as_str()?)))
    };
    let mut found = Vec::new();
    for (name, node, text) in named(&NUMBERS) {
        if is_quoted(node) || text.parse::<i64>().is_err() {
            found.push((
                node,
                format!("`{name}` is not a number"),
                "write a number, without quotes and unit",
            ));
        }
    }
    for (name, node, text) in named(&DURATIONS) {
        if text.parse::<f64>().is_ok() {
            found.push((node, format!("`{name}` has no unit"), "write a time with its unit, such as 30s"));
        }
    }
    for (name, node, text) in named(&BOOLEANS) {
        if is_quoted(node) || !["true", "false"].contains(&text) {
            found.push((
                node,
                format!("`{name}` is neither true nor false"),
                "write true or false, without quotes",
            ));
        }
    }
    for name in QUANTITIES {
        for (key, node) in root.get(name).map_or(&[][..], YamlNode::entries) {
            let is_number = node.as_str().is_some_and(|text| text.parse::<f64>().is_ok()) && !is_quoted(node);
            if let Some(key) = key.as_str().filter(|_| is_number) {
                let what = format!("`{key}` below `{name}` is a number, and the kubelet wants a string");
                found.push((node, what, "write it in quotes, with its unit: \"100Mi\""));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml_node;

    #[test]
    fn values_of_another_type() {
        for (text, want) in [
            ("maxPods: \"60\"", Some("`maxPods` is not a number")),
            ("maxPods: many", Some("`maxPods` is not a number")),
            ("maxPods: 60", None),
            ("oomScoreAdj: -999", None),
            ("shutdownGracePeriod: 30", Some("`shutdownGracePeriod` has no unit")),
            ("shutdownGracePeriod: \"30\"", Some("`shutdownGracePeriod` has no unit")),
            ("shutdownGracePeriod: 1m30s", None),
            ("failSwapOn: \"false\"", Some("`failSwapOn` is neither")),
            ("failSwapOn: false", None),
            ("evictionHard: {memory.available: 100}", Some("`memory.available` below `evictionHard`")),
            ("evictionHard: {memory.available: 100Mi, nodefs.available: \"5\"}", None),
            ("evictionHard: []", None),
            ("maxPods:", None),
        ] {
            let root = yaml_node::parse(text).unwrap();
            let is_quoted = |node: &YamlNode| {
                let at = usize::try_from(node.column).unwrap() - 1;
                text.chars().nth(at) == Some('"')
            };
            let found = faults(&root, &is_quoted);
            assert_eq!(found.len(), usize::from(want.is_some()), "{text}");
            assert!(want.is_none_or(|want| found[0].1.starts_with(want)), "{text}: {}", found[0].1);
        }
    }
}
