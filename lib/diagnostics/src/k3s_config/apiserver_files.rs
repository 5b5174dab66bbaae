//! Files that an entry of `kube-apiserver-arg` names. Pure.
//!
//! The API server reads them when it starts and exits without one of them, and k3s with it. None of its messages names
//! k3s' configuration.

use crate::finding::{Code, Finding, RESTART_K3S, Remedy, Severity};
use crate::k3s_unit::Setting;

/// Its flags whose values are files that an owner writes.
const FLAGS: [&str; 11] = [
    "admission-control-config-file",
    "audit-policy-file",
    "audit-webhook-config-file",
    "authentication-config",
    "authentication-token-webhook-config-file",
    "authorization-config",
    "authorization-webhook-config-file",
    "egress-selector-config-file",
    "encryption-provider-config",
    "oidc-ca-file",
    "tracing-config-file",
];

/// Each such flag and its file; of a flag that is repeated the last, which counts.
pub fn named(arguments: &[Setting]) -> Vec<(&'static str, Setting)> {
    let file = |setting: &Setting| {
        let (flag, path) = setting.value.trim_start_matches('-').split_once('=')?;
        let flag = FLAGS.into_iter().find(|known| *known == flag)?;
        Some((flag, Setting { value: path.to_owned(), origin: setting.origin.clone() }))
    };
    let mut named: Vec<(&'static str, Setting)> = Vec::new();
    for (flag, file) in arguments.iter().filter_map(file) {
        named.retain(|(earlier, _)| *earlier != flag);
        named.push((flag, file));
    }
    named
}

/// A file that is not there: k3s does not start. No more than a warning, which blocks nothing: `ExecStartPre=` of its
/// unit may make it, or a mount that comes late.
pub fn missing(flag: &str, file: &Setting) -> Finding {
    let Setting { value: path, origin } = file;
    let message =
        format!("{path} does not exist, {flag} at {origin} names it, and k3s does not start without it");
    let remedy = Remedy::new(format!("write {path}, or remove the entry from {}", origin.file));
    Finding::new(Code::K3sFileUnreadable, message)
        .saw(origin.clone(), format!("kube-apiserver-arg {flag}={path}"))
        .remedy(remedy.command(RESTART_K3S))
        .milder(Severity::Warn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Place;

    #[test]
    fn the_last_file_of_each_flag_is_named() {
        let given = [
            "anonymous-auth=true",
            "audit-policy-file=/a.yaml",
            "--admission-control-config-file=/psa.yaml",
            "audit-log-path=/var/log/audit.log",
            "audit-policy-file=/b.yaml",
            "audit-policy-file",
        ];
        let setting = |text: &&str| Setting { value: (*text).to_owned(), origin: Place::line("/c.yaml", 3) };
        let arguments: Vec<_> = given.iter().map(setting).collect();
        let found = named(&arguments);
        let shown: Vec<_> = found.iter().map(|(flag, file)| (*flag, file.value.as_str())).collect();
        let want = [("admission-control-config-file", "/psa.yaml"), ("audit-policy-file", "/b.yaml")];
        assert_eq!(shown, want);
        let finding = missing(found[1].0, &found[1].1);
        assert_eq!((finding.code, finding.severity()), (Code::K3sFileUnreadable, Severity::Warn));
        let says = "/b.yaml does not exist, audit-policy-file at /c.yaml:3 names it, and k3s does not start without it";
        assert_eq!(finding.message, says);
    }
}
