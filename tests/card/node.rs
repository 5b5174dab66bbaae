//! What the tests ask of a running node, and the owner's first step on it.

use std::time::Duration;

use weaver_image::boot::machine::Machine;
use weaver_image::booted::API_NAME;

/// From the laptop: the sample tenant with its sync.
pub fn apply_sample(machine: &Machine) {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/samples/configmapsync.yaml");
    machine.kubectl(API_NAME, &["apply", "-f", sample]).unwrap();
}

pub fn is_active(machine: &Machine, unit: &str) -> anyhow::Result<bool> {
    let asked = machine.attempt(&format!("systemctl is-active {unit}"), Duration::from_mins(1))?;
    Ok(asked.stdout.trim() == "active")
}

/// What the agent says of the node.
pub fn report(machine: &Machine) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::from_str(&machine.run("cat /run/weaver/report.json")?)?)
}
