//! In which versions a release stores objects, of the definitions that its package has (`/usr/share/weaver/crds`).

use crate::yaml_node;

/// The versions of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Its name, such as `configmapsyncs.weaver.example.com`.
    pub name: String,
    pub versions: Vec<String>,
    /// The version that objects are stored in.
    pub stored: String,
}

impl StoredDefinition {
    /// The definition in a file; `None` where it is none.
    pub fn of(text: &str) -> Option<Self> {
        let document = yaml_node::parse(text).ok()?;
        let name = document.get("metadata")?.text("name")?.to_owned();
        let yaml_node::YamlValue::List(listed) = &document.get("spec")?.get("versions")?.value else {
            return None;
        };
        let name_of = |version: &yaml_node::YamlNode| Some(version.text("name")?.to_owned());
        let is_stored = |version: &&yaml_node::YamlNode| version.text("storage") == Some("true");
        let stored = listed.iter().find(is_stored).and_then(name_of)?;
        Some(Self { name, versions: listed.iter().filter_map(name_of).collect(), stored })
    }
}

/// What the first release stores and the second does not know: going from the first to the second, the API server would
/// have objects that no definition describes.
pub fn unknown_to(from: &[StoredDefinition], to: &[StoredDefinition]) -> Vec<String> {
    let is_known = |stored: &&StoredDefinition| {
        let other = to.iter().find(|other| other.name == stored.name);
        // A kind that the other release does not have stays as it is: nothing of it is read there.
        other.is_none_or(|other| other.versions.contains(&stored.stored))
    };
    let unknown = from.iter().filter(|stored| !is_known(stored));
    unknown.map(|definition| format!("{} as {}", definition.name, definition.stored)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, versions: &[&str], stored: &str) -> StoredDefinition {
        let versions = versions.iter().map(|version| (*version).to_owned()).collect();
        StoredDefinition { name: name.to_owned(), versions, stored: stored.to_owned() }
    }

    #[test]
    fn ours_are_read() {
        let text = include_str!("../../../../deploy/crds/configmapsyncs.yaml");
        let read = StoredDefinition::of(text).unwrap();
        assert_eq!(
            (read.stored.as_str(), read.versions),
            ("v1beta1", vec!["v1beta1".to_owned(), "v1alpha1".to_owned()])
        );
        assert!(read.name.starts_with("configmapsyncs."), "{}", read.name);
        for text in ["", "a: [", "metadata: {name: a}", "metadata: {name: a}\nspec: {versions: [{name: v1}]}"]
        {
            assert_eq!(StoredDefinition::of(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_other_release_could_not_read() {
        let old = definition("a", &["v1alpha1"], "v1alpha1");
        let between = definition("a", &["v1beta1", "v1alpha1"], "v1alpha1");
        let new = definition("a", &["v1beta1", "v1alpha1"], "v1beta1");
        let another = definition("b", &["v1"], "v1");
        for (from, to, want) in [
            (&old, &[old.clone()][..], &[][..]),
            (&old, std::slice::from_ref(&new), &[]),
            (&new, std::slice::from_ref(&between), &[]),
            (&between, std::slice::from_ref(&old), &[]),
            (&new, std::slice::from_ref(&old), &["a as v1beta1"]),
            (&new, &[], &[]),
            (&new, &[another, old.clone()], &["a as v1beta1"]),
        ] {
            assert_eq!(unknown_to(std::slice::from_ref(from), to), want, "{from:?} {to:?}");
        }
    }
}
