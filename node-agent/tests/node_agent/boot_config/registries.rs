//! `[k3s.registries]`.

use super::card::CardHost;

const FILE: &str = "/etc/rancher/k3s/registries.yaml";
const ASKED: &str = "[k3s.registries]
mirrors.\"docker.io\".endpoint = [\"https://registry.lan:5000\"]
";

#[test]
fn the_section_becomes_k3s_file_and_goes_with_it() {
    let host = CardHost::new();
    host.configure(ASKED).exits(0);
    assert!(host.read(FILE).contains("- https://registry.lan:5000"), "{}", host.read(FILE));
    let before = host.state();
    let said = host.run().exits(0);
    assert!(said.finds("B-00", "ok")["message"].as_str().unwrap().ends_with("was applied: registries"));
    assert_eq!(host.state(), before);

    host.configure(&ASKED.replace("endpoint", "endpoints")).exits(0).finds("B-01", "warn");
    assert!(host.exists(FILE), "a file with a fault changes nothing");
    host.configure("").exits(0);
    assert!(!host.exists(FILE));
}

#[test]
fn an_owners_file_stays_and_is_named() {
    let host = CardHost::new();
    let own = "configs:\n  registry.lan:5000: {auth: {username: ada, password: hunter2}}\n";
    host.write(FILE, own);
    let said = host.configure(ASKED).exits(0);
    let message = said.finds("B-05", "warn")["message"].as_str().unwrap();
    assert!(message.starts_with("/etc/rancher/k3s/registries.yaml is a file of your own"), "{message}");
    assert!(!said.stderr.contains("hunter2") && !said.report.to_string().contains("hunter2"));
    host.configure("").exits(0);
    assert_eq!(host.read(FILE), own);
}

#[test]
fn a_password_is_refused_with_the_place_for_it() {
    let host = CardHost::new();
    let auth = "configs.\"registry.lan:5000\".auth = {username = \"ada\", password = \"hunter2\"}\n";
    let said = host.configure(&format!("{ASKED}{auth}")).exits(0);
    let found = said.finds("B-01", "warn").to_string();
    assert!(found.contains("/etc/rancher/k3s/registries.yaml, which only root may read"), "{found}");
    assert!(!said.stderr.contains("hunter2") && !found.contains("hunter2"));
    assert!(!host.exists(FILE));
}
