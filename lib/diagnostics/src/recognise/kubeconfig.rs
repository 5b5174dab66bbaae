//! What kubectl says of a kubeconfig that it cannot use.

use super::details::{Details, after, has_any, is_name, is_plain};
use super::peer::asks_the_api_server;
use super::servers::{is_bare_error, is_of_a_client};

/// A file that a kubeconfig names.
pub(super) fn file_gone(line: &str) -> Details {
    let file = after(line, "unable to read ", &['\n']).and_then(|rest| rest.split(' ').nth(1));
    file.map_or_else(Details::default, |file| {
        Details::message(format!("the kubeconfig names {file}, which cannot be read")).advice(
            "copy that file too, or use `weaver kubeconfig export`, whose kubeconfigs contain their certificates",
        )
    })
}

/// A context by name, as kubectl asks for it.
pub(super) fn context_gone(line: &str) -> Option<Details> {
    let name = after(line, "context \"", &['"'])?;
    (line.contains(&format!("context \"{name}\" does not exist")) && is_plain(name)).then(|| no_context(name))
}

/// The same in client-go's wording.
pub(super) fn default_context(line: &str) -> Details {
    let name = after(line, "specified context: ", &[' ', '"'])
        .or_else(|| after(line, "no server found for cluster \"", &['"']))
        .filter(|name| is_plain(name));
    name.map_or_else(Details::default, no_context)
}

fn no_context(name: &str) -> Details {
    Details::message(format!("the kubeconfig has nothing called `{name}`"))
        .advice("choose one that it has; KUBECONFIG may name another file than you think")
        .command("kubectl config get-contexts")
        .command("kubectl config use-context NAME")
}

/// A program that a kubeconfig has run for its credentials.
pub(super) fn plugin(line: &str) -> Option<Details> {
    let name = after(line, "executable ", &[' ', '"', '\n'])?;
    let why = if line.contains("not found") { "is not installed, or not on the PATH" } else { "failed" };
    Some(
        Details::message(format!("the kubeconfig has `{name}` run for its credentials, which {why}"))
            .advice(
                "install that program, or log in with it; a kubeconfig of k3s needs none, so the context may be that of \
                 another cluster",
            )
            .command("kubectl config get-contexts")
            .command("kubectl config use-context NAME"),
    )
}

/// What the program prints is to be an `ExecCredential` in JSON, of a version that both know.
pub(super) fn plugin_answer(line: &str) -> Details {
    if line.contains("no kind \"ExecCredential\"") {
        return old_plugin(line);
    }
    Details::message("the program that the kubeconfig runs for its credentials prints something else")
        .advice(
            "run it by hand: it has to print JSON and nothing else, so look at its output format and at messages in front of it. \
             A kubeconfig of k3s needs no such program, so the context may be that of another cluster",
        )
        .command("kubectl config view --minify")
        .command("kubectl config get-contexts")
}

/// The file that `--kubeconfig` names; other commands look for files of their own.
pub(super) fn not_there(line: &str) -> Option<Details> {
    let file = line.trim_start().strip_prefix("error: stat ")?.split_once(": no such file or directory")?.0;
    let lower = file.to_ascii_lowercase();
    let is_kubeconfig = has_any(&lower, &[".kube/", "kubeconfig", "k3s.yaml"]);
    is_kubeconfig.then(|| no_file(file))
}

/// kubectl goes without a file of `KUBECONFIG` that is missing, with the others or with its default server.
pub(super) fn skipped(line: &str) -> Option<Details> {
    let files = after(line, "Config not found: ", &['"', '\n']).filter(|_| line.contains("loader.go"))?;
    Some(no_file(files.trim_end()).hint())
}

fn no_file(file: &str) -> Details {
    Details::message(format!("the kubeconfig {file} does not exist"))
        .advice("KUBECONFIG or `--kubeconfig` names it: correct the name, or fetch the file from the Pi")
        .command("env | grep KUBECONFIG")
        .command("ls ~/.kube")
        .command("weaver kubeconfig fetch USER@NAME")
}

/// helm looks at the rights of the file.
pub(super) fn exposed(line: &str) -> Details {
    let Some(file) = after(line, "Location: ", &['\n', '"']).map(str::trim).filter(|file| is_plain(file))
    else {
        return Details::default();
    };
    let known = if is_known(file) { file } else { "FILE" };
    Details::message(format!("other users of this machine can read {file}, which has the credentials"))
        .advice("remove the permissions of other users")
        .command(format!("chmod 600 {known}"))
}

/// Whether it is where k3s or kubectl have their file.
fn is_known(file: &str) -> bool {
    let home = file.strip_suffix("/.kube/config");
    let user =
        |home: &str| ["/home/", "/Users/"].iter().any(|homes| home.strip_prefix(homes).is_some_and(is_name));
    file == "/etc/rancher/k3s/k3s.yaml" || home.is_some_and(|home| home == "/root" || user(home))
}

/// An entry that is named by `--cluster` or `--user`.
fn entry_gone(line: &str, before: &str) -> Option<Details> {
    let name = after(line, before, &['"'])?;
    (line.contains(&format!("{before}{name}\" does not exist")) && is_plain(name)).then(|| no_context(name))
}

pub(super) fn cluster_gone(line: &str) -> Option<Details> {
    entry_gone(line, "error: cluster \"")
}

pub(super) fn user_gone(line: &str) -> Option<Details> {
    entry_gone(line, "auth info \"")
}

/// What kubectl had inside until 1.25, and programs that speak an interface of before.
pub(super) fn old_plugin(_: &str) -> Details {
    Details::message("the kubeconfig gets its credentials in a way that this kubectl no longer knows")
        .advice(
            "have the program of that cluster write its entry again; a kubeconfig of k3s needs no such program, so the context \
             may be that of another cluster",
        )
        .command("kubectl config get-contexts")
        .command("kubectl config use-context NAME")
}

/// Python's library, which needs parts that kubectl can do without.
pub(super) fn of_python(line: &str) -> Details {
    let name = after(line, "object with name ", &[' ', '\n']).filter(|name| is_plain(name));
    let lacks = || Details::message("the kubeconfig lacks a part that Python's client needs");
    name.map_or_else(lacks, no_context)
}

/// kubectl speaks of its own files so; a server says the same of its.
fn is_of_kubectl(line: &str) -> bool {
    line.trim_start().starts_with("error: tls: ") || is_of_a_client(line)
}

pub(super) fn key_of_another(line: &str) -> Option<Details> {
    is_of_kubectl(line).then(|| {
        Details::message("client certificate and key of the kubeconfig do not belong together").advice(
            "export the kubeconfig on the Pi again (`weaver kubeconfig export NAME`), and replace both",
        )
    })
}

pub(super) fn no_pem(line: &str) -> Option<Details> {
    is_of_kubectl(line).then(|| {
        Details::message(
            "the kubeconfig has an invalid certificate or key: a part is missing, or it is encoded twice",
        )
        .advice(
            "export the kubeconfig on the Pi again (`weaver kubeconfig export NAME`), and replace the entry",
        )
    })
}

fn address(details: Details) -> Details {
    details
        .advice("write it as https://HOST:PORT, and an IPv6 address as https://[ADDRESS]:PORT")
        .command("kubectl config view --minify")
        .command("weaver kubeconfig lint")
}

/// client-go of what `server` or `--server` has.
pub(super) fn no_url(_: &str) -> Details {
    address(Details::message("the server in the kubeconfig is not a URL"))
}

pub(super) fn without_brackets(line: &str) -> Option<Details> {
    (is_of_a_client(line) || asks_the_api_server(line)).then(|| {
        address(Details::message(
            "the server in the kubeconfig is an IPv6 address without brackets, or has two ports",
        ))
    })
}

/// Go of a URL, and of an address that it dials; other programs have such a line of theirs.
pub(super) fn bad_port(line: &str) -> Option<Details> {
    let is_of_kubectl = line.trim_start().starts_with("error: parse \"http");
    (is_of_kubectl || is_of_a_client(line) || is_bare_error(line))
        .then(|| address(Details::message("the server in the kubeconfig has an invalid port")))
}

/// kubectl of an answer in plain text, as Go gives it to a client that does not begin with TLS.
pub(super) fn without_tls(line: &str) -> Option<Details> {
    line.contains("(BadRequest)").then(|| {
        address(Details::message(
            "the client probably spoke plain HTTP: the server in the kubeconfig, or of `--server`, does not begin with https://",
        ))
        .hint()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_is_not_there_is_named() {
        let message = |details: Option<Details>| details.and_then(|details| details.message);
        for (line, file) in [
            ("error: stat /home/pi/.kube/confg: no such file or directory", Some("/home/pi/.kube/confg")),
            (
                "error: stat /tmp/pi-kubeconfig.yaml: no such file or directory",
                Some("/tmp/pi-kubeconfig.yaml"),
            ),
            ("error: stat deploy.yaml: no such file or directory", None),
            ("tool: error: stat /home/pi/.kube/confg: no such file or directory", None),
        ] {
            let want = file.map(|file| format!("the kubeconfig {file} does not exist"));
            assert_eq!(message(not_there(line)), want, "{line}");
        }
        let warning =
            skipped("W1128 10:00:00.1 1 loader.go:222] Config not found: /home/pi/.kube/confg").unwrap();
        assert!(warning.is_hint, "kubectl continues without it");
        assert_eq!(skipped("Config not found: app.toml"), None);
    }

    #[test]
    fn what_a_program_for_credentials_prints_is_judged() {
        let old = plugin_answer(
            "decoding stdout: no kind \"ExecCredential\" is registered for version \"v1alpha1\"",
        );
        assert_eq!(old, old_plugin(""));
        let message =
            plugin_answer("decoding stdout: couldn't get version/kind; json parse error").message.unwrap();
        assert!(message.ends_with("prints something else"), "{message}");
    }
}
