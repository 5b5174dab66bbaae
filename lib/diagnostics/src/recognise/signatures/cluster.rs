//! What k3s says of its start, its files, its datastore and of joining; what the cluster says of pods that wait.

use crate::finding::Code;
use crate::recognise::wording::{Wording, judged, repeated, says, tells};
use crate::recognise::{bolt, datastore, join, pods, registries, settings, slow, start};

pub(super) const ALL: &[(Code, &[Wording])] = &[
    (
        Code::JoinNameTaken,
        &[
            says("node password rejected"),
            says("duplicate node name found, please use a unique name for this node"),
            tells("unable to verify hash for node", join::name_taken),
            tells("unable to verify password for node", join::name_taken),
            tells("node password validation failed for ", join::name_taken),
            judged(".crt: 403 forbidden", join::node_forbidden),
        ],
    ),
    (
        Code::ServerAddressChanged,
        &[
            says("is a not a member of the etcd cluster"),
            says("this server is not a member of the etcd cluster"),
            judged("bind: cannot assign requested address", start::not_its_address),
            tells("failed to find interface with specified node ip", start::node_ip_gone),
            tells("not found in the host's network interfaces", start::node_ip_gone),
            tells("the member has been permanently removed from the cluster", datastore::removed),
            tells("this node has been removed from the cluster please restart", datastore::removed),
        ],
    ),
    (
        Code::JoinTokenRefused,
        &[
            judged("401 unauthorized", join::refused),
            judged("not authorized", join::refused),
            judged("invalid token format", join::malformed),
            judged("invalid token ca hash length", join::malformed),
            tells("failed to normalize server token", join::own_token),
            tells("failed to normalize token", join::own_token),
            judged("invalid username/password combination", join::other_token),
            judged("--token is required", settings::no_token),
            judged("but k3s_token or k3s_token_file is not defined", settings::no_token),
        ],
    ),
    (
        Code::JoinServerSilent,
        &[
            judged("failed to validate connection to cluster at https://", join::silent),
            judged("failed to get ca certs: get ", join::no_answer),
            judged("ca cert validation failed: get ", join::no_answer),
            repeated("failed to get ca certs: get \"https://127.0.0.1:", 3, join::no_answer_here),
            repeated("failed to retrieve configuration from server: get ", 2, join::no_answer_here),
            repeated("server is not ready: get \"https://", 2, join::not_ready),
            judged("failed to connect to proxy", join::tunnel_silent),
            repeated(join::TUNNEL_REFUSED[0], 3, join::tunnel_refused),
            repeated(join::TUNNEL_REFUSED[1], 3, join::tunnel_refused),
        ],
    ),
    (
        Code::DatastoreTokenDiffers,
        &[
            says("bootstrap data already found and encrypted with different token"),
            says("bootstrap data already found and encrypted with a different token"),
            says("no bootstrap data found in datastore - check server token value"),
            judged("cipher: message authentication failed", start::of_the_datastore),
            tells("newer than datastore and could cause", settings::newer_than_the_datastore),
        ],
    ),
    (
        Code::PortTaken,
        &[
            judged("ports are not available: exposing port tcp ", start::port_of_docker_desktop),
            judged("address already in use", start::port_taken),
            judged("failed: port is already allocated", start::port_allocated),
            judged("failed to bind host port ", start::port_not_bound),
            judged("[error port-", start::port_of_kubeadm),
        ],
    ),
    (
        Code::K3sConfigWrongType,
        &[
            judged("invalid value \"", start::wrong_value),
            judged("invalid argument \"", start::wrong_value),
            judged("cannot unmarshal ", start::wrong_type),
            tells("critical configuration mismatched: ", settings::differs),
            tells("critical configuration value mismatch", settings::differs),
            judged("must share the same ip version", settings::families),
            judged("only https:// urls are supported", settings::server_url),
            judged("invalid server url, failed to parse: ", settings::server_url),
        ],
    ),
    (
        Code::K3sFileUnreadable,
        &[
            judged("/etc/rancher/", start::unreadable),
            judged("/var/lib/rancher", start::unreadable),
            judged("failed at step exec spawning ", start::not_executable),
        ],
    ),
    (
        Code::ContainerdTemplateFault,
        &[
            judged("cannot be set when ", start::containerd_mirrors),
            says("failed to load toml"),
            says("template: compiled_template:"),
        ],
    ),
    (
        Code::RegistriesWithoutEffect,
        &[
            tells("ignoring invalid endpoint url ", registries::invalid_endpoint),
            tells("skipping duplicate endpoint url ", registries::same_endpoint),
            tells("failed to generate config for registry ", registries::not_generated),
            tells("but not present in the rendered containerd config", registries::without_auth),
            tells("failed to decode hosts.toml", registries::hosts_file),
            judged("registries.yaml: object 'kind' is missing", registries::among_manifests),
        ],
    ),
    (
        Code::KubeletConfigFault,
        &[
            judged("failed to load kubelet config file", start::kubelet_file),
            says("failed to load kubelet dropin file"),
            judged("failed to validate kubelet configuration", start::kubelet_refuses_configuration),
            tells("[invalid kernel flag: ", start::kernel_parameter),
        ],
    ),
    (
        Code::SettingMisspelled,
        &[
            judged("unknown flag ", start::unknown_flag),
            judged("flag provided but not defined: -", start::undefined_flag),
            tells("failed to parse kubelet flag: unknown flag", start::unknown_kubelet_flag),
        ],
    ),
    (
        Code::K3sConfigInvalid,
        &[
            says("level=fatal msg=\"yaml: "),
            says("fata[0000] yaml: "),
            says("failed to parse config file: yaml: "),
            judged("failed to parse config location ", start::config_location),
        ],
    ),
    (
        Code::DatastoreDamaged,
        &[
            judged("database disk image is malformed", start::of_kine),
            judged("file is not a database", start::of_kine),
            says("wal: crc mismatch"),
            says("walpb: crc mismatch"),
            says("snap: crc mismatch"),
            judged("snap file is corrupt", start::of_etcd),
            judged("wal: file not found", start::of_etcd),
            judged("snap: snapshot file doesn't exist", start::of_etcd),
            says("failed to recover v3 backend from snapshot"),
            judged("freepages: failed to get all reachable pages", bolt::of_etcd),
            judged("page expected to be: ", bolt::of_etcd),
            judged("panic: invalid page type: ", bolt::of_etcd),
            says("was the raft log corrupted, truncated, or lost"),
            judged("io: load closed segment ", start::of_dqlite),
        ],
    ),
    (
        Code::DnsLoops,
        &[
            says("plugin/loop: loop ("),
            says("plugin/loop: seen \"hinfo"),
            says("forwarding loop detected in \""),
        ],
    ),
    (
        Code::VolumeWaits,
        &[
            says("unbound immediate persistentvolumeclaims"),
            says("persistentvolumeclaim is not bound: "),
            judged(
                "waiting for a volume to be created either by the external provisioner",
                pods::still_waits,
            ),
            says("no persistent volumes available for this claim and no storage class is set"),
            says("nodepath only supports readwriteonce"),
            says("only support readwriteonce access mode"),
            says("local-path does not support block volume provisioning"),
            tells(": create process timeout after ", pods::helper_pod),
            judged("persistentvolumeclaim \"", pods::claim_gone),
            judged("storageclass.storage.k8s.io \"", pods::class_gone),
            tells("didn't find available persistent volumes to bind", pods::other_node),
            tells("didn't match persistentvolume's node affinity", pods::other_node),
            tells("had volume node affinity conflict", pods::other_node),
            judged("you might need a /sbin/mount.", pods::without_mount_helper),
            judged("mount.nfs: ", pods::nfs_fails),
            tells("multi-attach error for volume ", pods::attached_elsewhere),
        ],
    ),
    (
        Code::PodDoesNotFit,
        &[
            judged("insufficient memory", pods::does_not_fit),
            judged("insufficient cpu", pods::does_not_fit),
            judged("too many pods", pods::does_not_fit),
            judged("insufficient pods", pods::does_not_fit),
            judged("didn't have free ports for the requested pod ports", pods::ports),
            tells("node didn't have enough resource: ", pods::not_enough),
        ],
    ),
    (
        Code::EtcdWithoutQuorum,
        &[
            tells("etcdserver: no leader", datastore::no_leader),
            tells("etcdserver: unhealthy cluster", datastore::not_added),
            tells("re-configuration failed due to not enough started members", datastore::not_added),
            tells("publish error: etcdserver: request timed out", datastore::not_published),
            tells("failed to publish local member to cluster through raft", datastore::not_published),
            repeated(datastore::ELECTS, 5, datastore::elects),
            repeated("prober detected unhealthy status", 3, datastore::peer),
            repeated("health check for peer ", 3, datastore::peer),
        ],
    ),
    (
        Code::LeaseLost,
        &[
            says("leaderelection lost"),
            judged("failed to renew lease ", slow::lease),
            says("leader election lost"),
            judged("slow sql", slow::database),
            judged("apply request took too long", slow::etcd),
            judged("slow fdatasync", slow::etcd),
            judged("failed to send out heartbeat on time", slow::heartbeat),
            repeated("rpc error: code = unknown desc = database is locked", 2, slow::locked),
            repeated(": database is locked", 3, slow::locked_for_kine),
            says("etcdserver: leader changed"),
            says("etcdserver: request timed out"),
            judged("not yet ready to handle request", slow::not_ready),
            repeated("error retrieving resource lock", 2, slow::lock),
            repeated("failed to update lock: put ", 2, slow::lock),
        ],
    ),
    (
        Code::ApiServerSlow,
        &[
            judged("total time: ", slow::trace),
            says("the server was unable to return a response in the time allotted"),
            says("request did not complete within requested timeout"),
            says("apiserver exited: context deadline exceeded"),
            judged("starting tls server: get ", slow::first_request),
        ],
    ),
];
