//! `weaver crd lint`: what a new release of definitions breaks for users of the last one. Needs no cluster.
//!
//! Works for any kinds: everything that is compared and printed comes from the two files. Failure: which file, which
//! object in it, and why it cannot be compared.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{anyhow, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::Value;
use weaver_crd_lint::breaks_since;

use crate::resource::manifest;
use crate::stdout::say;

/// The one version of definitions that there is, since Kubernetes 1.22.
const VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "CustomResourceDefinition";

/// Prints what breaks from `old` to `new`, and returns whether nothing does.
pub fn run(old: &Path, new: &Path) -> anyhow::Result<bool> {
    let both = manifest::is_stdin(old) && manifest::is_stdin(new);
    ensure!(!both, "only one of the two can be standard input: save the other one to a file");
    let (released, current) = (read(old)?, read(new)?);
    let (was, is) = (names(&released), names(&current));
    ensure!(
        !was.is_disjoint(&is),
        "the files have no definition in common: {} holds {}, and {} holds {}",
        manifest::shown(old),
        listed(&was),
        manifest::shown(new),
        listed(&is)
    );
    let found = breaks_since(&released, &current);
    for one in &found {
        say(format_args!("{one}; {}", one.change.remedy()));
    }
    Ok(found.is_empty())
}

fn read(file: &Path) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    definitions(manifest::read(file)?).map_err(|why| anyhow!("{}: {why}", manifest::shown(file)))
}

fn names(definitions: &[CustomResourceDefinition]) -> BTreeSet<String> {
    definitions.iter().map(ResourceExt::name_any).collect()
}

fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The definitions among these objects, each with another name; objects of other kinds may come between them, as in the
/// manifest of a whole release.
fn definitions(objects: Vec<Value>) -> Result<Vec<CustomResourceDefinition>, String> {
    let (mut found, mut names, mut others) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (number, object) in (1..).zip(objects) {
        let (version, kind) = (&object["apiVersion"], &object["kind"]);
        if kind != KIND {
            others.insert(kind.as_str().unwrap_or("an object without a kind").to_owned());
            continue;
        }
        if version != VERSION {
            let version = version.as_str().unwrap_or("no apiVersion");
            return Err(format!("document {number} is a {KIND} of {version}: write it at {VERSION}"));
        }
        let definition = definition(object).map_err(|why| format!("document {number} {why}"))?;
        if !names.insert(definition.name_any()) {
            return Err(format!("{} is defined twice", definition.name_any()));
        }
        found.push(definition);
    }
    if found.is_empty() {
        return Err(format!("it holds no {KIND}, only {}", listed(&others)));
    }
    Ok(found)
}

/// One that has what names it. Everything else may be missing, or such as the API server would refuse.
fn definition(object: Value) -> Result<CustomResourceDefinition, String> {
    let definition: CustomResourceDefinition =
        serde_json::from_value(object).map_err(|error| format!("is not a {KIND}: {error}"))?;
    let spec = &definition.spec;
    for (field, is_missing) in [
        ("spec.group", spec.group.is_empty()),
        ("spec.names.plural", spec.names.plural.is_empty()),
        ("spec.versions", spec.versions.is_empty()),
    ] {
        if is_missing {
            return Err(format!("is not a {KIND}: it has no {field}"));
        }
    }
    let name = format!("{}.{}", spec.names.plural, spec.group);
    if definition.name_any() != name {
        return Err(format!("is named {:?}, and its spec says {name}", definition.name_any()));
    }
    Ok(definition)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thing() -> Value {
        json!({
            "apiVersion": VERSION, "kind": KIND, "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                     "versions": [{"name": "v1", "served": true, "storage": true}]},
        })
    }

    #[test]
    fn what_cannot_be_compared_is_said_with_its_document() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        let but = |pointer: &str, value: Value| {
            let mut thing = thing();
            *thing.pointer_mut(pointer).unwrap() = value;
            thing
        };
        for (objects, words) in [
            (vec![secret.clone()], "it holds no CustomResourceDefinition, only Secret"),
            (vec![json!({})], "it holds no CustomResourceDefinition, only an object without a kind"),
            (
                vec![secret.clone(), but("/apiVersion", json!("apiextensions.k8s.io/v1beta1"))],
                "document 2 is a CustomResourceDefinition of apiextensions.k8s.io/v1beta1: write it at apiextensions.k8s.io/v1",
            ),
            (vec![but("/spec", json!("x"))], "document 1 is not a CustomResourceDefinition: "),
            (
                vec![but("/spec/versions", json!([]))],
                "document 1 is not a CustomResourceDefinition: it has no spec.versions",
            ),
            (
                vec![but("/spec/group", json!(""))],
                "document 1 is not a CustomResourceDefinition: it has no spec.group",
            ),
            (
                vec![but("/metadata/name", json!("x"))],
                "document 1 is named \"x\", and its spec says things.example.com",
            ),
            (vec![thing(), thing()], "things.example.com is defined twice"),
        ] {
            let said = definitions(objects).unwrap_err();
            assert!(said.starts_with(words), "{said}");
        }
        assert_eq!(definitions(vec![secret, thing()]).unwrap().len(), 1);
    }
}
