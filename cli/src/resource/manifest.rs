//! Manifests that users write: read from a file or standard input, and put into one namespace.
//!
//! What cannot be read is named by document and line, and never quoted: the file may contain anything.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::{Value, json};
use serde_saphyr::{DuplicateKeyPolicy, Options};
use weaver_api::names::{dns_label, dns_subdomain};
use weaver_api::ownership::FINALIZER;
use weaver_diagnostics::text_file::decoded;

use super::kind::Kind;
use crate::stdout::ErrorLines;

/// Largest file that is read: more than the API server accepts in one request, for several objects.
const LIMIT: u64 = 16 << 20;

pub fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// What errors call it.
pub fn shown(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

/// The documents of a file; `-` is standard input.
pub fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let shown = shown(file);
    let mut bytes = Vec::new();
    let read = if is_stdin(file) {
        std::io::stdin().lock().take(LIMIT + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes))
    };
    let size = read.with_context(|| format!("cannot read {shown}"))?;
    ensure!(size as u64 <= LIMIT, "{shown} is larger than {} MiB", LIMIT >> 20);
    let text = decoded(&bytes).with_context(|| format!("{shown} is not text in UTF-8 or UTF-16"))?;
    let documents = parse(&text).map_err(|why| anyhow!("{shown}: {why}"))?;
    ensure!(!documents.is_empty(), "{shown} holds no object");
    Ok(documents)
}

/// The objects of a text, those of a `List` one by one; empty documents are skipped.
fn parse(text: &str) -> Result<Vec<Value>, String> {
    let mut options = Options::default();
    options.with_snippet = false;
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |place| place.line());
        format!("line {line} is not valid YAML, or repeats a key")
    })?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind") == Some(&json!("List")) => {
                let items = list.remove("items").unwrap_or_default();
                let Value::Array(items) = items else { return Err("its List has no items".into()) };
                objects.extend(items);
            }
            object @ Value::Object(_) => objects.push(object),
            _ => return Err("a document of it is not an object: write `apiVersion: …` first".into()),
        }
    }
    Ok(objects)
}

/// A manifest that has a known kind, a valid name and a namespace, and follows the rules of its kind.
pub struct CheckedManifest {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub object: Value,
}

/// A field of a manifest's metadata; empty if it is not a text.
pub fn field<'a>(manifest: &'a Value, name: &str) -> &'a str {
    manifest["metadata"][name].as_str().unwrap_or_default()
}

/// Checks the `number`th document (from 1). Its namespace is its own, else `asked`, else `default`.
pub fn check(
    mut object: Value,
    number: usize,
    asked: Option<&str>,
    default: &str,
) -> anyhow::Result<CheckedManifest> {
    let document = || format!("document {number}");
    let kind = Kind::of(&object).map_err(|why| anyhow!("{} {why}", document()))?;
    let (own, name) = (field(&object, "namespace").to_owned(), field(&object, "name").to_owned());
    if let Some(asked) = asked
        && !own.is_empty()
        && own != asked
    {
        bail!("{} is for namespace {own}, but --namespace is {asked}: remove one of them", document());
    }
    let target = if own.is_empty() { asked.unwrap_or(default) } else { &own };
    dns_label(target).map_err(|fault| anyhow!("{}: namespace {target:?} {fault}", document()))?;
    dns_subdomain(&name).map_err(|fault| anyhow!("{}: metadata.name {name:?} {fault}", document()))?;
    let namespace = target.to_owned();
    object["metadata"]["namespace"] = json!(namespace);
    forget_state(&mut object);
    valid(kind, &object)?;
    Ok(CheckedManifest { kind, namespace, name, object })
}

/// Removes what the API server and the operator add, so that the output of `get -o yaml` is a manifest as well.
fn forget_state(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
            metadata.remove(field);
        }
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
    }
}

/// Checks our own rules before the API server is asked: all faults at once, each with its field and remedy.
pub fn valid(kind: Kind, object: &Value) -> anyhow::Result<()> {
    let faults = kind.faults(object);
    if faults.is_empty() {
        return Ok(());
    }
    let key = kind.key(field(object, "namespace"), field(object, "name"));
    let mut lines = vec![format!("{key} is not valid; nothing was changed:")];
    lines.extend(faults.iter().map(ToString::to_string));
    Err(ErrorLines(lines).into())
}

/// The only document of a file.
pub fn read_one(file: &Path) -> anyhow::Result<Value> {
    let mut documents = read(file)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => bail!("{} holds more than one object: give one", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_read_one_by_one() {
        let text = "# first\n---\nkind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- {kind: C}\n";
        let kinds: Vec<Value> = parse(text).unwrap().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(parse("{\"kind\": \"A\"}").unwrap(), [json!({"kind": "A"})]);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_placed_and_not_repeated() {
        for (text, words) in [
            ("kind: Secret\ndata: {a: hunter2\n", "is not valid YAML"),
            ("a: hunter2\na: hunter2\n", "line 2 is not valid YAML, or repeats a key"),
            ("- hunter2\n", "not an object"),
            ("kind: List\nitems: hunter2\n", "no items"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(words) && !said.contains("hunter2"), "{said}");
        }
    }

    fn sync(metadata: &Value) -> Value {
        json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync", "metadata": metadata,
            "spec": {"serviceAccount": {"name": "a"}, "source": {"namespace": "a", "name": "b"},
                     "targets": {"namespaces": ["c"]}},
        })
    }

    #[test]
    fn the_namespace_is_the_objects_own_then_the_one_asked_for_then_the_default() {
        for (own, asked, expected) in [
            (Some("own"), None, "own"),
            (Some("own"), Some("own"), "own"),
            (None, Some("asked"), "asked"),
            (None, None, "default"),
        ] {
            let metadata = own.map_or(json!({"name": "a"}), |own| json!({"name": "a", "namespace": own}));
            let checked = check(sync(&metadata), 1, asked, "default").unwrap();
            assert_eq!(
                (checked.namespace.as_str(), field(&checked.object, "namespace")),
                (expected, expected)
            );
        }
        let said = check(sync(&json!({"name": "a", "namespace": "b"})), 2, Some("c"), "d").err().unwrap();
        assert!(said.to_string().contains("document 2 is for namespace b, but --namespace is c"), "{said}");
    }

    #[test]
    fn what_an_object_looks_like_in_a_cluster_is_a_manifest_too() {
        let mut shown = sync(&json!({
            "name": "a", "uid": "u", "resourceVersion": "7", "generation": 3, "labels": {"b": "c"},
            "creationTimestamp": "2026-11-22T12:00:00Z", "managedFields": [],
            "finalizers": ["weaver.example.com/cleanup"],
        }));
        shown["status"] = json!({"observedGeneration": 3});
        let manifest = check(shown, 1, None, "d").unwrap().object;
        assert_eq!(manifest, sync(&json!({"name": "a", "namespace": "d", "labels": {"b": "c"}})));
    }

    #[test]
    fn a_document_that_cannot_be_is_refused_by_its_field() {
        let said = |object: Value| format!("{:#}", check(object, 3, None, "d").err().unwrap());
        assert!(said(sync(&json!({"name": "A"}))).contains("document 3: metadata.name \"A\" is not a valid"));
        let mut broken = sync(&json!({"name": "a"}));
        broken["spec"]["resyncSeconds"] = json!(61);
        broken["spec"]["source"] = json!({});
        let said = said(broken);
        assert!(said.contains("ConfigMapSync d/a is not valid; nothing was changed:"), "{said}");
        assert_eq!(said.matches("\n  spec.").count(), 3, "{said}");
    }
}
