//! Which of several kubeconfigs has the context in force. Pure.
//!
//! kubectl reads the files of `KUBECONFIG` as one: the first file that has an entry, or a current context, decides.

use crate::{
    finding::{Code, Finding, Place, Remedy, Severity},
    finding_text::cut,
    kubeconfig::{entry, shown_contexts, wrong_top},
    shell::quoted,
    text_file::TextFile,
    yaml_node::{self, YamlNode},
};

/// The one file that has all of the context in force, with the name of the context where it is another file's.
///
/// # Errors
/// No file has the context, or its parts are in several: kubectl uses them, and no single file can be judged.
pub fn in_force<'a>(
    files: &'a [TextFile],
    context: Option<&str>,
) -> Result<Option<(&'a TextFile, Option<String>)>, Box<Finding>> {
    let mut roots = Vec::new();
    for file in files {
        match yaml_node::parse(&file.text) {
            Ok(root) if wrong_top(&root).is_none() => roots.push((file, root)),
            // kubectl refuses all of them.
            _ => return Ok(Some((file, None))),
        }
    }
    if roots.len() < 2 {
        return Ok(roots.first().map(|(file, _)| (*file, None)));
    }
    let current = roots.iter().find_map(|(file, root)| {
        let node =
            root.get("current-context").filter(|node| node.as_str().is_some_and(|name| !name.is_empty()))?;
        Some((*file, node))
    });
    let Some(name) = context.or_else(|| current?.1.as_str()) else {
        let what = format!("none of {} has a current-context", listed(files));
        return Err(Box::new(other(Finding::new(Code::KubeconfigUnusable, what), &roots, context)));
    };
    let find = |list: &str, name: &str| {
        let mut found = roots.iter().filter_map(|(file, root)| Some((*file, entry(root, list, name)?)));
        found.next()
    };
    let Some((file, body)) = find("contexts", name) else {
        let what = format!("context `{}` is in none of {}", cut(name, 60), listed(files));
        let finding = Finding::new(Code::KubeconfigUnusable, what);
        let place = current.filter(|_| context.is_none());
        let place = place.map_or_else(
            || Place::file(&files[0].path),
            |(file, node)| Place::at(&file.path, node.line, node.column),
        );
        return Err(Box::new(other(finding.saw(place, "no such context"), &roots, context)));
    };
    let part = |key: &str, list: &str| {
        let name = body.get("context")?.text(key)?;
        find(list, name).map(|(file, _)| file)
    };
    // What is in no file is reported where the context is.
    let (cluster, user) =
        (part("cluster", "clusters").unwrap_or(file), part("user", "users").unwrap_or(file));
    if [cluster, user].iter().all(|part| part.path == file.path) {
        return Ok(Some((file, Some(name.to_owned()))));
    }
    let what = format!(
        "context `{}` is in {}, its cluster in {}, its user in {}: kubectl reads them as one, which cannot be checked here",
        cut(name, 60),
        file.path,
        cluster.path,
        user.path
    );
    let flag = context.map_or_else(String::new, |context| format!(" --context {}", quoted(context)));
    let remedy = Remedy::new("write the context into one file, and check that")
        .command(format!("(umask 077; kubectl config view --raw --minify --flatten{flag} > one.yaml)"))
        .command("weaver kubeconfig lint one.yaml");
    let finding = Finding::new(Code::KubeconfigUnusable, what).milder(Severity::Unknown);
    Err(Box::new(finding.saw(Place::file(&file.path), "a context of several files").remedy(remedy)))
}

/// With the contexts that are there.
fn other(finding: Finding, roots: &[(&TextFile, YamlNode)], context: Option<&str>) -> Finding {
    let items = roots.iter().flat_map(|(_, root)| root.list("contexts"));
    let names: Vec<&str> = items.filter_map(|item| item.text("name")).collect();
    if names.is_empty() {
        return finding.remedy(super::lint::on_the_pi());
    }
    let shown = shown_contexts(&names);
    finding.remedy(if context.is_some() {
        Remedy::new(format!("pass a context that is in them: {shown}"))
    } else {
        Remedy::new(format!("make a context that is in them the current one: {shown}"))
            .command("kubectl config use-context NAME")
    })
}

fn listed(files: &[TextFile]) -> String {
    files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "contexts: [{name: c, context: {cluster: k, user: u}}]\n";
    const PARTS: &str = "clusters: [{name: k, cluster: {server: https://pi:6443}}]\nusers: [{name: u, user: {token: hunter2}}]\n";

    fn files(texts: &[&str]) -> Vec<TextFile> {
        let paths = ["/a", "/b", "/c"];
        paths.into_iter().zip(texts).map(|(path, text)| TextFile::new(path, *text)).collect()
    }

    #[test]
    fn the_file_that_has_the_context_is_judged() {
        let whole = format!("{CONTEXT}{PARTS}");
        let other = "contexts: [{name: d, context: {cluster: k, user: u}}]\n".to_owned() + PARTS;
        for (texts, context, want) in [
            (&["current-context: c\n", whole.as_str()][..], None, Some(("/b", Some("c")))),
            (&[&whole, "current-context: c\n"], None, Some(("/a", Some("c")))),
            (&["current-context: c\n", &whole], Some("c"), Some(("/b", Some("c")))),
            // An empty one decides nothing.
            (&["current-context: ''\n", &whole, "current-context: c\n"], None, Some(("/b", Some("c")))),
            (&[&whole], None, Some(("/a", None))),
            (&["current-context: c\n", "contexts: [\n"], None, Some(("/b", None))),
            (&[&whole, "kind: Pod\n"], None, Some(("/b", None))),
            // What is nowhere is missing in the file of the context.
            (&["current-context: c\n", CONTEXT], None, Some(("/b", Some("c")))),
            (&[], None, None),
            (&["current-context: d\n", CONTEXT, &other], None, Some(("/c", Some("d")))),
        ] {
            let files = files(texts);
            let found = in_force(&files, context).unwrap();
            let found = found.as_ref().map(|(file, context)| (file.path.as_str(), context.as_deref()));
            assert_eq!(found, want, "{texts:?}");
        }
    }

    #[test]
    fn what_no_single_file_has() {
        for (texts, context, severity, message, explain) in [
            (
                &["current-context: d\n", CONTEXT][..],
                None,
                Severity::Fail,
                "context `d` is in none of /a, /b",
                "make a context that is in them the current one: c",
            ),
            (
                &[CONTEXT, PARTS],
                None,
                Severity::Fail,
                "none of /a, /b has a current-context",
                "make a context",
            ),
            (
                &[CONTEXT, PARTS],
                Some("d"),
                Severity::Fail,
                "context `d` is in none",
                "pass a context that is in them: c",
            ),
            (&[PARTS, PARTS], None, Severity::Fail, "none of /a, /b", "export it"),
            (
                &["current-context: c\n", CONTEXT, PARTS],
                None,
                Severity::Unknown,
                "context `c` is in /b, its cluster in /c, its user in /c",
                "write the context into one file",
            ),
        ] {
            let found = in_force(&files(texts), context).unwrap_err();
            assert_eq!((found.code, found.severity()), (Code::KubeconfigUnusable, severity), "{texts:?}");
            assert!(found.message.starts_with(message), "{found:?}");
            assert!(found.remedy.as_ref().unwrap().explain.starts_with(explain), "{found:?}");
            assert!(!format!("{found:?}").contains("hunter2"));
        }
    }
}
