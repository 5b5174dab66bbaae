//! Whether a definition can be written, and what would change. Pure.
//!
//! An existing definition is replaced only if nothing is lost by it: no stored object, no field of one, no version in
//! use. Anything else is a [`DefinitionRefusal`] with its way out. What only becomes stricter is a warning: the API
//! server continues accepting the unchanged values of stored objects.

use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, WebhookClientConfig,
};
use kube::ResourceExt as _;
use weaver_api::schema::round_trip_kept;
use weaver_crd_lint::{Break, SchemaChange, breaks};

use super::ca::INJECT_CA;
use super::webhook::{Service, Webhook};

/// What to do about one definition.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionPlan {
    /// It is not there.
    Create,
    /// It is as it should be.
    Keep,
    /// It is ours and differs.
    Replace {
        /// What differs, in a word or two each.
        reasons: Vec<String>,
        /// What users of the installed definition may notice.
        warnings: Vec<String>,
        /// What to write, on top of the version that was read.
        with: Box<CustomResourceDefinition>,
    },
    /// Writing it would destroy something.
    Refuse(Vec<DefinitionRefusal>),
}

/// Why a definition is not replaced; [`fmt::Display`] has the way out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DefinitionRefusal {
    /// Namespaced there and not here, or the other way round. It cannot be changed.
    Scope {
        name: String,
        installed: String,
        ours: String,
        /// Objects that are stored, where they could be counted.
        objects: Option<usize>,
    },
    /// A definition of the same name for another kind.
    OtherKind {
        /// Which of its names.
        what: &'static str,
        installed: String,
        ours: String,
    },
    /// Someone uses a version that this release does not know.
    UnknownVersion {
        version: String,
        /// May objects be stored at it?
        stored: bool,
        ours: Vec<String>,
    },
    /// What is stored in a field would be dropped.
    Loss(Box<Break>),
    /// Someone deletes it right now.
    BeingDeleted,
}

impl fmt::Display for DefinitionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scope { name, installed, ours, objects } => {
                let stored = objects.map_or_else(
                    || "an unknown number of stored objects".to_owned(),
                    |count| format!("{count} stored objects"),
                );
                let everywhere = if installed == "Namespaced" { " --all-namespaces" } else { "" };
                write!(
                    f,
                    "its scope is {installed}, not {ours}, and cannot be changed; it has {stored}. Way out, by \
                     hand, since deleting a definition deletes its objects:\n    \
                     kubectl get {name}{everywhere} -o yaml > objects.yaml   # keep this file\n    \
                     kubectl delete crd {name}\n    \
                     weaver crd install\n    \
                     kubectl apply -f objects.yaml   # after adapting metadata.namespace in it"
                )
            }
            Self::OtherKind { what, installed, ours } => write!(
                f,
                "its {what} is {installed}, not {ours}: another program installed a CRD of this name. \
                 Find out which (`kubectl get crd -o yaml --show-managed-fields`); a cluster can have \
                 only one of them"
            ),
            Self::UnknownVersion { version, stored, ours } => {
                let use_ = if *stored { "objects are stored at" } else { "it serves" };
                write!(
                    f,
                    "{use_} {version}, which this release does not know (it knows {}): a newer release or \
                     another program installed it. Install with that release",
                    ours.join(", ")
                )?;
                if *stored {
                    f.write_str("; `weaver crd migrate` of that release rewrites the objects")?;
                }
                Ok(())
            }
            Self::Loss(loss) => write!(
                f,
                "{}; what objects hold there would be dropped. Install with the release that wrote it, or a newer one",
                described(loss)
            ),
            Self::BeingDeleted => f.write_str(
                "it is being deleted together with all its objects. Wait until it is gone, then run this again",
            ),
        }
    }
}

/// The built-in definition as it has to be in a cluster: with the address of the webhook and the CA to trust.
pub fn complete(mut definition: CustomResourceDefinition, webhook: &Webhook) -> CustomResourceDefinition {
    let conversion = definition.spec.conversion.as_mut().and_then(|conversion| conversion.webhook.as_mut());
    if let Some(conversion) = conversion {
        conversion.client_config = Some(WebhookClientConfig {
            ca_bundle: Some(ByteString(webhook.ca_bundle.clone().into_bytes())),
            // One or the other.
            url: webhook.service.is_none().then(|| webhook.url.clone()),
            service: webhook.service.as_ref().map(Service::reference),
        });
    }
    definition
}

/// Compares what is installed with what is `desired` ([`complete`]).
pub fn plan(
    installed: Option<&CustomResourceDefinition>,
    desired: &CustomResourceDefinition,
) -> DefinitionPlan {
    let Some(installed) = installed else { return DefinitionPlan::Create };
    let refusals = refusals(installed, desired);
    if !refusals.is_empty() {
        return DefinitionPlan::Refuse(refusals);
    }
    let with = merged(installed, desired);
    let reasons = reasons(installed, &with);
    if reasons.is_empty() {
        return DefinitionPlan::Keep;
    }
    let warnings = changes(installed, desired).iter().map(described).collect();
    DefinitionPlan::Replace { reasons, warnings, with: Box::new(with) }
}

fn refusals(
    installed: &CustomResourceDefinition,
    desired: &CustomResourceDefinition,
) -> Vec<DefinitionRefusal> {
    let mut found = Vec::new();
    let (there, here) = (&installed.spec, &desired.spec);
    if there.scope != here.scope {
        found.push(DefinitionRefusal::Scope {
            name: desired.name_any(),
            installed: there.scope.clone(),
            ours: here.scope.clone(),
            objects: None,
        });
    }
    for (what, installed, ours) in [
        ("kind", &there.names.kind, &here.names.kind),
        ("plural name", &there.names.plural, &here.names.plural),
        ("group", &there.group, &here.group),
    ] {
        if installed != ours {
            found.push(DefinitionRefusal::OtherKind {
                what,
                installed: installed.clone(),
                ours: ours.clone(),
            });
        }
    }
    let ours: Vec<String> = here.versions.iter().map(|version| version.name.clone()).collect();
    let stored = stored_versions(installed);
    let served = there.versions.iter().filter(|version| version.served).map(|version| &version.name);
    let mut used: Vec<&String> = stored.iter().chain(served).collect();
    used.sort();
    used.dedup();
    for version in used.into_iter().filter(|version| !ours.contains(version)) {
        found.push(DefinitionRefusal::UnknownVersion {
            version: version.clone(),
            stored: stored.contains(version),
            ours: ours.clone(),
        });
    }
    let losses = changes(installed, desired).into_iter().filter(|loss| {
        matches!(
            loss.change,
            SchemaChange::FieldGone | SchemaChange::OthersDropped | SchemaChange::TypeChanged { .. }
        )
    });
    found.extend(losses.map(|loss| DefinitionRefusal::Loss(Box::new(loss))));
    if installed.metadata.deletion_timestamp.is_some() {
        found.push(DefinitionRefusal::BeingDeleted);
    }
    found
}

/// A change without the definition's name, which is in front of it anyway.
fn described(change: &Break) -> String {
    let place = [change.version.as_deref().unwrap_or_default(), &change.path];
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    if place.is_empty() {
        change.change.to_string()
    } else {
        format!("{}: {}", place.join(" "), change.change)
    }
}

/// What users of the installed definition would notice.
fn changes(installed: &CustomResourceDefinition, desired: &CustomResourceDefinition) -> Vec<Break> {
    // Kept by the API server whether a schema mentions them or not.
    let always_there = ["apiVersion", "kind", "metadata"];
    let mut found = breaks(installed, desired);
    found.retain(|found| {
        found.change != SchemaChange::FieldGone || !always_there.contains(&found.path.as_str())
    });
    found.retain(|found| !comes_with_its_field(found, installed, desired));
    found
}

/// Is this about the rule that keeps `spec.roundTrip`, in the definition that brings the field? No object has
/// it yet, so the rule has no effect.
fn comes_with_its_field(
    found: &Break,
    installed: &CustomResourceDefinition,
    desired: &CustomResourceDefinition,
) -> bool {
    let kept = |definition: &CustomResourceDefinition| {
        let mut versions = definition.spec.versions.iter();
        let version = versions.find(|version| found.version.as_ref() == Some(&version.name))?;
        round_trip_kept(version.schema.as_ref()?.open_api_v3_schema.as_ref()?)
    };
    match (&found.change, kept(installed), kept(desired)) {
        (SchemaChange::RuleAdded { rule }, None, Some(with_field)) => *rule == with_field.rule,
        _ => false,
    }
}

/// Versions at which objects may be stored.
pub(super) fn stored_versions(definition: &CustomResourceDefinition) -> Vec<String> {
    let noted = definition.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
    let current =
        definition.spec.versions.iter().filter(|version| version.storage).map(|version| &version.name);
    let mut versions: Vec<String> = Vec::new();
    for version in noted.chain(current) {
        if !versions.contains(version) {
            versions.push(version.clone());
        }
    }
    versions
}

/// Our spec under the metadata that is there; of ours only the labels and annotations are added.
pub fn merged(
    installed: &CustomResourceDefinition,
    desired: &CustomResourceDefinition,
) -> CustomResourceDefinition {
    let mut metadata = installed.metadata.clone();
    metadata.managed_fields = None;
    for (held, ours) in [
        (&mut metadata.labels, &desired.metadata.labels),
        (&mut metadata.annotations, &desired.metadata.annotations),
    ] {
        if let Some(ours) = ours {
            held.get_or_insert_default().extend(ours.clone());
        }
    }
    // Or cert-manager would replace our CA by another.
    if !desired.annotations().contains_key(INJECT_CA)
        && let Some(held) = &mut metadata.annotations
    {
        held.remove(INJECT_CA);
    }
    CustomResourceDefinition { metadata, spec: desired.spec.clone(), status: None }
}

/// What differs, in a word or two each.
fn reasons(installed: &CustomResourceDefinition, with: &CustomResourceDefinition) -> Vec<String> {
    let (was, is) = (normal(&installed.spec), normal(&with.spec));
    let mut reasons = Vec::new();
    let mut note = |differs: bool, what: &str| {
        if differs {
            reasons.push(what.to_owned());
        }
    };
    let meta = |definition: &CustomResourceDefinition| {
        (definition.labels().clone(), definition.annotations().clone())
    };
    note(meta(installed) != meta(with), "labels");
    note(was.names != is.names, "names");
    note(was.preserve_unknown_fields != is.preserve_unknown_fields, "pruning");
    if was.conversion != is.conversion {
        let client = |spec: &CustomResourceDefinitionSpec| {
            let webhook = spec.conversion.clone().unwrap_or_default().webhook.unwrap_or_default();
            webhook.client_config.unwrap_or_default()
        };
        let (was, is) = (client(&was), client(&is));
        note(was.ca_bundle != is.ca_bundle, "caBundle");
        note(was.url != is.url || was.service != is.service, "webhook");
        note(was == is, "conversion");
    }
    for version in &is.versions {
        let name = &version.name;
        match was.versions.iter().find(|old| old.name == *name) {
            None => note(true, &format!("{name} added")),
            Some(old) => {
                note(old.schema != version.schema, &format!("schema of {name}"));
                let bare = |version: &CustomResourceDefinitionVersion| CustomResourceDefinitionVersion {
                    schema: None,
                    ..version.clone()
                };
                note(bare(old) != bare(version), name);
            }
        }
    }
    for old in &was.versions {
        note(!is.versions.iter().any(|version| version.name == old.name), &format!("{} removed", old.name));
    }
    if reasons.is_empty() && was != is {
        // All else has its word above.
        reasons.push("order of versions".to_owned());
    }
    reasons
}

/// A spec with the values that the API server fills in, so that what it returns equals what it was given.
pub fn normal(spec: &CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    let mut spec = spec.clone();
    let kind = &spec.names.kind;
    spec.names.list_kind.get_or_insert_with(|| format!("{kind}List"));
    spec.names.singular.get_or_insert_with(|| kind.to_lowercase());
    for names in [&mut spec.names.short_names, &mut spec.names.categories] {
        *names = names.take().filter(|names| !names.is_empty());
    }
    spec.preserve_unknown_fields = spec.preserve_unknown_fields.filter(|preserve| *preserve);
    spec.conversion.get_or_insert_with(|| CustomResourceConversion {
        strategy: "None".into(),
        ..CustomResourceConversion::default()
    });
    spec
}

#[cfg(test)]
mod tests;
