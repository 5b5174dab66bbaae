use super::*;

/// A flag, its value, and where k3s does not take it: whether k3s stops, and the beginning of what to write instead.
type FaultCase = (&'static str, &'static str, Option<(bool, &'static str)>);

fn judged_as(cases: &[FaultCase]) {
    for &(flag, text, want) in cases {
        let found = fault(flag, text);
        assert_eq!(found.is_some(), want.is_some(), "{flag} {text}");
        if let (Some(found), Some((stops, wanted))) = (found, want) {
            assert!(found.stops == stops && found.wanted.starts_with(wanted), "{flag} {text}: {found:?}");
        }
    }
}

#[test]
fn values_that_k3s_does_not_take() {
    judged_as(&[
        ("flannel-backend", "ipsec", Some((true, "wireguard-native"))),
        ("flannel-backend", "vxlna", Some((true, "vxlan, host-gw"))),
        ("flannel-backend", "wireguard-native", None),
        ("flannel-backend", "", None),
        ("secrets-encryption-provider", "aesgcm", Some((true, "aescbc or secretbox"))),
        ("secrets-encryption-provider", "aescbc", None),
        ("node-ip", "raspberrypi.local", Some((true, "an IP address"))),
        ("node-ip", "10.0.0.2/24", Some((true, "an IP address"))),
        ("node-ip", "10.0.0.2,fd00::2", None),
        ("node-ip", "127.0.0.1", Some((false, "an address of this machine at which other nodes"))),
        ("node-ip", "fd00::2,::1", Some((false, "an address of this machine at which other nodes"))),
        ("etcd-snapshot-schedule-cron", "*/22****", Some((false, "five fields of cron"))),
        ("etcd-snapshot-schedule-cron", "0 0 24 * * *", Some((false, "five fields of cron"))),
        ("etcd-snapshot-schedule-cron", "0 24 * * *", Some((false, "five fields of cron"))),
        ("etcd-snapshot-schedule-cron", "*/0 * * * *", Some((false, "five fields of cron"))),
        ("etcd-snapshot-schedule-cron", "0 */12 * * *", None),
        ("etcd-snapshot-schedule-cron", "TZ=Europe/Berlin 5,35 1-6/2 ? jan-MAR mon-fri", None),
        ("etcd-snapshot-schedule-cron", "@every 6h", None),
        ("node-external-ip", "pi", Some((true, "an IP address"))),
        ("server", "10.0.0.2:6443", Some((true, "a URL with https://"))),
        ("server", "http://pi:6443", Some((true, "a URL with https://"))),
        ("server", "https://pi:6443", None),
        ("server", "https://[fd00::1]:6443", None),
        ("server", "https://<MASTER_IP>:6443", Some((false, "a URL with a name or an address as its host"))),
        (
            "server",
            "https://${K3S_SERVER}:6443",
            Some((false, "a URL with a name or an address as its host")),
        ),
        ("server", "https://192.168.1.10", Some((false, "a URL with the port of the API server"))),
        ("server", "https://[fd00::1]/", Some((false, "a URL with the port of the API server"))),
        ("snapshotter", "overlay2", Some((true, "overlayfs"))),
        ("snapshotter", "overlayfs", None),
        ("snapshotter", "native", None),
        (
            "disable",
            "klipper-lb",
            Some((false, "names of packaged components, and klipper-lb is not one: is servicelb")),
        ),
        (
            "disable",
            "traefik,metrics",
            Some((false, "names of packaged components, and metrics is not one: is metrics-s")),
        ),
        (
            "disable",
            "ingress",
            Some((false, "names of packaged components, and ingress is not one: is traefik meant")),
        ),
        ("disable", "ingress-nginx", None),
        ("node-label", "a b=c", Some((true, "NAME=VALUE without spaces"))),
        ("node-label", "room=living room", Some((true, "NAME=VALUE without spaces"))),
        ("node-label", "a = b, c=d", None),
        ("disable", "flannel", Some((false, "names of packaged components, and flannel is not one"))),
        ("disable", "traefik,kube-proxy", Some((false, "names of packaged components, and kube-proxy"))),
        ("disable", "traefik,my-manifest", None),
        ("disable", "true", Some((false, "names of packaged components, and k3s knows none"))),
        (
            "disable",
            "treafik",
            Some((false, "names of packaged components, and treafik is not one: is traefik")),
        ),
        (
            "disable",
            "metric-server",
            Some((false, "names of packaged components, and metric-server is not one")),
        ),
        (
            "disable",
            "local_storage",
            Some((false, "names of packaged components, and local_storage is not one")),
        ),
        ("disable", "traefik2,ccm,coredns", None),
        (
            "node-label",
            "node-role.kubernetes.io/worker=true",
            Some((true, "a label outside of kubernetes.io")),
        ),
        ("node-label", "a=b,x.k8s.io/y=z", Some((true, "a label outside of kubernetes.io"))),
        ("node-label", "node.kubernetes.io/speed=slow", None),
        ("node-label", "topology.kubernetes.io/zone=attic", None),
        ("node-label", "example.com/role=db", None),
        ("node-label", "role", None),
        ("node-taint", "dedicated=x", Some((true, "KEY=VALUE:EFFECT"))),
        ("node-taint", "dedicated=x:noschedule", Some((true, "KEY=VALUE:EFFECT"))),
        ("node-taint", "CriticalAddonsOnly=true:NoExecute", None),
        ("node-taint", "dedicated:NoSchedule", None),
        ("cluster-cidr", "10.42.0.0", Some((true, "a network with its prefix length"))),
        ("service-cidr", "10.43.0.0/16,2001:db8::/112", None),
    ]);
}

#[test]
fn datastores_that_k3s_does_not_take() {
    judged_as(&[
        (
            "datastore-endpoint",
            "mysql://k3s:hunter2@192.168.1.9:3306/k3s",
            Some((true, "an address in the form")),
        ),
        ("datastore-endpoint", "mysql://k3s:a@b/c@tcp(192.168.1.9:3306)/k3s", None),
        ("datastore-endpoint", "mysql://root@unix(/run/mysqld/mysqld.sock)/k3s", None),
        ("datastore-endpoint", "mysql://", None),
        ("datastore-endpoint", "mysql://k3s:hunter2@tcp/k3s", None),
        ("datastore-endpoint", "mysql://k3s:hunter2@tcp(h:3306)", Some((true, "an address in the form"))),
        ("datastore-endpoint", "postgres://u:p@h:5432/k3s", None),
        ("token", "hunter2", None),
    ]);
}

#[test]
fn the_families_of_networks() {
    assert_eq!(families(&["10.42.0.0/16,2001:db8::/56"]), Some((true, true)));
    assert_eq!(families(&["10.42.0.0/16", "10.43.0.0/16"]), Some((true, false)));
    assert_eq!(families(&["pods"]), None);
    assert_eq!(families(&[]), None);
}

#[test]
fn addresses_in_networks() {
    for (address, networks, want) in [
        ("10.43.0.10", "10.43.0.0/16", Some(true)),
        ("10.96.0.10", "10.43.0.0/16", Some(false)),
        ("10.43.0.10", "10.43.0.0/16,2001:db8::/112", Some(true)),
        ("2001:db8::a", "10.43.0.0/16,2001:db8::/112", Some(true)),
        ("2001:db8:1::a", "10.43.0.0/16,2001:db8::/112", Some(false)),
        ("2001:db8::a", "10.43.0.0/16", None),
        ("pi", "10.43.0.0/16", None),
        ("10.43.0.10", "10.43.0.0", None),
    ] {
        assert_eq!(is_within(address, networks), want, "{address} {networks}");
    }
}
