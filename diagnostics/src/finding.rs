//! What a check says: code, severity, sentence, evidence, remedy.
//!
//! A code is stable for ever: scripts, the override file and the documentation
//! refer to it. The ids follow the catalogue of the requirements (section 8).

use std::fmt;

use serde::{Serialize, Serializer};

/// How bad a finding is. Ordered: the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Judged and fine.
    Ok,
    /// Could not be judged; never stops anything.
    Unknown,
    /// Works, but somebody should look at it.
    Warn,
    /// Known bad: the next step would fail.
    Fail,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $id:literal $name:literal,)*) => {
        /// The stable code of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The short id, such as `N-02`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
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
    /// Every configured name is served.
    ServingNamesOk = "T-00" "serving-names-ok",
    /// A configured name is not in the served certificate.
    NameNotServed = "T-02" "name-not-served",
    /// The served certificate is outside its dates.
    CertificateDates = "T-04" "certificate-dates",
    /// The served certificate does not chain to the cluster's CA.
    CertificateUntrusted = "T-05" "certificate-untrusted",
    /// A later file or a flag replaces configured names.
    NamesShadowed = "T-06" "names-shadowed",
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
    /// The server of a kubeconfig is an address to listen at.
    KubeconfigUnspecified = "K-01" "kubeconfig-server-unspecified",
    /// The server of a kubeconfig is what kubectl falls back to without one.
    KubeconfigFallback = "K-02" "kubeconfig-fallback-server",
    /// A kubeconfig has a CA and asks not to verify by it.
    KubeconfigInsecureWithCa = "K-03" "kubeconfig-insecure-with-ca",
    /// The administrator's kubeconfig cannot be used.
    KubeconfigUnusable = "K-06" "kubeconfig-unusable",
    /// The administrator's kubeconfig can be read by others.
    KubeconfigExposed = "K-07" "kubeconfig-exposed",
    /// What `weaver.toml` asks for is in force.
    WeaverTomlInForce = "B-00" "weaver-toml-in-force",
    /// `weaver.toml` has faults, so nothing of it was taken.
    WeaverTomlInvalid = "B-01" "weaver-toml-invalid",
    /// `weaver.toml`, or the partition that it lies on, could not be read.
    WeaverTomlUnreadable = "B-02" "weaver-toml-unreadable",
    /// `weaver.toml` and cloud-init's `user-data` want different things.
    UserDataClash = "B-03" "user-data-clash",
    /// The imported token is still readable in `weaver.toml`.
    TokenLeftOnCard = "B-04" "token-left-on-card",
    /// A file or setting that `weaver.toml` asks for could not be made.
    HostNotConfigured = "B-05" "host-not-configured",
    /// What boot-config found could not be read.
    BootConfigUnknown = "B-06" "boot-config-unknown",
    /// The names are proven, and the operator could not be given its credentials or be started.
    OperatorNotStarted = "K-08" "operator-not-started",
    /// The root file system is nearly full.
    DiskPressure = "H-03" "disk-pressure",
    /// The clock stands before a date at which k3s ends itself.
    ClockBeforeFloor = "H-04" "clock-before-1980",
    /// Nothing says that the clock is right.
    ClockNotSynchronised = "H-05" "clock-not-synchronised",
    /// A line of the override file is no code.
    OverrideNotACode = "H-06" "override-not-a-code",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// A place in a file, or a file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file as its reader named it.
    pub file: String,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

impl Place {
    /// A whole file.
    #[must_use]
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None }
    }

    /// A line of a file.
    #[must_use]
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { line: Some(line), ..Self::file(file) }
    }

    /// A line and a column of a file.
    #[must_use]
    pub fn at(file: impl Into<String>, line: u64, column: u64) -> Self {
        Self { column: Some(column), ..Self::line(file, line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        Ok(())
    }
}

/// One thing that was seen, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Where it was seen.
    #[serde(flatten)]
    pub place: Place,
    /// What was seen there.
    pub saw: String,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.saw)
    }
}

/// What to do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What to do, in words.
    pub explain: String,
    /// The commands, in order, to be typed as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The change to a file, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl Remedy {
    /// A remedy in words.
    #[must_use]
    pub fn new(explain: impl Into<String>) -> Self {
        Self { explain: explain.into(), ..Self::default() }
    }

    /// Adds a command.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The stable code.
    pub code: Code,
    /// The code in words.
    pub name: &'static str,
    /// One sentence for a person.
    pub message: String,
    /// What was seen, and where.
    pub evidence: Vec<Evidence>,
    /// What to do; absent where there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A finding without evidence or remedy yet.
    #[must_use]
    pub fn new(severity: Severity, code: Code, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            name: code.name(),
            message: message.into(),
            evidence: Vec::new(),
            remedy: None,
        }
    }

    /// Adds one thing seen.
    #[must_use]
    pub fn saw(mut self, place: Place, saw: impl Into<String>) -> Self {
        self.evidence.push(Evidence { place, saw: saw.into() });
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
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

    #[test]
    fn a_finding_serialises_with_id_place_and_remedy() {
        let finding = Finding::new(Severity::Fail, Code::NameInvalid, "m")
            .saw(Place::at("/etc/x.yaml", 3, 5), "y")
            .remedy(Remedy::new("do").command("true"));
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!(json["code"], "T-08");
        assert_eq!(json["severity"], "fail");
        assert_eq!(json["evidence"][0]["line"], 3);
        assert_eq!(json["remedy"]["commands"][0], "true");
        assert_eq!(finding.evidence[0].to_string(), "/etc/x.yaml:3:5: y");
    }

    #[test]
    fn the_worst_severity_is_the_greatest() {
        assert!(Severity::Ok < Severity::Unknown);
        assert!(Severity::Unknown < Severity::Warn);
        assert!(Severity::Warn < Severity::Fail);
    }
}
