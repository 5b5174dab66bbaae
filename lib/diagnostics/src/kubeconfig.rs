//! Can a kubeconfig be used as it is? The context in force, its cluster and
//! its user must all be there.
//!
//! Keys, certificates and tokens are looked for and never repeated.

use crate::{
    finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity},
    shell::quoted,
    text_file::{TextFile, decoded},
    yaml_node::{self, Value, YamlNode},
};

/// What keeps a kubeconfig from being used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} cannot be used as kubeconfig: {why}")]
pub struct Unusable {
    /// The place of the fault, or the file as a whole.
    pub place: Place,
    /// Why, in words that repeat no secret.
    pub why: String,
}

impl Unusable {
    /// For who is about to use the file; `remedy` says where there is another.
    #[must_use]
    pub fn in_use(self, remedy: Remedy) -> Finding {
        Finding::new(Code::KubeconfigUnusable, self.to_string()).saw(self.place, self.why).remedy(remedy)
    }

    /// For the machine that k3s runs on, where it is the administrator's.
    #[must_use]
    pub fn of_administrator(self) -> Finding {
        let explain = format!(
            "restart k3s, which writes {} again; or pass another with --admin-kubeconfig",
            self.place.file
        );
        // k3s itself does without it.
        self.in_use(Remedy::new(explain).command(RESTART_K3S)).milder(Severity::Warn)
    }
}

/// What keeps the file from being used, if anything; by this context, else by its current one.
#[must_use]
pub fn unusable(file: &TextFile, context: Option<&str>) -> Option<Unusable> {
    let root = match yaml_node::parse(&file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place { file: file.path.clone(), line: error.line, column: error.column };
            return Some(Unusable { place, why: format!("it is not valid YAML: {error}") });
        }
    };
    let fault = wrong_top(&root).or_else(|| whole(&root, context).err());
    fault.map(|(node, why)| {
        let place = node.map_or_else(|| Place::file(&file.path), |n| Place::at(&file.path, n.line, n.column));
        Unusable { place, why }
    })
}

/// The same of the bytes at `path`, for a program that is about to use them.
///
/// # Errors
/// What keeps them from being used.
pub fn usable(path: &str, bytes: &[u8], context: Option<&str>) -> Result<(), Unusable> {
    let no_text = || Unusable { place: Place::file(path), why: "it is not text".to_owned() };
    let file = TextFile::new(path, decoded(bytes).ok_or_else(no_text)?);
    unusable(&file, context).map_or(Ok(()), Err)
}

/// What the administrator's kubeconfig lets others read, by its mode.
#[must_use]
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
                .command(format!("sudo chmod 0600 {path}")),
            )
    })
}

/// The same for a copy, which k3s does not write.
#[must_use]
pub fn exposed_copy(path: &str, mode: u32) -> Option<Finding> {
    let remedy =
        Remedy::new("make it readable for its owner only").command(format!("chmod 0600 {}", quoted(path)));
    exposed(path, mode).map(|finding| finding.remedy(remedy))
}

/// What is wrong with the administrator's kubeconfig at `path`, as it was read. It is never the gate's verdict: `run`
/// cannot work with it, k3s is not harmed.
#[must_use]
pub fn administrators(path: &str, read: Result<Option<TextFile>, String>, mode: Option<u32>) -> Vec<Finding> {
    let of_path = |why: String| Unusable { place: Place::file(path), why }.of_administrator();
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

/// What is missing, and where.
type Missing<'a> = (Option<&'a YamlNode>, String);

/// What is no kubeconfig at its top.
fn wrong_top(root: &YamlNode) -> Option<Missing<'_>> {
    for (key, want) in [("kind", "Config"), ("apiVersion", "v1")] {
        let other =
            root.get(key).filter(|node| node.as_str().is_some_and(|text| text != want && !text.is_empty()));
        if let Some(node) = other {
            return Some((Some(node), format!("its {key} is not `{want}`, which is all that kubectl reads")));
        }
    }
    for list in ["clusters", "users", "contexts"] {
        if let Some(node) = root.get(list).filter(|node| !matches!(node.value, Value::List(_) | Value::Null))
        {
            let why = format!("{list} is {}, not a list: begin each entry with `- name:`", node.value.kind());
            return Some((Some(node), why));
        }
    }
    let current = root.entries().iter().map(|(key, _)| key);
    let mut current =
        current.filter(|key| matches!(key.as_str(), Some("currentContext" | "current_context")));
    let key = current.next().filter(|_| root.get("current-context").is_none())?;
    Some((
        Some(key),
        "kubectl reads `current-context`, with a hyphen; the other keys are written the same way".to_owned(),
    ))
}

fn whole<'a>(root: &'a YamlNode, context: Option<&str>) -> Result<(), Missing<'a>> {
    let [cluster, user] = in_force(root, context)?;
    let credentials =
        ["client-certificate-data", "client-certificate", "token", "tokenFile", "exec", "auth-provider"];
    for (key, (name, body), needs) in [("cluster", cluster, &["server"][..]), ("user", user, &credentials)] {
        if !needs.iter().any(|need| body.get(need).is_some()) {
            return Err((Some(body), format!("{key} `{name}` has no {}", needs[0])));
        }
    }
    Ok(())
}

/// Cluster and user of the context, each with the name of its entry.
pub(crate) fn in_force<'a>(
    root: &'a YamlNode,
    context: Option<&str>,
) -> Result<[(&'a str, &'a YamlNode); 2], Missing<'a>> {
    let entry = |list: &str, name: &str| {
        root.get(list)?.items().iter().find(|item| item.get("name").and_then(YamlNode::as_str) == Some(name))
    };
    let named = |name: &str, what: &str| format!("{what} `{name}` is not in it");

    let current = root.get("current-context");
    let Some(name) = context.or_else(|| current?.as_str()).filter(|name| !name.is_empty()) else {
        return Err((None, "it has no current-context".to_owned()));
    };
    let Some(context) = entry("contexts", name).and_then(|entry| entry.get("context")) else {
        return Err((current.filter(|_| context.is_none()), named(name, "context")));
    };
    let part = |key: &str, list: &str| {
        let Some((node, name)) = context.get(key).and_then(|node| Some((node, node.as_str()?))) else {
            return Err((Some(context), format!("the context names no {key}")));
        };
        let body = entry(list, name).and_then(|entry| entry.get(key));
        body.map(|body| (name, body)).ok_or_else(|| (Some(node), named(name, key)))
    };
    Ok([part("cluster", "clusters")?, part("user", "users")?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "\
apiVersion: v1
kind: Config
current-context: default
contexts:
- name: default
  context: {cluster: c, user: u}
clusters:
- name: c
  cluster: {server: https://127.0.0.1:6443}
users:
- name: u
  user: {client-certificate-data: QUJD, client-key-data: c2VjcmV0LWtleQ==}
";

    fn problem(text: &str) -> Option<String> {
        unusable(&TextFile::new("/k.yaml", text), None).map(|unusable| {
            assert!(!format!("{unusable:?}").contains("c2VjcmV0"), "{unusable:?}");
            let message = unusable.to_string();
            let used = unusable.clone().in_use(Remedy::new("other"));
            let here = unusable.of_administrator();
            assert_eq!((used.severity(), here.severity()), (Severity::Fail, Severity::Warn));
            assert!(used.message == message && here.message == message, "{message}");
            assert!(used.remedy != here.remedy && here.remedy.is_some());
            message
        })
    }

    #[test]
    fn a_whole_file_is_fine() {
        assert_eq!(problem(GOOD), None);
    }

    #[test]
    fn bytes_are_judged_as_their_text_and_others_are_refused() {
        let other = GOOD.replace("default", "nope");
        assert_eq!(usable("/k", GOOD.as_bytes(), None), Ok(()));
        assert_eq!(usable("/k", other.as_bytes(), Some("nope")), Ok(()));
        for bytes in [&b"\xff"[..], b"\xff\xfea", b"\xfe\xff\xdc\x00\xd8\x00"] {
            let refused = usable("/k", bytes, None).unwrap_err().to_string();
            assert_eq!(refused, "/k cannot be used as kubeconfig: it is not text", "{bytes:?}");
        }
        assert!(usable("/k", b"", None).unwrap_err().why.contains("current-context"));
    }

    #[test]
    fn each_missing_part_is_named_with_its_place() {
        for (from, to, want) in [
            (
                "current-context: default\n",
                "",
                "/k.yaml cannot be used as kubeconfig: it has no current-context",
            ),
            (
                "current-context: default",
                "current-context: other",
                "/k.yaml:3:18 cannot be used as kubeconfig: context `other`",
            ),
            ("cluster: c,", "cluster: d,", "cluster `d` is not in it"),
            ("user: u}", "user: v}", "user `v` is not in it"),
            ("cluster: c, ", "", "the context names no cluster"),
            ("{server: https://127.0.0.1:6443}", "{}", "cluster `c` has no server"),
            ("{client-certificate-data: QUJD, ", "{", "user `u` has no client-certificate"),
            ("clusters:", "clusters: [", "not valid YAML"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            let message = problem(&text).unwrap_or_default();
            assert!(message.contains(want), "{to}: {message}");
        }
        assert!(problem("").unwrap().contains("no current-context"));
    }

    #[test]
    fn a_mode_wider_than_0600_is_a_warning_with_the_command() {
        assert_eq!(exposed("/k", 0o100_600), None);
        assert_eq!(exposed("/k", 0o400), None);
        let copy = exposed_copy("/home/me/.kube/config", 0o644).unwrap().remedy.unwrap();
        assert_eq!(copy.commands, ["chmod 0600 /home/me/.kube/config"]);
        assert!(!copy.explain.contains("k3s"), "{}", copy.explain);
        let found = exposed("/k", 0o100_644).unwrap();
        assert!(found.message.contains("0644"));
        assert_eq!(found.remedy.unwrap().commands, ["sudo chmod 0600 /k"]);
    }

    #[test]
    fn what_is_no_kubeconfig_at_its_top() {
        for (from, to, want) in [
            (
                "kind: Config",
                "kind: Secret",
                "/k.yaml:2:7 cannot be used as kubeconfig: its kind is not `Config`",
            ),
            ("apiVersion: v1", "apiVersion: v2", "/k.yaml:1:13 cannot be used as kubeconfig: its apiVersion"),
            ("- name: c\n  cluster:", "  c:", "clusters is a mapping, not a list"),
            (
                "current-context",
                "currentContext",
                "/k.yaml:3:1 cannot be used as kubeconfig: kubectl reads `current-context`",
            ),
        ] {
            let found = problem(&GOOD.replacen(from, to, 1)).unwrap_or_default();
            assert!(found.contains(want), "{to}: {found}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(current-context|contexts|name|: |- |a|\n|\\{|\\}){0,20}") {
            let _ = unusable(&TextFile::new("/k", text), None);
        }
    }
}
