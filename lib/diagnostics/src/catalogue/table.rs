//! Which entry is whose. A code without one does not compile.

#![allow(clippy::enum_glob_use, reason = "all of them are here")]

use super::{Entry, cluster, connection, host, join, k3s, node, tls};
use crate::finding::Code::{self, *};
use crate::finding::Severity;

pub(super) const K3S_CONFIGURATION: &str = "https://docs.k3s.io/installation/configuration";
pub(super) const K3S_CERTIFICATES: &str = "https://docs.k3s.io/cli/certificate";
pub(super) const K3S_REQUIREMENTS: &str = "https://docs.k3s.io/installation/requirements";
pub(super) const K3S_REGISTRIES: &str = "https://docs.k3s.io/installation/private-registry";
pub(super) const K3S_ACCESS: &str = "https://docs.k3s.io/cluster-access";
pub(super) const K3S_AIRGAP: &str = "https://docs.k3s.io/installation/airgap";
pub(super) const RBAC: &str = "https://kubernetes.io/docs/reference/access-authn-authz/rbac/";
pub(super) const ADMISSION: &str =
    "https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/";

pub(super) const CHECK: &str = "sudo weaver-node-agent check";
pub(super) const DRY_RUN: &str = "sudo weaver-node-agent repair --dry-run";
pub(super) const REPAIR: &str = "sudo weaver-node-agent repair";
pub(super) const RESTART_K3S: &str = "sudo systemctl restart k3s";
pub(super) const K3S_LOG: &str = "journalctl -u k3s -n 50";

pub(super) const fn known(
    severity: Severity,
    cause: &'static str,
    remedy: &'static str,
    commands: &'static [&'static str],
    links: &'static [&'static str],
) -> Entry {
    Entry { severity, cause, remedy, commands, links }
}

/// What is known of a code.
#[must_use]
#[allow(clippy::too_many_lines, reason = "one for each code")]
pub const fn entry(code: Code) -> Entry {
    match code {
        MemoryCgroupOk => node::MEMORY_CGROUP_OK,
        MemoryCgroupAbsent => node::MEMORY_CGROUP_ABSENT,
        CgroupTokenOnIgnoredLine => node::CGROUP_TOKEN_ON_IGNORED_LINE,
        MemoryCgroupDisabled => node::MEMORY_CGROUP_DISABLED,
        RebootNeeded => node::REBOOT_NEEDED,
        CgroupTokenInStub => node::CGROUP_TOKEN_IN_STUB,
        CgroupV1Refused => node::CGROUP_V1_REFUSED,
        NameNotFound => node::NAME_NOT_FOUND,
        K3dNodeRestarting => node::K3D_NODE_RESTARTING,
        MemoryCgroupLostAtBoot => node::MEMORY_CGROUP_LOST_AT_BOOT,
        BootFileUnreadable => node::BOOT_FILE_UNREADABLE,
        MemoryCgroupUnknown => node::MEMORY_CGROUP_UNKNOWN,
        MemoryTooSmall => node::MEMORY_TOO_SMALL,
        CardTooSmall => node::CARD_TOO_SMALL,
        CgroupControllerMissing => node::CGROUP_CONTROLLER_MISSING,
        CgroupRootThreaded => node::CGROUP_ROOT_THREADED,
        HostNameUnusable => node::HOST_NAME_UNUSABLE,
        ServingNamesOk => tls::SERVING_NAMES_OK,
        NameNotInCertificate => tls::NAME_NOT_IN_CERTIFICATE,
        NameNotServed => tls::NAME_NOT_SERVED,
        NameStale => tls::NAME_STALE,
        CertificateDates => tls::CERTIFICATE_DATES,
        CertificateUntrusted => tls::CERTIFICATE_UNTRUSTED,
        NamesShadowed => tls::NAMES_SHADOWED,
        SanFlagRefused => tls::SAN_FLAG_REFUSED,
        NameInvalid => tls::NAME_INVALID,
        ServingNamesUnknown => tls::SERVING_NAMES_UNKNOWN,
        K3sConfigInvalid => k3s::K3S_CONFIG_INVALID,
        K3sConfigWrongType => k3s::K3S_CONFIG_WRONG_TYPE,
        K3sFileUnreadable => k3s::K3S_FILE_UNREADABLE,
        K3sNotAnswering => k3s::K3S_NOT_ANSWERING,
        PortTaken => k3s::PORT_TAKEN,
        SettingMisspelled => k3s::SETTING_MISSPELLED,
        UpgradeCutOff => k3s::UPGRADE_CUT_OFF,
        VersionNotSupported => k3s::VERSION_NOT_SUPPORTED,
        WeaverTomlInForce => k3s::WEAVER_TOML_IN_FORCE,
        WeaverTomlInvalid => k3s::WEAVER_TOML_INVALID,
        WeaverTomlUnreadable => k3s::WEAVER_TOML_UNREADABLE,
        UserDataClash => k3s::USER_DATA_CLASH,
        TokenLeftOnCard => k3s::TOKEN_LEFT_ON_CARD,
        HostNotConfigured => k3s::HOST_NOT_CONFIGURED,
        BootConfigUnknown => k3s::BOOT_CONFIG_UNKNOWN,
        JoinUnproven => k3s::JOIN_UNPROVEN,
        JoinServerSilent => join::SERVER_SILENT,
        JoinOtherServer => join::OTHER_SERVER,
        JoinNameNotServed => join::NAME_NOT_SERVED,
        JoinNameTaken => join::NAME_TAKEN,
        KubeconfigUnspecified => connection::KUBECONFIG_UNSPECIFIED,
        KubeconfigFallback => connection::KUBECONFIG_FALLBACK,
        KubeconfigInsecureWithCa => connection::KUBECONFIG_INSECURE_WITH_CA,
        KubeconfigUnreadable => connection::KUBECONFIG_UNREADABLE,
        ConnectionRefused => connection::CONNECTION_REFUSED,
        KubeconfigUnusable => connection::KUBECONFIG_UNUSABLE,
        KubeconfigExposed => connection::KUBECONFIG_EXPOSED,
        KubeconfigInsecure => connection::KUBECONFIG_INSECURE,
        OperatorNotStarted => connection::OPERATOR_NOT_STARTED,
        Reached => connection::REACHED,
        ServerSilent => connection::SERVER_SILENT,
        CredentialsRefused => connection::CREDENTIALS_REFUSED,
        SwapOnCard => host::SWAP_ON_CARD,
        CardSlow => host::CARD_SLOW,
        ModuleMissing => host::MODULE_MISSING,
        IdentityDrift => host::IDENTITY_DRIFT,
        OwnNameNotFound => host::OWN_NAME_NOT_FOUND,
        IptablesMixed => host::IPTABLES_MIXED,
        BootPartitionUnwritable => host::BOOT_PARTITION_UNWRITABLE,
        ClocksDiffer => host::CLOCKS_DIFFER,
        NoDefaultRoute => host::NO_DEFAULT_ROUTE,
        OfflineStart => host::OFFLINE_START,
        UnderVoltage => host::UNDER_VOLTAGE,
        DiskPressure => host::DISK_PRESSURE,
        CardFails => host::CARD_FAILS,
        ClockBeforeFloor => host::CLOCK_BEFORE_FLOOR,
        ClockNotSynchronised => host::CLOCK_NOT_SYNCHRONISED,
        OverrideNotACode => host::OVERRIDE_NOT_A_CODE,
        KindsOk => cluster::KINDS_OK,
        DefinitionDiffers => cluster::DEFINITION_DIFFERS,
        SyncNotReady => cluster::SYNC_NOT_READY,
        NobodyActs => cluster::NOBODY_ACTS,
        MintingTooWide => cluster::MINTING_TOO_WIDE,
        MayNotLook => cluster::MAY_NOT_LOOK,
        AccountPolicyMissing => cluster::ACCOUNT_POLICY_MISSING,
        AccountPolicyChanged => cluster::ACCOUNT_POLICY_CHANGED,
        NodePolicyNotInForce => cluster::NODE_POLICY_NOT_IN_FORCE,
        DeletionPolicyNotInForce => cluster::DELETION_POLICY_NOT_IN_FORCE,
        NodeReportNotShown => cluster::NODE_REPORT_NOT_SHOWN,
        RegistryPlainHttp => cluster::REGISTRY_PLAIN_HTTP,
        ImageWithoutRegistry => cluster::IMAGE_WITHOUT_REGISTRY,
        RegistryNotAService => cluster::REGISTRY_NOT_A_SERVICE,
        IngressAnnotationIgnored => cluster::INGRESS_ANNOTATION_IGNORED,
        ScopeImmutable => cluster::SCOPE_IMMUTABLE,
        TokenRequestNotAKind => cluster::TOKEN_REQUEST_NOT_A_KIND,
        ConversionWebhookFailed => cluster::CONVERSION_WEBHOOK_FAILED,
        FinalizerWaits => cluster::FINALIZER_WAITS,
        CascadeOrphanDeletes => cluster::CASCADE_ORPHAN_DELETES,
        OwnerInOtherNamespace => cluster::OWNER_IN_OTHER_NAMESPACE,
        MintingForbidden => cluster::MINTING_FORBIDDEN,
        RightMissing => cluster::RIGHT_MISSING,
        TokenTooShort => cluster::TOKEN_TOO_SHORT,
        LeaseLost => cluster::LEASE_LOST,
    }
}
