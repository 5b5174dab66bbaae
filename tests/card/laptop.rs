//! A laptop of the card's owner, which reaches the API at the port of this machine that leads to it.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use weaver_image::boot::machine::Machine;
use weaver_image::booted::API_NAME;

/// The kubeconfig that the card hands out. The name that it proves stays; the address is this machine's.
pub fn kubeconfig(machine: &Machine) -> Kubeconfig {
    let mut kubeconfig = Kubeconfig::read_from(machine.kubeconfig(API_NAME).unwrap()).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
    let server = cluster.server.as_mut().unwrap();
    *server = server.replace(API_NAME, "127.0.0.1");
    cluster.tls_server_name = Some(API_NAME.to_owned());
    kubeconfig
}

pub async fn client(machine: &Machine) -> Client {
    // Another test of this process may have done it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig(machine), &options).await.unwrap();
    Client::try_from(config).unwrap()
}
