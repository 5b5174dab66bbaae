//! Can a kubeconfig be used as it is? The context in force, its cluster and
//! its user must all be there.
//!
//! Keys, certificates and tokens are looked for and never repeated.

use crate::{
    finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity},
    finding_text::cut,
    kubeconfig_export::document::is_entry_name,
    shell::quoted,
    text_file::{TextFile, decoded},
    yaml_node::{self, YamlNode, YamlValue},
};

/// What keeps a kubeconfig from being used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} cannot be used as kubeconfig: {why}")]
pub struct Unusable {
    /// The place of the fault, or the file as a whole.
    pub place: Place,
    /// Why, in words that repeat no secret.
    pub why: String,
    /// What to correct in the file itself.
    correction: Option<Box<Remedy>>,
    /// kubectl asks for what is missing.
    is_asked: bool,
}

impl Unusable {
    fn new(place: Place, why: String) -> Self {
        Self { place, why, correction: None, is_asked: false }
    }

    /// For who is about to use the file; `remedy` says where there is another, for what cannot be corrected in it.
    pub fn in_use(self, remedy: Remedy) -> Finding {
        let finding = Finding::new(Code::KubeconfigUnusable, self.to_string());
        let finding = if self.is_asked { finding.milder(Severity::Warn) } else { finding };
        let remedy = self.correction.map_or(remedy, |correction| *correction);
        finding.saw(self.place, self.why).remedy(remedy)
    }

    /// For the machine that k3s runs on, where it is the administrator's.
    pub fn of_administrator(self) -> Finding {
        let explain = format!(
            "restart k3s, which writes {} again; or pass another with --admin-kubeconfig",
            self.place.file
        );
        // k3s itself does without it.
        Self { correction: None, ..self }
            .in_use(Remedy::new(explain).command(RESTART_K3S))
            .milder(Severity::Warn)
    }
}

/// What keeps the file from being used, if anything; by this context, else by its current one.
pub fn unusable(file: &TextFile, context: Option<&str>) -> Option<Unusable> {
    let root = match yaml_node::parse(&file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place { file: file.path.clone(), line: error.line, column: error.column };
            let correction = valid_yaml(file, error.line).map(|explain| Box::new(Remedy::new(explain)));
            let why = format!("it is not valid YAML: {error}");
            return Some(Unusable { correction, ..Unusable::new(place, why) });
        }
    };
    let fault = wrong_top(&root).or_else(|| whole(&root, context).err());
    fault.map(|MissingPart { node, why, is_asked }| {
        let place = node.map_or_else(|| Place::file(&file.path), |n| Place::at(&file.path, n.line, n.column));
        let correction = other_context(file, &root, context).map(Box::new);
        Unusable { correction, is_asked, ..Unusable::new(place, why) }
    })
}

/// What to correct in a file that is no YAML. Of a tab the parser may name the line before it.
fn valid_yaml(file: &TextFile, line: Option<u64>) -> Option<String> {
    let has_tab = |text: &str| text.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t');
    let mut lines = (1_u64..).zip(file.text.lines());
    if let Some((line, _)) = lines.find(|(_, text)| !text.trim().is_empty() && has_tab(text)) {
        return Some(format!("write spaces in the place of the tab in line {line} of {}", file.path));
    }
    line.map(|line| format!("correct line {line} of {}, or the lines next to it", file.path))
}

/// Names of contexts, cut to what a remedy can show.
pub(crate) fn shown_contexts(names: &[&str]) -> String {
    const MOST: usize = 8;
    let shown: Vec<_> = names.iter().take(MOST).map(|name| cut(name, 60)).collect();
    shown.join(", ") + if names.len() > MOST { ", …" } else { "" }
}

/// What to use where the context in force is not in the file.
fn other_context(file: &TextFile, root: &YamlNode, context: Option<&str>) -> Option<Remedy> {
    let names = || root.list("contexts").iter().filter_map(|item| item.get("name"));
    let asked = context.or_else(|| root.text("current-context")).unwrap_or_default();
    let is_usable = |name: &&str| is_entry_name(name) && in_force(root, Some(*name)).is_ok();
    let usable: Vec<&str> = names().filter_map(YamlNode::as_str).filter(is_usable).collect();
    if usable.is_empty() || names().any(|name| name.as_str() == Some(asked)) {
        return None;
    }
    let shown = shown_contexts(&usable);
    if context.is_some() {
        return Some(Remedy::new(format!("pass a context that is in it: {shown}")));
    }
    let name = if let [only] = usable[..] { quoted(only) } else { "NAME".into() };
    let kubectl = format!("kubectl --kubeconfig {} config use-context {name}", quoted(&file.path));
    Some(Remedy::new(format!("make a context that is in it the current one: {shown}")).command(kubectl))
}

/// The same of the bytes at `path`, for a program that is about to use them.
///
/// # Errors
/// What keeps them from being used.
pub fn usable(path: &str, bytes: &[u8], context: Option<&str>) -> Result<(), Unusable> {
    let no_text = || Unusable::new(Place::file(path), "it is not text".to_owned());
    let file = TextFile::new(path, decoded(bytes).ok_or_else(no_text)?);
    unusable(&file, context).map_or(Ok(()), Err)
}

/// What the administrator's kubeconfig lets others read, by its mode.
pub fn exposed(path: &str, mode: u32) -> Option<Finding> {
    let mode = mode & 0o7777;
    (mode & 0o077 != 0).then(|| {
        let message = format!(
            "{path} has mode {mode:04o}: users other than its owner can take over the cluster with it"
        );
        Finding::new(Code::KubeconfigExposed, message)
            .saw(Place::file(path), format!("mode {mode:04o}"))
            .remedy(
                Remedy::new(
                    "set the mode, and remove `write-kubeconfig-mode` from the configuration of k3s \
                if it sets it",
                )
                .command(format!("sudo chmod 0600 {}", quoted(path))),
            )
    })
}

/// The same for a copy, which k3s does not write.
pub fn exposed_copy(path: &str, mode: u32) -> Option<Finding> {
    let remedy =
        Remedy::new("make it readable for its owner only").command(format!("chmod 0600 {}", quoted(path)));
    exposed(path, mode).map(|finding| finding.remedy(remedy))
}

/// What is wrong with the administrator's kubeconfig at `path`, as it was read. It is never the gate's verdict: `run`
/// cannot work with it, k3s is not harmed.
pub fn administrators(path: &str, read: Result<Option<TextFile>, String>, mode: Option<u32>) -> Vec<Finding> {
    let of_path = |why: String| Unusable::new(Place::file(path), why).of_administrator();
    match read {
        Ok(Some(file)) => {
            let exposed = mode.and_then(|mode| exposed(&file.path, mode));
            unusable(&file, None).map(Unusable::of_administrator).into_iter().chain(exposed).collect()
        }
        // As it is before each first start.
        Ok(None) => vec![
            of_path("it does not exist; k3s writes it when it has started".to_owned())
                .milder(Severity::Unknown),
        ],
        Err(why) => vec![of_path(why)],
    }
}

pub(crate) struct MissingPart<'a> {
    node: Option<&'a YamlNode>,
    why: String,
    /// kubectl asks for it.
    is_asked: bool,
}

impl<'a> MissingPart<'a> {
    fn at(node: Option<&'a YamlNode>, why: impl Into<String>) -> Self {
        Self { node, why: why.into(), is_asked: false }
    }
}

/// What is no kubeconfig at its top.
pub(crate) fn wrong_top(root: &YamlNode) -> Option<MissingPart<'_>> {
    for (key, want) in [("kind", "Config"), ("apiVersion", "v1")] {
        let other =
            root.get(key).filter(|node| node.as_str().is_some_and(|text| text != want && !text.is_empty()));
        if let Some(node) = other {
            let why = format!("its {key} is not `{want}`, which is all that kubectl reads");
            return Some(MissingPart::at(Some(node), why));
        }
    }
    for list in ["clusters", "users", "contexts"] {
        if let Some(node) =
            root.get(list).filter(|node| !matches!(node.value, YamlValue::List(_) | YamlValue::Null))
        {
            let why = format!("{list} is {}, not a list: begin each entry with `- name:`", node.value.kind());
            return Some(MissingPart::at(Some(node), why));
        }
    }
    let current = root.entries().iter().map(|(key, _)| key);
    let mut current =
        current.filter(|key| matches!(key.as_str(), Some("currentContext" | "current_context")));
    let key = current.next().filter(|_| root.get("current-context").is_none())?;
    let why = "kubectl reads `current-context`, with a hyphen; the other keys are written the same way";
    Some(MissingPart::at(Some(key), why))
}

fn whole<'a>(root: &'a YamlNode, context: Option<&str>) -> Result<(), MissingPart<'a>> {
    let [cluster, user] = in_force(root, context)?;
    let credentials =
        ["client-certificate-data", "client-certificate", "token", "tokenFile", "exec", "auth-provider"];
    let ((name, body), (user_name, user)) = (cluster, user);
    if body.get("server").is_none() {
        return Err(MissingPart::at(Some(body), format!("cluster `{name}` has no server")));
    }
    if credentials.iter().any(|need| user.get(need).is_some()) {
        return Ok(());
    }
    if user.get("username").is_some() {
        let why =
            format!("user `{user_name}` has only a password, which Kubernetes has not taken since v1.19");
        return Err(MissingPart::at(Some(user), why));
    }
    let why = format!(
        "user `{user_name}` has no client-certificate, token or exec: kubectl asks for a user name and a \
        password, which k3s does not take"
    );
    Err(MissingPart { is_asked: true, ..MissingPart::at(Some(user), why) })
}

/// The entry of a list by its name.
pub(crate) fn entry<'a>(root: &'a YamlNode, list: &str, name: &str) -> Option<&'a YamlNode> {
    root.get(list)?.items().iter().find(|item| item.text("name") == Some(name))
}

/// Cluster and user of the context, each with the name of its entry.
pub(crate) fn in_force<'a>(
    root: &'a YamlNode,
    context: Option<&str>,
) -> Result<[(&'a str, &'a YamlNode); 2], MissingPart<'a>> {
    let named = |name: &str, what: &str| format!("{what} `{name}` is not in it");

    let current = root.get("current-context");
    let Some(name) = context.or_else(|| current?.as_str()).filter(|name| !name.is_empty()) else {
        return Err(MissingPart::at(None, "it has no current-context"));
    };
    let Some(context) = entry(root, "contexts", name).and_then(|entry| entry.get("context")) else {
        return Err(MissingPart::at(current.filter(|_| context.is_none()), named(name, "context")));
    };
    let part = |key: &str, list: &str| {
        let Some((node, name)) = context.get(key).and_then(|node| Some((node, node.as_str()?))) else {
            return Err(MissingPart::at(Some(context), format!("the context names no {key}")));
        };
        let body = entry(root, list, name).and_then(|entry| entry.get(key));
        body.map(|body| (name, body)).ok_or_else(|| MissingPart::at(Some(node), named(name, key)))
    };
    Ok([part("cluster", "clusters")?, part("user", "users")?])
}

#[cfg(test)]
mod tests;
