//! What the API server is given: its configuration file and its flags. Pure.

use std::ffi::OsString;

use serde_json::json;

use crate::layout::Layout;

/// Names that `make up` asks the API server to serve besides its own.
pub const NAMES: [&str; 2] = ["weaver.test", "config-weaver.test"];

/// User of the operator's own account.
const OPERATOR: &str = "system:serviceaccount:config-weaver:weaver-operator";
/// User of the account that installs from a Job.
const INSTALLER: &str = "system:serviceaccount:config-weaver:weaver-installer";

/// The configuration file: the names to serve, and the node's own. k3s reads YAML, and JSON is YAML.
pub fn config(names: &[String]) -> String {
    // JSON's quoting is valid YAML, whatever the name contains.
    let settings = json!({ "disable-agent": true, "node-name": "devstack", "tls-san": names });
    format!(
        "# Written by weaver-devstack at each start of the API server. Your own settings\n\
         # belong into config.yaml.d/*.yaml next to this file (`tls-san+:` appends).\n{settings}\n"
    )
}

/// The audit policy of tests: who touched which `ConfigMap`, Secret, `NetworkPolicy` or token, whatever
/// the operator's own account and that of its installer did, and never what was in it.
pub fn audit_policy() -> String {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "Metadata",
                "resources": [
                    {"group": "", "resources": ["configmaps", "secrets", "serviceaccounts/token"]},
                    {"group": "networking.k8s.io", "resources": ["networkpolicies"]},
                ],
            },
            {"level": "Metadata", "users": [OPERATOR, INSTALLER]},
            {"level": "None"},
        ],
    });
    format!("{policy:#}\n")
}

/// The flags: everything below the stack's directory, loopback only, no
/// kubelet, nothing that would need a cluster network.
pub fn arguments(layout: &Layout, port: u16, audit: bool, extra: &[String]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["server".into()];
    for (flag, path) in [
        ("--config", layout.config()),
        ("--data-dir", layout.data()),
        ("--write-kubeconfig", layout.admin_kubeconfig()),
    ] {
        all.extend([flag.into(), path.into()]);
    }
    let port = port.to_string();
    for (flag, value) in [
        ("--write-kubeconfig-mode", "0600"),
        ("--bind-address", "127.0.0.1"),
        ("--https-listen-port", port.as_str()),
    ] {
        all.extend([flag, value].map(OsString::from));
    }
    all.extend(
        [
            "--egress-selector-mode=disabled",
            "--disable=coredns,servicelb,traefik,local-storage,metrics-server",
            // Several servers run at once: what listens at a port of the machine is left out.
            "--kube-controller-manager-arg=secure-port=0",
            // Each test leaves namespaces, and one takes a hundred lists to delete, each of which waits for SQLite: ten
            // at once fall behind for as long as the tests run.
            "--kube-controller-manager-arg=concurrent-namespace-syncs=100",
            "--disable-scheduler",
            "--disable-cloud-controller",
        ]
        .map(OsString::from),
    );
    if audit {
        for (name, path) in
            [("audit-log-path", layout.audit_log()), ("audit-policy-file", layout.audit_policy())]
        {
            let mut argument = OsString::from(format!("--kube-apiserver-arg={name}="));
            argument.push(path);
            all.push(argument);
        }
    }
    all.extend(extra.iter().map(OsString::from));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize)]
    struct Config {
        #[serde(rename = "tls-san")]
        tls_san: Vec<String>,
    }

    #[test]
    fn the_flags_name_loopback_and_only_the_stacks_own_paths() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        let all = arguments(&layout, 20_001, true, &["--x=1".to_owned()]);
        let text: Vec<_> = all.iter().map(|word| word.to_str().unwrap()).collect();
        let after = |flag| text[text.iter().position(|word| *word == flag).unwrap() + 1];
        assert_eq!(text[0], "server");
        assert_eq!((after("--bind-address"), after("--https-listen-port")), ("127.0.0.1", "20001"));
        assert_eq!(after("--write-kubeconfig-mode"), "0600");
        assert_eq!(text.last(), Some(&"--x=1"));
        let own = layout.dir().to_str().unwrap();
        let paths: Vec<_> = text.iter().filter_map(|word| word.find('/').map(|at| &word[at..])).collect();
        assert_eq!(paths.len(), 5);
        assert!(paths.iter().all(|path| path.starts_with(own)), "{paths:?}");
        assert_eq!(arguments(&layout, 1, false, &[]).len(), text.len() - 3);
    }

    #[test]
    fn the_audit_policy_never_records_a_body() {
        let policy: Value = serde_json::from_str(&audit_policy()).unwrap();
        let levels: Vec<_> = policy["rules"].as_array().unwrap().iter().map(|rule| &rule["level"]).collect();
        assert_eq!(levels, ["Metadata", "Metadata", "None"]);
    }

    proptest! {
        #[test]
        fn any_name_comes_back_as_itself(names in proptest::collection::vec("[ -~]{0,20}", 0..4)) {
            let config: Config = serde_saphyr::from_str(&config(&names)).unwrap();
            prop_assert_eq!(config.tls_san, names);
        }
    }
}
