//! A page of the book whose commands are typed as they are there: blocks marked `console run` and `sh run`.
//!
//! In a `console run` block a line that begins with `$ ` is a command, one with `> ` continues it, and the
//! others are its output: `…` matches anything in a line, or alone any lines; ages and spaces do not count. Of a
//! command without output, and of `sh run`, only the exit status counts: 0, or N in a block that is marked `run
//! exit=N`. Words of a page, such as its namespaces, are others here.

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
struct DocStep {
    command: String,
    shown: Vec<String>,
    exit: u8,
}

/// A block of code: what it is marked as, and its lines.
pub struct Block<'a> {
    pub kind: &'a str,
    pub lines: Vec<&'a str>,
}

/// The blocks of a page, without the indentation of a list.
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(kind) = line.trim_start().strip_prefix("```") else { continue };
        let lines =
            lines.by_ref().map(|line| line.get(indent..).unwrap_or("")).take_while(|line| *line != "```");
        blocks.push(Block { kind, lines: lines.collect() });
    }
    blocks
}

/// The marked commands of a page, in their order.
fn steps(page: &str) -> Vec<DocStep> {
    let mut steps: Vec<DocStep> = Vec::new();
    for Block { kind, lines } in blocks(page) {
        let (kind, exit) = kind.split_once(" exit=").unwrap_or((kind, "0"));
        let exit = exit.parse().unwrap();
        if kind == "sh run" {
            steps.push(DocStep { command: lines.join("\n"), shown: Vec::new(), exit });
        }
        if kind != "console run" {
            continue;
        }
        for line in lines {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(DocStep { command: command.to_owned(), shown: Vec::new(), exit });
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

pub fn is_output(shown: &[String], found: &[&str]) -> bool {
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

/// A shell in which `kubectl` and our programs are found.
fn run(script: &str, directory: &Path, kubeconfig: &Path) -> (bool, String) {
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
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// Types what the page shows, in a folder with the samples, after `before`, which makes what its reader has.
/// Says what is not as the page has it, if anything.
fn typed(path: &str, names: &[(&str, String)], before: &str, kubeconfig: &Path) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let samples = directory.path().join("deploy/samples");
    fs::create_dir_all(&samples).unwrap();
    for name in [
        "configmapsync.yaml",
        "copied-network-policy.yaml",
        "fetched-configmap.yaml",
        "generated-accounts.yaml",
        "servicetoken.yaml",
        "shared-configmaps.yaml",
    ] {
        fs::write(samples.join(name), renamed(&file(&format!("deploy/samples/{name}")), names)).unwrap();
    }

    let steps = steps(&renamed(&file(path), names));
    assert!(!steps.is_empty(), "{path} has no command that is marked");
    let mut script = renamed(before, names);
    for DocStep { command, exit, .. } in &steps {
        // In a condition `set -e` would be off.
        match exit {
            0 => write!(script, "\nprintf '\\036'\n{command}").unwrap(),
            _ => {
                write!(script, "\nprintf '\\036'\n{{ {command}\n}} && exit 1 || test $? -eq {exit}").unwrap();
            }
        }
    }
    let (done, said) = run(&script, directory.path(), kubeconfig);
    if !done {
        return Some(format!("{path}: {said}"));
    }
    for (step, found) in steps.iter().zip(said.split(SEPARATOR).skip(1)) {
        let found: Vec<&str> = found.lines().collect();
        let DocStep { command, shown, .. } = step;
        if !shown.is_empty() && !is_output(shown, &found) {
            let (found, shown) = (found.join("\n"), shown.join("\n"));
            return Some(format!("{path}: {command}\nshows\n{found}\nbut the page has\n{shown}"));
        }
    }
    None
}

/// The page works on the shared server. Its namespaces get names of their own; a word that ends with a dash is the
/// beginning of other namespaces' names.
pub fn page_works(path: &str, namespaces: &[&str], before: &str) {
    let unique = RandomState::new().hash_one(path) >> 32;
    let names: Vec<(&str, String)> = namespaces
        .iter()
        .map(|name| {
            let end = if name.ends_with('-') { String::new() } else { format!("-{unique:08x}") };
            (*name, format!("docs-{name}{end}"))
        })
        .collect();
    let kubeconfig = given("WEAVER_TEST_KUBECONFIG");
    let wrong = typed(path, &names, before, &kubeconfig);
    for (_, name) in names.iter().filter(|(_, name)| !name.ends_with('-')) {
        // With the tenant's rights still there, so that nothing waits.
        run(
            &format!(
                "kubectl delete configmapsyncs,resourcesyncs,servicetokens --all -n {name} --timeout=30s\n\
                 kubectl delete namespace {name} --ignore-not-found --wait=false"
            ),
            Path::new("/"),
            &kubeconfig,
        );
    }
    if let Some(wrong) = wrong {
        panic!("{wrong}");
    }
}

/// The page works with these words instead of its own, as the administrator of this server.
pub fn page_works_on(kubeconfig: &Path, path: &str, words: &[(&str, &str)], before: &str) {
    let words: Vec<_> = words.iter().map(|(old, new)| (*old, (*new).to_owned())).collect();
    if let Some(wrong) = typed(path, &words, before, kubeconfig) {
        panic!("{wrong}");
    }
}

#[test]
fn marked_blocks_are_read_as_commands_and_their_output() {
    let page = "```console run\n$ one\nout\n…\n$ two <<END\n> in\n> END\n```\n\n1. x\n\n   ```sh run\n   a\n   b\n   ```\n```sh\nno\n```\n```sh run exit=1\nc\n```\n";
    let step = |command: &str, shown: &[&str], exit| DocStep {
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
        exit,
    };
    let expected = [
        step("one", &["out", "…"], 0),
        step("two <<END\nin\nEND", &[], 0),
        step("a\nb", &[], 0),
        step("c", &[], 1),
    ];
    assert_eq!(steps(page), expected);
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
