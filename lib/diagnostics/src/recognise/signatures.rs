//! The wordings by which others' output is recognised: each code once, with all of its wordings, in order of
//! precedence.
//!
//! They stand here and not in the rows of the catalogue, because between codes the order counts, which the rows do not
//! have, and because a wording may have a reader of the line, which is code; a row is nothing but data. A test
//! names the codes that no one else's output says.

use super::told::Told;
use super::{host, rights, servers, tls};
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
    (Code::ConversionWebhookFailed, &[judged("conversion webhook for ", servers::webhook_fails)]),
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
    (Code::RegistryNotAService, &[judged("services \"", servers::registry_service)]),
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
    // TLS.
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
    // Registries.
    (Code::RegistryPlainHttp, &[tells("server gave http response to https client", servers::plain_http)]),
    (Code::ImageWithoutRegistry, &[judged("docker.io/library/", servers::image_without_registry)]),
    // Connections.
    (
        Code::NameNotFound,
        &[
            tells("no such host", servers::not_found),
            tells("could not resolve host", servers::not_found),
            tells("failed to lookup address information", servers::not_found),
        ],
    ),
    (Code::KubeconfigFallback, &[judged("localhost:8080", servers::fallback_server)]),
    (
        Code::KubeconfigUnspecified,
        &[
            judged("0.0.0.0:", servers::listening_address),
            judged("the connection to the server 127.", servers::this_machine),
            judged("the connection to the server localhost:", servers::this_machine),
            judged("the connection to the server [::1]:", servers::this_machine),
        ],
    ),
    (Code::ConnectionRefused, &[judged("the connection to the server ", servers::refused)]),
    // The host.
    (
        Code::MemoryCgroupAbsent,
        &[
            says("failed to find memory cgroup"),
            judged("failed to find cpuset cgroup", host::controller),
            judged("failed to find cpu cgroup", host::controller),
            judged("missing required cgroups: ", host::controller),
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
        ],
    ),
    (
        Code::CardFails,
        &[
            judged("read-only file system", host::read_only),
            says("remounting filesystem read-only"),
            judged("i/o error, dev ", host::device_fails),
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
            tells("slow sql", host::slow_database),
        ],
    ),
    (Code::ClockBeforeFloor, &[says("server time isn't set properly")]),
];
