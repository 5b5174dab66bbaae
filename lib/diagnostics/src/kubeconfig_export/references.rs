//! What a kubeconfig leans on outside of itself: files of certificates and keys, and programs that give credentials.
//! Whether they are there, the caller looks up.

use std::path::Path;

use crate::finding::{Code, Finding, Place, Remedy};
use crate::kubeconfig::in_force;
use crate::text_file::TextFile;
use crate::yaml_node::{self, YamlNode};

/// Where kubectl looks for what a kubeconfig names.
pub trait KubectlEnvironment {
    /// Whether there is a file that can be read.
    fn is_file(&self, path: &Path) -> bool;
    /// Whether there is a program of this name in the PATH.
    fn is_program(&self, name: &str) -> bool;
}

/// A field that names a file, unless another field has its content.
const FILES: [(&str, &str, &str); 4] = [
    ("cluster", "certificate-authority", "certificate-authority-data"),
    ("user", "client-certificate", "client-certificate-data"),
    ("user", "client-key", "client-key-data"),
    ("user", "tokenFile", "token"),
];

/// What the context in force names and what is not there: kubectl refuses the first, and fails at the second.
pub fn missing(file: &TextFile, context: Option<&str>, here: &impl KubectlEnvironment) -> Vec<Finding> {
    let Ok(root) = yaml_node::parse(&file.text) else { return Vec::new() };
    let Ok([(_, cluster), (_, user)]) = in_force(&root, context) else { return Vec::new() };
    // What is not absolute is relative to it.
    let directory = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (part, body) in [("cluster", cluster), ("user", user)] {
        for (of, field, content) in FILES {
            let Some(node) = body.get(field).filter(|_| of == part && body.get(content).is_none()) else {
                continue;
            };
            let Some(named) = node.as_str().filter(|named| !named.is_empty()) else { continue };
            let path = directory.join(named);
            if !here.is_file(&path) {
                let place = Place::at(&file.path, node.line, node.column);
                findings
                    .push(lost(place, &format!("{field} names {}, which cannot be read", path.display())));
            }
        }
        let Some(node) = body.get("exec").and_then(|exec| exec.get("command")) else { continue };
        let Some(command) = node.as_str() else { continue };
        let is_path = command.contains('/');
        let is_there =
            if is_path { here.is_file(&directory.join(command)) } else { here.is_program(command) };
        if !is_there {
            let place = Place::at(&file.path, node.line, node.column);
            let message = format!(
                "{place}: kubectl gets its credentials from `{command}`, which is not {}",
                if is_path { "there" } else { "installed" }
            );
            let remedy = if is_path {
                "copy the program to that path, which is relative to the kubeconfig, or correct the path"
            } else {
                "install it, or take a kubeconfig that needs no program: `weaver kubeconfig fetch USER@HOST`"
            };
            findings.push(
                Finding::new(Code::KubeconfigUnusable, message)
                    .saw(place, command)
                    .remedy(Remedy::new(remedy)),
            );
        }
    }
    findings
}

fn lost(place: Place, why: &str) -> Finding {
    let remedy = "correct the path, copy the file to it, or take a kubeconfig that contains its certificates";
    Finding::at(Code::KubeconfigUnusable, place, why)
        .remedy(Remedy::new(remedy).command("weaver kubeconfig fetch USER@HOST"))
}

/// A name that a list has twice: kubectl refuses the whole file.
pub fn repeated(file: &TextFile) -> Vec<Finding> {
    let Ok(root) = yaml_node::parse(&file.text) else { return Vec::new() };
    let mut findings = Vec::new();
    for list in ["clusters", "users", "contexts"] {
        let items = root.list(list);
        let names: Vec<&YamlNode> = items.iter().filter_map(|item| item.get("name")).collect();
        for (index, node) in names.iter().enumerate() {
            if names[..index].iter().any(|earlier| earlier.as_str() == node.as_str()) {
                let place = Place::at(&file.path, node.line, node.column);
                let name = node.as_str().unwrap_or_default();
                let message =
                    format!("{place}: {list} has `{name}` twice, and kubectl refuses the whole file");
                findings.push(
                    Finding::new(Code::KubeconfigUnusable, message)
                        .saw(place, format!("a second `{name}`"))
                        .remedy(Remedy::new(
                            "rename one of the two, also in the contexts that use it, or remove it",
                        )),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Here;

    impl KubectlEnvironment for Here {
        fn is_file(&self, path: &Path) -> bool {
            path == Path::new("/home/me/.kube/ca.crt") || path == Path::new("/bin/token")
        }

        fn is_program(&self, name: &str) -> bool {
            name == "kubelogin"
        }
    }

    fn found(cluster: &str, user: &str) -> Vec<String> {
        let text = format!(
            "current-context: a\ncontexts:\n- {{name: a, context: {{cluster: c, user: u}}}}\nclusters:\n\
             - {{name: c, cluster: {cluster}}}\n- {{name: other, cluster: {{certificate-authority: /no}}}}\nusers:\n\
             - {{name: u, user: {user}}}\n"
        );
        let file = TextFile::new("/home/me/.kube/config", text);
        missing(&file, None, &Here).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_file_or_program_that_is_not_there_is_named_with_its_place() {
        let fine = "{certificate-authority: ca.crt}";
        for (cluster, user, want) in [
            (fine, "{token: x}", &[][..]),
            (fine, "{exec: {command: kubelogin}}", &[]),
            (fine, "{exec: {command: /bin/token}}", &[]),
            ("{certificate-authority: /no, certificate-authority-data: QQ==}", "{token: x}", &[]),
            (
                "{certificate-authority: /gone/ca.crt}",
                "{token: x}",
                &["certificate-authority names /gone/ca.crt"],
            ),
            (
                fine,
                "{client-certificate: me.crt, client-key: me.key}",
                &["client-certificate names /home/me/.kube/me.crt", "client-key names /home/me/.kube/me.key"],
            ),
            (fine, "{tokenFile: /gone}", &["tokenFile names /gone"]),
            (fine, "{exec: {command: aws}}", &["`aws`, which is not installed"]),
            (fine, "{exec: {command: ./get}}", &["`./get`, which is not there"]),
        ] {
            let found = found(cluster, user);
            assert_eq!(found.len(), want.len(), "{found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.contains(want) && found.starts_with("/home/me/.kube/config:"), "{found}");
            }
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_as_kubectl_does() {
        let text = "clusters: [{name: default}, {name: b}]\nusers:\n- name: default\n- name: default\ncontexts: []\n";
        let found = repeated(&TextFile::new("/k", text));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("/k:4:9: users has `default` twice"), "{}", found[0].message);
    }
}
