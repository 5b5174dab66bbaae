//! `weaver` on laptops of all systems: files as their editors write them, their paths, homes and names.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::http::{answered, server};
use crate::support::k3s_kubeconfig;
use crate::support::tls_server::Ca;
use tempfile::TempDir;
use weaver_diagnostics::shell::quoted;

struct Laptop(TempDir);

impl Laptop {
    /// With a home like a user's.
    fn new() -> Self {
        let laptop = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(laptop.home().join(".kube")).unwrap();
        laptop
    }

    fn home(&self) -> PathBuf {
        self.0.path().join("J\u{f6} Doe")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut weaver = Command::new(env!("CARGO_BIN_EXE_weaver"));
        weaver.args(arguments).current_dir(self.home()).stdin(Stdio::null());
        for name in ["KUBECONFIG", "HOME", "HOMEDRIVE", "HOMEPATH", "USERPROFILE", "WEAVER_REPORT"] {
            weaver.env_remove(name);
        }
        weaver.env(if cfg!(windows) { "USERPROFILE" } else { "HOME" }, self.home());
        weaver
    }

    fn weaver(&self, arguments: &[&str]) -> (i32, String) {
        said(&mut self.command(arguments))
    }
}

fn said(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), said)
}

fn kubeconfig() -> String {
    k3s_kubeconfig(&Ca::new(), "https://pi.lan:6443")
}

/// A file for its owner, where there are modes.
fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap();
    weaver_host::platform::set_path_mode(path, 0o600).unwrap();
}

#[test]
fn the_kubeconfig_of_the_home_is_found_however_its_editor_wrote_it() {
    let laptop = Laptop::new();
    let path = laptop.path(".kube").join("config");
    let lines = kubeconfig().replace('\n', "\r\n");
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(lines.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for bytes in [lines.clone().into_bytes(), format!("\u{feff}{lines}").into_bytes(), wide] {
        write(&path, bytes);
        let (code, said) = laptop.weaver(&["kubeconfig", "lint"]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("nothing is wrong with {}", path.display())), "{said}");
    }
}

#[test]
fn kubeconfig_names_several_files_as_the_system_separates_them() {
    let laptop = Laptop::new();
    let (first, second) = (laptop.path("a b.yaml"), laptop.path("\u{1f347}.yaml"));
    write(&first, kubeconfig());
    write(&second, "contexts: []\n");
    let missing = laptop.path("none");
    let lists = [[Path::new(""), &first, &second], [&missing, &second, &first]];
    for (list, content, code) in [
        (lists[0], "contexts: []\n", 0),
        (lists[1], "contexts: []\n", 0),
        (lists[1], "current-context: default\n", 0),
        (lists[1], "current-context: none\n", 10),
        // kubectl refuses all of them.
        (lists[0], "kind: Pod\n", 10),
        (lists[1], "kind: Pod\n", 10),
    ] {
        write(&second, content);
        let list = std::env::join_paths(list).unwrap();
        let (found, said) = said(laptop.command(&["kubeconfig", "lint"]).env("KUBECONFIG", list));
        assert_eq!(found, code, "{said}");
    }
}

#[test]
fn what_is_exported_replaces_a_file_in_a_directory_with_a_space() {
    let laptop = Laptop::new();
    write(&laptop.path("k3s copy.yaml"), kubeconfig());
    for _ in 0..2 {
        let (code, said) =
            laptop.weaver(&["kubeconfig", "merge", "k3s copy.yaml", "--context", "pi", "--force"]);
        assert_eq!(code, 0, "{said}");
        let export =
            ["kubeconfig", "export", "pi.lan", "--insecure", "--force", "--output", "out \u{f6}.yaml"];
        let (code, said) = laptop.weaver(&[&export[..], &["--kubeconfig", "k3s copy.yaml"]].concat());
        assert_eq!(code, 0, "{said}");
    }
    assert!(fs::read_to_string(laptop.path(".kube").join("config")).unwrap().contains("name: pi\n"));
    assert!(fs::read_to_string(laptop.path("out \u{f6}.yaml")).unwrap().contains("https://pi.lan:6443"));
}

#[test]
fn a_weaver_toml_is_made_and_checked_with_the_lines_of_any_editor() {
    let laptop = Laptop::new();
    let file = "card \u{f6}.toml";
    let (code, said) = laptop.weaver(&["config", "init", file, "--hostname", "pi"]);
    assert_eq!(code, 0, "{said}");
    let text = fs::read_to_string(laptop.path(file)).unwrap().replace('\n', "\r\n");
    fs::write(laptop.path(file), format!("\u{feff}{text}")).unwrap();
    let (code, said) = laptop.weaver(&["config", "check", file]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it sets: host name pi"), "{said}");
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    fs::write(laptop.path(file), wide).unwrap();
    let (code, said) = laptop.weaver(&["config", "check", file]);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("UTF-16"), "{said}");
}

#[test]
fn a_log_is_explained_with_the_lines_of_any_system() {
    let laptop = Laptop::new();
    let explained = |bytes: &[u8]| {
        let mut weaver = laptop.command(&["explain"]);
        let weaver = weaver.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut weaver = weaver.spawn().unwrap();
        weaver.stdin.take().unwrap().write_all(bytes).unwrap();
        let done = weaver.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    };
    let log = "all is well\nx509: certificate is valid for pi, not raspi\n";
    let (code, said) = explained(log.as_bytes());
    assert!(code == Some(0) && said.contains("T-01  WARN"), "{said}");
    assert_eq!(explained(log.replace('\n', "\r\n").as_bytes()), (code, said));
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(log.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let (code, said) = explained(&wide);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("stdin is UTF-16") && said.contains("Get-Content FILE | weaver explain"), "{said}");
}

#[test]
fn nothing_but_a_terminal_gets_colours() {
    let laptop = Laptop::new();
    let (code, said) = laptop.weaver(&["doctor"]);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("K-02") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn what_only_a_node_has_is_said_where_there_is_none() {
    let laptop = Laptop::new();
    let mut rollback = laptop.command(&["node", "rollback", "--dry-run"]);
    let (code, words) = said(rollback.env("PATH", laptop.home()));
    assert_eq!(code, 1, "{words}");
    assert!(words.contains("`ssh NODE sudo weaver node …`"), "{words}");
    let mut journal = laptop.command(&["explain", "--journal", "k3s"]);
    let (code, words) = said(journal.env("PATH", laptop.home()));
    assert_eq!(code, 1, "{words}");
    assert!(words.contains("pipe the log in instead"), "{words}");
}

#[cfg(windows)]
mod windows {
    use super::*;

    #[test]
    fn the_files_of_a_node_are_no_ones_here() {
        let laptop = Laptop::new();
        let (code, words) = laptop.weaver(&["kubeconfig", "export", "pi.lan"]);
        assert_eq!(code, 10, "{words}");
        assert!(
            words.contains("k3s, which runs on Linux only") && words.contains("kubeconfig fetch"),
            "{words}"
        );
        write(&laptop.path("k.yaml"), kubeconfig());
        let (code, words) = laptop.weaver(&["crd", "install", "--kubeconfig", "k.yaml"]);
        assert_eq!(code, 1, "{words}");
        assert!(words.contains("--service"), "{words}");
    }

    #[test]
    fn home_is_the_first_that_has_a_kubeconfig() {
        let laptop = Laptop::new();
        write(&laptop.path(".kube").join("config"), kubeconfig());
        let other = tempfile::tempdir().unwrap();
        let lint = || {
            let mut lint = laptop.command(&["kubeconfig", "lint"]);
            lint.env("HOME", other.path());
            said(&mut lint).1
        };
        assert!(lint().contains(&laptop.home().display().to_string()));
        fs::create_dir(other.path().join(".kube")).unwrap();
        write(&other.path().join(".kube").join("config"), kubeconfig());
        assert!(lint().contains(&other.path().display().to_string()));
    }

    #[test]
    fn who_can_read_a_file_outside_of_the_profile_is_said() {
        let (laptop, outside) = (Laptop::new(), tempfile::tempdir().unwrap());
        write(&laptop.path("k.yaml"), kubeconfig());
        let export = ["kubeconfig", "export", "pi.lan", "--insecure", "--kubeconfig", "k.yaml", "--output"];
        for (file, is_outside) in [(laptop.path("o.yaml"), false), (outside.path().join("o.yaml"), true)] {
            let mut export = laptop.command(&export);
            let (code, words) = said(export.arg(&file));
            assert_eq!(code, 0, "{words}");
            assert_eq!(words.contains("the permissions of its directory"), is_outside, "{words}");
        }
    }

    #[test]
    fn devices_and_streams_are_no_files() {
        let laptop = Laptop::new();
        write(&laptop.path("k.yaml"), kubeconfig());
        let before = fs::read_dir(laptop.home()).unwrap().count();
        for arguments in [
            &["config", "init", "con.toml"][..],
            &["config", "init", "NUL"],
            &["support-bundle", "--output", "aux.tar"],
            &["kubeconfig", "merge", "k.yaml", "--context", "pi", "--into", "pi:6443.yaml"],
            &[
                "kubeconfig",
                "export",
                "pi.lan",
                "--insecure",
                "--kubeconfig",
                "k.yaml",
                "--output",
                "com1.yaml",
            ],
            &[
                "kubeconfig",
                "export",
                "pi.lan",
                "--insecure",
                "--kubeconfig",
                "k.yaml",
                "--output",
                "pi:1.yaml",
            ],
        ] {
            let (code, words) = laptop.weaver(arguments);
            assert!(code != 0 && words.contains("indows"), "{arguments:?}: {code} {words}");
            assert_eq!(fs::read_dir(laptop.home()).unwrap().count(), before, "{arguments:?}");
        }
    }

    #[test]
    fn a_support_bundle_of_a_laptop_has_what_it_has() {
        let laptop = Laptop::new();
        let (code, words) = laptop.weaver(&["support-bundle", "--output", "b.tar"]);
        assert_eq!(code, 0, "{words}");
        let text = String::from_utf8_lossy(&fs::read(laptop.path("b.tar")).unwrap()).into_owned();
        for name in ["weaver-support/doctor.json", "weaver-support/system.txt"] {
            assert!(text.contains(name), "{name}");
        }
        assert!(text.contains("Windows") && !text.contains("proc_cmdline"), "{text}");
    }
}

/// The current context may be that of another cluster.
#[test]
fn a_command_that_is_named_is_for_the_cluster_that_was_asked() {
    const NOT_FOUND: &str = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no settings",
        "reason": "NotFound", "details": {"name": "settings", "kind": "configmapsyncs"}, "code": 404}"#;
    let json = "content-type: application/json\r\n";
    let (at, _) = server(None, move |_| answered("404 Not Found", json, NOT_FOUND));
    let laptop = Laptop::new();
    let path = laptop.path("others.yaml");
    write(
        &path,
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{server: \"http://{at}\"}}\n\
             users:\n- name: u\n  user: {{token: t}}\n\
             contexts:\n- name: edge\n  context: {{cluster: c, user: u}}\n"
        ),
    );
    let path = path.to_str().unwrap();
    let get = ["sync", "get", "settings", "-n", "team-a", "--kubeconfig", path, "--context", "edge"];
    let (code, said) = laptop.weaver(&get);
    let list = format!("`weaver sync list -n team-a --kubeconfig {} --context edge`", quoted(path));
    assert!(code != 0 && said.contains(&list), "{said}");
}
