//! The page for users, `docs/reference/api.md`, out of the definitions.
//!
//! Per kind its names and versions, per version a table of fields, one of the status, and the CEL rules, in the order
//! given.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use weaver_api::reference::{Field, code, fields, inline};

const HEADER: &str = "\
<!-- Generated from the types in lib/api by `make generate`; do not edit. -->

# API reference

This page is generated from the types in `lib/api` by `make generate`; the API server enforces what it says.
To change it, change the descriptions there. `kubectl explain` shows the same.
[Examples of each field](api-examples.md) has manifests.

In a path, `[]` stands for each item of a list and `{}` for each value of a map. A field is required where the
object around it is given.
";

/// The page, in Markdown.
pub fn reference(crds: &[CustomResourceDefinition]) -> String {
    let overview = crds.iter().map(|crd| {
        let (names, spec) = (&crd.spec.names, &crd.spec);
        let versions: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
        vec![format!("[{0}](#{1})", names.kind, anchor(&names.kind)), spec.scope.clone(), versions.join(", ")]
    });
    let overview = table(&["kind", "scope", "versions"], overview);
    let kinds: Vec<String> = crds.iter().map(kind).collect();
    format!("{HEADER}\n{overview}{}", kinds.concat())
}

fn kind(crd: &CustomResourceDefinition) -> String {
    let (spec, names) = (&crd.spec, &crd.spec.names);
    // The text of the stored version: it describes the kind.
    let about = spec.versions.iter().find(|version| version.storage).and_then(|stored| {
        // That of the root comes first.
        fields(stored).into_iter().next()
    });
    let listed = |names: &Option<Vec<String>>| -> String {
        names.iter().flatten().map(|name| code(name)).collect::<Vec<_>>().join(", ")
    };
    let facts = [
        ("Group", code(&spec.group)),
        ("Scope", spec.scope.clone()),
        ("Resource", code(&names.plural)),
        ("Short names", listed(&names.short_names)),
        ("Categories", listed(&names.categories)),
    ];
    let mut text = format!("\n## {}\n\n", names.kind);
    if let Some(about) = about.map(|root| root.description).filter(|about| !about.is_empty()) {
        let _ = write!(text, "{about}\n\n");
    }
    for (what, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "- {what}: {value}");
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let versions = spec.versions.iter().map(|version| {
        let title = format!("{} {}", names.kind, version.name);
        let warning = version.deprecation_warning.as_deref().map(inline);
        let deprecated = match (version.deprecated, warning) {
            (Some(true), Some(warning)) => format!("yes: {warning}"),
            (is, _) => yes(is == Some(true)),
        };
        let link = format!("[{}](#{})", version.name, anchor(&title));
        vec![link, yes(version.served), yes(version.storage), deprecated]
    });
    let _ = write!(text, "\n{}", table(&["version", "served", "stored", "deprecated"], versions));
    text.extend(spec.versions.iter().map(|one| version(&names.kind, one)));
    text
}

fn version(kind: &str, version: &CustomResourceDefinitionVersion) -> String {
    let title = format!("{kind} {}", version.name);
    let mut text = format!("\n### {title}\n\n");
    let selectable: Vec<String> = version
        .selectable_fields
        .iter()
        .flatten()
        .map(|field| code(field.json_path.trim_start_matches('.')))
        .collect();
    if !selectable.is_empty() {
        let _ = writeln!(text, "Field selectors (`--field-selector`): {}.\n", selectable.join(", "));
    }
    let (status, fields): (Vec<Field>, Vec<Field>) =
        fields(version).into_iter().partition(|row| row.path == "status" || row.path.starts_with("status."));
    text += match (fields.iter().any(|row| !row.path.is_empty()), status.is_empty()) {
        (true, _) => "",
        (false, true) => "No field is described.\n",
        (false, false) => "Nothing is set here; there is a status only.\n",
    };
    text += &fields_table(&fields);
    if !status.is_empty() {
        let _ = write!(text, "\n#### Status of {title}\n\n{}", fields_table(&status));
    }
    text
}

fn fields_table(rows: &[Field]) -> String {
    let fields = rows.iter().filter(|row| !row.path.is_empty()).map(|row| {
        let required = if row.is_required { "yes" } else { "" }.to_owned();
        let default = row.default.as_deref().map(code).unwrap_or_default();
        let limits = row.limits.join("; ");
        vec![code(&row.path), row.type_name.clone(), required, default, limits, row.description.clone()]
    });
    let mut text = table(&["field", "type", "required", "default", "limits", "description"], fields);
    let ruled: Vec<&Field> = rows.iter().filter(|row| !row.rules.is_empty()).collect();
    if !ruled.is_empty() {
        text += "\nRules, in [CEL](https://kubernetes.io/docs/reference/using-api/cel/):\n\n";
    }
    for row in ruled {
        let field = if row.path.is_empty() { "the object".to_owned() } else { code(&row.path) };
        let _ = writeln!(text, "- {field}");
        for rule in &row.rules {
            let _ = writeln!(text, "  - {rule}");
        }
    }
    text
}

/// A table of cells that [`inline`] and [`code`] made; nothing where there are no rows.
fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    // `|` would end the cell, within code too; outside a table the escape would be shown, so it is added here.
    let cell = |text: &String| match text.replace('|', r"\|") {
        text if text.is_empty() => " |".into(),
        text => format!(" {text} |"),
    };
    let mut lines = String::new();
    for cells in rows {
        lines.push('|');
        lines.extend(cells.iter().map(cell));
        lines.push('\n');
    }
    if lines.is_empty() {
        return lines;
    }
    format!("| {} |\n|{}\n{lines}", columns.join(" | "), "---|".repeat(columns.len()))
}

/// Where GitHub and its like put a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests;
