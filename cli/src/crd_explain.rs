//! `weaver crd explain`: the meaning and the rules of a field of our kinds, from the built-in definitions. Pure; needs
//! no cluster.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use weaver_api::reference::{Field, fields};

/// Paths that are suggested where the requested one does not exist.
const NEAREST: usize = 3;

/// What is said of `asked`, a path that may begin with a kind: `configmapsyncs.spec.targets`. Without a kind, each kind
/// that has such a field is meant; without `version`, the stored one.
pub fn explained(
    crds: &[CustomResourceDefinition],
    asked: &str,
    version: Option<&str>,
    with_all_below: bool,
) -> Result<String, String> {
    let (first, rest) = asked.split_once('.').unwrap_or((asked, ""));
    let named = crds.iter().find(|crd| is_called(crd, first));
    let path = plain(if named.is_some() { rest } else { asked });
    let candidates: Vec<&CustomResourceDefinition> =
        named.map_or_else(|| crds.iter().collect(), |crd| vec![crd]);
    let (mut found, mut paths) = (Vec::new(), Vec::new());
    for crd in candidates {
        let Some(version) = version_of(crd, version) else { continue };
        let fields = fields(version);
        if fields.iter().any(|field| plain(&field.path) == path) {
            found.push(section(crd, version, &fields, &path, with_all_below));
        }
        let prefix = &crd.spec.names.plural;
        paths.extend(fields.iter().map(|field| (plain(&field.path), prefix.clone())));
    }
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    if paths.is_empty() {
        return Err(format!(
            "no kind has the version {:?}: leave --api-version out",
            version.unwrap_or_default()
        ));
    }
    let nearest: Vec<String> =
        nearest(&path, paths).iter().map(|near| format!("`weaver crd explain {near}`")).collect();
    Err(format!("there is no field {path:?}; similar: {}", nearest.join(", ")))
}

fn is_called(crd: &CustomResourceDefinition, name: &str) -> bool {
    let names = &crd.spec.names;
    let others = names.short_names.iter().flatten().chain(&names.singular);
    [&names.kind, &names.plural].into_iter().chain(others).any(|known| known.eq_ignore_ascii_case(name))
}

fn version_of<'a>(
    crd: &'a CustomResourceDefinition,
    asked: Option<&str>,
) -> Option<&'a CustomResourceDefinitionVersion> {
    crd.spec.versions.iter().find(|version| asked.map_or(version.storage, |asked| version.name == asked))
}

/// A path as users write it: without a sign for items and values, and without their numbers.
fn plain(path: &str) -> String {
    let names = path.split('.').map(|name| name.split(['[', '{']).next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(".")
}

fn nearest(path: &str, mut paths: Vec<(String, String)>) -> Vec<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let distance = |(known, _): &(String, String)| {
        let whole = strsim::damerau_levenshtein(&known.to_lowercase(), &path.to_lowercase());
        // A path whose last part is right and whose parents are wrong counts as near, too.
        whole.min(1 + 2 * strsim::damerau_levenshtein(&last(known), &last(path)))
    };
    paths.retain(|(known, _)| !known.is_empty());
    paths.sort_by_key(distance);
    paths.dedup();
    paths.into_iter().take(NEAREST).map(|(known, kind)| format!("{kind}.{known}")).collect()
}

fn section(
    crd: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
    fields: &[Field],
    path: &str,
    with_all_below: bool,
) -> String {
    let here: Vec<&Field> = fields.iter().filter(|field| plain(&field.path) == path).collect();
    let mut text = format!("{} {}/{}\n", crd.spec.names.kind, crd.spec.group, version.name);
    for field in &here {
        about(&mut text, field);
    }
    let selectable = version.selectable_fields.iter().flatten();
    let selectable: Vec<&str> = selectable.map(|field| field.json_path.trim_start_matches('.')).collect();
    if path.is_empty() && !selectable.is_empty() {
        put(&mut text, "selectable", &format!("--field-selector with {}", selectable.join(", ")));
    } else if selectable.contains(&path) {
        put(&mut text, "selectable", &format!("--field-selector {path}=…"));
    }
    let below = fields.iter().filter(|field| {
        let known = plain(&field.path);
        let inner = if path.is_empty() {
            Some(known.as_str())
        } else {
            known.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
        };
        // Items and values are described with their list or map.
        let is_inner = field.path.ends_with("[]") || field.path.ends_with("{}");
        inner.is_some_and(|inner| !inner.is_empty() && !is_inner && (with_all_below || !inner.contains('.')))
    });
    let rows: Vec<(String, &Field)> = below
        .map(|field| {
            let known = plain(&field.path);
            (known[path.len()..].trim_start_matches('.').to_owned(), field)
        })
        .collect();
    let width = |of: fn(&(String, &Field)) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let widths = (width(|row| row.0.len()), width(|row| row.1.type_name.len()));
    if !rows.is_empty() {
        text.push_str("\n  Fields:\n");
    }
    for (name, field) in &rows {
        let first = shown(&field.description);
        let first = first.split_once(". ").map_or(first.as_str(), |(first, _)| first);
        let needed = if field.is_required { "required" } else { "" };
        let line = format!("    {name:0$}  {1:2$}  {needed:8}  {first}", widths.0, field.type_name, widths.1);
        text.extend([line.trim_end(), "\n"]);
    }
    text
}

fn about(text: &mut String, field: &Field) {
    let required = if field.is_required { ", required" } else { "" };
    let title = if field.path.is_empty() { "the object" } else { field.path.as_str() };
    // Writing to a String cannot fail.
    let _ = write!(text, "\n  {title}: {}{required}\n", field.type_name);
    if !field.description.is_empty() {
        let _ = writeln!(text, "    {}", shown(&field.description));
    }
    if let Some(default) = &field.default {
        put(text, "default", default);
    }
    if !field.limits.is_empty() {
        put(text, "limits", &shown(&field.limits.join("; ")));
    }
    for rule in &field.rules {
        put(text, "rule", &shown(rule));
    }
}

fn put(text: &mut String, what: &str, value: &str) {
    let _ = writeln!(text, "    {what}: {value}");
}

/// As a terminal shows it: the escapes of Markdown are for pages.
fn shown(markdown: &str) -> String {
    markdown.replace("\\<", "<")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(asked: &str) -> Result<String, String> {
        explained(&weaver_api::crds::all(), asked, None, false)
    }

    #[test]
    fn a_field_is_reported_with_what_it_must_keep_and_what_is_in_it() {
        let text = ask("spec.targets.selector").unwrap();
        assert!(
            text.starts_with("ConfigMapSync weaver.example.com/v1beta1\n\n  spec.targets.selector: object\n"),
            "{text}"
        );
        assert!(
            text.contains("    matchLabels       map of string             Labels that must exist with"),
            "{text}"
        );
        let text = ask("cms.spec.conflictPolicy").unwrap();
        assert!(
            text.contains("default: \"Refuse\"") && text.contains("limits: one of `Refuse`, `Adopt`"),
            "{text}"
        );
        let text = ask("spec.source.name").unwrap();
        assert!(
            text.contains("spec.source.name: string\n")
                && text.contains("selectable: --field-selector spec.source.name=…"),
            "{text}"
        );
        let text = ask("ServiceToken.spec.tokens[0].key").unwrap();
        assert!(
            text.contains("spec.tokens[].key: string, required") && text.contains("1..253 characters"),
            "{text}"
        );
    }

    #[test]
    fn a_list_is_reported_with_its_items_and_a_kind_with_its_fields() {
        let text = ask("spec.targets.namespaces").unwrap();
        assert!(text.contains("  spec.targets.namespaces: list of string\n"), "{text}");
        assert!(text.contains("  spec.targets.namespaces[]: string\n    limits: 1..63 characters"), "{text}");
        let text = ask("configmapsyncs").unwrap();
        assert!(
            text.contains("  the object: object\n")
                && text.contains("--field-selector with spec.serviceAccount.name")
        );
        assert!(text.contains("    spec    object") && !text.contains("serviceAccount.name  "), "{text}");
        let both = ask("spec").unwrap();
        assert!(both.contains("ConfigMapSync weaver") && both.contains("\nServiceToken weaver"), "{both}");
        let all = explained(&weaver_api::crds::all(), "svctok.spec", None, true).unwrap();
        assert!(
            all.contains("    tokens.serviceAccount.name  ") && all.contains("    writer.serviceAccount "),
            "{all}"
        );
    }

    #[test]
    fn an_unknown_field_is_answered_with_the_nearest() {
        for (asked, near) in [
            ("spec.target.selectr", "`weaver crd explain configmapsyncs.spec.targets.selector`"),
            ("spec.conflictpolicy", "configmapsyncs.spec.conflictPolicy"),
            ("audiences", "servicetokens.spec.tokens.audiences"),
            ("configmapsyncs.spec.tokens", "configmapsyncs.spec."),
        ] {
            let said = ask(asked).unwrap_err();
            assert!(said.starts_with("there is no field ") && said.contains(near), "{said}");
        }
        let said = explained(&weaver_api::crds::all(), "spec", Some("v7"), false).unwrap_err();
        assert!(said.contains("no kind has the version \"v7\""), "{said}");
    }

    #[test]
    fn another_version_has_fields_of_its_own() {
        let old =
            explained(&weaver_api::crds::all(), "spec.syncToNamespaces", Some("v1alpha1"), false).unwrap();
        assert!(old.starts_with("ConfigMapSync weaver.example.com/v1alpha1\n"), "{old}");
        assert!(ask("spec.syncToNamespaces").is_err());
    }
}
