//! The codes of findings.
//!
//! A code is stable for ever: scripts, the override file and the documentation
//! refer to it. The ids follow the catalogue of the requirements (section 8).

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! codes {
    ($(#[doc = $title:literal] $variant:ident = $id:literal $name:literal,)*) => {
        /// The stable code of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The short id, such as `N-02`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// What is so, in a sentence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title.trim_ascii(),)* }
            }

            /// The name as the reason of a condition or an event, such as `MemoryCgroupAbsent`.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// The readable name, such as `cgroup-token-on-second-line`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

codes! {
    /// The memory controller is there and will be after the next boot.
    MemoryCgroupOk = "N-00" "memory-cgroup-ok",
    /// The kernel offers no memory controller.
    MemoryCgroupAbsent = "N-01" "memory-cgroup-absent",
    /// The parameter stands on a line that the firmware ignores.
    CgroupTokenOnIgnoredLine = "N-02" "cgroup-token-on-second-line",
    /// `cgroup_disable=memory` turns the controller off.
    MemoryCgroupDisabled = "N-03" "memory-cgroup-disabled",
    /// The boot file is right, the running kernel was started before.
    RebootNeeded = "N-04" "reboot-needed",
    /// The parameter was written into the stub that the firmware does not read.
    CgroupTokenInStub = "N-05" "cgroup-token-in-stub",
    /// The kubelet refuses to run on cgroup v1.
    CgroupV1Refused = "N-06" "cgroup-v1-refused",
    /// A name is not found by whoever wants to connect.
    NameNotFound = "N-07" "name-not-found",
    /// A server container of k3d does not come up.
    K3dNodeRestarting = "N-08" "k3d-node-restarting",
    /// The controller is there now and will be gone after the next boot.
    MemoryCgroupLostAtBoot = "N-09" "memory-cgroup-lost-at-next-boot",
    /// A boot file could not be read as text.
    BootFileUnreadable = "N-10" "boot-file-unreadable",
    /// Nothing tells whether the memory controller is there.
    MemoryCgroupUnknown = "N-11" "memory-cgroup-unknown",
    /// The board has less memory than k3s needs.
    MemoryTooSmall = "N-12" "memory-too-small",
    /// The root file system is too small for k3s and its images.
    CardTooSmall = "N-13" "card-too-small",
    /// The kernel lacks a controller that k3s needs besides memory.
    CgroupControllerMissing = "N-14" "cgroup-controller-missing",
    /// The root of the cgroups cannot hand its controllers on.
    CgroupRootThreaded = "N-15" "cgroup-root-threaded",
    /// The host has a name by which no node can be registered.
    HostNameUnusable = "N-16" "host-name-unusable",
    /// Findings of a node are not shown.
    NodeReportNotShown = "N-17" "node-report-not-shown",
    /// Every configured name is served.
    ServingNamesOk = "T-00" "serving-names-ok",
    /// The name that was used is not in the certificate.
    NameNotInCertificate = "T-01" "name-not-in-certificate",
    /// A configured name is not in the served certificate.
    NameNotServed = "T-02" "name-not-served",
    /// A name is served that nobody has configured, or not any more.
    NameStale = "T-03" "name-stale",
    /// The served certificate is outside its dates.
    CertificateDates = "T-04" "certificate-dates",
    /// The served certificate does not chain to the cluster's CA.
    CertificateUntrusted = "T-05" "certificate-untrusted",
    /// A later file or a flag replaces configured names.
    NamesShadowed = "T-06" "names-shadowed",
    /// `tls-san` was given in a way that k3s does not take.
    SanFlagRefused = "T-07" "san-flag-refused",
    /// A configured name is not a name.
    NameInvalid = "T-08" "name-invalid",
    /// No certificate could be seen, so nothing is proven.
    ServingNamesUnknown = "T-09" "serving-names-unknown",
    /// The configuration of k3s does not parse.
    K3sConfigInvalid = "F-01" "k3s-config-invalid",
    /// A setting of k3s has a value of the wrong type.
    K3sConfigWrongType = "F-02" "k3s-config-wrong-type",
    /// A file of k3s could not be read.
    K3sFileUnreadable = "F-03" "k3s-file-unreadable",
    /// k3s has been starting for long, or has failed, and its API server does not answer.
    K3sNotAnswering = "F-04" "k3s-not-answering",
    /// The version of Kubernetes is not one that Config Weaver is made for.
    VersionNotSupported = "F-05" "version-not-supported",
    /// Somebody else listens where k3s will.
    PortTaken = "F-06" "port-taken",
    /// A setting is spelled as k3s does not know it.
    SettingMisspelled = "F-07" "setting-misspelled",
    /// An upgrade of k3s was cut off, and nothing says that what is in place is proven.
    UpgradeCutOff = "F-08" "k3s-upgrade-cut-off",
    /// The server of a kubeconfig is an address to listen at.
    KubeconfigUnspecified = "K-01" "kubeconfig-server-unspecified",
    /// The server of a kubeconfig is what kubectl falls back to without one.
    KubeconfigFallback = "K-02" "kubeconfig-fallback-server",
    /// A kubeconfig has a CA and asks not to verify by it.
    KubeconfigInsecureWithCa = "K-03" "kubeconfig-insecure-with-ca",
    /// A kubeconfig can be read by root only.
    KubeconfigUnreadable = "K-04" "kubeconfig-unreadable",
    /// Nothing listens at the address and port that were used.
    ConnectionRefused = "K-05" "connection-refused",
    /// The administrator's kubeconfig cannot be used.
    KubeconfigUnusable = "K-06" "kubeconfig-unusable",
    /// The administrator's kubeconfig can be read by others.
    KubeconfigExposed = "K-07" "kubeconfig-exposed",
    /// A kubeconfig asks for no verification.
    KubeconfigInsecure = "K-09" "kubeconfig-insecure",
    /// The API server answers by the kubeconfig, and takes its credentials.
    Reached = "K-00" "reached",
    /// The server does not answer, and does not refuse either.
    ServerSilent = "K-10" "server-silent",
    /// The API server does not take the credentials of a kubeconfig.
    CredentialsRefused = "K-11" "credentials-refused",
    /// What `weaver.toml` asks for is in force.
    WeaverTomlInForce = "B-00" "weaver-toml-in-force",
    /// `weaver.toml` has faults, so nothing of it was taken.
    WeaverTomlInvalid = "B-01" "weaver-toml-invalid",
    /// `weaver.toml`, or the partition that it lies on, could not be read.
    WeaverTomlUnreadable = "B-02" "weaver-toml-unreadable",
    /// `weaver.toml` and cloud-init's `user-data` or `network-config`, or a netplan file, want different things.
    UserDataClash = "B-03" "user-data-clash",
    /// The imported token, or the Wi-Fi's password, is still readable in `weaver.toml`, or may be in a copy of it.
    TokenLeftOnCard = "B-04" "token-left-on-card",
    /// A file or setting that `weaver.toml` asks for could not be made.
    HostNotConfigured = "B-05" "host-not-configured",
    /// What boot-config found could not be read.
    BootConfigUnknown = "B-06" "boot-config-unknown",
    /// A node joins a server without proof that it is the one meant.
    JoinUnproven = "B-07" "join-unproven",
    /// The server that this node joins does not answer.
    JoinServerSilent = "J-01" "join-server-silent",
    /// What answers there is not the server of the token.
    JoinOtherServer = "J-02" "join-other-server",
    /// The server has no certificate for the name in `server`.
    JoinNameNotServed = "J-03" "join-name-not-served",
    /// The server, it seems, has the name of this node.
    JoinNameTaken = "J-04" "join-name-taken",
    /// The names are proven, and the operator could not be given its credentials or be started.
    OperatorNotStarted = "K-08" "operator-not-started",
    /// An image registry speaks plain HTTP, and was asked for HTTPS.
    RegistryPlainHttp = "R-01" "registry-plain-http",
    /// An image without a registry is looked for on docker.io.
    ImageWithoutRegistry = "R-02" "image-without-registry",
    /// A registry is looked for among the Services.
    RegistryNotAService = "R-03" "registry-not-a-service",
    /// An annotation of an Ingress has no effect with Traefik.
    IngressAnnotationIgnored = "R-04" "ingress-annotation-ignored",
    /// The scope of a definition cannot be changed.
    ScopeImmutable = "C-01" "crd-scope-immutable",
    /// A token request is a subresource and no kind.
    TokenRequestNotAKind = "C-02" "token-request-not-a-kind",
    /// The conversion webhook fails.
    ConversionWebhookFailed = "C-03" "conversion-webhook-failed",
    /// An object waits for our finalizer.
    FinalizerWaits = "C-04" "finalizer-waits",
    /// `--cascade orphan` and `--cascade=orphan` delete the copies.
    CascadeOrphanDeletes = "C-05" "cascade-orphan-deletes",
    /// An owner stands in another namespace, where it counts as gone.
    OwnerInOtherNamespace = "C-06" "owner-in-other-namespace",
    /// The kinds are installed as they should be, and converted.
    KindsOk = "C-00" "kinds-ok",
    /// A definition of our kinds is missing, or not as this version has it.
    DefinitionDiffers = "C-07" "definition-differs",
    /// A resource is not as it should be.
    SyncNotReady = "C-08" "sync-not-ready",
    /// Nobody acts on a resource.
    NobodyActs = "C-09" "nobody-acts",
    /// Tokens of an account may not be minted.
    MintingForbidden = "A-01" "minting-forbidden",
    /// A ServiceAccount lacks a right.
    RightMissing = "A-02" "right-missing",
    /// A token was asked for less than ten minutes.
    TokenTooShort = "A-03" "token-too-short",
    /// The operator may mint tokens of every account.
    MintingTooWide = "A-04" "minting-too-wide",
    /// What was to be looked at may not be seen with these rights.
    MayNotLook = "A-05" "may-not-look",
    /// Nothing asks who may name a ServiceAccount.
    AccountPolicyMissing = "A-06" "account-policy-missing",
    /// The rules who may name a ServiceAccount are turned off, or not those of this version.
    AccountPolicyChanged = "A-07" "account-policy-changed",
    /// Nothing limits a node to the NodeReport of its own name.
    NodePolicyNotInForce = "A-08" "node-policy-not-in-force",
    /// A deletion that orphans dependents is not refused.
    DeletionPolicyNotInForce = "A-09" "deletion-policy-not-in-force",
    /// A lease was lost because the storage is too slow.
    LeaseLost = "L-01" "lease-lost",
    /// There is no default route, and k3s does not start without one.
    NoDefaultRoute = "H-01" "no-default-route",
    /// The board gets too little power, or is too hot.
    UnderVoltage = "H-02" "under-voltage",
    /// The root file system is nearly full.
    DiskPressure = "H-03" "disk-pressure",
    /// The card fails, or is mounted read-only.
    CardFails = "H-07" "card-fails",
    /// The clock stands before a date at which k3s ends itself.
    ClockBeforeFloor = "H-04" "clock-before-1980",
    /// Nothing says that the clock is right.
    ClockNotSynchronised = "H-05" "clock-not-synchronised",
    /// A line of the override file is no code.
    OverrideNotACode = "H-06" "override-not-a-code",
    /// The clocks of two machines differ.
    ClocksDiffer = "H-08" "clocks-differ",
    /// There is swap on the card.
    SwapOnCard = "H-09" "swap-on-card",
    /// How fast the storage under k3s is.
    CardSlow = "H-10" "card-slow",
    /// The kernel has not a module that k3s needs.
    ModuleMissing = "H-11" "module-missing",
    /// The node would start under another name than it registered with.
    IdentityDrift = "H-12" "identity-drift",
    /// The host does not find its own name.
    OwnNameNotFound = "H-13" "own-name-not-found",
    /// Rules of both kinds of iptables may be in force.
    IptablesMixed = "H-14" "iptables-mixed",
    /// The boot partition cannot be written.
    BootPartitionUnwritable = "H-15" "boot-partition-unwritable",
    /// k3s was started without a network, with an address that the card gave itself.
    OfflineStart = "H-16" "offline-start",
}

impl Code {
    /// The code of this id; `None` where this version has none.
    #[must_use]
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.id() == id)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.name())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::of_id(&id).ok_or_else(|| de::Error::custom(format!("{id:?} is no code of this version")))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let ids: Vec<_> = Self::ALL.iter().map(|code| code.id()).collect();
        json_schema!({ "description": "A stable code; docs/codes.md has each.", "type": "string", "enum": ids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_and_names_are_unique() {
        let ids: BTreeSet<_> = Code::ALL.iter().map(|c| c.id()).collect();
        let names: BTreeSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(ids.len(), Code::ALL.len());
        assert_eq!(names.len(), Code::ALL.len());
    }
}
