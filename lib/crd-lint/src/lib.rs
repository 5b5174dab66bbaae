//! What a new release of a `CustomResourceDefinition`, of any kind, breaks for those who use the last one.
//!
//! [`breaks`] compares two definitions and [`breaks_since`] two sets of them; [`SchemaChange`] says in words what
//! happened and what to do instead. `weaver crd lint` prints that.
//!
//! Manifests are kept for years, so within one version nothing that was accepted may be refused, nothing that
//! was kept may be dropped and no default may change. Anyone who needs that makes a new version instead.
//! The categories are those of kubernetes-sigs/crdify. Versions are compared with themselves only; what lies
//! between two versions is the conversion's affair.
//!
//! Pure and total: any two definitions can be compared, also such as the API server would refuse. A keyword
//! whose effect cannot be judged (a pattern, a CEL rule but for an alternative behind it, or one that no
//! older value breaks) counts as a break when it is added or changed: rather a false alarm than a silence.
//! Loosening is never a break, with one exception: a changed type is one in either direction, since clients
//! read what they once wrote.

mod change;
mod fields;
mod limits;

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceSubresources, JSONSchemaProps,
};

pub use change::SchemaChange;

/// One thing that users of the older definition would notice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Break {
    /// The older definition: `configmapsyncs.weaver.example.com`.
    pub definition: String,
    /// The version it is about; `None` where it is about the definition as a whole.
    pub version: Option<String>,
    /// The field: `spec.tokens[].key`, map values as `labels{}`. Empty where it is about the whole version.
    pub path: String,
    pub change: SchemaChange,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.definition)?;
        for part in [self.version.as_deref().unwrap_or_default(), &self.path] {
            if !part.is_empty() {
                write!(f, " {part}")?;
            }
        }
        write!(f, ": {}", self.change)
    }
}

/// What breaks from a set of `released` definitions to the `current` ones, paired by name. A definition that
/// is gone is a break; one that is new is none.
pub fn breaks_since(
    released: &[CustomResourceDefinition],
    current: &[CustomResourceDefinition],
) -> Vec<Break> {
    released
        .iter()
        .flat_map(|old| match current.iter().find(|new| name(&new.spec) == name(&old.spec)) {
            Some(new) => breaks(old, new),
            None => vec![whole(old, SchemaChange::DefinitionGone)],
        })
        .collect()
}

/// What breaks from one definition to the next of the same name, in the order of the older one's versions and
/// fields.
pub fn breaks(old: &CustomResourceDefinition, new: &CustomResourceDefinition) -> Vec<Break> {
    let mut found: Vec<Break> =
        names_lost(&old.spec, &new.spec).into_iter().map(|change| whole(old, change)).collect();
    // No one can have used a version that was neither served nor stored.
    let stored: Vec<&String> =
        old.status.iter().flat_map(|status| status.stored_versions.iter().flatten()).collect();
    let is_used = |version: &&CustomResourceDefinitionVersion| {
        version.served || version.storage || stored.contains(&&version.name)
    };
    for version in old.spec.versions.iter().filter(is_used) {
        let same = new.spec.versions.iter().find(|candidate| candidate.name == version.name);
        let changes = match same {
            Some(same) => version_changes(version, same),
            None => vec![(String::new(), SchemaChange::VersionGone)],
        };
        found.extend(changes.into_iter().map(|(path, change)| Break {
            definition: name(&old.spec),
            version: Some(version.name.clone()),
            path,
            change,
        }));
    }
    found
}

/// The name that the API server demands of a definition.
fn name(spec: &CustomResourceDefinitionSpec) -> String {
    format!("{}.{}", spec.names.plural, spec.group)
}

fn whole(old: &CustomResourceDefinition, change: SchemaChange) -> Break {
    Break { definition: name(&old.spec), version: None, path: String::new(), change }
}

/// The names by which manifests, clients and people refer to the kind.
fn names_lost(old: &CustomResourceDefinitionSpec, new: &CustomResourceDefinitionSpec) -> Vec<SchemaChange> {
    let called = |spec: &CustomResourceDefinitionSpec| {
        let CustomResourceDefinitionNames { kind, list_kind, plural, singular, .. } = spec.names.clone();
        [
            ("group", spec.group.clone()),
            ("scope", spec.scope.clone()),
            ("plural", plural),
            // Left out, these two have the value that the API server gives them.
            ("singular", singular.unwrap_or_else(|| kind.to_lowercase())),
            ("list kind", list_kind.unwrap_or_else(|| format!("{kind}List"))),
            ("kind", kind),
        ]
    };
    let mut found: Vec<SchemaChange> = called(old)
        .into_iter()
        .zip(called(new))
        .filter(|((_, was), (_, is))| was != is)
        .map(|((what, was), (_, is))| SchemaChange::Renamed { what, was, is })
        .collect();
    for (what, was, is) in [
        ("short name", &old.names.short_names, &new.names.short_names),
        ("category", &old.names.categories, &new.names.categories),
    ] {
        let gone = was.iter().flatten().filter(|name| !is.iter().flatten().any(|kept| kept == *name));
        found.extend(gone.map(|name| SchemaChange::NameGone { what, name: name.clone() }));
    }
    found
}

/// What one version lost, with the path of each.
fn version_changes(
    old: &CustomResourceDefinitionVersion,
    new: &CustomResourceDefinitionVersion,
) -> Vec<(String, SchemaChange)> {
    let mut found = Vec::new();
    if old.served && !new.served {
        found.push((String::new(), SchemaChange::VersionNotServed));
    }
    found.extend(subresources_changed(old, new).into_iter().map(|change| (String::new(), change)));
    let selectable = |version: &CustomResourceDefinitionVersion| -> Vec<String> {
        version.selectable_fields.iter().flatten().map(|field| field.json_path.clone()).collect()
    };
    let kept = selectable(new);
    for path in selectable(old).into_iter().filter(|path| !kept.contains(path)) {
        found.push((path.trim_start_matches('.').to_owned(), SchemaChange::NotSelectable));
    }
    fields::compare(&root(old), &root(new), "", &mut found);
    found
}

fn subresources_changed(
    old: &CustomResourceDefinitionVersion,
    new: &CustomResourceDefinitionVersion,
) -> Vec<SchemaChange> {
    let stated = |version: &CustomResourceDefinitionVersion| {
        let CustomResourceSubresources { scale, status } = version.subresources.clone().unwrap_or_default();
        #[expect(clippy::expect_used, reason = "three texts")]
        let scale = scale.map(|scale| serde_json::to_string(&scale).expect("texts can be written as JSON"));
        (status.map(|_| "present".to_owned()), scale)
    };
    let ((was_status, was_scale), (is_status, is_scale)) = (stated(old), stated(new));
    let mut found = Vec::new();
    if was_status != is_status {
        found.push(SchemaChange::Subresource { name: "status", was: was_status, is: is_status });
    }
    if was_scale.is_some() && was_scale != is_scale {
        found.push(SchemaChange::Subresource { name: "scale", was: was_scale, is: is_scale });
    }
    found
}

/// The schema of a version; without one everything is accepted.
fn root(version: &CustomResourceDefinitionVersion) -> JSONSchemaProps {
    let stated = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.clone());
    stated.unwrap_or_else(fields::anything)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
