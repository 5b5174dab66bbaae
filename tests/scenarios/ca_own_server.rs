//! The API server's CA is replaced, as by `k3s certificate rotate-ca`, or by someone who has removed its files.

use std::fs;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::json;
use weaver_devstack::server::ServerOrigin;
use weaver_tests::alone::OwnOperator;
use weaver_tests::own::OwnServer;
use weaver_tests::world::{client_of, eventually};

const SERVER_CA: [&str; 2] = ["server-ca.crt", "server-ca.key"];

/// Gives k3s a new CA of its servers' certificates, which it uses from its next start on.
fn rotate_ca(own: &OwnServer, tls: &Path) {
    let staged = own.dir().join("staged/tls");
    fs::create_dir_all(staged.join("etcd")).unwrap();
    for name in ["client-ca", "request-header-ca", "etcd/peer-ca", "etcd/server-ca"] {
        for end in ["crt", "key"] {
            let file = format!("{name}.{end}");
            fs::copy(tls.join(&file), staged.join(&file)).unwrap();
        }
    }
    fs::copy(tls.join("service.key"), staged.join("service.key")).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "k3s-server-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    for (file, text) in SERVER_CA.into_iter().zip([certificate.pem(), key.serialize_pem()]) {
        fs::write(staged.join(file), text).unwrap();
    }
    let mut k3s = Command::new(&own.server.binary().path);
    k3s.args(["certificate", "rotate-ca", "--force", "--server"]);
    k3s.arg(format!("https://127.0.0.1:{}", own.server.port()));
    k3s.arg("--data-dir").arg(own.server.data_dir()).arg("--path").arg(staged.parent().unwrap());
    let output = k3s.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn with_another_ca_in_its_kubeconfig_the_operator_begins_again_and_says_why() {
    let (mut alone, wire) = OwnOperator::behind_wire(&["--lease", "12"]).await;
    let mut world = alone.world("ca");
    let (team, foo) = world.synced().await;
    let tls = alone.own.server.data_dir().join("server/tls");
    let ca = |file| fs::read_to_string(tls.join(file)).unwrap();
    let before = ca("server-ca.crt");
    // The testbed makes a new one where there is none; k3s takes the old one from its datastore.
    let is_testbed = alone.own.server.binary().origin == ServerOrigin::Testbed;
    if !is_testbed {
        rotate_ca(&alone.own, &tls);
    }
    alone.own.server.stop().unwrap();
    // Of two certificates with the same names k3s serves the one that it saw last, which may be the old one of its Secret.
    let mut drop_ins = alone.own.server.config_path().into_os_string();
    drop_ins.push(".d");
    fs::create_dir_all(&drop_ins).unwrap();
    fs::write(Path::new(&drop_ins).join("renewed.yaml"), "tls-san+: [renewed.example]\n").unwrap();
    let of_the_old_one = ["serving-kube-apiserver.crt", "serving-kube-apiserver.key", "dynamic-cert.json"];
    for file in of_the_old_one.into_iter().chain(SERVER_CA.into_iter().filter(|_| is_testbed)) {
        fs::remove_file(tls.join(file)).unwrap();
    }
    alone.own.server.restart_after_stop().unwrap();
    assert_ne!(ca("server-ca.crt"), before);
    let client = client_of(&alone.own.server.kubeconfig()).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    eventually("the Secret has the new certificate", || async {
        let secret = secrets.get_opt("k3s-serving").await.map_err(|error| error.to_string())?;
        let all = secret.and_then(|secret| secret.metadata.annotations).unwrap_or_default();
        let is_there = all.contains_key("listener.cattle.io/cn-renewed.example");
        is_there.then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;
    (alone.own.client, world.client) = (client.clone(), client);

    // It is shut out, and does not end by itself: the agent may be about to write the new CA.
    eventually("it says that it trusts the server no more", || async {
        let log = alone.operator.log();
        if log.contains("certificate") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
    let way = alone.own.cluster_at(wire.address);
    let kubeconfig = json!(alone.own.operator_kubeconfig(way).await).to_string();
    fs::write(alone.own.dir().join("operator.kubeconfig"), kubeconfig).unwrap();
    alone.operator.ends().await;
    let log = alone.operator.log();
    assert!(log.contains("operator.kubeconfig names another API server or CA"), "{log}");
    // As systemd and the kubelet do.
    alone.restart_operator();
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}
