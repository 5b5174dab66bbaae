//! Archives of container images on the boot partition.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::card::CardHost;

const CARD: &str = "/boot/firmware/images";
const K3S: &str = "/var/lib/rancher/k3s/agent/images";

/// As `docker save` writes it, with a layer.
fn archive(architecture: &str) -> Vec<u8> {
    let config = json!({"os": "linux", "architecture": architecture}).to_string();
    let list = json!([{"Config": "c.json", "Layers": ["l.tar"]}]).to_string();
    let layer = vec![0; 2 << 20];
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in
        [("l.tar", &layer[..]), ("c.json", config.as_bytes()), ("manifest.json", list.as_bytes())]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The processor of this machine, as images name it, and another.
fn architectures() -> [&'static str; 2] {
    if cfg!(target_arch = "aarch64") { ["arm64", "amd64"] } else { ["amd64", "s390x"] }
}

/// Where a link of k3s' directory leads.
fn link(host: &CardHost, name: &str) -> Option<PathBuf> {
    fs::read_link(host.path(&format!("{K3S}/{name}"))).ok()
}

#[test]
fn archives_are_linked_and_a_start_without_a_change_writes_nothing() {
    let host = CardHost::new();
    let [own, _] = architectures();
    host.write(&format!("{CARD}/App.tar"), archive(own));
    host.write(&format!("{CARD}/packed.tar.zst"), [0x28, 0xb5, 0x2f, 0xfd]);
    host.write(&format!("{CARD}/readme.txt"), "app 1.0");
    host.write(&format!("{K3S}/owners.tar"), "of the owner");
    host.configure("").exits(0);
    assert_eq!(link(&host, "weaver-card-app.tar"), Some(format!("{CARD}/App.tar").into()));
    assert_eq!(link(&host, "weaver-card-packed.tar.zst"), Some(format!("{CARD}/packed.tar.zst").into()));
    assert_eq!(fs::read_dir(host.path(K3S)).unwrap().count(), 3);
    let before = host.state_but_report();
    host.run().exits(0);
    assert_eq!(host.state_but_report(), before);

    fs::remove_file(host.path(&format!("{CARD}/App.tar"))).unwrap();
    host.run().exits(0);
    assert_eq!(link(&host, "weaver-card-app.tar"), None);
    assert!(link(&host, "weaver-card-packed.tar.zst").is_some());
    assert_eq!(host.read(&format!("{K3S}/owners.tar")), "of the owner");
}

#[test]
fn a_bad_archive_is_named_and_the_others_are_imported() {
    let host = CardHost::new();
    let [own, other] = architectures();
    host.write(&format!("{CARD}/good.tar"), archive(own));
    host.write(&format!("{CARD}/other.tar"), archive(other));
    host.write(&format!("{CARD}/cut.tar"), &archive(own)[..1 << 20]);
    let said = host.configure("").exits(0);
    said.finds("B-11", "warn");
    for want in [
        format!(
            "other.tar: its images are for linux/{other}, and this card is linux/{own}; it is not imported"
        ),
        "cut.tar: it ends in the middle of a file; it is not imported".to_owned(),
    ] {
        assert!(said.stderr.contains(&want), "{want}: {}", said.stderr);
    }
    let links: Vec<_> =
        fs::read_dir(host.path(K3S)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(links, ["weaver-card-good.tar"]);

    host.write(&format!("{CARD}/good.tar"), archive(other));
    host.run().exits(0).finds("B-11", "warn");
    assert_eq!(fs::read_dir(host.path(K3S)).unwrap().count(), 0);
}

#[test]
fn a_card_that_joins_imports_them_too_where_k3s_has_its_data() {
    let host = CardHost::new();
    host.write("/etc/rancher/k3s/config.yaml", "data-dir: /mnt/ssd/k3s\n");
    host.write(&format!("{CARD}/app.tar"), archive(architectures()[0]));
    let joins = "hostname = \"worker\"
[k3s]
role = \"agent\"
server = \"https://raspi.lan:6443\"
token = \"hunter2\"
";
    host.configure(joins).exits(0);
    let link = fs::read_link(host.path("/mnt/ssd/k3s/agent/images/weaver-card-app.tar")).unwrap();
    assert_eq!(link, PathBuf::from("/boot/firmware/images/app.tar"));
}

#[test]
fn with_a_fault_in_weaver_toml_nothing_changes() {
    let host = CardHost::new();
    host.write(&format!("{CARD}/app.tar"), archive(architectures()[0]));
    host.configure("").exits(0);
    fs::remove_dir_all(host.path(CARD)).unwrap();
    host.configure("nonsense = [").exits(0);
    assert!(link(&host, "weaver-card-app.tar").is_some());
    host.configure("").exits(0);
    assert_eq!(link(&host, "weaver-card-app.tar"), None);
}

#[test]
fn a_file_that_boot_config_did_not_make_is_left_and_named() {
    let host = CardHost::new();
    host.write(&format!("{CARD}/app.tar"), archive(architectures()[0]));
    host.write(&format!("{K3S}/weaver-card-app.tar"), "of the owner");
    let said = host.configure("").exits(1);
    said.finds("B-05", "warn");
    assert_eq!(host.read(&format!("{K3S}/weaver-card-app.tar")), "of the owner");
}
