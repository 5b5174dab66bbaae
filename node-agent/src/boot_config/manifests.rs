//! Reads the manifests on the boot partition, and those that k3s has of them.
//!
//! Failure: what cannot be listed changes nothing.

use std::path::Path;

use weaver_diagnostics::{
    finding::Finding,
    weaver_toml::{
        RoleSetting,
        manifests::{self, DIRECTORY, OF_K3S, OnCard},
        plan::File,
    },
};

use crate::host_root::HostRoot;

/// A directory with more is no directory of manifests.
const MOST: usize = 200;

/// The files that k3s shall have. The boot partition is mounted.
pub(super) fn look(
    root: &HostRoot,
    weaver_toml: &Path,
    role: &RoleSetting,
    data_dir: &str,
    findings: &mut Vec<Finding>,
) -> Vec<File> {
    let directory = weaver_toml.with_file_name(DIRECTORY);
    let Ok(names) = root.list(&directory) else { return Vec::new() };
    if !root.is_dir(&directory) {
        return Vec::new();
    }
    if let RoleSetting::Agent(_) = role {
        findings.extend((!names.is_empty()).then(|| manifests::of_agent(&directory)));
        return Vec::new();
    }
    if names.len() > MOST {
        findings.push(manifests::too_many(&directory, MOST));
        return Vec::new();
    }
    let read = |name: String| -> Option<OnCard> {
        let path = directory.join(&name);
        let text = root.read(&path).map_err(|error| error.to_string()).transpose()?;
        (!root.is_dir(&path)).then(|| (name, text.map(|file| file.text)))
    };
    let on_card: Vec<_> = names.into_iter().filter_map(read).collect();
    let target = Path::new(data_dir).join(OF_K3S);
    let made = root.list(&target).unwrap_or_default();
    let plan = manifests::plan(&directory, &on_card, &target, &made);
    findings.extend(plan.findings);
    plan.files
}
