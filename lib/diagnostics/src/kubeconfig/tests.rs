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
        let is_asked = message.contains("kubectl asks");
        let severity = if is_asked { Severity::Warn } else { Severity::Fail };
        assert_eq!((used.severity(), here.severity()), (severity, Severity::Warn));
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
        ("current-context: default\n", "", "/k.yaml cannot be used as kubeconfig: it has no current-context"),
        (
            "current-context: default",
            "current-context: other",
            "/k.yaml:3:18 cannot be used as kubeconfig: context `other`",
        ),
        ("cluster: c,", "cluster: d,", "cluster `d` is not in it"),
        ("user: u}", "user: v}", "user `v` is not in it"),
        ("cluster: c, ", "", "the context names no cluster"),
        ("{server: https://127.0.0.1:6443}", "{}", "cluster `c` has no server"),
        (
            "{client-certificate-data: QUJD, ",
            "{",
            "user `u` has no client-certificate, token or exec: kubectl asks",
        ),
        ("{client-certificate-data: QUJD, ", "{username: a, password: b, ", "user `u` has only a password"),
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
fn what_can_be_corrected_in_the_file_is_named() {
    let two =
        GOOD.replace("clusters:", "- name: b c\n  context: {cluster: c, user: u}\n- {name: gone}\nclusters:");
    let nope = |text: &str| text.replace("current-context: default", "current-context: nope");
    for (text, context, explain, command) in [
        (
            nope(GOOD),
            None,
            "make a context that is in it the current one: default",
            Some("kubectl --kubeconfig /k.yaml config use-context default"),
        ),
        (
            nope(&two).replace("nope", "''"),
            None,
            "make a context that is in it the current one: default, b c",
            Some("kubectl --kubeconfig /k.yaml config use-context NAME"),
        ),
        (two, Some("d"), "pass a context that is in it: default, b c", None),
        (
            GOOD.replace("  cluster:", "\tcluster:"),
            None,
            "write spaces in the place of the tab in line 9 of /k.yaml",
            None,
        ),
        (GOOD.replace("clusters:", "clusters: ["), None, "correct line ", None),
        (GOOD.replace("cluster: c,", "cluster: d,"), None, "other", None),
        ("contexts: []\n".to_owned(), None, "other", None),
    ] {
        let found = unusable(&TextFile::new("/k.yaml", &*text), context).unwrap();
        let here = found.clone().of_administrator().remedy.unwrap();
        assert!(here.explain.starts_with("restart k3s"), "{here:?}");
        let remedy = found.in_use(Remedy::new("other")).remedy.unwrap();
        assert!(remedy.explain.starts_with(explain), "{text}: {remedy:?}");
        assert_eq!(remedy.commands.first().map(|command| &**command), command, "{text}");
    }
}

#[test]
fn a_mode_wider_than_0600_is_a_warning_with_the_command() {
    assert_eq!(exposed("/k", 0o100_600), None);
    assert_eq!(exposed("/k", 0o400), None);
    let copy = exposed_copy("/home/me/.kube/config", 0o644).unwrap().remedy.unwrap();
    assert_eq!(copy.commands, ["chmod 0600 /home/me/.kube/config"]);
    assert!(!copy.explain.contains("k3s"), "{}", copy.explain);
    for (path, command) in [("/k", "sudo chmod 0600 /k"), ("/my k;d", "sudo chmod 0600 '/my k;d'")] {
        let found = exposed(path, 0o100_644).unwrap();
        assert!(found.message.contains("0644"));
        assert_eq!(found.remedy.unwrap().commands, [command]);
    }
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
