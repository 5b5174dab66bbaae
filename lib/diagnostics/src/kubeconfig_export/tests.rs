use proptest::prelude::*;

use super::pem::tests::{CERTIFICATE, KEY};
use super::*;
use crate::yaml_text::{self, tests::any_value};

/// The kubeconfig of k3s.
fn k3s() -> String {
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {CERTIFICATE}\n    \
         server: https://127.0.0.1:6443\n  name: default\ncontexts:\n- context:\n    cluster: default\n    \
         user: default\n  name: default\ncurrent-context: default\nkind: Config\npreferences: {{}}\nusers:\n\
         - name: default\n  user:\n    client-certificate-data: {CERTIFICATE}\n    client-key-data: {KEY}\n"
    )
}

fn read(text: &str) -> Result<SourceContext, ExportError> {
    SourceContext::read(&TextFile::new("/k", text))
}

fn name(text: &str) -> ServingName {
    text.parse().unwrap()
}

fn wanted<'a>(host: &'a ServingName, served: Option<&'a ServingName>) -> ExportRequest<'a> {
    ExportRequest { host, port: None, context: "pi", tls_server_name: served, insecure: false, token: None }
}

fn passed_on(text: &str) -> Result<String, ExportError> {
    Ok(read(text)?.export(&wanted(&name("pi.lan"), None))?.to_yaml())
}

fn exported(source: &SourceContext, host: &str, port: Option<u16>, served: Option<&str>) -> String {
    let (host, served) = (name(host), served.map(name));
    source.export(&ExportRequest { port, ..wanted(&host, served.as_ref()) }).unwrap().to_yaml()
}

#[test]
fn the_kubeconfig_of_k3s_under_a_name() {
    let source = read(&k3s()).unwrap();
    let want = k3s().replace("https://127.0.0.1:6443", "https://pi.lan:6443").replace(": default", ": pi");
    let want = want.replace("preferences: {}\n", "");
    assert_eq!(exported(&source, "pi.lan", None, None), want);
    let want = want.replace("https://pi.lan:6443", "https://[fd00::1]:9");
    let want = want.replace(":9\n", ":9\n    tls-server-name: pi.lan\n");
    assert_eq!(exported(&source, "fd00::1", Some(9), Some("pi.lan")), want);
}

#[test]
fn only_the_context_in_force_leaves_home() {
    let text = k3s()
        .replace("users:\n", "users:\n- name: other\n  user: {exec: {command: /tmp/pwned.sh}}\n")
        .replace("clusters:\n", "clusters:\n- name: other\n  cluster: {server: 'https://other:1'}\n")
        .replace("contexts:\n", "contexts:\n- name: other\n  context: {cluster: other, user: other}\n")
        .replace(
            "preferences: {}",
            "preferences: {colors: true}\nextensions: [{name: a, extension: {}}]\nmore: 1",
        );
    assert_eq!(passed_on(&text), passed_on(&k3s()));
}

#[test]
fn what_a_token_and_no_verification_look_like() {
    let source =
        read(&k3s().replace("    user: default", "    user: default\n    namespace: on-call")).unwrap();
    let host = name("pi");
    let wanted = ExportRequest { insecure: true, token: Some("a.b"), ..wanted(&host, Some(&host)) };
    let want = "apiVersion: v1\nclusters:\n- cluster:\n    insecure-skip-tls-verify: true\n    server: https://pi:6443\n  \
        name: pi\ncontexts:\n- context:\n    cluster: pi\n    namespace: on-call\n    user: pi\n  name: pi\n\
        current-context: pi\nkind: Config\nusers:\n- name: pi\n  user:\n    token: a.b\n";
    assert_eq!(source.export(&wanted).unwrap().to_yaml(), want);
    assert!(source.export(&ExportRequest { token: Some("a\nb"), ..wanted }).is_err());
    // The administrator's own way to log in matters only where it is what is exported.
    let runs = k3s().replace("client-key-data", "exec: {command: x}\n    client-key-data");
    assert!(read(&runs).unwrap().export(&wanted).is_ok() && passed_on(&runs).is_err());
}

#[test]
fn the_name_to_verify_of_the_source_is_known() {
    let source = read(&k3s().replace("    server:", "    tls-server-name: box\n    server:")).unwrap();
    assert_eq!(source.tls_server_name, Some(name("box")));
    let error =
        read(&k3s().replace("    server:", "    tls-server-name: \"a\\eb\"\n    server:")).unwrap_err();
    assert!(error.to_string().starts_with("/k: tls-server-name \"a\\u{1b}b\": "), "{error}");
}

#[test]
fn what_cannot_be_exported_is_refused_with_the_remedy() {
    for (from, to, want) in [
        ("current-context: default\n", "", "/k cannot be used as kubeconfig: it has no current-context"),
        ("server: https", "server: [https", "/k:"),
        ("https://127.0.0.1:6443", "localhost:8080", "/k: the server of cluster `default` is localhost:8080"),
        ("https://127.0.0.1:6443", "http://pi:6443", "without TLS no name can be proven"),
        ("https://127.0.0.1:6443", "https://u:aHVudGVyMg==@pi", "contains a user name"),
        ("https://127.0.0.1:6443", "https://pi:6443/?a=b", "a query, a fragment"),
        ("    certificate-authority-data", "    certificate-authority-date", "certificate-authority-date"),
        (
            "    certificate-authority-data: LS0",
            "    certificate-authority-data: '' #",
            "has no certificate-authority-data",
        ),
        (
            "certificate-authority-data: LS0",
            "certificate-authority-data: aHVudGVyMg== #",
            "is not the base64 of PEM",
        ),
        ("certificate-authority-data: ", "certificate-authority: /ca #", "certificate-authority name files"),
        ("client-key-data: ", "client-key: /key #", "client-key name files"),
        ("client-key-data: LS0", "client-key-data: aHVudGVyMg== #", "is not the base64 of a PEM key"),
        ("client-key-data: ", "more: #", "client-key-data"),
        (
            "client-certificate-data: LS0",
            "client-certificate-data: aHVudGVyMg== #",
            "client-certificate-data of user",
        ),
        (
            "client-certificate-data: ",
            "token: aHVudGVyMg== #",
            "is given in addition to a client certificate",
        ),
        (
            "    user: default\n",
            "    user: default\n    namespace: \"a\\nb\"\n",
            "namespace of context `default` is not a namespace",
        ),
        ("kind: Config\n", "kind: Config\nkind: Config\n", "a key is repeated"),
        ("kind: Config\n", "kind: Pod\n", "its kind is not `Config`"),
    ] {
        let text = k3s().replace(from, to);
        assert_ne!(text, k3s(), "{from}");
        let error = passed_on(&text).unwrap_err().to_string();
        assert!(error.contains(want) && error.contains("/k"), "{to}: {error}");
        assert!(!error.contains("aHVudGVyMg"), "{error}");
    }
    let flatten = passed_on(&k3s().replace("client-key-data", "client-key")).unwrap_err().to_string();
    assert!(flatten.contains("--raw --minify --flatten --kubeconfig /k"), "{flatten}");
}

#[test]
fn settings_that_run_programs_or_lead_elsewhere_are_refused_by_name() {
    let user = "    client-key-data: ";
    let cluster = "    server: ";
    for (place, setting, key) in [
        (user, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /tmp/pwned.sh}", "exec"),
        (user, "auth-provider: {name: gcp, config: {cmd-path: /tmp/pwned.sh}}", "auth-provider"),
        (user, "tokenFile: /etc/passwd", "tokenFile"),
        (user, "as: system:admin", "as"),
        (user, "as-groups: [system:masters]", "as-groups"),
        (user, "as-uid: x", "as-uid"),
        (user, "as-user-extra: {a: [b]}", "as-user-extra"),
        (user, "username: hunter2", "username"),
        (user, "password: hunter2", "password"),
        (user, "what-comes-next: 1", "what-comes-next"),
        (user, "\"\\e[2J\": 1", "\\u{1b}[2J"),
        (cluster, "insecure-skip-tls-verify: true", "insecure-skip-tls-verify"),
        (cluster, "proxy-url: 'http://hunter2@proxy'", "proxy-url"),
        (cluster, "certificate-authority: /etc/passwd", "certificate-authority"),
        (cluster, "what-comes-next: {}\n    api-version: v1", "api-version"),
    ] {
        let text = k3s().replace(place, &format!("    {setting}\n{place}"));
        let error = passed_on(&text).unwrap_err().to_string();
        assert!(error.contains(key), "{setting}: {error}");
        assert!(
            !error.contains("hunter2") && !error.contains("/tmp/pwned") && !error.contains('\u{1b}'),
            "{error}"
        );
        // In another entry it is not part of what was asked for.
        let other = format!("- name: other\n  user:\n    {setting}\n    token: x\n");
        assert_eq!(passed_on(&(k3s() + &other)), passed_on(&k3s()), "{setting}");
    }
    for nothing in ["exec: null", "insecure-skip-tls-verify: false", "tokenFile: ''", "extensions: [{a: 1}]"]
    {
        let text = k3s().replace(user, &format!("    {nothing}\n{user}"));
        assert_eq!(passed_on(&text), passed_on(&k3s()), "{nothing}");
    }
}

#[test]
fn tricks_of_yaml_pass_on_nothing_more() {
    let aliased = k3s()
        .replace("server: https://127.0.0.1:6443", "server: &a https://127.0.0.1:6443")
        .replace("preferences: {}", "preferences: {x: *a}");
    assert!(passed_on(&aliased).is_err() || passed_on(&aliased) == passed_on(&k3s()));
    let user = "    client-key-data: ";
    for trick in [
        "<<: {exec: {command: x}}",
        "!!str exec: {command: x}",
        "? exec\n    : {command: x}",
        "\"\\x65xec\": {command: x}",
    ] {
        let text = k3s().replace(user, &format!("    {trick}\n{user}"));
        if let Ok(text) = passed_on(&text) {
            assert_eq!(Ok(text), passed_on(&k3s()), "{trick}");
        }
    }
    for c in ['\0', '\u{85}', '\u{2028}', '\u{1b}'] {
        let text = k3s().replace(": default", &format!(": \"de\\u{:04x}fault\"", u32::from(c)));
        if let Err(error) = passed_on(&text) {
            assert!(!error.to_string().contains(char::is_control), "{c:?}: {error}");
        }
    }
}

#[test]
fn debug_shows_no_secret() {
    assert!(!format!("{:?}", read(&k3s()).unwrap()).contains(KEY));
}

/// A kubeconfig of k3s' form with additional fields everywhere.
fn any_source() -> impl Strategy<Value = Value> {
    let known = "exec|token|tokenFile|as|proxy-url|namespace|tls-server-name|insecure-skip-tls-verify|username|extensions";
    let key = prop_oneof!["x[a-z:# ]{0,4}", known];
    let more = move || prop::collection::btree_map(key.clone(), any_value(), 0..2);
    let names = ("\\PC{1,8}", "[a-z]{1,8}", "[0-9a-z: #]{1,8}");
    let url = ("[a-z]{1,8}|\\[::1\\]|0\\.0\\.0\\.0|a@b", "(:[1-9][0-9]{3})?", "(/[a-z]{0,5})?(\\?x)?");
    (names, url, (more(), more(), more(), more(), more())).prop_map(|(names, url, extra)| {
        let (context, cluster, user) = names;
        let mut cluster_body = json!({"server": format!("https://{}{}{}", url.0, url.1, url.2),
            "certificate-authority-data": CERTIFICATE});
        let mut context_body = json!({"cluster": cluster, "user": user});
        let mut user_body = json!({"client-certificate-data": CERTIFICATE, "client-key-data": KEY});
        let mut entry = json!({"name": cluster});
        let mut root = json!({"kind": "Config", "current-context": context});
        let places = [&mut cluster_body, &mut context_body, &mut user_body, &mut entry, &mut root];
        for (place, extra) in places.into_iter().zip([extra.0, extra.1, extra.2, extra.3, extra.4]) {
            place.as_object_mut().unwrap().extend(extra);
        }
        entry["cluster"] = cluster_body;
        root["clusters"] = json!([entry]);
        root["contexts"] = json!([{"name": context, "context": context_body}]);
        root["users"] = json!([{"name": user, "user": user_body}]);
        root
    })
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

proptest! {
    #[test]
    fn what_is_passed_on_has_exactly_the_keys_that_are_allowed(root in any_source()) {
        match passed_on(&yaml_text::write(&root)) {
            Err(error) => prop_assert!(!error.to_string().contains(char::is_control), "{:?}", error),
            Ok(text) => {
                let back: Value = serde_saphyr::from_str(&text).unwrap();
                prop_assert_eq!(
                    keys(&back),
                    ["apiVersion", "clusters", "contexts", "current-context", "kind", "users"]
                );
                for (list, body) in [("clusters", "cluster"), ("contexts", "context"), ("users", "user")] {
                    prop_assert_eq!(back[list].as_array().map(Vec::len), Some(1));
                    prop_assert_eq!(keys(&back[list][0]), if body == "user" { ["name", body] } else { [body, "name"] });
                    prop_assert_eq!(&back[list][0]["name"], "pi");
                }
                let cluster = &back["clusters"][0]["cluster"];
                prop_assert_eq!(keys(cluster), ["certificate-authority-data", "server"]);
                prop_assert_eq!(&cluster["certificate-authority-data"], CERTIFICATE);
                let url: ServerUrl = cluster["server"].as_str().unwrap().parse().unwrap();
                prop_assert_eq!(url.host, "pi.lan");
                let user = &back["users"][0]["user"];
                prop_assert_eq!(keys(user), ["client-certificate-data", "client-key-data"]);
                let context = &back["contexts"][0]["context"];
                prop_assert!([&["cluster", "user"][..], &["cluster", "namespace", "user"]].contains(&&*keys(context)));
                prop_assert_eq!(&context["cluster"], "pi");
                prop_assert_eq!(&context["user"], "pi");
            }
        }
    }

    #[test]
    fn reading_never_panics(text in "\\PC*|(current-context|contexts|clusters|users|name|server|: |- |a|\n| |\\{|\\}){0,30}") {
        let _ = passed_on(&text);
    }
}
