//! `[k3s.registries]`: k3s' `registries.yaml`, with the names that this file has there.
//!
//! The lint of that file judges what would be written, so that a setting without effect is a fault at its line here.
//! Credentials are refused, for `weaver.toml` lies in clear on a card.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml_edit::{Array, Item, TableLike, Value};

use super::{
    fault::{Faults, Mistake, shown},
    header::HEADER,
    limits::{not_more, one_line},
    section::kind,
};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::registries_yaml::{self, FILE};
use crate::text_file::TextFile;
use crate::yaml_node::{self, YamlNode};
use crate::yaml_text;

/// How the lint calls the file.
const SECTION: &str = "[k3s.registries]";
/// Keys of credentials; what is below them is not looked at.
const SECRET: [&str; 8] =
    ["auth", "auths", "username", "password", "token", "identity_token", "identitytoken", "registry_token"];
const WHERE_SECRETS: &str = "remove [k3s.registries], and write all of it with the credentials, on the host, into \
    /etc/rancher/k3s/registries.yaml, which only root may read; boot-config leaves that file alone";

/// `registries.yaml` as it is on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RegistriesFile {
    #[default]
    Missing,
    /// boot-config has written it.
    Ours,
    /// It is left alone.
    Owners,
}

impl RegistriesFile {
    /// By what was read. What cannot be read is the owner's.
    pub fn of<E>(read: Result<Option<TextFile>, E>) -> Self {
        match read {
            Ok(None) => Self::Missing,
            Ok(Some(file)) if file.text.starts_with(HEADER) => Self::Ours,
            Ok(Some(_)) | Err(_) => Self::Owners,
        }
    }
}

/// The YAML that is asked for; `None` without a setting, or with a fault.
pub(super) fn read(table: &dyn TableLike, faults: &mut Faults<'_>) -> Option<String> {
    let mut is_whole = true;
    let object = object(table, &mut is_whole, faults);
    if object.is_empty() || !is_whole {
        return None;
    }
    let text = yaml_text::write(&object);
    let file = TextFile::new(SECTION, text);
    let findings = registries_yaml::lint(&file, |_| true);
    let root = yaml_node::parse(&file.text).ok();
    for finding in &findings {
        let Some(seen) = finding.evidence.first() else { continue };
        let path = root.as_ref().and_then(|root| path_to(root, &seen.place)).unwrap_or_default();
        let remedy = finding.remedy.as_ref().map(|remedy| in_toml(&remedy.explain)).unwrap_or_default();
        faults.add_at(span_of(table, &path).as_ref(), seen.saw.as_str(), remedy);
    }
    findings.is_empty().then_some(file.text)
}

/// What the lint says to write in YAML.
fn in_toml(remedy: &str) -> String {
    remedy.trim_end_matches("; k3s reads the file when it starts").replace(":`", "`")
}

fn object(table: &dyn TableLike, is_whole: &mut bool, faults: &mut Faults<'_>) -> Map<String, Json> {
    let mut object = Map::new();
    let span = table.iter().next().and_then(|(_, item)| item.span());
    if faults.take(span.as_ref(), not_more("a section", table.len(), "keys")).is_none() {
        *is_whole = false;
        return object;
    }
    for (name, item) in table.iter() {
        let span = table.get_key_value(name).and_then(|(key, _)| key.span()).or_else(|| item.span());
        if SECRET.contains(&name) {
            let message = format!("{} is for credentials, and this file is not encrypted", shown(name));
            faults.add_at(span.as_ref(), message, WHERE_SECRETS);
            *is_whole = false;
            continue;
        }
        let made = value(name, item, span.as_ref(), is_whole, faults);
        *is_whole &= made.is_some() && !name.contains(char::is_control);
        if name.contains(char::is_control) {
            faults.add_at(span.as_ref(), "this key has control characters", "write it on one line");
        }
        object.extend(made.map(|made| (name.to_owned(), made)));
    }
    object
}

fn value(
    name: &str,
    item: &Item,
    span: Option<&Range<usize>>,
    is_whole: &mut bool,
    faults: &mut Faults<'_>,
) -> Option<Json> {
    if let Some(table) = item.as_table_like() {
        return Some(Json::Object(object(table, is_whole, faults)));
    }
    let made = match item.as_value() {
        Some(Value::Boolean(truth)) => Ok((*truth.value()).into()),
        Some(Value::String(text)) => text_of(name, text.value(), text.value().contains("://")),
        Some(Value::Array(list)) => entries(name, list),
        _ => Err(Mistake::new(
            format!("{} is {}", shown(name), kind(item)),
            "write a string, true, false, a list of strings, or a section",
        )),
    };
    faults.take(span, made)
}

fn entries(name: &str, list: &Array) -> Result<Json, Mistake> {
    not_more(&shown(name), list.len(), "entries")?;
    let entry = |value: &Value| {
        let no_text = || {
            Mistake::new(format!("an entry of {} is not a string", shown(name)), "put each entry in quotes")
        };
        text_of(name, value.as_str().ok_or_else(no_text)?, true)
    };
    list.iter().map(entry).collect::<Result<_, _>>().map(Json::Array)
}

/// A text on one line, and no URL with a password, which is not shown.
fn text_of(name: &str, text: &str, is_url: bool) -> Result<Json, Mistake> {
    let name = shown(name);
    if is_url && text.contains('@') {
        Err(Mistake::new(
            format!("{name} has a user or a password in it, and this file is not encrypted"),
            WHERE_SECRETS,
        ))
    } else {
        one_line(&name, text, "write what k3s can use").map(Json::from)
    }
}

/// One step down to a node.
enum Step<'n> {
    Key(&'n str),
    Item(usize),
}

/// How to get to what stands at a place.
fn path_to<'n>(node: &'n YamlNode, place: &Place) -> Option<Vec<Step<'n>>> {
    let is_at = |node: &YamlNode| (Some(node.line), Some(node.column)) == (place.line, place.column);
    let below = |step: Step<'n>, value: &'n YamlNode| {
        path_to(value, place).map(|path| [step].into_iter().chain(path).collect())
    };
    let entry = |(key, value): &'n (YamlNode, YamlNode)| {
        let step = Step::Key(key.as_str()?);
        if is_at(key) { Some(vec![step]) } else { below(step, value) }
    };
    let mut items = node.items().iter().enumerate();
    let deeper = node.entries().iter().find_map(entry);
    let deeper = deeper.or_else(|| items.find_map(|(at, item)| below(Step::Item(at), item)));
    // A mapping is where its first key is: of the two the key is meant.
    deeper.or_else(|| is_at(node).then(Vec::new))
}

/// The position of the last step that is there.
fn span_of(table: &dyn TableLike, path: &[Step<'_>]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let Step::Key(name) = first else { return None };
    let (key, item) = table.get_key_value(name)?;
    let own = key.span().or_else(|| item.span());
    let deeper = match rest {
        [Step::Item(at), ..] => item.as_array().and_then(|list| list.get(*at)?.span()),
        _ => item.as_table_like().and_then(|table| span_of(table, rest)),
    };
    deeper.or(own)
}

/// The settings are not applied: the owner has a file of their own.
pub fn owners_file(weaver_toml: &str) -> Finding {
    let message = format!("{FILE} is a file of your own: [k3s.registries] of {weaver_toml} is not applied");
    let explain = format!(
        "keep {FILE} and remove [k3s.registries], or write all of it into [k3s.registries], move the file away, and reboot"
    );
    let remedy = Remedy::new(explain).command(format!("sudo mv {FILE} {FILE}.own"));
    Finding::new(Code::HostNotConfigured, message)
        .saw(Place::file(FILE), "not written by boot-config")
        .remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weaver_toml::parse;

    fn read(text: &str) -> Result<Option<String>, Vec<String>> {
        let read = parse(text.as_bytes()).map(|read| read.config.registries);
        read.map_err(|faults| {
            faults
                .iter()
                .map(|fault| format!("{}:{}: {}; {}", fault.line, fault.column, fault.message, fault.remedy))
                .collect()
        })
    }

    #[test]
    fn the_section_becomes_what_k3s_reads() {
        let text = r#"
[k3s.registries.mirrors."docker.io"]
endpoint = ["https://registry.lan:5000", "https://registry-1.docker.io"]
rewrite = {"^rancher/(.*)" = "mirror/$1"}
[k3s.registries.mirrors."*"]
[k3s.registries.configs."registry.lan:5000".tls]
ca_file = "/etc/ssl/registry.crt"
insecure_skip_verify = false
"#;
        let yaml = read(text).unwrap().unwrap();
        let root = yaml_node::parse(&yaml).unwrap();
        let hub = root.get("mirrors").and_then(|mirrors| mirrors.get("docker.io")).unwrap();
        let endpoints: Vec<_> =
            hub.get("endpoint").unwrap().items().iter().filter_map(YamlNode::as_str).collect();
        assert_eq!(endpoints, ["https://registry.lan:5000", "https://registry-1.docker.io"]);
        assert_eq!(
            hub.get("rewrite").unwrap().get("^rancher/(.*)").and_then(YamlNode::as_str),
            Some("mirror/$1")
        );
        let tls = root.get("configs").unwrap().get("registry.lan:5000").unwrap().get("tls").unwrap();
        assert_eq!(tls.text("ca_file"), Some("/etc/ssl/registry.crt"));
        assert_eq!(tls.text("insecure_skip_verify"), Some("false"));
        assert!(root.get("mirrors").unwrap().get("*").is_some());
    }

    #[test]
    fn nothing_asked_is_nothing_to_write() {
        for text in ["", "[k3s]\n", "[k3s.registries]\n", "[k3s]\nregistries = {}\n"] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn a_setting_without_effect_is_a_fault_at_its_line() {
        for (text, want) in [
            ("mirror.\"a.lan\" = {}", "2:1: k3s reads no `mirror` here; at the top it reads"),
            (
                "[k3s.registries.mirrors.\"a.lan\"]\nendpoints = [\"https://a.lan\"]",
                "3:1: a mirror has no `endpoints`",
            ),
            (
                "mirrors.\"a.lan\".endpoint = [\"https://a.lan\", \"htp://b.lan\"]",
                "2:46: an endpoint begins with something other than http:// and https://",
            ),
            ("mirrors.\"a.lan\".endpoint = \"https://a.lan\"", "endpoint is not a list, such as"),
            (
                "mirrors.\"hub.docker.com\" = {}",
                "images of Docker Hub are those of `docker.io`; write `docker.io`",
            ),
            ("mirrors.\"https://a.lan\" = {}", "has a URL or a path as a key"),
            ("mirrors.\"a.lan\".rewrite = {\"^(a\" = \"b\"}", "a group has no end"),
            (
                "mirrors.\"a.lan\".endpoint = [\"https://b.lan:5000\"]\nconfigs.\"a.lan\".tls.ca_file = \"/a.crt\"",
                "3:9: `configs` names the mirrored registry `a.lan`",
            ),
            (
                "configs.\"a.lan\".tls.insecure_skip_verify = \"yes\"",
                "insecure_skip_verify is not true or false",
            ),
            ("configs.\"a.lan\".tls.ca = \"/a.crt\"", "`tls` has no `ca`"),
            ("mirrors.\"a.lan\".endpoint = [1]", "an entry of `endpoint` is not a string"),
            ("mirrors = 1", "`mirrors` is a number; write a string"),
            ("mirrors.\"a.lan\".endpoint = [\"a\\nb\"]", "`endpoint` has control characters"),
        ] {
            let faults = read(&format!("[k3s.registries]\n{text}\n")).unwrap_err();
            assert_eq!(faults.len(), 1, "{text}: {faults:?}");
            assert!(faults[0].contains(want), "{text}: {faults:?}");
            assert!(!faults[0].contains("k3s reads the file when"), "{faults:?}");
        }
    }

    #[test]
    fn credentials_are_refused_with_the_place_for_them_and_never_shown() {
        for text in [
            "configs.\"a.lan\".auth = {username = \"hunter2\", password = \"hunter2\"}",
            "[k3s.registries.configs.\"a.lan\".auth]\nusername = \"hunter2\"",
            "configs.\"a.lan\".password = \"hunter2\"",
            "auths.\"a.lan\".auth = \"hunter2\"",
            "mirrors.\"a.lan\".endpoint = [\"https://me:hunter2@a.lan\"]",
        ] {
            let faults = read(&format!("[k3s.registries]\n{text}\n")).unwrap_err();
            assert_eq!(faults.len(), 1, "{text}: {faults:?}");
            assert!(faults[0].contains("/etc/rancher/k3s/registries.yaml, which only root"), "{faults:?}");
            assert!(!faults[0].contains("hunter2"), "{faults:?}");
        }
    }

    #[test]
    fn another_file_of_the_registries_contradicts_it() {
        let text = "[k3s.options]\nprivate-registry = \"/my.yaml\"\n[k3s.registries.mirrors.\"a.lan\"]\n";
        let faults = read(text).unwrap_err();
        assert!(faults[0].starts_with("2:1: `private-registry` makes k3s read another file"), "{faults:?}");
    }
}
