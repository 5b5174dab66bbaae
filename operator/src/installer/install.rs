//! Writes the definitions: what is there is read and judged first, all of it, and if one cannot be replaced then
//! none is.
//!
//! The order: API server ready, the admission policies, the definitions judged, the rights of nodes, webhook answers,
//! definitions with conversion and CA in one write each, accepted by the API server, and at last the proof that the API
//! server itself reaches the webhook. The policies wait for nothing else: without them any account could be named in a
//! resource, were our kinds served before them, the webhook dead or a definition refused. A definition with a webhook that nobody answers would break every request at the other version. Where
//! nothing differs, nothing is written.
//!
//! A webhook behind a Service is not asked first: from a laptop there is no way to it, and the API server goes by no
//! definition before it is written. There the proof at the end is all; until it succeeds, v1alpha1 fails and says why.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use weaver_client::call::{CallError, call, lookup};

use super::plan::{Plan, Refusal, complete, plan};
use super::review::{ReviewError, converts};
use super::served::{Proof, accepted, proved, ready};
use super::{MANAGER, Webhook, accounts, deletions, nodes};

/// How often somebody else may write between our reading and our writing.
pub(super) const ROUNDS: usize = 5;

/// When the webhook is asked, and the API server made to ask it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Prove {
    /// Each time: for a person who wants to know.
    Always,
    /// Only where a definition is written: for a loop.
    OnChange,
}

/// How to install.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When to prove that conversion works.
    pub prove: Prove,
    /// How long each step may take: the API server's readiness, the webhook's answer, acceptance, the proof.
    pub patience: Duration,
}

/// What became of one definition, or of another object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
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
    /// What was done.
    pub outcome: Outcome,
    /// What users of what was there may notice.
    pub warnings: Vec<String>,
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Created => write!(f, "{} created", self.name)?,
            Outcome::Unchanged => write!(f, "{} unchanged", self.name)?,
            Outcome::Replaced(reasons) => write!(f, "{} replaced ({})", self.name, reasons.join(", "))?,
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  note: {warning}"))
    }
}

/// What an installation did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// One for each definition, in the order of their names.
    pub definitions: Vec<Installed>,
    /// Admission policies, the rights of nodes, and the bindings of both.
    pub admission: Vec<Installed>,
    /// Was conversion proved?
    pub proved: bool,
    /// Why it was to be proved and could not be, where that says nothing against it: the API server's words.
    pub not_provable: Option<String>,
}

impl Report {
    /// All that was looked at.
    pub fn all(&self) -> impl Iterator<Item = &Installed> {
        self.definitions.iter().chain(&self.admission)
    }

    /// Was anything written?
    #[must_use]
    pub fn changed(&self) -> bool {
        self.all().any(|installed| installed.outcome != Outcome::Unchanged)
    }
}

/// What was just done; [`fmt::Display`] is a line for people.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
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

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("the API server is ready"),
            Self::Answers(url) => write!(f, "the conversion webhook at {url} answers"),
            Self::Installed(installed) => installed.fmt(f),
            Self::Accepted => f.write_str("the API server serves them"),
            Self::Proved => f.write_str("the API server converts through the webhook"),
            Self::NotProvable(words) => write!(
                f,
                "warning: it was not proved that the API server converts through the webhook, because it refuses \
                 to create a ConfigMapSync in the namespace default, as a dry run: {words}. To see for yourself, \
                 read an object at the older version (`kubectl get configmapsyncs.v1alpha1.weaver.example.com -A`)"
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
        /// What it said.
        cause: CallError,
    },
    /// The webhook does not answer.
    #[error(transparent)]
    Webhook(#[from] ReviewError),
    /// At least one definition would destroy something. None was changed.
    #[error("no definition was changed, because{}", in_words(.0))]
    Refused(Vec<(String, Refusal)>),
    /// Somebody else writes it, again and again; by kind and name, as kubectl takes them.
    #[error(
        "{0} was changed by somebody else each time it was to be written: find out who (`kubectl get {0} -o yaml --show-managed-fields`)"
    )]
    Contested(String),
    /// A binding of ours is bound to another role, by somebody else.
    #[error(
        "clusterrolebinding/{name} binds {role}, which is not ours: it was left as it is. Look whose it is \
         (`kubectl get clusterrolebinding {name} -o yaml`); if it may go: `kubectl delete clusterrolebinding {name}`"
    )]
    OtherRole {
        /// The binding.
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
         Another definition has them (`kubectl get crd`); remove that one, if it may go, or live without ours"
    )]
    NamesRefused {
        /// The definition.
        name: String,
        /// The API server's own words.
        message: String,
    },
    /// The API server does not begin to serve it.
    #[error("{name} was written, and is not served after {} s: look for the cause in the API server's log", patience.as_secs())]
    NotEstablished {
        /// The definition.
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
    /// Would trying again be of no use until a person has done something?
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NamesRefused { .. } | Self::OtherRole { .. })
    }
}

fn in_words(refusals: &[(String, Refusal)]) -> String {
    let each = refusals.iter().map(|(name, refusal)| format!("\n  {name}: {refusal}"));
    each.collect()
}

/// Brings all definitions, the admission policies and the rights of nodes into the API server and tells `steps` what was done.
///
/// # Errors
/// The first step that failed. What was written before stays; running it again goes on from there.
pub async fn install(
    client: &Client,
    webhook: &Webhook,
    options: &Options,
    mut steps: impl FnMut(Step<'_>),
) -> Result<Report, InstallError> {
    ready(client, options.patience).await?;
    steps(Step::Ready);
    let mut admission = policies(client, &mut steps).await?;
    let mut plans = allowed(client, webhook).await?;
    for installed in nodes::install(client).await? {
        steps(Step::Installed(&installed));
        admission.push(installed);
    }
    let prove =
        options.prove == Prove::Always || plans.iter().any(|(_, plan, _)| !matches!(plan, Plan::Keep));
    if prove && webhook.service.is_none() {
        converts(webhook, options.patience).await?;
        steps(Step::Answers(&webhook.url));
    }
    let mut done = BTreeMap::new();
    for round in 1.. {
        let Err(contested) = write(client, plans, &mut done).await? else { break };
        if round == ROUNDS {
            return Err(InstallError::Contested(format!("crd/{contested}")));
        }
        plans = allowed(client, webhook).await?;
    }
    for installed in done.values() {
        steps(Step::Installed(installed));
    }
    for name in done.keys() {
        accepted(client, name, options.patience).await?;
    }
    steps(Step::Accepted);
    let mut report = Report { definitions: done.into_values().collect(), admission, ..Report::default() };
    if prove {
        match proved(client, options.patience).await? {
            Proof::Converts => {
                steps(Step::Proved);
                report.proved = true;
            }
            Proof::NotProvable(words) => {
                steps(Step::NotProvable(&words));
                report.not_provable = Some(words);
            }
        }
    }
    Ok(report)
}

/// Puts all admission policies into the API server. One that fails keeps none of the others from it.
async fn policies(client: &Client, steps: &mut impl FnMut(Step<'_>)) -> Result<Vec<Installed>, InstallError> {
    let mut all = Ok(Vec::new());
    for guard in [accounts::built_in()?, deletions::built_in()?, nodes::built_in()?] {
        let done = Box::pin(guard.install(client)).await;
        done.iter().flatten().for_each(|installed| steps(Step::Installed(installed)));
        all = match (all, done) {
            (Ok(all), Ok(done)) => Ok([all, done].concat()),
            (Err(first), _) | (Ok(_), Err(first)) => Err(first),
        };
    }
    all
}

/// What [`install`](fn@install) would do about each definition, by name; nothing is written.
///
/// # Errors
/// The API server cannot be asked.
pub async fn planned(client: &Client, webhook: &Webhook) -> Result<Vec<(String, Plan)>, InstallError> {
    let plans = read(client, webhook).await?;
    Ok(plans.into_iter().map(|(name, plan, _)| (name, plan)).collect())
}

/// Name, plan, and the whole definition as it should be.
type Planned = (String, Plan, CustomResourceDefinition);

async fn read(client: &Client, webhook: &Webhook) -> Result<Vec<Planned>, InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut plans = Vec::new();
    for definition in weaver_api::crds::all() {
        let desired = complete(definition, webhook);
        let name = desired.name_any();
        let installed = lookup(api.get(&name)).await.map_err(failed(format!("reading {name}")))?;
        let mut plan = plan(installed.as_ref(), &desired);
        if let (Plan::Refuse(refusals), Some(installed)) = (&mut plan, &installed) {
            for refusal in refusals {
                if let Refusal::Scope { objects, .. } = refusal {
                    *objects = count(client, installed).await;
                }
            }
        }
        plans.push((name, plan, desired));
    }
    Ok(plans)
}

/// The same, where nothing is refused.
async fn allowed(client: &Client, webhook: &Webhook) -> Result<Vec<Planned>, InstallError> {
    let plans = read(client, webhook).await?;
    let refused = plans.iter().flat_map(|(name, plan, _)| match plan {
        Plan::Refuse(refusals) => refusals.iter().map(|refusal| (name.clone(), refusal.clone())).collect(),
        _ => Vec::new(),
    });
    let refused: Vec<_> = refused.collect();
    if refused.is_empty() { Ok(plans) } else { Err(InstallError::Refused(refused)) }
}

/// Stored objects of an installed definition, if they can be listed at the version at which they are written.
async fn count(client: &Client, installed: &CustomResourceDefinition) -> Option<usize> {
    let resource = super::migrate::stored_resource(installed)?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let first = call(api.list_metadata(&ListParams::default().limit(1))).await.ok()?;
    let more = first.metadata.remaining_item_count.and_then(|more| usize::try_from(more).ok());
    Some(first.items.len() + more.unwrap_or_default())
}

/// Carries the plans out and notes what was done; the inner error is the name of a definition that somebody
/// else has changed meanwhile.
async fn write(
    client: &Client,
    plans: Vec<Planned>,
    done: &mut BTreeMap<String, Installed>,
) -> Result<Result<(), String>, InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.into()) };
    for (name, plan, desired) in plans {
        let (outcome, warnings, written) = match plan {
            Plan::Keep | Plan::Refuse(_) => (Outcome::Unchanged, Vec::new(), None),
            Plan::Create => (Outcome::Created, Vec::new(), Some(call(api.create(&params, &desired)).await)),
            Plan::Replace { reasons, warnings, with } => {
                let written = call(api.replace(&name, &params, &with)).await;
                (Outcome::Replaced(reasons), warnings, Some(written))
            }
        };
        match written {
            None | Some(Ok(_)) => {}
            // Created, changed or deleted since it was read.
            Some(Err(CallError::Conflict(_) | CallError::NotFound(_))) => return Ok(Err(name)),
            Some(Err(error)) => return Err(failed(format!("writing {name}"))(error)),
        }
        // In a later round, what an earlier one did is unchanged.
        if outcome != Outcome::Unchanged || !done.contains_key(&name) {
            done.insert(name.clone(), Installed { name, outcome, warnings });
        }
    }
    Ok(Ok(()))
}

pub(super) fn failed(what: String) -> impl FnOnce(CallError) -> InstallError {
    move |cause| InstallError::Api { what, cause }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
