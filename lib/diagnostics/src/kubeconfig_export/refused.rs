//! What kubectl refuses of the context in force before it asks a server. Pure.
//!
//! As client-go's `clientcmd` validates it, of kubectl 1.24 and newer. Keys and tokens are never repeated.

use crate::finding::{Code, Finding, Place, Remedy};
use crate::kubeconfig::entry;
use crate::text_file::TextFile;
use crate::yaml_node::{self, YamlNode, YamlValue};

/// A field and the other that has the same: only one of them may be there.
const BOTH: [(&str, &str); 3] = [
    ("certificate-authority", "certificate-authority-data"),
    ("client-certificate", "client-certificate-data"),
    ("client-key", "client-key-data"),
];
const SCHEMES: [&str; 4] = ["http://", "https://", "socks5://", "socks5h://"];

/// What it refuses; nothing of a file that has no such context, which is reported elsewhere.
pub fn refused(file: &TextFile, context: Option<&str>) -> Vec<Finding> {
    let Ok(root) = yaml_node::parse(&file.text) else { return Vec::new() };
    let mut found = RefusedLint { file, findings: Vec::new() };
    found.names(&root);
    let name = context.or_else(|| root.text("current-context"));
    let context = name.and_then(|name| entry(&root, "contexts", name)?.get("context"));
    let part = |list: &str, of: &str| entry(&root, list, context?.text(of)?)?.get(of);
    let (cluster, user) = (part("clusters", "cluster"), part("users", "user"));
    for body in [cluster, user].into_iter().flatten() {
        found.both(body);
    }
    if let Some(proxy) = cluster.and_then(|cluster| cluster.get("proxy-url")) {
        found.proxy(proxy);
    }
    if let Some(cluster) = cluster {
        found.types(cluster);
    }
    if let Some(user) = user {
        found.user(user);
        found.impersonation(user);
    }
    found.findings
}

struct RefusedLint<'a> {
    file: &'a TextFile,
    findings: Vec<Finding>,
}

impl RefusedLint<'_> {
    fn fault(&mut self, at: &YamlNode, what: &str, remedy: &str) {
        let place = Place::at(&self.file.path, at.line, at.column);
        self.findings.push(Finding::at(Code::KubeconfigUnusable, place, what).remedy(Remedy::new(remedy)));
    }

    /// A name that YAML reads as a number or a boolean is no name to kubectl.
    fn names(&mut self, root: &YamlNode) {
        let lists = ["clusters", "users", "contexts"].iter();
        let items = lists.flat_map(|list| root.list(list));
        let names: Vec<_> =
            items.filter_map(|item| item.get("name")).chain(root.get("current-context")).collect();
        for node in names {
            let text = node.as_str().unwrap_or_default();
            let is_other = text.parse::<f64>().is_ok() || ["true", "false", "null"].contains(&text);
            if is_other && !node.is_quoted(&self.file.text) {
                let what = "YAML reads this name as a number or a boolean, and kubectl refuses the file";
                self.fault(node, what, "write it in quotes, also where contexts use it");
            }
        }
    }

    fn both(&mut self, body: &YamlNode) {
        for (file, data) in BOTH {
            let is_set = |node: &&YamlNode| node.as_str().is_some_and(|text| !text.is_empty());
            if let Some(node) = body.get(file).filter(is_set)
                && body.get(data).as_ref().is_some_and(is_set)
            {
                let what = format!("{file} and {data} are both there, and kubectl refuses them together");
                self.fault(node, &what, &format!("remove {file}: {data} has the content"));
            }
        }
    }

    /// What is no string where kubectl wants one, and the reverse: it refuses the whole file.
    fn types(&mut self, cluster: &YamlNode) {
        for field in
            ["server", "tls-server-name", "certificate-authority", "certificate-authority-data", "proxy-url"]
        {
            if let Some(node) =
                cluster.get(field).filter(|node| matches!(node.value, YamlValue::Map(_) | YamlValue::List(_)))
            {
                let what = format!("{field} is {}, and kubectl refuses the file", node.value.kind());
                self.fault(node, &what, "write one value, without brackets and hyphens");
            }
        }
        if let Some(node) =
            cluster.get("insecure-skip-tls-verify").filter(|node| node.is_quoted(&self.file.text))
        {
            let what = "insecure-skip-tls-verify is in quotes, and kubectl refuses the file";
            self.fault(node, what, "write it without quotes, or remove it");
        }
    }

    /// Impersonation needs a user name.
    fn impersonation(&mut self, user: &YamlNode) {
        let is_set = |node: &&YamlNode| match &node.value {
            YamlValue::Null => false,
            YamlValue::Scalar(text) => !text.is_empty(),
            YamlValue::List(items) => !items.is_empty(),
            YamlValue::Map(entries) => !entries.is_empty(),
        };
        let more =
            ["as-uid", "as-groups", "as-user-extra"].iter().find_map(|field| user.get(field).filter(is_set));
        if let Some(node) = more.filter(|_| user.get("as").as_ref().is_none_or(|node| !is_set(node))) {
            let what = "this asks for the rights of another user and names none, and kubectl refuses it";
            self.fault(node, what, "write `as: USER` next to it, or remove it");
        }
    }

    fn exec(&mut self, exec: &YamlNode) {
        if exec.text("command").unwrap_or_default().is_empty() {
            let what = "exec has no command, and kubectl refuses it";
            self.fault(exec, what, "write the program that gives the token: `command: PROGRAM`");
        }
        for entry in exec.list("env") {
            if entry.text("name").unwrap_or_default().is_empty() {
                let what = "a variable below env has no name, and kubectl refuses it";
                self.fault(entry, what, "write `name:` and `value:` for each");
            }
        }
        if let Some(node) = exec.get("interactiveMode")
            && !matches!(node.as_str(), Some("" | "Never" | "IfAvailable" | "Always"))
        {
            let what = "kubectl knows no such interactiveMode";
            self.fault(node, what, "write Never, IfAvailable or Always");
        }
    }

    fn proxy(&mut self, node: &YamlNode) {
        let text = node.as_str().unwrap_or_default();
        if !text.is_empty() && !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            let what = "proxy-url has no scheme that kubectl knows";
            self.fault(node, what, "write it with http://, https:// or socks5:// at its start");
        }
    }

    fn user(&mut self, user: &YamlNode) {
        let has =
            |field: &str| user.get(field).filter(|node| node.as_str().is_some_and(|text| !text.is_empty()));
        let certificate = has("client-certificate-data").or_else(|| has("client-certificate"));
        let key = has("client-key-data").or_else(|| has("client-key"));
        if let (Some(certificate), None) = (certificate, key) {
            self.fault(
                certificate,
                "a client certificate without its key",
                "add client-key-data, or take a new copy",
            );
        }
        let token = has("token").or_else(|| has("tokenFile"));
        if let (Some(_), Some(basic)) = (token, has("username").or_else(|| has("password"))) {
            let what = "a token and a user name are both there, and kubectl takes one of them only";
            self.fault(
                basic,
                what,
                "remove username and password: Kubernetes has not taken them since v1.19",
            );
        }
        if let Some(provider) = user.get("auth-provider") {
            let name = provider.text("name").unwrap_or_default();
            let plugin = match name {
                "gcp" => "gke-gcloud-auth-plugin",
                "azure" => "kubelogin",
                _ => return,
            };
            let what = format!("auth-provider {name} was removed from kubectl in v1.26");
            self.fault(
                provider,
                &what,
                &format!("install {plugin} and have it named by `exec`: get the file again"),
            );
        }
        let Some(exec) = user.get("exec").filter(|exec| exec.value != YamlValue::Null) else { return };
        self.exec(exec);
        let version = exec.text("apiVersion").unwrap_or_default();
        match version.strip_prefix("client.authentication.k8s.io/") {
            Some("v1beta1") => {}
            Some("v1") => {
                if exec.text("interactiveMode").is_none_or(str::is_empty) {
                    let what = "exec of version v1 has no interactiveMode, and kubectl refuses it";
                    self.fault(exec, what, "write `interactiveMode: IfAvailable` below exec");
                }
            }
            Some("v1alpha1") => {
                let what = "exec is of version v1alpha1, which kubectl has not had since v1.24";
                self.fault(
                    exec,
                    what,
                    "write client.authentication.k8s.io/v1beta1, if the program gives that",
                );
            }
            _ => {
                let what = "exec has no apiVersion that kubectl knows";
                self.fault(exec, what, "write `apiVersion: client.authentication.k8s.io/v1beta1` below exec");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cluster: &str, user: &str) -> Vec<String> {
        let text = format!(
            "current-context: a\ncontexts:\n- {{name: a, context: {{cluster: c, user: u}}}}\nclusters:\n\
             - {{name: c, cluster: {cluster}}}\nusers:\n- {{name: u, user: {user}}}\n"
        );
        let found = refused(&TextFile::new("/k", text), None);
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn what_kubectl_refuses_is_named_with_its_place() {
        let v1 = "client.authentication.k8s.io/v1";
        for (cluster, user, want) in [
            ("{proxy-url: \"localhost:1080\"}", "{token: x}".to_owned(), "/k:5:34: proxy-url has no scheme"),
            (
                "{certificate-authority: /ca, certificate-authority-data: QQ==}",
                "{token: x}".to_owned(),
                "/k:5:46: certificate-authority and certificate-authority-data are both there",
            ),
            (
                "{}",
                "{client-certificate-data: QQ==}".to_owned(),
                "/k:7:45: a client certificate without its key",
            ),
            (
                "{}",
                "{token: hunter2, username: a, password: hunter2}".to_owned(),
                "/k:7:46: a token and a user name",
            ),
            (
                "{}",
                "{auth-provider: {name: gcp}}".to_owned(),
                "auth-provider gcp was removed from kubectl in v1.26",
            ),
            ("{}", "{exec: {command: a}}".to_owned(), "exec has no apiVersion that kubectl knows"),
            (
                "{}",
                format!("{{exec: {{apiVersion: {v1}alpha1, command: a}}}}"),
                "exec is of version v1alpha1",
            ),
            (
                "{}",
                format!("{{exec: {{apiVersion: {v1}, command: a}}}}"),
                "exec of version v1 has no interactiveMode",
            ),
            (
                "{}",
                format!("{{exec: {{apiVersion: {v1}, command: a, interactiveMode: never}}}}"),
                "kubectl knows no such interactiveMode",
            ),
            (
                "{}",
                format!("{{exec: {{apiVersion: {v1}beta1, interactiveMode: Never}}}}"),
                "exec has no command",
            ),
            (
                "{}",
                format!("{{exec: {{apiVersion: {v1}beta1, command: a, env: [{{value: hunter2}}]}}}}"),
                "a variable below env has no name",
            ),
            (
                "{}",
                "{token: x, as-uid: \"1\"}".to_owned(),
                "asks for the rights of another user and names none",
            ),
            (
                "{server: [a]}",
                "{token: x}".to_owned(),
                "/k:5:31: server is a list, and kubectl refuses the file",
            ),
            (
                "{insecure-skip-tls-verify: \"true\"}",
                "{token: x}".to_owned(),
                "insecure-skip-tls-verify is in quotes",
            ),
        ] {
            let found = found(cluster, &user);
            assert!(found.len() == 1 && found[0].contains(want), "{cluster} {user}: {found:?}");
        }
    }

    #[test]
    fn what_it_takes_is_left_alone() {
        let v1 = "client.authentication.k8s.io/v1";
        for (cluster, user) in [
            ("{proxy-url: \"socks5://localhost:1080\"}", "{token: x}".to_owned()),
            (
                "{certificate-authority-data: QQ==}",
                "{client-certificate-data: QQ==, client-key: /k}".to_owned(),
            ),
            ("{}", format!("{{exec: {{apiVersion: {v1}beta1, command: a}}}}")),
            ("{}", format!("{{exec: {{apiVersion: {v1}beta1, command: a, interactiveMode: \"\"}}}}")),
            ("{}", "{token: x, exec: null, as-groups: [], as-user-extra: {}}".to_owned()),
            ("{}", format!("{{exec: {{apiVersion: {v1}, interactiveMode: Never, command: a}}}}")),
            ("{}", "{auth-provider: {name: oidc}}".to_owned()),
            ("{insecure-skip-tls-verify: true}", "{token: x, as: jane, as-groups: [a]}".to_owned()),
        ] {
            assert_eq!(found(cluster, &user), [""; 0], "{cluster} {user}");
        }
        assert_eq!(refused(&TextFile::new("/k", "kind: Config\n"), None), []);
    }

    #[test]
    fn a_name_that_is_a_number() {
        let names = |text: &str| refused(&TextFile::new("/k", text), None).len();
        assert_eq!(names("clusters:\n- name: 123\n"), 1);
        assert_eq!(names("clusters:\n- name: \"123\"\n- name: pi1\n"), 0);
        assert_eq!(names("current-context: true\n"), 1);
    }
}
