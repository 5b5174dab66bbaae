//! The wordings by which others' output is recognised: each code once, with all of its wordings, in order of
//! precedence.
//!
//! They stand here and not in the rows of the catalogue, because between codes the order counts, which the rows do not
//! have, and because a wording may have a reader of the line, which is code; a row is nothing but data. A test
//! names the codes that no one else's output says.

use super::told::Told;
use super::{host, images, rights, servers, tls, webhooks};
use crate::finding::Code;

/// What an error that prints itself looks like.
pub(super) struct Wording {
    /// Text that a line with it has, in whatever case.
    pub needle: &'static str,
    reader: Reader,
}

/// What to make of a line that has the needle.
enum Reader {
    /// The needle alone says it.
    AsItIs,
    /// The line has particulars.
    Tells(fn(&str) -> Told),
    /// It may be something else after all.
    Judges(fn(&str) -> Option<Told>),
}

impl Wording {
    /// What the line says in particular, if it is this error.
    pub fn read(&self, line: &str) -> Option<Told> {
        match self.reader {
            Reader::AsItIs => Some(Told::default()),
            Reader::Tells(read) => Some(read(line)),
            Reader::Judges(read) => read(line),
        }
    }
}

const fn says(needle: &'static str) -> Wording {
    Wording { needle, reader: Reader::AsItIs }
}

const fn tells(needle: &'static str, read: fn(&str) -> Told) -> Wording {
    Wording { needle, reader: Reader::Tells(read) }
}

const fn judged(needle: &'static str, read: fn(&str) -> Option<Told>) -> Wording {
    Wording { needle, reader: Reader::Judges(read) }
}

/// Each wording with its code, in order of precedence.
pub(super) fn wordings() -> impl Iterator<Item = (Code, &'static Wording)> {
    SIGNATURES.iter().flat_map(|(code, wordings)| wordings.iter().map(|wording| (*code, wording)))
}

pub(super) const SIGNATURES: &[(Code, &[Wording])] = &[
    // They wrap errors of every other kind.
    (Code::ConversionWebhookFailed, &[judged("conversion webhook for ", webhooks::ours)]),
    (
        Code::OtherWebhookFailed,
        &[
            judged("conversion webhook for ", webhooks::conversion_of_others),
            judged("failed calling webhook \"", webhooks::admission),
        ],
    ),
    (
        Code::K3dNodeRestarting,
        &[
            judged("is restarting for more than a minute", servers::k3d_node),
            judged("failed to get ready", servers::k3d_node),
            judged("failed waiting for log message", servers::k3d_node),
        ],
    ),
    (
        Code::ContainerEngineUnreadable,
        &[
            says("cannot connect to the docker daemon"),
            says("connect to the docker daemon socket"),
            says("connect to the docker api at"),
        ],
    ),
    (
        Code::K3dClusterMissing,
        &[says("no nodes found for given cluster"), says("no nodes found for cluster '")],
    ),
    // What a person types.
    (Code::ScopeImmutable, &[judged("spec.scope: invalid value", rights::field_is_immutable)]),
    (
        Code::TokenRequestNotAKind,
        &[says("no matches for kind \"tokenrequest\""), says("a resource type \"tokenrequest")],
    ),
    (Code::CascadeOrphanDeletes, &[says("\"orphan\" not found")]),
    (Code::RegistryNotAService, &[judged("services \"", images::registry_service)]),
    (
        Code::SanFlagRefused,
        &[
            says("flag provided but not defined: -tls-san"),
            says("unknown flag --tls-san"),
            says("unknown flag: --tls-san"),
        ],
    ),
    (
        Code::KubeconfigInsecureWithCa,
        &[says("specifying a root certificates file with the insecure flag is not allowed")],
    ),
    (
        Code::KubeconfigUnreadable,
        &[says("k3s.yaml: permission denied"), says("unable to read /etc/rancher/k3s/k3s.yaml")],
    ),
    // Rights.
    (Code::MintingForbidden, &[tells("cannot create resource \"serviceaccounts/token\"", rights::minting)]),
    (Code::RightMissing, &[judged("system:serviceaccount:", rights::missing)]),
    (Code::TokenTooShort, &[says("may not specify a duration less than 10 minutes")]),
    // Objects.
    (Code::FinalizerWaits, &[says("finalizers remaining: weaver.example.com/")]),
    (Code::OwnerInOtherNamespace, &[says("ownerrefinvalidnamespace")]),
    // A client's credentials, before its certificate is taken for a server's.
    (
        Code::CredentialsRefused,
        &[
            judged("unable to authenticate the request", tls::of_a_client),
            says("you must be logged in to the server"),
            says("the server has asked for the client to provide credentials"),
        ],
    ),
    // TLS: first of registries, whose certificates are not k3s'.
    (Code::RegistryCertificateUntrusted, &[judged("x509: ", images::certificate)]),
    (
        Code::NameNotInCertificate,
        &[
            judged("certificate is valid for ", tls::mismatch),
            judged("certificate is not valid for ", tls::mismatch),
            judged("cannot validate certificate for ", tls::mismatch),
            judged("certificate not valid for name", tls::mismatch),
            judged("invalid peer certificate: notvalidforname", tls::mismatch),
            judged("alternative certificate subject name matches target", tls::mismatch),
        ],
    ),
    (
        Code::CertificateDates,
        &[
            tells("certificate has expired", tls::dates),
            tells("certificate expired", tls::dates),
            tells("certificate is not yet valid", tls::dates),
            tells("certificate not valid yet", tls::dates),
            tells("invalid peer certificate: expired", tls::dates),
        ],
    ),
    (
        Code::CertificateUntrusted,
        &[
            tells("certificate signed by unknown authority", tls::untrusted),
            tells("invalid peer certificate: unknownissuer", tls::untrusted),
            tells("self-signed certificate in certificate chain", tls::untrusted),
            tells("unable to get local issuer certificate", tls::untrusted),
        ],
    ),
    // Images, then registries.
    (
        Code::ImageForOtherProcessor,
        &[
            says("no match for platform in manifest"),
            says("no matching manifest for linux/"),
            says("exec format error"),
            says("does not match the specified platform"),
            says("does not match the detected host platform"),
        ],
    ),
    (
        Code::ImagePullsLimited,
        &[
            says("you have reached your pull rate limit"),
            says("you have reached your unauthenticated pull rate limit"),
            judged("toomanyrequests", images::too_many),
            judged("429 too many requests", images::too_many),
        ],
    ),
    (Code::ImageWithoutRegistry, &[judged("docker.io/library/", images::without_registry)]),
    (
        Code::RegistryAccessDenied,
        &[
            says("pull access denied"),
            says("no basic auth credentials"),
            says("requested access to the resource is denied"),
            judged("401 unauthorized", images::denied),
            judged("403 forbidden", images::denied),
            judged("unauthorized: authentication required", images::denied),
            judged("insufficient_scope: authorization failed", images::denied),
        ],
    ),
    (
        Code::ImageNotFound,
        &[
            says("manifest unknown"),
            says("repository name not known to registry"),
            judged("failed to resolve reference \"", images::not_found),
            judged("not found in repository ", images::tag_not_found),
        ],
    ),
    (Code::ServerPlainHttp, &[judged("server gave http response to https client", servers::plain_http)]),
    (Code::RegistryPlainHttp, &[judged("server gave http response to https client", images::plain_http)]),
    (Code::RegistryUnreachable, &[judged("/v2/", images::unreachable)]),
    // Connections.
    (
        Code::NameNotFound,
        &[
            tells("no such host", servers::not_found),
            tells("could not resolve host", servers::not_found),
            tells("failed to lookup address information", servers::not_found),
        ],
    ),
    (
        Code::KubeconfigFallback,
        &[
            judged("localhost:8080", servers::fallback_server),
            says("no configuration has been provided, try setting kubernetes_master"),
        ],
    ),
    (
        Code::KubeconfigUnspecified,
        &[
            judged("0.0.0.0:", servers::listening_address),
            judged("the connection to the server 127.", servers::this_machine),
            judged("the connection to the server localhost:", servers::this_machine),
            judged("the connection to the server [::1]:", servers::this_machine),
        ],
    ),
    (
        Code::ConnectionRefused,
        &[
            judged("the connection to the server ", servers::refused),
            judged("connect: connection refused", servers::refused_to_client),
        ],
    ),
    // The host.
    (
        Code::MemoryCgroupAbsent,
        &[
            says("failed to find memory cgroup"),
            judged("failed to find cpuset cgroup", host::controller),
            judged("failed to find cpu cgroup", host::controller),
            judged("missing required cgroups: ", host::controller),
            says("cgroup subsystem not mounted: [memory]"),
        ],
    ),
    (
        Code::CgroupV1Refused,
        &[
            says("configured to not run on a host using cgroup v1"),
            judged("cgroup v1 support is unsupported", host::cgroup_v1),
        ],
    ),
    (Code::JoinNameTaken, &[says("node password rejected")]),
    (Code::JoinOtherServer, &[says("token ca hash does not match the cluster ca certificate hash")]),
    (
        Code::DatastoreTokenDiffers,
        &[
            says("bootstrap data already found and encrypted with different token"),
            says("bootstrap data already found and encrypted with a different token"),
            says("cipher: message authentication failed"),
        ],
    ),
    (
        Code::K3sConfigInvalid,
        &[says("level=fatal msg=\"yaml: "), says("failed to parse config file: yaml: ")],
    ),
    (
        Code::DatastoreDamaged,
        &[
            says("database disk image is malformed"),
            says("wal: crc mismatch"),
            says("walpb: crc mismatch"),
            says("freepages: failed to get all reachable pages"),
        ],
    ),
    (
        Code::VolumeWaits,
        &[
            says("unbound immediate persistentvolumeclaims"),
            says("no persistent volumes available for this claim and no storage class is set"),
            says("nodepath only supports readwriteonce"),
            says("only support readwriteonce access mode"),
        ],
    ),
    (
        Code::ModuleMissing,
        &[
            judged("modprobe: fatal: module ", host::module),
            says("can't initialize iptables table"),
            judged("vxlan", host::no_vxlan),
        ],
    ),
    (
        Code::ClocksDiffer,
        &[says("prober found high clock drift"), says("the clock difference against peer ")],
    ),
    (
        Code::OutOfMemory,
        &[
            tells("out of memory: killed process ", host::out_of_memory),
            tells("oom-kill:constraint=", host::out_of_memory),
            tells("system oom encountered, victim process", host::out_of_memory),
        ],
    ),
    (Code::PodEvicted, &[says("the node was low on resource: ")]),
    // The kernel names a process first, which may be called as an error is.
    (Code::CardSlow, &[judged("blocked for more than ", host::stuck)]),
    (
        Code::NoDefaultRoute,
        &[
            says("no default routes found"),
            says("unable to find default route"),
            says("unable to select an ip from default routes"),
        ],
    ),
    (
        Code::UnderVoltage,
        &[
            says("undervoltage detected"),
            says("under-voltage detected"),
            judged("throttled=0x", host::throttled),
            says("cpu clock throttled"),
            says("critical temperature reached"),
        ],
    ),
    (
        Code::CardFails,
        &[
            judged("read-only file system", host::read_only),
            says("remounting filesystem read-only"),
            judged("i/o error, dev ", host::device_fails),
            judged(": error -", host::card_error),
            says("timeout waiting for hardware interrupt"),
            says("ext4-fs error (device "),
            judged("buffer i/o error on dev", host::buffer_fails),
            judged(": recovery failed!", host::of_card),
            judged(": card stuck being busy", host::of_card),
            judged(": card never left busy state", host::of_card),
            judged(": cache flush error", host::of_card),
            says("uas_eh_abort_handler"),
            says("uas_eh_device_reset_handler start"),
        ],
    ),
    (
        Code::DiskPressure,
        &[
            judged("no space left on device", host::full),
            judged("node.kubernetes.io/disk-pressure", host::tainted),
            judged("resourcename=\"ephemeral-storage\"", host::evicting),
        ],
    ),
    (
        Code::LeaseLost,
        &[
            says("leaderelection lost"),
            says("failed to renew lease"),
            says("leader election lost"),
            judged("slow sql", host::slow_database),
        ],
    ),
    (Code::ClockBeforeFloor, &[says("server time isn't set properly")]),
    // Last: who waits for an answer says little of why.
    (
        Code::ServerSilent,
        &[
            judged("tls handshake timeout", servers::silent),
            judged("i/o timeout", servers::silent),
            judged("no route to host", servers::silent),
            judged("context deadline exceeded", servers::silent),
            judged("client.timeout exceeded while awaiting headers", servers::silent),
        ],
    ),
];
