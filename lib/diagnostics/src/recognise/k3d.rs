//! Names that k3d and Docker Desktop give, and which few others know.

use crate::finding::Remedy;

/// The machine that k3d runs on, as the containers of its clusters and their pods call it.
const HOST: &str = "host.k3d.internal";

/// A name that k3d writes into `CoreDNS` where it starts the cluster itself. k3d#1221, k3d#926
pub(super) fn of_the_host(name: &str) -> Option<Remedy> {
    (name.trim_end_matches('.') == HOST).then(|| {
        Remedy::new(
            "only the cluster knows this name. k3d writes it into CoreDNS when it starts the cluster, and where Docker started \
             the containers, as after a reboot, it is missing: stop and start the cluster with k3d",
        )
        .command("kubectl -n kube-system get configmap coredns -o jsonpath='{.data.NodeHosts}'")
        .command("k3d cluster stop CLUSTER")
        .command("k3d cluster start CLUSTER")
    })
}

/// The same machine as Docker Desktop calls it, in a kubeconfig. k3d#1057
pub(super) fn of_docker_desktop(name: &str) -> Option<Remedy> {
    (name.trim_end_matches('.') == "host.docker.internal").then(|| {
        Remedy::new(
            "this is a name of Docker Desktop for the machine that it runs on: have the kubeconfig name an address of that \
             machine, which is 127.0.0.1 on itself, with the port that Docker published",
        )
        .command("docker ps --filter label=app=k3d")
        .command("kubectl config set-cluster k3d-CLUSTER --server=https://127.0.0.1:PORT")
    })
}

/// A registry's container, or a name as k3d's pages give it one.
pub(super) fn of_a_registry(name: &str) -> Option<Remedy> {
    (name.starts_with("k3d-") || name.ends_with(".localhost")).then(|| {
        Remedy::new(
            "the nodes of a cluster know a registry of k3d if the cluster was created with `--registry-use`. This machine reaches \
             it by `localhost` and the port that Docker published, or by its name once /etc/hosts has it",
        )
        .command("k3d registry list")
        .command(format!("echo '127.0.0.1 {name}' | sudo tee -a /etc/hosts"))
        .command("k3d cluster create CLUSTER --registry-use k3d-REGISTRY:PORT")
    })
}

/// A registry of the machine that the image was built on. k3d#763
pub(super) fn localhost() -> Remedy {
    Remedy::new(
        "to a node `localhost` is the node itself: name the registry in the image as the nodes reach it. One of k3d has a name \
         and the port 5000 for them; or import the image without a registry",
    )
    .command("k3d registry list")
    .command("k3d image import IMAGE --cluster CLUSTER")
    .command("weaver registry config REGISTRY:PORT --http")
}
