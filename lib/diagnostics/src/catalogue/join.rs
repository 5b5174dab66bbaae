//! Joining a server.

macro_rules! join_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Join {
        JoinServerSilent = "J-01" "join-server-silent" Warn {
            title: "The server that this node joins does not answer.",
            cause: "The server is off or still starting, the name leads elsewhere, or a firewall is between. \
                k3s goes on asking.",
            remedy: "see on this node whether the name is found and a way leads there, and on the server \
                whether k3s runs",
            commands: ["getent ahosts SERVER", "ip route get ADDRESS", "systemctl status k3s"],
        }
        JoinOtherServer = "J-02" "join-other-server" Fail {
            title: "What answers there is not the server of the token.",
            cause: "The address is another machine's, or the server was set up anew and has a new CA. k3s \
                refuses to join it.",
            remedy: "see whether `server` in weaver.toml is right; if it is, write its token there again and \
                reboot. On the server",
            commands: ["sudo cat /var/lib/rancher/k3s/server/node-token"],
            links: [K3S_TOKEN],
        }
        JoinNameNotServed = "J-03" "join-name-not-served" Fail {
            title: "The server has no certificate for the name in `server`.",
            cause: "k3s verifies the server's certificate for the name in `server`, and the server was not \
                told of that name.",
            remedy: "write the name into `names` below [api] of the server's weaver.toml and reboot the \
                server",
            commands: ["sudo nano /boot/firmware/weaver.toml"],
        }
        JoinNameTaken = "J-04" "join-name-taken" Warn {
            title: "The server, it seems, has the name of this node.",
            cause: "The name of this node is that of another one, or of this one before its card was written \
                anew: the server keeps the password that a node of that name came with first, and refuses \
                another.",
            remedy: "give this node another `hostname` in weaver.toml, and reboot; one that has joined \
                another server before keeps its name until you remove \
                /var/lib/rancher/k3s/agent/client-kubelet.crt, too. On the server: names that are taken, and \
                how it forgets the password of one that was written anew",
            commands: [
                "sudo k3s kubectl get nodes",
                "sudo k3s kubectl -n kube-system delete secret NODE.node-password.k3s",
            ],
        }
    }
    }};
}
