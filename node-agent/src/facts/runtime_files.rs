//! Files of the owner's for the kubelet, containerd and the API server: the templates, the drop-ins, and what
//! `kubelet-arg`, `kube-apiserver-arg` and `token-file` name.

use std::path::Path;

use weaver_diagnostics::containerd_template::{self, DIRECTORY, FILES};
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::k3s_config::{Effective, apiserver_files, read_again, token};
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_diagnostics::kubelet_config::{self, DROP_INS, OF_K3S};

use crate::host_root::HostRoot;

/// What is wrong with them; nothing of a file that cannot be read.
pub fn findings(root: &HostRoot, data_dir: &Path, effective: &Effective) -> Vec<Finding> {
    let by_systemd = root.is_dir("/run/systemd/system");
    // k3s renders the templates for its own containerd.
    let mut findings = if effective.other_runtime.is_some() {
        Vec::new()
    } else {
        of_containerd(root, data_dir, by_systemd)
    };
    for named in kubelet_config::named(&effective.kubelet_args) {
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

fn of_containerd(root: &HostRoot, data_dir: &Path, by_systemd: bool) -> Vec<Finding> {
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
    if !exists(&newer) && !exists(&older) {
        let own = root.read_if_possible(templates.join("config.toml"));
        findings.extend(own.as_ref().and_then(containerd_template::overwritten));
    }
    findings
}

/// Files that the API server is to read, and that are not there. An agent has none, and ignores its settings.
pub fn of_api_server(root: &HostRoot, data_dir: &Path, role: Role, effective: &Effective) -> Vec<Finding> {
    if role == Role::Agent || effective.disable_apiserver {
        return Vec::new();
    }
    // k3s makes its own files itself, and what is below /run is made in each boot.
    let of_k3s = ["server/cred", "server/etc", "server/tls"].map(|directory| data_dir.join(directory));
    let is_missing = |path: &Path| {
        let is_made = path.starts_with("/run") || of_k3s.iter().any(|directory| path.starts_with(directory));
        path.is_absolute() && !is_made && matches!(root.read(path), Ok(None))
    };
    let named = apiserver_files::named(&effective.apiserver_args).into_iter();
    let missing = named.filter(|(_, file)| is_missing(Path::new(&file.value)));
    missing.map(|(flag, file)| read_again(apiserver_files::missing(flag, &file))).collect()
}

/// What is wrong with the file of the token. A server takes any text as its own.
pub fn of_token(root: &HostRoot, role: Role, effective: &Effective) -> Option<Finding> {
    let named = effective.token_file.as_ref()?;
    let path = Path::new(&named.value);
    // What is below /run is made in each boot.
    if !path.is_absolute() || path.starts_with("/run") {
        return None;
    }
    match root.read(path) {
        Ok(None) => Some(read_again(token::missing(named))),
        Ok(Some(file)) if role == Role::Agent => token::refused(Place::file(file.path), &file.text),
        Ok(Some(_)) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Code;
    use weaver_diagnostics::k3s_config::Setting;

    use super::*;
    use crate::host_root::fixture::host;

    const DATA: &str = "/var/lib/rancher/k3s";
    const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn codes(files: &[(&str, &str)], argument: &str) -> Vec<(Code, Option<String>)> {
        let (_dir, root) = host(files);
        let setting = Setting { value: argument.to_owned(), origin: Place::line("/c.yaml", 1) };
        let effective = Effective { kubelet_args: vec![setting], ..Effective::default() };
        let findings = findings(&root, Path::new(DATA), &effective);
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
        let written = format!("{templates}/config.toml");
        let by_k3s = "# File generated by k3s. DO NOT EDIT. Use config-v3.toml.tmpl instead.\n";
        assert_eq!(codes(&[(&written, by_k3s)], "v=2"), []);
        assert_eq!(codes(&[(&v3, base), (&written, "version = 3\n")], "v=2"), []);
        let by_hand = codes(&[(&written, "version = 3\n")], "v=2");
        assert_eq!(by_hand, [(Code::ContainerdTemplateFault, Some(written.clone()))]);
        let (good, bad) = (format!("{drop_ins}/50-a.conf"), format!("{drop_ins}/50-b.yaml"));
        assert_eq!(
            codes(&[(&good, KUBELET), (&bad, KUBELET)], "v=2"),
            [(Code::KubeletConfigFault, Some(bad.clone()))]
        );
    }

    #[test]
    fn a_template_is_no_fault_where_k3s_starts_no_containerd() {
        let (template, drop_in) =
            (format!("{DATA}/{DIRECTORY}/config.toml.tmpl"), format!("{DATA}/{DROP_INS}/50-a.yaml"));
        let (_dir, root) = host(&[(&template, "{{"), (&drop_in, KUBELET)]);
        let docker = Setting { value: "true".to_owned(), origin: Place::line("/c.yaml", 1) };
        for (other_runtime, want) in [
            (None, &[Code::ContainerdTemplateFault, Code::KubeletConfigFault][..]),
            (Some(docker), &[Code::KubeletConfigFault]),
        ] {
            let effective = Effective { other_runtime, ..Effective::default() };
            let found = findings(&root, Path::new(DATA), &effective);
            assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), want, "{found:?}");
        }
    }

    #[test]
    fn a_file_that_the_api_server_is_to_read() {
        let psa = "/var/lib/rancher/k3s/server/psa.yaml";
        let (_dir, root) = host(&[(psa, "kind: AdmissionConfiguration\n")]);
        for (argument, disable_apiserver, want) in [
            ("admission-control-config-file=/var/lib/rancher/k3s/server/psa.yaml", false, 0),
            ("audit-policy-file=/var/lib/rancher/k3s/server/audit.yaml", false, 1),
            ("audit-policy-file=/var/lib/rancher/k3s/server/audit.yaml", true, 0),
            ("encryption-provider-config=/var/lib/rancher/k3s/server/cred/encryption-config.json", false, 0),
            (
                "egress-selector-config-file=/var/lib/rancher/k3s/server/etc/egress-selector-config.yaml",
                false,
                0,
            ),
            ("oidc-ca-file=/run/secrets/ca.crt", false, 0),
            ("audit-policy-file=audit.yaml", false, 0),
            ("anonymous-auth=true", false, 0),
        ] {
            let setting = Setting { value: argument.to_owned(), origin: Place::line("/c.yaml", 1) };
            let effective =
                Effective { apiserver_args: vec![setting], disable_apiserver, ..Effective::default() };
            let of = |role| of_api_server(&root, Path::new(DATA), role, &effective);
            assert_eq!(of(Role::Agent), []);
            let found = of(Role::Server);
            assert_eq!(found.len(), want, "{argument}: {found:?}");
            assert!(found.iter().all(|found| found.code == Code::K3sFileUnreadable), "{found:?}");
        }
    }

    #[test]
    fn the_file_of_the_token() {
        let files = [("/etc/rancher/k3s/short", "hunter2\n"), ("/etc/rancher/k3s/cut", "K10hunter2\n")];
        let (_dir, root) = host(&files);
        for (path, role, want) in [
            ("/etc/rancher/k3s/short", Role::Agent, None),
            ("/etc/rancher/k3s/cut", Role::Agent, Some(Code::K3sConfigWrongType)),
            ("/etc/rancher/k3s/cut", Role::Server, None),
            ("/etc/rancher/k3s/none", Role::Agent, Some(Code::K3sFileUnreadable)),
            ("/etc/rancher/k3s/none", Role::Server, Some(Code::K3sFileUnreadable)),
            ("/run/secrets/token", Role::Agent, None),
            ("token", Role::Agent, None),
        ] {
            let token_file = Some(Setting { value: path.to_owned(), origin: Place::line("/c.yaml", 1) });
            let effective = Effective { token_file, ..Effective::default() };
            let found = of_token(&root, role, &effective);
            assert_eq!(found.as_ref().map(|found| found.code), want, "{path} {role:?}: {found:?}");
            assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
        }
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
