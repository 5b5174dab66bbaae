//! Files of the owner's for the kubelet and containerd: the templates, the drop-ins, and what `kubelet-arg` names.

use std::path::Path;

use weaver_diagnostics::containerd_template::{self, DIRECTORY, FILES};
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::k3s_unit::Setting;
use weaver_diagnostics::kubelet_config::{self, DROP_INS, OF_K3S};

use crate::host_root::HostRoot;

/// What is wrong with them; nothing of a file that cannot be read.
pub fn findings(root: &HostRoot, data_dir: &Path, kubelet_args: &[Setting]) -> Vec<Finding> {
    let by_systemd = root.is_dir("/run/systemd/system");
    let templates = data_dir.join(DIRECTORY);
    let template = FILES
        .iter()
        .find_map(|(name, version)| Some((root.read_if_possible(templates.join(name))?, version)));
    let mut findings = template
        .map_or_else(Vec::new, |(file, version)| containerd_template::lint(&file, *version, by_systemd));
    let [newer, older] = FILES.map(|(name, _)| templates.join(name));
    let exists = |path: &Path| matches!(root.read(path), Ok(Some(_)));
    if exists(&newer) && exists(&older) {
        findings.push(containerd_template::not_read(&older.display().to_string()));
    }
    for named in kubelet_config::named(kubelet_args) {
        let path = Path::new(&named.value);
        if !path.is_absolute() {
            continue;
        }
        match root.read(path) {
            Ok(Some(file)) => findings.extend(kubelet_config::lint(&file, by_systemd)),
            Ok(None) => findings.push(kubelet_config::missing(&named)),
            Err(_) => {}
        }
    }
    let drop_ins = data_dir.join(DROP_INS);
    for name in root.list(&drop_ins).unwrap_or_default() {
        let path = drop_ins.join(&name);
        if root.is_dir(&path) || OF_K3S.contains(&name.as_str()) {
            continue;
        }
        if path.extension().is_some_and(|end| end == "conf") {
            let file = root.read_if_possible(&path);
            findings.extend(file.iter().flat_map(|file| kubelet_config::lint(file, by_systemd)));
        } else {
            findings.extend(kubelet_config::passed_over(&drop_ins.display().to_string(), &name));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::{Code, Place};

    use super::*;
    use crate::host_root::fixture::host;

    const DATA: &str = "/var/lib/rancher/k3s";
    const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn codes(files: &[(&str, &str)], argument: &str) -> Vec<(Code, Option<String>)> {
        let (_dir, root) = host(files);
        let setting = Setting { value: argument.to_owned(), origin: Place::line("/c.yaml", 1) };
        let findings = findings(&root, Path::new(DATA), &[setting]);
        let place = |finding: &Finding| finding.evidence.first().map(|seen| seen.place.file.clone());
        findings.iter().map(|finding| (finding.code, place(finding))).collect()
    }

    #[test]
    fn the_first_template_counts_and_what_k3s_wrote_itself_is_left_alone() {
        let templates = format!("{DATA}/{DIRECTORY}");
        let (v3, v2) = (format!("{templates}/config-v3.toml.tmpl"), format!("{templates}/config.toml.tmpl"));
        let drop_ins = format!("{DATA}/{DROP_INS}");
        let own = format!("{drop_ins}/00-k3s-defaults.conf");
        let base = "{{ template \"base\" . }}\n";
        assert_eq!(codes(&[(&v3, base), (&own, "")], "v=2"), []);
        let not_read = [(Code::ContainerdTemplateFault, Some(v2.clone()))];
        assert_eq!(codes(&[(&v3, base), (&v2, "{{"), (&own, "")], "v=2"), not_read);
        assert_eq!(codes(&[(&v2, "{{")], "v=2"), [(Code::ContainerdTemplateFault, Some(v2.clone()))]);
        let (good, bad) = (format!("{drop_ins}/50-a.conf"), format!("{drop_ins}/50-b.yaml"));
        assert_eq!(
            codes(&[(&good, KUBELET), (&bad, KUBELET)], "v=2"),
            [(Code::KubeletConfigFault, Some(bad.clone()))]
        );
    }

    #[test]
    fn the_file_that_an_entry_names() {
        let path = "/etc/rancher/k3s/kubelet.yaml";
        let argument = format!("config={path}");
        assert_eq!(codes(&[(path, KUBELET)], &argument), []);
        assert_eq!(
            codes(&[(path, "maxPods: 5\n")], &argument),
            [(Code::KubeletConfigFault, Some(path.to_owned()))]
        );
        assert_eq!(codes(&[], &argument), [(Code::KubeletConfigFault, Some("/c.yaml".to_owned()))]);
    }
}
