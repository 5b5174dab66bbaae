//! Which kinds the API server serves, asked as the tenant that wants one copied.
//!
//! Every account may ask for it, and an answer has no content of any object: what one tenant was answered is used for
//! all, for [`LASTS`]. A kind that is not found is asked for again by each reconcile, so one whose definition is made
//! later is found without a restart; where a source is not found, [`Kinds::find_again`] asks for its kind again.
//! Bounded: [`MOST`] answers are kept.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;
use weaver_api::kind::ObjectKind;
use weaver_api::validate::KindName;
use weaver_client::call::{CallError, call, lookup};
use weaver_copies::kinds::{Treatment, treatment};

use super::access_checks::AccessChecks;
use super::declared::NamedKind;
use super::outcome::SyncOutcome;
use super::verdicts::{KIND_NOT_COPIED, KIND_NOT_SERVED, KIND_UNKNOWN};

/// How long an answer is used.
const LASTS: Duration = Duration::from_mins(10);

/// Most answers that are kept.
const MOST: usize = 1_024;

/// Most other versions of a kind that are looked for.
const VERSIONS: usize = 8;

/// What is done with copies.
const VERBS: [&str; 6] = ["create", "delete", "get", "list", "update", "watch"];

/// Why objects of a kind are not copied.
#[derive(Clone, Debug, PartialEq)]
pub enum NoKind {
    /// It never is, as a sentence says.
    Never(String),
    /// The API server does not serve it at this version, but at these.
    OtherVersions(KindName, Vec<ObjectKind>),
    /// It does not serve it at all.
    NotServed(KindName),
    /// It could not be asked.
    Unknown(CallError),
}

impl NoKind {
    /// What follows for a resource that wants them copied.
    pub fn outcome(self) -> SyncOutcome {
        let stay = "existing copies stay as they are";
        let (reason, message, passes) = match self {
            Self::Never(message) => (KIND_NOT_COPIED, message, false),
            Self::OtherVersions(KindName { kind, .. }, others) => {
                let others: Vec<String> = others.into_iter().map(ObjectKind::api_version).collect();
                let message = format!(
                    "the API server serves {kind} at {} only: set spec.source.apiVersion to one of these; {stay}",
                    others.join(", ")
                );
                (KIND_NOT_SERVED, message, true)
            }
            Self::NotServed(name) => {
                let message = format!(
                    "the API server serves no {} of {}: install its CustomResourceDefinition, or mend \
                     spec.source.apiVersion; {stay}",
                    name.kind,
                    name.api_version()
                );
                (KIND_NOT_SERVED, message, true)
            }
            Self::Unknown(error) => {
                (KIND_UNKNOWN, format!("which kinds the API server serves is not known: {error}"), true)
            }
        };
        SyncOutcome::Unable { reason, message, passes }
    }
}

/// What the reconciles of this module need besides what all have.
#[derive(Default)]
pub struct SyncServices {
    /// Questions whether a namespace that changed concerns an account.
    pub checks: AccessChecks,
    pub kinds: Kinds,
}

#[derive(Default)]
pub struct Kinds {
    known: Mutex<HashMap<KindName, (Instant, ObjectKind)>>,
}

impl Kinds {
    /// The kind of this name, as it was served last.
    pub fn known(&self, kind: &NamedKind) -> Option<ObjectKind> {
        match kind {
            NamedKind::Served(kind) => Some(*kind),
            NamedKind::Named(name) => self.known.lock().get(name).map(|(_, kind)| *kind),
        }
    }

    /// The kind of this name, as the API server serves it.
    ///
    /// # Errors
    /// Why its objects are not copied.
    pub async fn find(&self, client: &Client, kind: &NamedKind) -> Result<ObjectKind, NoKind> {
        let NamedKind::Named(name) = kind else { return self.find_again(client, kind).await };
        let fresh = |(asked, kind): &(Instant, ObjectKind)| (asked.elapsed() < LASTS).then_some(*kind);
        let known = self.known.lock().get(name).and_then(fresh);
        match known {
            Some(kind) => Ok(kind),
            None => self.find_again(client, kind).await,
        }
    }

    /// The same, whatever was answered before; that counts for others until there is another answer.
    ///
    /// # Errors
    /// As [`Kinds::find`].
    pub async fn find_again(&self, client: &Client, kind: &NamedKind) -> Result<ObjectKind, NoKind> {
        let name = match kind {
            NamedKind::Served(kind) => return Ok(*kind),
            NamedKind::Named(name) => name,
        };
        if let Treatment::Never(why) = treatment(&name.group, &name.kind) {
            return Err(NoKind::Never(format!("a {} {why}", name.kind)));
        }
        let served = resources(client, &name.api_version()).await.map_err(NoKind::Unknown)?;
        let Some(resource) = of_kind(&served, &name.kind) else {
            return Err(match other_versions(client, name).await {
                Ok(others) if others.is_empty() => NoKind::NotServed(name.clone()),
                Ok(others) => NoKind::OtherVersions(name.clone(), others),
                Err(error) => NoKind::Unknown(error),
            });
        };
        let kind = judged(name, resource)?;
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.clone(), (Instant::now(), kind));
        Ok(kind)
    }
}

/// May it be copied, as it is served?
fn judged(name: &KindName, resource: &APIResource) -> Result<ObjectKind, NoKind> {
    if !resource.namespaced {
        let kind = &name.kind;
        return Err(NoKind::Never(format!(
            "{kind} is cluster-scoped, so there is no namespace to copy it to"
        )));
    }
    let lacks: Vec<&str> =
        VERBS.into_iter().filter(|verb| !resource.verbs.iter().any(|found| found == verb)).collect();
    if !lacks.is_empty() {
        let (kind, lacks) = (&name.kind, lacks.join(", "));
        return Err(NoKind::Never(format!("{kind} does not support {lacks}, which copies need")));
    }
    Ok(ObjectKind::served(&name.group, &name.version, &name.kind, &resource.name))
}

/// What is served at this version of a group; nothing, where that is not served.
async fn resources(client: &Client, api_version: &str) -> Result<Vec<APIResource>, CallError> {
    let list = match api_version.split_once('/') {
        Some(_) => lookup(client.list_api_group_resources(api_version)).await?,
        None => lookup(client.list_core_api_resources(api_version)).await?,
    };
    Ok(list.map(|list| list.resources).unwrap_or_default())
}

/// Not a part of an object, such as `serviceaccounts/token`.
fn of_kind<'a>(resources: &'a [APIResource], kind: &str) -> Option<&'a APIResource> {
    resources.iter().find(|resource| resource.kind == kind && !resource.name.contains('/'))
}

/// The kind at other versions of its group, the preferred one first.
async fn other_versions(client: &Client, name: &KindName) -> Result<Vec<ObjectKind>, CallError> {
    let versions: Vec<String> = if name.group.is_empty() {
        call(client.list_core_api_versions()).await?.versions
    } else {
        let groups = call(client.list_api_groups()).await?.groups;
        let group = groups.into_iter().find(|group| group.name == name.group);
        group.into_iter().flat_map(|group| group.versions).map(|version| version.version).collect()
    };
    let mut found = Vec::new();
    for version in versions.into_iter().filter(|version| *version != name.version).take(VERSIONS) {
        let other = KindName { version, ..name.clone() };
        let served = resources(client, &other.api_version()).await?;
        found.extend(of_kind(&served, &name.kind).and_then(|resource| judged(&other, resource).ok()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(kind: &str) -> KindName {
        KindName { group: "example.com".into(), version: "v1".into(), kind: kind.into() }
    }

    #[test]
    fn what_is_not_namespaced_or_cannot_be_written_is_not_copied_and_parts_are_no_kinds() {
        let resource = |name: &str, namespaced: bool, verbs: &[&str]| -> APIResource {
            serde_json::from_value(json!({
                "name": name, "singularName": "", "kind": "Widget", "namespaced": namespaced, "verbs": verbs,
            }))
            .unwrap()
        };
        let part = resource("widgets/scale", true, &VERBS);
        let whole = resource("widgets", true, &VERBS);
        let all = [part.clone(), whole.clone()];
        assert_eq!(of_kind(&all, "Widget").map(|found| found.name.as_str()), Some("widgets"));
        assert_eq!((of_kind(&[part], "Widget"), of_kind(&all, "widget")), (None, None));
        let kind = judged(&name("Widget"), &whole).unwrap();
        assert_eq!((kind.plural(), kind.api_version()), ("widgets", "example.com/v1".to_owned()));
        for (resource, message) in [
            (resource("widgets", false, &VERBS), "is cluster-scoped"),
            (resource("widgets", true, &["get", "list"]), "does not support create, delete, update, watch"),
        ] {
            let Err(NoKind::Never(said)) = judged(&name("Widget"), &resource) else { panic!("{message}") };
            assert!(said.contains(message), "{said}");
        }
    }
}
