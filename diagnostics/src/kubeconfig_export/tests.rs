use proptest::prelude::*;
use serde_json::json;

use super::yaml_text::tests::any_value;
use super::*;

const K3S: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:6443
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
preferences: {}
users:
- name: default
  user:
    client-certificate-data: QUJD
    client-key-data: aHVudGVyMg==
";

fn read(text: &str) -> Result<Source, ExportError> {
    Source::read(&TextFile::new("/k", text))
}

fn name(text: &str) -> ServingName {
    text.parse().unwrap()
}

fn exported(source: &Source, host: &str, port: Option<u16>, served: Option<&str>) -> String {
    let (host, served) = (name(host), served.map(name));
    let wanted = Wanted { host: &host, port, context: "pi", tls_server_name: served.as_ref() };
    source.export(&wanted).to_yaml()
}

#[test]
fn the_kubeconfig_of_k3s_under_a_name() {
    let source = read(K3S).unwrap();
    let want = K3S.replace("https://127.0.0.1:6443", "https://pi.lan:6443").replace(": default", ": pi");
    assert_eq!(exported(&source, "pi.lan", None, None), want);
    let want = want.replace("https://pi.lan:6443", "\"https://[fd00::1]:9\"");
    let want = want.replace(":9\"\n", ":9\"\n    tls-server-name: pi.lan\n");
    assert_eq!(exported(&source, "fd00::1", Some(9), Some("pi.lan")), want);
}

#[test]
fn only_the_context_in_force_leaves_home() {
    let text = K3S
        .replace("users:\n", "users:\n- name: other\n  user: {token: b3RoZXI=}\n")
        .replace("clusters:\n", "clusters:\n- name: other\n  cluster: {server: 'https://other:1'}\n")
        .replace("contexts:\n", "contexts:\n- name: other\n  context: {cluster: other, user: other}\n");
    assert_eq!(
        exported(&read(&text).unwrap(), "pi", None, None),
        exported(&read(K3S).unwrap(), "pi", None, None)
    );
}

#[test]
fn a_tls_server_name_of_the_source_stays() {
    let source = read(&K3S.replace("    server:", "    tls-server-name: box\n    server:")).unwrap();
    assert_eq!(source.tls_server_name.as_deref(), Some("box"));
    assert!(exported(&source, "pi", None, None).contains("    tls-server-name: box\n"));
    assert!(exported(&source, "pi", None, Some("new")).contains("    tls-server-name: new\n"));
}

#[test]
fn what_cannot_be_exported_is_refused_with_the_remedy() {
    for (from, to, want) in [
        ("current-context: default\n", "", "/k cannot be used as kubeconfig: it has no current-context"),
        ("server: https", "server: [https", "/k:"),
        ("https://127.0.0.1:6443", "localhost:8080", "/k: the server of cluster `default` is localhost:8080"),
        ("https://127.0.0.1:6443", "http://pi:6443", "without TLS no name can be proven"),
        ("https://127.0.0.1:6443", "https://u:aHVudGVyMg==@pi", "holds a user name"),
        ("    certificate-authority-data: Q0E=\n", "", "cluster `default` has no certificate-authority-data"),
        (
            "certificate-authority-data: Q0E=",
            "certificate-authority: /ca",
            "certificate-authority name files",
        ),
        ("client-key-data: aHVudGVyMg==", "client-key: /key", "client-key name files"),
        ("kind: Config\n", "kind: Config\nkind: Config\n", "a key stands twice"),
        ("kind: Config\n", "kind: Pod\n", "its kind is not `Config`"),
    ] {
        let text = K3S.replace(from, to);
        assert_ne!(text, K3S, "{from}");
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(want) && error.contains("/k"), "{to}: {error}");
        assert!(!error.contains("aHVudGVyMg"), "{error}");
    }
    let flatten = read(&K3S.replace("client-key-data", "client-key")).unwrap_err().to_string();
    assert!(flatten.contains("--raw --minify --flatten --kubeconfig /k"), "{flatten}");
}

#[test]
fn debug_shows_no_secret() {
    assert!(!format!("{:?}", read(K3S).unwrap()).contains("aHVudGVyMg"));
}

/// A kubeconfig of k3s' form with more in every place.
fn any_source() -> impl Strategy<Value = Value> {
    let more = || prop::collection::btree_map("x[a-z:# ]{0,4}", any_value(), 0..3);
    let names = ("\\PC{1,8}", "[a-z]{1,8}", "[0-9a-z: #]{1,8}");
    let url = ("[a-z]{1,8}|\\[::1\\]|0\\.0\\.0\\.0", "(:[1-9][0-9]{3})?", "(/[a-z]{0,5})?");
    (names, url, (more(), more(), more(), more(), more())).prop_map(|(names, url, extra)| {
        let (context, cluster, user) = names;
        let mut cluster_body = json!({"server": format!("https://{}{}{}", url.0, url.1, url.2),
            "certificate-authority-data": "Q0E="});
        let mut context_body = json!({"cluster": cluster, "user": user});
        let mut user_body = json!({"token": "1e3"});
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

proptest! {
    #[test]
    fn nothing_but_host_and_names_changes(root in any_source(), port in prop::option::of(1u16..)) {
        let source = read(&yaml_text::write(&root)).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let text = exported(&source, "pi.lan", port, None);
        let mut back: Value = serde_saphyr::from_str(&text).unwrap();

        let url: ServerUrl = back["clusters"][0]["cluster"]["server"].as_str().unwrap().parse().unwrap();
        prop_assert_eq!(&url.host, "pi.lan");
        prop_assert_eq!(url.port(), port.unwrap_or(source.server.port()));
        for list in LISTS {
            prop_assert_eq!(back[list].as_array().map(Vec::len), Some(1));
            prop_assert_eq!(&back[list][0]["name"], "pi");
            back[list][0]["name"] = root[list][0]["name"].clone();
        }
        prop_assert_eq!(&back["current-context"], "pi");
        back["current-context"] = root["current-context"].clone();
        for key in ["cluster", "user"] {
            prop_assert_eq!(&back["contexts"][0]["context"][key], "pi");
            back["contexts"][0]["context"][key] = root["contexts"][0]["context"][key].clone();
        }
        if port.is_none() {
            let host = source.server.to_string();
            let path = host.find("://").map(|at| host[at + 3..].find('/').map_or("", |i| &host[at + 3 + i..]));
            prop_assert!(url.to_string().ends_with(path.unwrap_or_default()));
        }
        back["clusters"][0]["cluster"]["server"] = root["clusters"][0]["cluster"]["server"].clone();
        prop_assert_eq!(back, root);
    }

    #[test]
    fn reading_never_panics(text in "\\PC*|(current-context|contexts|clusters|users|name|server|: |- |a|\n| |\\{|\\}){0,30}") {
        let _ = read(&text);
    }
}
