//! What to do is of the machine and the file that the line tells of.

use super::judge;
use crate::finding::Severity;

/// A line, what its remedy names, and what it must not name.
const REMEDIES: &[(&str, &str, &str)] = &[
    (
        "modprobe: ERROR: could not insert 'ip_tables': Exec format error",
        "grep -E 'version magic|disagrees about version'",
        "image",
    ),
    ("bash: ./k3s: cannot execute binary file: Exec format error", "getconf LONG_BIT", "skopeo"),
    ("exec /usr/local/bin/app: exec format error", "skopeo inspect", "uname"),
    (
        r#"msg="failed to get CA certs: Get \"https://127.0.0.1:6443/cacerts\": x509: certificate signed by unknown authority""#,
        "openssl verify",
        "kubeconfig",
    ),
    (
        r#"msg="failed to get CA certs: Get \"https://127.0.0.1:6444/cacerts\": x509: certificate signed by unknown authority""#,
        "check `server`",
        "openssl",
    ),
    // The kubelet of a node that joins, and the scheduler of a server.
    (
        r#"E1105 10:00:00.123456    2217 reflector.go:205] "Failed to watch" err="failed to list *v1.Node: Get \"https://127.0.0.1:6444/api/v1/nodes?fieldSelector=metadata.name%3Dpi&limit=500\": tls: failed to verify certificate: x509: certificate signed by unknown authority""#,
        "check that `server` and the token",
        "kubeconfig",
    ),
    (
        r#"Get "https://127.0.0.1:6443/api?timeout=30s": x509: certificate signed by unknown authority"#,
        "kubeconfig export",
        "openssl",
    ),
    (
        "failed to listen on 127.0.0.1:6444: listen tcp 127.0.0.1:6444: bind: cannot assign requested address",
        "sudo ip address add 127.0.0.1/8 dev lo",
        "router",
    ),
    ("listen tcp [::1]:6443: bind: cannot assign requested address", "disable_ipv6", "router"),
    ("listen tcp 10.1.2.1:6443: bind: cannot assign requested address", "router", " lo"),
    (
        "starting kubernetes: preparing server: failed to normalize token; must be in format K10<CA-HASH>::<USERNAME>:<PASSWORD> or <PASSWORD>",
        "sudo wc -c /var/lib/rancher/k3s/server/token",
        "weaver.toml",
    ),
    (r#"level=fatal msg="invalid token CA hash length""#, "weaver.toml", "decrypts"),
    (
        r#"secrets is forbidden: User "system:serviceaccount:a:b" cannot list resource "secrets" in API group "" in the namespace "a": RBAC: clusterrole.rbac.authorization.k8s.io "$(reboot)" not found"#,
        "kubectl get clusterroles -A | grep NAME",
        "kubectl create",
    ),
    (
        r#"secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "a": RBAC: role.rbac.authorization.k8s.io "system:x" not found"#,
        "kubectl get roles -A | grep system:x",
        "auth can-i",
    ),
    (
        r#"secrets is forbidden: User "system:serviceaccount:a:b" cannot list resource "secrets" in API group "" in the namespace "a""#,
        "kubectl create role",
        "rolebindings,",
    ),
    // k3s#12673, in a container.
    (
        r#"INFO[3139] Waiting to retrieve agent configuration; server is not ready: "overlayfs" snapshotter cannot be enabled for "/var/lib/rancher/k3s/agent/containerd", try using "fuse-overlayfs" or "native": failed to mount overlay: operation not permitted"#,
        "--privileged",
        "raspi-config",
    ),
    (
        r#""overlayfs" snapshotter cannot be enabled for "/var/lib/rancher/k3s/agent/containerd", try using "fuse-overlayfs" or "native": failed to mount overlay: no such device"#,
        "sudo modprobe overlay",
        "native",
    ),
    // k3d#1221 and k3d#1057.
    (
        "dial tcp: lookup host.k3d.internal on 10.43.0.10:53: no such host",
        "k3d cluster start",
        "get services",
    ),
    ("ping: host.k3d.internal: Name or service not known", "k3d cluster start", "/etc/hosts"),
    (
        "Unable to connect to the server: dial tcp: lookup host.docker.internal on 192.168.1.1:53: no such host",
        "set-cluster k3d-CLUSTER",
        "/etc/hosts",
    ),
    // Docker has settings of its own: distribution#3500, k3d#755.
    (
        r#"Get "https://docker.local:5000/v2/": http: server gave HTTP response to HTTPS client"#,
        "insecure-registries",
        "restart k3s",
    ),
    (
        r#"Error response from daemon: Get "https://registry.lan:5000/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority"#,
        "/etc/docker/certs.d",
        "restart k3s",
    ),
    (
        "Error response from daemon: failed to register layer: write /usr/lib/x: no space left on device",
        "docker image prune",
        "crictl",
    ),
    (
        "Error response from daemon: toomanyrequests: You have reached your pull rate limit.",
        "docker login",
        "restart",
    ),
    ("denied: requested access to the resource is denied", "docker login", "kubectl"),
    // k3d#1082: an engine without root, and a host.
    (
        r#"time="2022-06-15T10:00:00Z" level=fatal msg="failed to find cpu cgroup (v2)""#,
        "Delegate=",
        "kernel that was",
    ),
    (
        r#"Aug 27 02:50:17 pi k3s[2140]: time="2024-08-27T02:50:17+02:00" level=fatal msg="failed to find cpu cgroup (v2)""#,
        "sudo reboot",
        "Delegate=",
    ),
    // The ninth try: whose name, registry and module it is. k3s#4210, iotedgedev#359,
    // microk8s#4724, klipper-lb#34.
    (
        r#"level=fatal msg="ETCD join failed: duplicate node name found, please use a unique name for this node""#,
        "delete node NODE",
        "node-password",
    ),
    (
        r#"Get "http://localhost:5000/v2/": read tcp [::1]:57170->[::1]:5000: read: connection reset by peer"#,
        "docker logs",
        "images import",
    ),
    (
        r#"Get "http://127.0.0.1:32000/v2/": dial tcp 127.0.0.1:32000: connect: connection refused"#,
        "curl -v http://127.0.0.1:32000/v2/",
        "images import",
    ),
    (
        "iptables v1.8.4 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)",
        "modprobe iptable_nat",
        "image",
    ),
    // The tenth try: a partition that is not mounted, a k3s that is not unpacked, one of before 1.19, an account that is
    // about to be made, and what helm has on record. DietPi#6767, kairos#1599, k3s#746, actions-k3s#5.
    ("Error: missing /boot/firmware, did you forget to mount it?", "sudo mount /boot/firmware", "remount"),
    ("[DEPEND] Dependency failed for /boot.", "sudo mount /boot", "/boot/firmware"),
    (
        r#"level=fatal msg="extracting data: error writing to /var/lib/rancher/k3s/data/8147-tmp/bin/k3s: write /var/lib/rancher/k3s/data/8147-tmp/bin/k3s: no space left on device""#,
        "df -h /var/lib/rancher",
        "crictl",
    ),
    (
        "Node password rejected, contents of '/var/lib/rancher/k3s/agent/node-password.txt' may not match server",
        "-name node-passwd",
        "delete secret",
    ),
    (
        r#"pods "input" is forbidden: error looking up service account team/default: serviceaccount "default" not found"#,
        "try again",
        "create serviceaccount",
    ),
    (
        r#"Error: UPGRADE FAILED: resource mapping not found for name: "x" namespace: "team" from "": no matches for kind "PodSecurityPolicy" in version "policy/v1beta1""#,
        "helm mapkubeapis RELEASE",
        "get crds",
    ),
    (
        r#"resource mapping not found for name: "config" namespace: "metallb-system" from "./": no matches for kind "IPAddressPool" in version "metallb.io/v1beta1""#,
        "if the same manifests bring it, apply them again",
        "`apiVersion`",
    ),
    (
        r#"error: resource mapping not found for name: "x" namespace: "" from "a.yaml": no matches for kind "IngressRoute" in version "traefik.containo.us/v1alpha1""#,
        "traefik.io/v1alpha1",
        "turn off",
    ),
    (
        r#"clusterroles.rbac.authorization.k8s.io "x" is forbidden: user "system:serviceaccount:team:$(reboot)" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#,
        "--as=system:serviceaccount:NAMESPACE:ACCOUNT",
        "clusterrolebinding",
    ),
    (
        r#"  Warning  FailedCreate  55m (x3 over 55m)  job-controller  Error creating: pods "web-" is forbidden: error looking up service account team/web: serviceaccount "web" not found"#,
        "if it is still missing, apply",
        "try again",
    ),
    // The twelfth try: what containerd lost in a power loss, what multipathd took, and whose server of names is silent.
    // containerd#3369, longhorn#1210, k3s-ansible#378.
    (
        r#"failed to pull and unpack image "a/b:1": failed to unpack image on snapshotter overlayfs: failed to stat parent: stat /var/lib/rancher/k3s/agent/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/112/fs: no such file or directory"#,
        "sudo k3s crictl rmi a/b:1",
        "/snapshots/",
    ),
    (
        "mount: /var/lib/kubelet/pods/2/volumes/kubernetes.io~csi/pvc-6/mount: /dev/longhorn/pvc-6 already mounted or mount point busy",
        "multipathd.socket",
        "local-path",
    ),
    (";; connection timed out; no servers could be reached", "app=kube-dns", "/etc/hosts"),
    // The thirteenth try: who asks for a token, what a pod and the kubeconfig of Rancher trust, which module it is, and
    // whose node was renamed. cert-manager#7112, k3s#104, dashboard#13041, k3s#11166, k3os#718, k3s#103.
    (
        r#"serviceaccounts "dns" is forbidden: User "system:serviceaccount:cert-manager:cert-manager" cannot create resource "serviceaccounts/token" in API group "" in the namespace "team""#,
        "--resource=serviceaccounts/token --resource-name=dns",
        "weaver tenant",
    ),
    (
        r#"serviceaccounts is forbidden: User "system:serviceaccount:team:sync" cannot create resource "serviceaccounts/token" in API group "" in the namespace "team""#,
        "weaver sync explain",
        "kubectl create",
    ),
    (
        "Failed to list *v1.Namespace: Get https://10.43.0.1:443/api/v1/namespaces?limit=500: x509: certificate signed by unknown authority",
        "kube-root-ca.crt",
        "kubeconfig export",
    ),
    (
        r#"Unable to connect to the server: Get "https://rancher.example/k8s/clusters/c-m-1/api": x509: certificate signed by unknown authority"#,
        "in Rancher",
        "kubeconfig export",
    ),
    (
        r#"level=error msg="flannel exited: failed to register flannel network: could not create wireguard interface: operation not supported""#,
        "sudo modprobe wireguard",
        "linux-modules-extra",
    ),
    (
        "error dialing backend: x509: certificate is valid for pi, localhost, not raspi",
        "delete node OLD",
        "restart",
    ),
    (
        "Output: mount: mounting 192.0.2.2:/x on /var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/a failed: Connection refused",
        "nolock",
        "apt",
    ),
    (
        r#"standard_init_linux.go:195: exec user process caused "exec format error""#,
        "a script without `#!`",
        "uname",
    ),
    // A server that was in another cluster, and one that is restored.
    (
        r#"level=fatal msg="/var/lib/rancher/k3s/server/cred/passwd newer than datastore and could cause a cluster outage. Remove the file(s) from disk and restart to be recreated from datastore.""#,
        "keep server/db and server/token",
        "rm ",
    ),
];

#[test]
fn what_to_do_is_of_what_the_line_tells_of() {
    for (line, names, not) in REMEDIES {
        let remedy = judge(line).unwrap().remedy.unwrap();
        let commands: Vec<String> = remedy.commands.iter().map(ToString::to_string).collect();
        let all = format!("{}\n{}", remedy.explain, commands.join("\n"));
        assert!(all.contains(names) && !all.contains(not), "{line}: {all}");
    }
}

/// What the agent reports of k3s' journal is the title without the message.
#[test]
fn a_title_is_true_of_each_line_of_its_code() {
    for (line, id, words) in [
        ("bash: ./k3s: cannot execute binary file: Exec format error", "R-05", "a program"),
        (
            "this node has been removed from the cluster please restart k3s to rejoin the cluster",
            "F-18",
            "membership",
        ),
        ("listen tcp 10.1.2.1:6443: bind: cannot assign requested address", "F-18", "the address"),
    ] {
        let code = judge(line).unwrap().code;
        assert!(code.id() == id && code.title().contains(words), "{line}: {id} {}", code.title());
    }
}

#[test]
fn a_containerd_that_was_killed_may_have_been_stopped() {
    for (line, want) in [
        ("k3s[25386]: containerd: signal: killed", Severity::Warn),
        (r#"level=error msg="containerd exited: signal: killed""#, Severity::Warn),
        ("containerd: exit status 1", Severity::Fail),
        (r#"level=error msg="containerd exited: exit status 2""#, Severity::Fail),
    ] {
        assert_eq!(judge(line).unwrap().severity(), want, "{line}");
    }
}

#[test]
fn an_event_of_a_pod_that_was_not_made_may_be_of_an_account_that_followed() {
    let refused = r#"pods "web-" is forbidden: error looking up service account team/web: serviceaccount "web" not found"#;
    let event = format!("Warning  FailedCreate  55m  job-controller  Error creating: {refused}");
    for (line, want) in [(refused, Severity::Fail), (event.as_str(), Severity::Warn)] {
        assert_eq!(judge(line).unwrap().severity(), want, "{line}");
    }
}

#[test]
fn who_lacks_the_rights_of_a_role_is_said_to_make_it_or_to_bind_it() {
    for (kind, want) in [
        ("clusterroles", "is to make a role"),
        ("rolebindings", "is to bind a role"),
        ("clusterrolebindings", "is to bind a role"),
    ] {
        let line = format!(
            r#"{kind}.rbac.authorization.k8s.io "x" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#
        );
        let message = judge(&line).unwrap().message;
        assert!(message.contains(want), "{line}: {message}");
    }
}

/// Ansible repeats the API server's answer in a text of its own, and so its quotes are escaped twice. kiali#2003
#[test]
fn quotes_that_are_escaped_more_than_once_end_a_name() {
    for escape in ["", r"\", r"\\\"] {
        let line = r#"secrets is forbidden: User "system:serviceaccount:team:ci" cannot create resource "secrets" in API group "" in the namespace "team""#;
        let finding = judge(&line.replace('"', &format!("{escape}\""))).unwrap();
        assert_eq!(
            finding.message, "ServiceAccount team/ci may not create secrets in namespace team",
            "{escape}"
        );
        assert!(finding.remedy.unwrap().commands[0].starts_with("kubectl create role "), "{escape}");
    }
}

/// A Service of the cluster is asked by a pod, and other addresses by others.
#[test]
fn only_a_pod_is_to_be_started_again_for_the_ca_of_the_cluster() {
    for (server, of_a_pod) in [
        ("10.43.0.1:443", true),
        ("10.96.0.1", true),
        ("kubernetes.default.svc", true),
        ("10.43.0.1:6443", false),
        ("kubernetes:6443", false),
        ("kubernetes", false),
        ("pi:6443", false),
    ] {
        let line =
            format!(r#"Get "https://{server}/api/v1/nodes": x509: certificate signed by unknown authority"#);
        let remedy = judge(&line).unwrap().remedy.unwrap();
        let deletes = remedy.commands.iter().any(|command| command.contains("delete pod"));
        assert_eq!(deletes, of_a_pod, "{server}");
    }
}
