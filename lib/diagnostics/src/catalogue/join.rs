//! A node that joins a server, as an agent or as another server.

macro_rules! join_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Join {
        JoinServerSilent = "J-01" "join-server-silent" Warn {
            title: "The server that this node joins does not respond.",
            cause: "The server is off, still starting or too busy to answer, the name resolves to another address, or a \
                firewall is in between. k3s keeps trying.",
            remedy: "check on this node that the name resolves and the server is reachable, and on the server that k3s runs",
            commands: ["getent ahosts SERVER", "ip route get ADDRESS", K3S_STATUS],
        }
        JoinOtherServer = "J-02" "join-other-server" Fail {
            title: "The server at this address is not the one of the token.",
            cause: "The address belongs to another machine, or the server was reinstalled and has a new CA. k3s refuses to join it.",
            remedy: "check `server` in weaver.toml; if it is right, copy the server's token into \
                weaver.toml again and reboot. The server prints its token with the command below",
            commands: ["sudo cat /var/lib/rancher/k3s/server/node-token"],
            links: [K3S_TOKEN],
        }
        JoinNameNotServed = "J-03" "join-name-not-served" Fail {
            title: "The server has no certificate for the name in `server`.",
            cause: "A server that joins another, and an agent with `disable-apiserver-lb`, verify the other's certificate \
                for the name in `server`, and that name is not configured there. Other agents verify it for 127.0.0.1, \
                where their load balancer listens.",
            remedy: "add the name to `names` in section [api] of the server's weaver.toml and reboot the server",
            commands: ["sudo nano /boot/firmware/weaver.toml"],
        }
        DatastoreTokenDiffers = "J-05" "datastore-token-differs" Fail {
            title: "The datastore was made with another token.",
            cause: "k3s encrypts its CA in the datastore with the token. It was started with a different token, or \
                without one on a datastore that already exists.",
            remedy: "start k3s with the token that made the datastore; there is a copy on each server that used it",
            commands: ["sudo cat /var/lib/rancher/k3s/server/token"],
            links: [K3S_TOKEN],
        }
        JoinNameTaken = "J-04" "join-name-taken" Warn {
            title: "The node's name is probably taken on the server.",
            cause: "Another node has this name, or this card was flashed again: the server keeps the node password \
                of the first node with a name and rejects every other.",
            remedy: "if another node has the name, set another `hostname` in weaver.toml and reboot. If this card \
                was flashed again, delete the old node password on the server with the second command. A node that \
                has joined another server before keeps its name until you remove \
                /var/lib/rancher/k3s/agent/client-kubelet.crt",
            commands: [
                "sudo k3s kubectl get nodes",
                "sudo k3s kubectl -n kube-system delete secret NODE.node-password.k3s",
            ],
        }
        JoinTokenRefused = "J-06" "join-token-refused" Fail {
            title: "The server refuses the token of this node.",
            cause: "The token belongs to another server, was rotated, has expired, or was not copied completely.",
            remedy: "copy the server's token into weaver.toml again and reboot; without weaver.toml, into \
                `token` of /etc/rancher/k3s/config.yaml or K3S_TOKEN. The server prints its token with the command below",
            commands: ["sudo cat /var/lib/rancher/k3s/server/node-token"],
            links: [K3S_TOKEN],
        }
    }
    }};
}
