//! The manifest by which krew, the manager of kubectl's plugins, installs the command line as `kubectl weaver`.

use std::fmt::Write as _;

use super::archive::Archive;

/// The manifest. Its values have no quotes in them; without quotes around it a hash of digits would be a number.
pub fn manifest(version: &str, url: &str, archives: &[Archive]) -> String {
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: weaver
spec:
  version: \"v{version}\"
  homepage: \"{url}\"
  shortDescription: Check, configure and operate Config Weaver
  description: |
    Finds why kubectl does not reach a cluster, explains errors of Kubernetes and k3s,
    makes kubeconfigs, and manages ConfigMapSyncs and ServiceTokens.
  platforms:
"
    );
    for Archive { name, stem, os, architecture, sha256 } in archives {
        let program = if os == "windows" { "weaver.exe" } else { "weaver" };
        let _ = write!(
            text,
            "  - selector:
      matchLabels: {{os: {os}, arch: {architecture}}}
    uri: \"{url}/{name}\"
    sha256: \"{sha256}\"
    files:
      - {{from: {stem}/{program}, to: .}}
      - {{from: {stem}/LICENSE, to: .}}
    bin: {program}
"
        );
    }
    text
}
