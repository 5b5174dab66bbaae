//! The API server's CA is replaced, as by `k3s certificate rotate-ca`, or by someone who has removed its files.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams};
use serde_json::json;
use weaver_tests::alone::Alone;
use weaver_tests::world::{client_of, eventually};

#[tokio::test]
async fn with_another_ca_in_its_kubeconfig_the_operator_begins_again_and_says_why() {
    let (mut alone, wire) = Alone::behind_wire(&["--lease", "12"]).await;
    let mut world = alone.world("ca");
    let (team, foo) = world.synced().await;
    let kept: Api<Secret> = Api::namespaced(world.client.clone(), "kube-system");
    kept.delete("k3s-serving", &DeleteParams::default()).await.unwrap();
    alone.own.server.stop().unwrap();
    let tls = alone.own.server.data_dir().join("server/tls");
    let ca = |file| std::fs::read_to_string(tls.join(file)).unwrap();
    let before = ca("server-ca.crt");
    let of_the_old_one = [
        "server-ca.crt",
        "server-ca.key",
        "serving-kube-apiserver.crt",
        "serving-kube-apiserver.key",
        "dynamic-cert.json",
    ];
    for file in of_the_old_one {
        std::fs::remove_file(tls.join(file)).unwrap();
    }
    alone.own.server.restart_after_stop().unwrap();
    assert_ne!(ca("server-ca.crt"), before);
    let client = client_of(&alone.own.server.kubeconfig()).await;
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
    std::fs::write(alone.own.dir().join("operator.kubeconfig"), kubeconfig).unwrap();
    alone.operator.ends().await;
    let log = alone.operator.log();
    assert!(log.contains("operator.kubeconfig names another API server or CA"), "{log}");
    // As systemd and the kubelet do.
    alone.restart_operator();
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}
