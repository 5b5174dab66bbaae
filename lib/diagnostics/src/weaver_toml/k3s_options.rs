//! `[k3s.options]`: further keys of k3s' own configuration file.
//!
//! They are not known here one by one, k3s judges them. Refused is what
//! `weaver.toml` or the card itself sets, and what is a secret: this
//! file lies in clear on a card.

use toml_edit::{Array, Item, TableLike, Value};

use super::{
    OptionValue,
    fault::{Faults, Mistake, shown},
    limits::{not_more, one_line},
    section::{kind, text_of},
};

/// Keys set elsewhere, and what to use instead.
const OWNED: &[(&str, &str)] = &[
    ("tls-san", "write the names into `names` below [api]"),
    ("node-name", "write `hostname`; the node has that name from its first start"),
    ("token", "write `token` below [k3s]"),
    ("token-file", "write `token` below [k3s]"),
    ("data-dir", "remove `data-dir`: the card's services expect k3s' data where they are"),
    ("write-kubeconfig", "remove `write-kubeconfig`; `weaver kubeconfig export` writes one for your laptop"),
    ("config", "write the keys of that file here"),
    ("server", "write `server` below [k3s] with `role = \"agent\"`: a second server is not supported"),
    ("cluster-init", ONE_SERVER),
    ("cluster-reset", ONE_SERVER),
    ("cluster-reset-restore-path", ONE_SERVER),
];
/// Backup, restore and upgrade are those of one server with its SQLite.
const ONE_SERVER: &str = "remove this key: a card is the only server of its cluster, with SQLite as its datastore; other \
    cards join with `role = \"agent\"`";
/// Keys whose values are secrets.
pub(crate) const SECRET: &[&str] = &[
    "agent-token",
    "datastore-endpoint",
    "etcd-s3-access-key",
    "etcd-s3-secret-key",
    "etcd-s3-session-token",
    "vpn-auth",
];

pub(super) fn read(table: &dyn TableLike, faults: &mut Faults<'_>) -> Vec<(String, OptionValue)> {
    let span = table.iter().next().and_then(|(_, item)| item.span());
    if faults.take(span.as_ref(), not_more("[k3s.options]", table.len(), "keys")).is_none() {
        return Vec::new();
    }
    let mut options = Vec::new();
    for (name, item) in table.iter() {
        let span = table.get_key_value(name).and_then(|(key, _)| key.span()).or_else(|| item.span());
        // The value of a refused key may be a secret, and is not looked at.
        let Some(name) = faults.take(span.as_ref(), key(name)) else { continue };
        if let Some(value) = value(&name, item, faults) {
            options.push((name, value));
        }
    }
    options
}

/// k3s reads one file of registries.
pub(super) fn goes_with_registries(table: &dyn TableLike, faults: &mut Faults<'_>) {
    if let Some((key, item)) = table.get_key_value("private-registry") {
        let message = "`private-registry` makes k3s read another file than the one of [k3s.registries]";
        let remedy = "remove one of the two";
        faults.add_at(key.span().or_else(|| item.span()).as_ref(), message, remedy);
    }
}

fn key(name: &str) -> Result<String, Mistake> {
    let wrong =
        |why: &str, remedy: String| Err(Mistake::new(format!("the option {} {why}", shown(name)), remedy));
    let long = name.strip_suffix('+').unwrap_or(name);
    if let Some(flag) = long.strip_prefix('-') {
        let meant = flag.trim_start_matches('-');
        return wrong(
            "starts with a hyphen",
            format!("write it as in k3s' configuration file: {}", shown(meant)),
        );
    }
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !long.starts_with(|c: char| c.is_ascii_lowercase()) || !long.chars().all(is_part) {
        return wrong(
            "is not an option of k3s",
            "write lower-case letters, digits and hyphens, such as disable".to_owned(),
        );
    }
    if long.len() == 1 {
        return wrong("is a short form", "write the long name, such as `disable`".to_owned());
    }
    if let Some((_, instead)) = OWNED.iter().find(|owned| owned.0 == long) {
        return wrong("is not set here", (*instead).to_owned());
    }
    if SECRET.contains(&long) {
        let remedy = format!(
            "remove `{long}` and write it, on the host, into a file of /etc/rancher/k3s/config.yaml.d that only root \
             reads"
        );
        return wrong("is a secret, and this file is not encrypted", remedy);
    }
    Ok(name.to_owned())
}

fn value(key: &str, item: &Item, faults: &mut Faults<'_>) -> Option<OptionValue> {
    match item {
        Item::Value(Value::Array(list)) => Some(OptionValue::List(texts(key, list, faults))),
        Item::Value(Value::String(text)) => {
            let judged = sound(key, text.value());
            faults.take(item.span().as_ref(), judged).map(OptionValue::Single)
        }
        Item::Value(Value::Integer(number)) => Some(OptionValue::Single(number.value().to_string())),
        Item::Value(Value::Boolean(truth)) => Some(OptionValue::Single(truth.value().to_string())),
        Item::Value(Value::Float(number)) if number.value().is_finite() => {
            Some(OptionValue::Single(number.value().to_string()))
        }
        _ => {
            let message = format!("the option {} is {}", shown(key), kind(item));
            faults.add_at(
                item.span().as_ref(),
                message,
                "write a string, a number, true, false or a list of strings",
            );
            None
        }
    }
}

fn texts(key: &str, list: &Array, faults: &mut Faults<'_>) -> Vec<String> {
    let what = format!("the option {}", shown(key));
    if faults.take(list.span().as_ref(), not_more(&what, list.len(), "entries")).is_none() {
        return Vec::new();
    }
    let mut texts: Vec<String> = Vec::new();
    for value in list {
        let Some(text) = text_of(key, value, faults) else { continue };
        let Some(sound) = faults.take(text.span.as_ref(), sound(key, text.value)) else { continue };
        if texts.contains(&sound) {
            let message = format!("{} is listed twice", shown(&sound));
            faults.add_at(text.span.as_ref(), message, "remove one of the two");
        }
        texts.push(sound);
    }
    texts
}

fn sound(key: &str, text: &str) -> Result<String, Mistake> {
    let what = format!("the option {}", shown(key));
    one_line(&what, text, "write it into a file of /etc/rancher/k3s/config.yaml.d instead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_taken_or_refused() {
        for good in ["disable", "disable+", "kube-apiserver-arg", "https-listen-port", "flannel-backend"] {
            assert_eq!(key(good).unwrap(), good);
        }
        for (name, why, remedy) in [
            ("--disable", "hyphen", "`disable`"),
            ("Disable", "not an option of k3s", "lower-case"),
            ("disable=x", "not an option of k3s", "lower-case"),
            ("", "not an option of k3s", "lower-case"),
            ("+", "not an option of k3s", "lower-case"),
            ("t", "short form", "long name"),
            ("tls-san", "not set here", "[api]"),
            ("tls-san+", "not set here", "[api]"),
            ("node-name", "not set here", "`hostname`"),
            ("token", "not set here", "below [k3s]"),
            ("token-file", "not set here", "below [k3s]"),
            ("data-dir", "not set here", "remove `data-dir`"),
            ("write-kubeconfig", "not set here", "kubeconfig export"),
            ("config", "not set here", "here"),
            ("server", "not set here", "a second server is not supported"),
            ("cluster-init", "not set here", "the only server of its cluster"),
            ("cluster-init+", "not set here", "the only server of its cluster"),
            ("cluster-reset", "not set here", "the only server of its cluster"),
            ("cluster-reset-restore-path", "not set here", "the only server of its cluster"),
            ("agent-token", "a secret", "only root"),
            ("datastore-endpoint", "a secret", "only root"),
        ] {
            let mistake = key(name).unwrap_err();
            assert!(mistake.message.contains(why) && mistake.remedy.contains(remedy), "{name}: {mistake:?}");
        }
    }
}
