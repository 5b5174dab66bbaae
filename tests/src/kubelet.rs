//! A node's way to the API server: a certificate such as its kubelet has, signed by the API server's own CA of clients.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use weaver_devstack::server::Server;

use crate::world::eventually;

/// That of the node called `name`; `client` is the administrator, who approves it.
pub async fn kubeconfig(server: &Server, client: &Client, name: &str) -> Kubeconfig {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{name}"));
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let spec = CertificateSigningRequestSpec {
        request: ByteString(request.into_bytes()),
        signer_name: "kubernetes.io/kube-apiserver-client-kubelet".into(),
        usages: Some(vec!["digital signature".into(), "client auth".into()]),
        ..CertificateSigningRequestSpec::default()
    };
    let mut asked = CertificateSigningRequest { spec, ..CertificateSigningRequest::default() };
    asked.metadata.name = Some(name.to_owned());
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    requests.create(&PostParams::default(), &asked).await.unwrap();
    server.kubectl().run(&["certificate", "approve", name]).unwrap();
    let certificate = eventually("the certificate is signed", || async {
        let status = requests.get(name).await.unwrap().status.unwrap_or_default();
        status.certificate.ok_or(status.conditions)
    })
    .await;
    let mut kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&certificate.0)),
            client_key_data: Some(STANDARD.encode(key.serialize_pem()).into()),
            ..AuthInfo::default()
        });
    }
    kubeconfig
}
