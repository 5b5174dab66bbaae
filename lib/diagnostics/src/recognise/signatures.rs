//! What is looked for, in order of precedence.

use super::{Told, host, rights, servers, tls};
use crate::finding::Code;

/// An error that prints itself.
pub(super) struct Signature {
    pub code: Code,
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

impl Signature {
    /// What the line says in particular, if it is this error.
    pub fn read(&self, line: &str) -> Option<Told> {
        match self.reader {
            Reader::AsItIs => Some(Told::default()),
            Reader::Tells(read) => Some(read(line)),
            Reader::Judges(read) => read(line),
        }
    }
}

const fn says(code: Code, needle: &'static str) -> Signature {
    Signature { code, needle, reader: Reader::AsItIs }
}

const fn tells(code: Code, needle: &'static str, read: fn(&str) -> Told) -> Signature {
    Signature { code, needle, reader: Reader::Tells(read) }
}

const fn judged(code: Code, needle: &'static str, read: fn(&str) -> Option<Told>) -> Signature {
    Signature { code, needle, reader: Reader::Judges(read) }
}

pub(super) const SIGNATURES: &[Signature] = &[
    // They wrap errors of every other kind.
    judged(Code::ConversionWebhookFailed, "conversion webhook for ", servers::webhook_fails),
    judged(Code::K3dNodeRestarting, "is restarting for more than a minute", servers::k3d_node),
    judged(Code::K3dNodeRestarting, "failed to get ready", servers::k3d_node),
    judged(Code::K3dNodeRestarting, "failed waiting for log message", servers::k3d_node),
    // What a person types.
    judged(Code::ScopeImmutable, "spec.scope: invalid value", rights::field_is_immutable),
    says(Code::TokenRequestNotAKind, "no matches for kind \"tokenrequest\""),
    says(Code::TokenRequestNotAKind, "a resource type \"tokenrequest"),
    says(Code::CascadeOrphanDeletes, "\"orphan\" not found"),
    judged(Code::RegistryNotAService, "services \"", servers::registry_service),
    says(Code::SanFlagRefused, "flag provided but not defined: -tls-san"),
    says(Code::SanFlagRefused, "unknown flag --tls-san"),
    says(Code::SanFlagRefused, "unknown flag: --tls-san"),
    says(
        Code::KubeconfigInsecureWithCa,
        "specifying a root certificates file with the insecure flag is not allowed",
    ),
    says(Code::KubeconfigUnreadable, "k3s.yaml: permission denied"),
    says(Code::KubeconfigUnreadable, "unable to read /etc/rancher/k3s/k3s.yaml"),
    // Rights.
    tells(Code::MintingForbidden, "cannot create resource \"serviceaccounts/token\"", rights::minting),
    judged(Code::RightMissing, "system:serviceaccount:", rights::missing),
    says(Code::TokenTooShort, "may not specify a duration less than 10 minutes"),
    // Objects.
    says(Code::FinalizerWaits, "finalizers remaining: weaver.example.com/"),
    says(Code::OwnerInOtherNamespace, "ownerrefinvalidnamespace"),
    // TLS.
    judged(Code::NameNotInCertificate, "certificate is valid for ", tls::mismatch),
    judged(Code::NameNotInCertificate, "certificate is not valid for ", tls::mismatch),
    judged(Code::NameNotInCertificate, "cannot validate certificate for ", tls::mismatch),
    judged(Code::NameNotInCertificate, "certificate not valid for name", tls::mismatch),
    judged(Code::NameNotInCertificate, "invalid peer certificate: notvalidforname", tls::mismatch),
    judged(Code::NameNotInCertificate, "alternative certificate subject name matches target", tls::mismatch),
    tells(Code::CertificateDates, "certificate has expired", tls::dates),
    tells(Code::CertificateDates, "certificate expired", tls::dates),
    tells(Code::CertificateDates, "certificate is not yet valid", tls::dates),
    tells(Code::CertificateDates, "certificate not valid yet", tls::dates),
    tells(Code::CertificateDates, "invalid peer certificate: expired", tls::dates),
    tells(Code::CertificateUntrusted, "certificate signed by unknown authority", tls::untrusted),
    tells(Code::CertificateUntrusted, "invalid peer certificate: unknownissuer", tls::untrusted),
    tells(Code::CertificateUntrusted, "self-signed certificate in certificate chain", tls::untrusted),
    tells(Code::CertificateUntrusted, "unable to get local issuer certificate", tls::untrusted),
    // Registries.
    tells(Code::RegistryPlainHttp, "server gave http response to https client", servers::plain_http),
    judged(Code::ImageWithoutRegistry, "docker.io/library/", servers::image_without_registry),
    // Connections.
    tells(Code::NameNotFound, "no such host", servers::not_found),
    tells(Code::NameNotFound, "could not resolve host", servers::not_found),
    tells(Code::NameNotFound, "failed to lookup address information", servers::not_found),
    judged(Code::KubeconfigFallback, "localhost:8080", servers::fallback_server),
    judged(Code::KubeconfigUnspecified, "0.0.0.0:", servers::listening_address),
    judged(Code::KubeconfigUnspecified, "the connection to the server 127.", servers::this_machine),
    judged(Code::KubeconfigUnspecified, "the connection to the server localhost:", servers::this_machine),
    judged(Code::KubeconfigUnspecified, "the connection to the server [::1]:", servers::this_machine),
    judged(Code::ConnectionRefused, "the connection to the server ", servers::refused),
    // The host.
    says(Code::MemoryCgroupAbsent, "failed to find memory cgroup"),
    judged(Code::MemoryCgroupAbsent, "failed to find cpuset cgroup", host::controller),
    judged(Code::MemoryCgroupAbsent, "failed to find cpu cgroup", host::controller),
    judged(Code::MemoryCgroupAbsent, "missing required cgroups: ", host::controller),
    says(Code::CgroupV1Refused, "configured to not run on a host using cgroup v1"),
    judged(Code::CgroupV1Refused, "cgroup v1 support is unsupported", host::cgroup_v1),
    says(Code::JoinNameTaken, "node password rejected"),
    says(Code::NoDefaultRoute, "no default routes found"),
    says(Code::NoDefaultRoute, "unable to find default route"),
    says(Code::NoDefaultRoute, "unable to select an ip from default routes"),
    says(Code::UnderVoltage, "undervoltage detected"),
    says(Code::UnderVoltage, "under-voltage detected"),
    judged(Code::UnderVoltage, "throttled=0x", host::throttled),
    judged(Code::CardFails, "read-only file system", host::read_only),
    says(Code::CardFails, "remounting filesystem read-only"),
    judged(Code::CardFails, "i/o error, dev ", host::device_fails),
    judged(Code::DiskPressure, "no space left on device", host::full),
    judged(Code::DiskPressure, "node.kubernetes.io/disk-pressure", host::tainted),
    judged(Code::DiskPressure, "resourcename=\"ephemeral-storage\"", host::evicting),
    says(Code::LeaseLost, "leaderelection lost"),
    says(Code::LeaseLost, "failed to renew lease"),
    says(Code::LeaseLost, "leader election lost"),
    tells(Code::LeaseLost, "slow sql", host::slow_database),
    says(Code::ClockBeforeFloor, "server time isn't set properly"),
];
