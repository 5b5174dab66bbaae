//! Fields of a spec by their path: compared with their default, copied out and put back.

use serde_json::{Map, Value};

/// A spec as JSON.
pub(super) type Spec = Map<String, Value>;

/// A field that only one version has.
pub(super) struct VersionField {
    /// Where it is, from `spec` on.
    pub path: &'static [&'static str],
    /// What the API server fills in; then there is nothing to carry.
    pub default: Option<Default>,
}

/// A default of a schema.
#[derive(Clone, Copy)]
pub(super) enum Default {
    Text(&'static str),
    Number(i64),
    False,
}

impl Default {
    fn value(self) -> Value {
        match self {
            Default::Text(text) => Value::from(text),
            Default::Number(number) => Value::from(number),
            Default::False => Value::Bool(false),
        }
    }
}

/// Copies `fields` out of `spec`, but for what is only the default.
pub(super) fn pick(spec: &Spec, fields: &[VersionField]) -> Spec {
    let mut picked = Spec::new();
    for field in fields {
        if let Some(value) = get(spec, field.path)
            && field.default.map(Default::value).as_ref() != Some(value)
        {
            set(&mut picked, field.path, value.clone());
        }
    }
    picked
}

/// Puts those of `fields` that are in `hidden` into `spec`, each only if it `may` be there; returns the rest.
pub(super) fn put(
    spec: &mut Spec,
    mut hidden: Spec,
    fields: &[VersionField],
    may: fn(&[&str], &Value) -> bool,
) -> Spec {
    for field in fields {
        let Some(value) = get(&hidden, field.path).cloned() else { continue };
        if may(field.path, &value) && set(spec, field.path, value) {
            remove(&mut hidden, field.path);
        }
    }
    hidden
}

/// Fills in the defaults of `fields` where their parents are.
pub(super) fn fill(spec: &mut Spec, fields: &[VersionField]) {
    for field in fields {
        let Some((_, parents)) = field.path.split_last() else { continue };
        let has_parent = parents.is_empty() || get(spec, parents).is_some_and(Value::is_object);
        if let (true, None, Some(default)) = (has_parent, get(spec, field.path), field.default) {
            set(spec, field.path, default.value());
        }
    }
}

/// The value at `path`.
pub(super) fn get<'a>(map: &'a Spec, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = map.get(*first)?;
    if rest.is_empty() { Some(value) } else { get(value.as_object()?, rest) }
}

/// Writes `value` at `path`; `false` where something on the way is not an object.
pub(super) fn set(map: &mut Spec, path: &[&str], value: Value) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        map.insert((*first).to_owned(), value);
        return true;
    }
    let next = map.entry(*first).or_insert_with(|| Value::Object(Spec::new()));
    next.as_object_mut().is_some_and(|next| set(next, rest, value))
}

/// Removes the value at `path`, and parents that are empty then.
fn remove(map: &mut Spec, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        map.remove(*first);
    } else if let Some(next) = map.get_mut(*first).and_then(Value::as_object_mut) {
        remove(next, rest);
        if next.is_empty() {
            map.remove(*first);
        }
    }
}

/// Adds what `map` does not have, in depth.
pub(super) fn merge(map: &mut Spec, more: Spec) {
    for (key, value) in more {
        match (map.get_mut(&key), value) {
            (Some(Value::Object(mine)), Value::Object(value)) => merge(mine, value),
            (Some(_), _) => {}
            (None, value) => drop(map.insert(key, value)),
        }
    }
}
