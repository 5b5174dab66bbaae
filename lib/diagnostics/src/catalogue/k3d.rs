//! k3d: its clusters, and the container engine that runs them.

macro_rules! k3d_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    K3d {
        ContainerEngineUnreadable = "D-01" "container-engine-unreadable" Fail {
            title: "The API of the container engine cannot be reached, so k3d clusters cannot be found.",
            cause: "Docker is not running, you may not open its socket, or DOCKER_HOST or Docker's context names \
                another machine.",
            remedy: "start Docker, or run the command as root or as a member of the group docker; for a \
                rootless engine set DOCKER_HOST to its socket, and the agent's next finding has the drop-in that its \
                unit needs",
            commands: [
                "systemctl status docker",
                "sudo docker ps --filter label=app=k3d",
                "echo 'DOCKER_HOST=unix:///run/user/UID/docker.sock' | sudo tee -a /etc/weaver/node-agent.env",
                "sudo systemctl restart weaver-node-agent",
            ],
        }
        K3dClusterMissing = "D-02" "k3d-cluster-missing" Fail {
            title: "The k3d cluster does not exist.",
            cause: "It was deleted, was never created, or has another name.",
            remedy: "create it, or set WEAVER_CLUSTER in /etc/weaver/node-agent.env to an existing one",
            commands: ["k3d cluster list", "weaver k3d config CLUSTER --name NAME > k3d.yaml",
                "k3d cluster create --config k3d.yaml"],
        }
        K3dClusterNotChosen = "D-03" "k3d-cluster-not-chosen" Fail {
            title: "There are several k3d clusters, and `WEAVER_CLUSTER` selects none of them.",
            cause: "The agent proves the names of one cluster and starts one operator.",
            remedy: "set WEAVER_CLUSTER to one of them and restart the agent",
            commands: [
                "echo 'WEAVER_CLUSTER=k3d:NAME' | sudo tee -a /etc/weaver/node-agent.env",
                "sudo systemctl restart weaver-node-agent",
            ],
        }
        K3dClusterStopped = "D-04" "k3d-cluster-stopped" Fail {
            title: "A server node or the load balancer of a k3d cluster is not running.",
            cause: "The cluster was stopped, or the machine booted and Docker did not start it again.",
            remedy: "start the cluster",
            commands: ["k3d cluster start CLUSTER"],
        }
        K3dApiNotPublished = "D-05" "k3d-api-not-published" Fail {
            title: "The API server of a k3d cluster is reachable in its containers only.",
            cause: "Neither the load balancer nor a server publishes port 6443 on this machine.",
            remedy: "create the cluster again with a port for the API, after saving what is in it",
            commands: [
                "weaver k3d config CLUSTER --name NAME --api-port 6443 > k3d.yaml",
                "k3d cluster delete CLUSTER   # deletes everything in it",
                "k3d cluster create --config k3d.yaml",
            ],
        }
        K3dWebhookUnreachable = "D-06" "k3d-webhook-unreachable" Fail {
            title: "The containers of a k3d cluster cannot reach the conversion webhook on this machine.",
            cause: "The gateway of the cluster's network is not an address of this machine: the container \
                engine is rootless, or runs in a virtual machine. Or it is a user's, or the network is not a private \
                one, and the webhook does not listen where these say.",
            remedy: "install the operator in the cluster instead",
            commands: ["weaver docs install-in-a-cluster"],
            links: ["https://docs.docker.com/engine/security/rootless/"],
        }
        K3dNameShared = "D-07" "k3d-name-shared" Warn {
            title: "Two running clusters of k3d serve the same name.",
            cause: "Both were created with it. The port alone decides which one a client reaches.",
            remedy: "give each cluster a name of its own, or stop the one that is not needed",
            commands: ["k3d cluster list"],
        }
    }
    }};
}
