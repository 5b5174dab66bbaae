//! What an installation says: each step, what was done, and why it failed.

use std::fmt;
use std::time::Duration;

use weaver_client::call::CallError;

use super::conversion::ConversionError;
use super::plan::DefinitionRefusal;

/// What became of one definition, or of another object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InstallOutcome {
    /// It was not there.
    Created,
    /// It was as it should be.
    Unchanged,
    /// It differed; in a word or two each, by what.
    Replaced(Vec<String>),
}

/// One definition that is now as it should be, or another object; [`fmt::Display`] is a line for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Installed {
    /// `<plural>.<group>`; of another object, `<kind>/<name>`.
    pub name: String,
    pub outcome: InstallOutcome,
    /// What users of what was there may notice.
    pub warnings: Vec<String>,
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            InstallOutcome::Created => write!(f, "{} created", self.name)?,
            InstallOutcome::Unchanged => write!(f, "{} unchanged", self.name)?,
            InstallOutcome::Replaced(reasons) => {
                write!(f, "{} replaced ({})", self.name, reasons.join(", "))?;
            }
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  note: {warning}"))
    }
}

/// What an installation did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InstallReport {
    /// One for each definition, in the order of their names.
    pub definitions: Vec<Installed>,
    /// Admission policies, the rights of nodes, and the bindings of both.
    pub admission: Vec<Installed>,
    pub proved: bool,
    /// Why it was to be proved and could not be, where that says nothing against it: the API server's words.
    pub not_provable: Option<String>,
}

impl InstallReport {
    /// All that was looked at.
    pub fn all(&self) -> impl Iterator<Item = &Installed> {
        self.definitions.iter().chain(&self.admission)
    }

    pub fn changed(&self) -> bool {
        self.all().any(|installed| installed.outcome != InstallOutcome::Unchanged)
    }
}

/// What was just done; [`fmt::Display`] is a line for people.
#[derive(Clone, Copy, Debug)]
pub enum InstallStep<'a> {
    /// The API server is ready.
    Ready,
    /// The webhook at this URL answers.
    Answers(&'a str),
    /// A definition, or what else belongs to them, is as it should be.
    Installed(&'a Installed),
    /// The API server serves all of them.
    Accepted,
    /// The API server converts by the webhook.
    Proved,
    /// The API server refuses the object that would have proved it, in these words.
    NotProvable(&'a str),
}

impl fmt::Display for InstallStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("the API server is ready"),
            Self::Answers(url) => write!(f, "the conversion webhook at {url} answers"),
            Self::Installed(installed) => installed.fmt(f),
            Self::Accepted => f.write_str("the API server serves them"),
            Self::Proved => f.write_str("the API server converts through the webhook"),
            Self::NotProvable(text) => write!(
                f,
                "warning: it was not proved that the API server converts through the webhook, because it \
                 refuses \
                 to create a ConfigMapSync in the namespace default, as a dry run: {text}. To see for yourself, \
                 read an object at the older version (`kubectl get \
                 configmapsyncs.v1alpha1.weaver.example.com -A`)"
            ),
        }
    }
}

/// Why the definitions are not all as they should be.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No connection, no right, or it does not become ready.
    #[error("{what}: {cause}")]
    Api {
        /// What was asked of it.
        what: String,
        cause: CallError,
    },
    /// The webhook does not answer.
    #[error(transparent)]
    Webhook(#[from] ConversionError),
    /// At least one definition would destroy something. None was changed.
    #[error("no CRD was changed, because{}", described(.0))]
    Refused(Vec<(String, DefinitionRefusal)>),
    /// Someone else writes it, again and again; by kind and name, as kubectl takes them.
    #[error(
        "{0} changed at each attempt to write it: find out who changes it (`kubectl get {0} -o yaml \
         --show-managed-fields`)"
    )]
    Contested(String),
    /// A binding of ours is bound to another role, by someone else.
    #[error(
        "clusterrolebinding/{name} binds {role}, which is not ours: it was left as it is. Check it \
         (`kubectl get clusterrolebinding {name} -o yaml`); if it is not needed: `kubectl delete \
         clusterrolebinding {name}`"
    )]
    OtherRole {
        name: &'static str,
        /// Kind and name of the role.
        role: String,
    },
    /// A mistake in this program.
    #[error("the built-in manifest of the admission policy does not parse: {0}")]
    BuiltIn(String),
    /// Its names are another definition's.
    #[error(
        "{name} was written, and the API server does not accept its names: {message}. Nothing was deleted. \
         Another definition has them (`kubectl get crd`); remove that one if it is not needed"
    )]
    NamesRefused {
        name: String,
        /// The API server's own words.
        message: String,
    },
    /// The API server does not begin to serve it.
    #[error("{name} was written but is not served after {} s: see the API server's log", patience.as_secs())]
    NotEstablished {
        name: String,
        /// How long was waited.
        patience: Duration,
    },
    /// The API server accepts the definitions and cannot convert.
    #[error(
        "the definitions are written, and the API server cannot use the older version: {message}. The webhook \
         has to be reachable from the API server's own host, by the URL or the Service in the definitions"
    )]
    Unproved {
        /// The API server's own words.
        message: String,
    },
}

impl InstallError {
    /// Would trying again be of no use until a user has done something?
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NamesRefused { .. } | Self::OtherRole { .. })
    }

    /// Did the API server only take too long?
    pub const fn is_late(&self) -> bool {
        matches!(self, Self::Api { cause: CallError::Late(_), .. } | Self::NotEstablished { .. })
    }
}

fn described(refusals: &[(String, DefinitionRefusal)]) -> String {
    let each = refusals.iter().map(|(name, refusal)| format!("\n  {name}: {refusal}"));
    each.collect()
}

pub(super) fn failed(what: String) -> impl FnOnce(CallError) -> InstallError {
    move |cause| InstallError::Api { what, cause }
}
