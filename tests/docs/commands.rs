//! Commands of the book, typed as they are on the page: blocks marked `console run` and `sh run`.
//!
//! In a `console run` block a line that begins with `$ ` is a command, one with `> ` continues it, and the
//! others are its output: `…` stands for anything in a line, or alone for any lines; ages and spaces do not
//! count. Of a command without output, and of `sh run`, only the exit status counts. Namespaces of a page get
//! names of their own here.

use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};

use weaver_devstack::server::ServerBinary;
use weaver_tests::monitoring::file;
use weaver_tests::world::given;

/// Between the outputs of two commands.
const SEPARATOR: char = '\u{1e}';

#[derive(Debug, Default, PartialEq)]
struct Step {
    command: String,
    shown: Vec<String>,
}

/// The marked commands of a page, in their order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let kind = line.trim_start();
        if kind != "```console run" && kind != "```sh run" {
            continue;
        }
        let block =
            lines.by_ref().map(|line| line.get(indent..).unwrap_or("")).take_while(|line| *line != "```");
        let block: Vec<&str> = block.collect();
        if kind == "```sh run" {
            steps.push(Step { command: block.join("\n"), shown: Vec::new() });
            continue;
        }
        for line in block {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step { command: command.to_owned(), shown: Vec::new() });
                continue;
            }
            let step = steps.last_mut().expect("a block begins with a command");
            match line.strip_prefix("> ") {
                Some(more) if step.shown.is_empty() => write!(step.command, "\n{more}").unwrap(),
                _ => step.shown.push(line.to_owned()),
            }
        }
    }
    steps
}

/// Ages and spaces differ from run to run.
fn plain(line: &str) -> String {
    let is_age = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(['s', 'm', 'h'])
            && word.chars().all(|c| c.is_ascii_digit() || "hms".contains(c))
    };
    let words = line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn is_line(shown: &str, found: &str) -> bool {
    let (shown, found) = (plain(shown), plain(found));
    let parts: Vec<&str> = shown.split('…').map(str::trim).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return shown == found };
    let Some(mut rest) = found.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

fn is_output(shown: &[String], found: &[&str]) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line == "…" => (0..=found.len()).any(|at| is_output(rest, &found[at..])),
        Some((line, rest)) => {
            found.split_first().is_some_and(|(first, more)| is_line(line, first) && is_output(rest, more))
        }
    }
}

/// With each of these words replaced by a name of this run. `foo` is a word of `foo,bar` and `namespace/foo`,
/// and not of `foo-sync` and `foo.yaml`.
fn renamed(text: &str, names: &[(&str, String)]) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        out += &rest[..start];
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |end| start + end);
        let word = &rest[start..end];
        out += names.iter().find(|(old, _)| *old == word).map_or(word, |(_, new)| new);
        rest = &rest[end..];
    }
    out + rest
}

fn run(script: &str, directory: &Path) -> (bool, String) {
    let server = ServerBinary::from_environment().unwrap();
    let programs = given("WEAVER_TEST_BIN_DIR");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let script =
        format!("exec 2>&1\nset -e\nkubectl() {{ '{}' kubectl \"$@\"; }}\n{script}", server.path.display());
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(directory)
        .env("HOME", directory)
        .env("PATH", path)
        .env("KUBECONFIG", given("WEAVER_TEST_KUBECONFIG"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// Types what the page shows: in a folder with the samples, after `before`, which makes what its reader has. A word that
/// ends with a dash is the beginning of other namespaces' names.
fn page_works(path: &str, namespaces: &[&str], before: &str) {
    let unique = RandomState::new().hash_one(path) >> 32;
    let names: Vec<(&str, String)> = namespaces
        .iter()
        .map(|name| {
            let end = if name.ends_with('-') { String::new() } else { format!("-{unique:08x}") };
            (*name, format!("docs-{name}{end}"))
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let samples = directory.path().join("deploy/samples");
    fs::create_dir_all(&samples).unwrap();
    for name in [
        "configmapsync.yaml",
        "fetched-configmap.yaml",
        "generated-accounts.yaml",
        "servicetoken.yaml",
        "shared-configmaps.yaml",
    ] {
        fs::write(samples.join(name), renamed(&file(&format!("deploy/samples/{name}")), &names)).unwrap();
    }

    let steps = steps(&renamed(&file(path), &names));
    assert!(!steps.is_empty(), "{path} has no command that is marked");
    let mut script = renamed(before, &names);
    for step in &steps {
        write!(script, "\nprintf '\\036'\n{}", step.command).unwrap();
    }
    let (done, said) = run(&script, directory.path());
    for (_, name) in names.iter().filter(|(_, name)| !name.ends_with('-')) {
        // With the tenant's rights still there, so that nothing waits.
        run(
            &format!(
                "kubectl delete configmapsyncs,servicetokens --all -n {name} --timeout=30s\n\
                 kubectl delete namespace {name} --ignore-not-found --wait=false"
            ),
            directory.path(),
        );
    }

    assert!(done, "{path}: {said}");
    for (step, found) in steps.iter().zip(said.split(SEPARATOR).skip(1)) {
        let found: Vec<&str> = found.lines().collect();
        let Step { command, shown } = step;
        assert!(
            shown.is_empty() || is_output(shown, &found),
            "{path}: {command}\nshows\n{}\nbut the page has\n{}",
            found.join("\n"),
            shown.join("\n")
        );
    }
}

#[test]
fn marked_blocks_are_read_as_commands_and_their_output() {
    let page = "```console run\n$ one\nout\n…\n$ two <<END\n> in\n> END\n```\n\n1. x\n\n   ```sh run\n   a\n   b\n   ```\n```sh\nno\n```\n";
    let step = |command: &str, shown: &[&str]| Step {
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(steps(page), [step("one", &["out", "…"]), step("two <<END\nin\nEND", &[]), step("a\nb", &[])]);
}

#[test]
fn output_is_compared_without_what_differs_from_run_to_run() {
    assert!(is_line("team   True  4s", "team True 1m5s") && !is_line("team True", "team False"));
    assert!(is_line("until … by x", "until noon by x") && !is_line("until … by x", "until noon by y"));
    assert!(
        is_line("…ends", "it ends") && is_line("begins …", "begins so") && !is_line("a … b … c", "a c b")
    );
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(is_output(&lines("a\n…\nd"), &["a", "b", "c", "d"]) && !is_output(&lines("a\n…"), &["b"]));
    assert!(!is_output(&lines("a"), &["a", "b"]) && is_output(&lines("…\nb"), &["b"]));
}

#[test]
fn namespaces_are_renamed_and_nothing_else() {
    let names = [("team-a", "x1".to_owned()), ("foo", "x2".to_owned())];
    assert_eq!(
        renamed(
            "-n team-a team-a-sync team-a:team-a-sync team-a/settings namespace/foo a/foo.yaml foo,bar",
            &names
        ),
        "-n x1 team-a-sync x1:team-a-sync x1/settings namespace/x2 a/foo.yaml x2,bar"
    );
}

const A_SOURCE: &str = "for name in team-a foo bar; do kubectl create namespace $name; done
kubectl create configmap settings -n team-a --from-literal=greeting=hello
";

const A_TENANT: &str = "kubectl apply -f deploy/samples/configmapsync.yaml
kubectl wait -n team-a configmapsync/settings --for=condition=Ready --timeout=60s
";

const TWO_RELEASES: &str = r"cat > crds-1.0.yaml <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                colour: {type: string}
                size: {type: integer, maximum: 9}
END
sed '/colour/d; s/maximum: 9/maximum: 5/' crds-1.0.yaml > crds-1.1.yaml
";

#[test]
fn first_copy() {
    page_works("docs/tutorials/first-copy.md", &["shop", "shop-web", "shop-jobs"], "");
}

#[test]
fn copy_in_a_minute() {
    page_works("docs/tutorials/copy-in-a-minute.md", &["cafe", "cafe-web", "cafe-shop"], "");
}

#[test]
fn k3d_on_a_pi() {
    page_works("docs/tutorials/k3d-on-a-pi.md", &[], "");
}

/// A release that is signed, and the key.
const A_RELEASE: &str = "for name in apt SHA256SUMS SHA256SUMS.minisig provenance.intoto.json \
                         weaver-0.2.0-rc.1-linux-amd64.tar.gz; do cp -r FIXTURES/release/$name .; done
                         cp FIXTURES/owner.pub config-weaver.pub\n";

#[test]
fn install() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/fixtures");
    page_works("docs/how-to/install.md", &[], &A_RELEASE.replace("FIXTURES", fixtures));
}

#[test]
fn change_the_host() {
    let before = "mkdir ~/.ssh; echo 'ssh-ed25519 \
                  AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop' > ~/.ssh/id_ed25519.pub";
    page_works("docs/how-to/change-the-host.md", &[], before);
}

#[test]
fn join_a_server() {
    page_works("docs/how-to/join-a-server.md", &[], "");
}

#[test]
fn add_a_tenant() {
    page_works("docs/how-to/add-a-tenant.md", &["team-a", "foo", "bar"], A_SOURCE);
}

#[test]
fn choose_targets() {
    let before = "kubectl create namespace office
                  kubectl -n office create configmap settings --from-literal=greeting=hello\n";
    page_works("docs/how-to/choose-targets.md", &["office", "branch-1", "branch-2", "branch-"], before);
}

#[test]
fn choose_sources() {
    let before = "kubectl create namespace library
                  kubectl -n library create configmap colours --from-literal=sky=blue
                  kubectl -n library create configmap sizes --from-literal=shoe=42\n";
    page_works("docs/how-to/choose-sources.md", &["library", "shop", "team-s", "app-s"], before);
}

#[test]
fn fetch_a_copy() {
    page_works("docs/how-to/fetch-a-copy.md", &["common", "shop-f"], "");
}

#[test]
fn keep_tokens_in_a_secret() {
    page_works("docs/how-to/keep-tokens-in-a-secret.md", &["team-t"], "");
}

#[test]
fn generate_accounts() {
    page_works("docs/how-to/generate-accounts.md", &["team-g"], "");
}

#[test]
fn manage_resources() {
    let before = A_TENANT.to_owned() + "kubectl delete -n team-a configmapsync settings\n";
    page_works("docs/how-to/manage-resources.md", &["team-a", "foo", "bar"], &before);
}

#[test]
fn pause() {
    page_works("docs/how-to/pause.md", &["team-a", "foo", "bar"], A_TENANT);
}

#[test]
fn uninstall() {
    page_works("docs/how-to/uninstall.md", &[], "");
}

#[test]
fn monitor() {
    page_works("docs/how-to/monitor.md", &["monitoring"], "kubectl create namespace monitoring\n");
}

#[test]
fn move_from_upstream() {
    page_works("docs/how-to/move-from-upstream.md", &["team-a", "foo", "bar"], A_TENANT);
}

#[test]
fn check_definitions() {
    page_works("docs/how-to/check-definitions.md", &[], TWO_RELEASES);
}

/// An object of this kind and name in each of these namespaces, as another tool leaves its copies: with this key.
fn copies_of_another_tool(namespaces: &str, object: &str, mark: &str) -> String {
    format!(
        "for name in {namespaces}; do
           kubectl create namespace $name
           kubectl create -n $name {object} --from-literal=greeting=hello
           kubectl {mark}=source -n $name
         done\n"
    )
}

#[test]
fn move_from_hnc() {
    let before = copies_of_another_tool(
        "team-a team-a-dev team-a-prod",
        "configmap settings",
        "label configmap settings hnc.x-k8s.io/inherited-from",
    );
    page_works("docs/how-to/move-from-hnc.md", &["team-a", "team-a-dev", "team-a-prod"], &before);
}

#[test]
fn move_from_reflector() {
    let before = copies_of_another_tool(
        "certs web-1 web-2",
        "secret generic wildcard-tls",
        "annotate secret wildcard-tls reflector.v1.k8s.emberstack.com/reflects",
    );
    page_works("docs/how-to/move-from-reflector.md", &["certs", "web-1", "web-2"], &before);
}

#[test]
fn move_from_replicator() {
    let before = copies_of_another_tool(
        "build app-1 app-2",
        "secret generic registry",
        "annotate secret registry replicator.v1.mittwald.de/replicate-from",
    );
    page_works("docs/how-to/move-from-replicator.md", &["build", "app-1", "app-2"], &before);
}
