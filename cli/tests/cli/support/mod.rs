//! What the tests of `weaver kubeconfig` share: TLS servers, and the kubeconfig that k3s writes.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod http;
#[path = "../../../../node-agent/tests/node_agent/support/tls_server.rs"]
pub mod tls_server;

use k8s_openapi::ByteString;
use tls_server::Ca;

/// The base64 of the administrator's key, in PEM.
pub const KEY: &str =
    "LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk1BQT0KLS0tLS1FTkQgRUMgUFJJVkFURSBLRVktLS0tLQo=";
/// That of a certificate.
pub const CERTIFICATE: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

/// The kubeconfig of a k3s whose CA is `ca` and which listens at `server`.
pub fn k3s_kubeconfig(ca: &Ca, server: &str) -> String {
    let ca = serde_json::to_value(ByteString(ca.pem().into_bytes())).unwrap();
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: default\n\
         clusters:\n- name: default\n  cluster:\n    server: {server}\n    certificate-authority-data: {}\n\
         users:\n- name: default\n  user: {{client-certificate-data: {CERTIFICATE}, client-key-data: {KEY}}}\n\
         contexts:\n- name: default\n  context: {{cluster: default, user: default}}\n",
        ca.as_str().unwrap()
    )
}
