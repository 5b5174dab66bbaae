//! Manifests on the boot partition.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::card::CardHost;

const CARD: &str = "/boot/firmware/manifests";
const K3S: &str = "/var/lib/rancher/k3s/server/manifests/weaver-card";
const APP: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: app}\nstringData: {password: hunter2}\n";

#[test]
fn files_are_applied_changed_and_emptied_and_a_start_without_a_change_writes_nothing() {
    let host = CardHost::new();
    host.write(&format!("{CARD}/app.yaml"), APP);
    host.write(&format!("{CARD}/broken.yaml"), "password: hunter2 [\n- x");
    let owners = "/var/lib/rancher/k3s/server/manifests/app.yaml";
    host.write(owners, "# the owner's\n");
    let said = host.configure("").exits(0);
    let found = said.finds("B-10", "warn").to_string();
    assert!(found.contains("broken.yaml") && !said.report.to_string().contains("hunter2"), "{found}");
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    assert_eq!(host.read(&format!("{K3S}/weaver-card-app.yaml")), APP);
    let mode = fs::metadata(host.path(K3S)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    let before = host.state_but_report();
    host.run().exits(0);
    assert_eq!(host.state_but_report(), before);

    let changed = APP.replace("name: app", "name: app2");
    host.write(&format!("{CARD}/app.yaml"), &changed);
    host.run().exits(0);
    assert_eq!(host.read(&format!("{K3S}/weaver-card-app.yaml")), changed);

    fs::remove_file(host.path(&format!("{CARD}/app.yaml"))).unwrap();
    host.run().exits(0);
    assert!(host.read(&format!("{K3S}/weaver-card-app.yaml")).starts_with("# Removed from the card"));
    assert_eq!(host.read(owners), "# the owner's\n");
}

#[test]
fn without_the_directory_or_with_a_fault_in_weaver_toml_nothing_is_deleted() {
    let host = CardHost::new();
    host.write(&format!("{CARD}/app.yaml"), APP);
    host.configure("").exits(0);
    let of_k3s = || host.read(&format!("{K3S}/weaver-card-app.yaml"));
    fs::remove_dir_all(host.path(CARD)).unwrap();
    host.run().exits(0);
    assert_eq!(of_k3s(), APP);
    host.write(&format!("{CARD}/other.yaml"), APP);
    host.configure("nonsense = [").exits(0);
    assert_eq!(of_k3s(), APP);
    assert!(!host.exists(&format!("{K3S}/weaver-card-other.yaml")));
}

#[test]
fn a_card_that_joins_has_no_use_for_them_and_says_so() {
    let host = CardHost::new();
    host.write(&format!("{CARD}/app.yaml"), APP);
    let joins = "hostname = \"worker\"
[k3s]
role = \"agent\"
server = \"https://raspi.lan:6443\"
token = \"hunter2\"
";
    host.configure(joins).exits(0).finds("B-10", "warn");
    assert!(!host.exists(K3S));
}

#[test]
fn k3s_data_directory_is_where_k3s_has_it() {
    let host = CardHost::new();
    host.write("/etc/rancher/k3s/config.yaml", "data-dir: /mnt/ssd/k3s\n");
    host.write(&format!("{CARD}/app.yaml"), APP);
    host.configure("").exits(0);
    assert_eq!(host.read("/mnt/ssd/k3s/server/manifests/weaver-card/weaver-card-app.yaml"), APP);
}

#[test]
fn while_the_disk_of_k3s_data_is_missing_nothing_is_written_at_its_place() {
    let host = CardHost::new();
    host.write("/var/lib/weaver/data-disk.json", "{}");
    host.write(&format!("{CARD}/app.yaml"), APP);
    let root = "25 1 254:2 / / rw - ext4 /dev/vda2 rw\n36 25 254:1 / /boot/firmware rw - vfat /dev/vda1 rw\n";
    host.write("/proc/self/mountinfo", root);
    host.configure("").exits(0);
    assert!(!host.exists("/var/lib/rancher"));
    let mounted = format!("{root}37 25 254:16 / /var/lib/rancher rw - ext4 /dev/vdb rw\n");
    host.write("/proc/self/mountinfo", &mounted);
    host.configure("").exits(0);
    assert_eq!(host.read(&format!("{K3S}/weaver-card-app.yaml")), APP);
}

#[test]
fn where_the_disk_of_k3s_data_is_mounted_later_nothing_is_written_that_it_would_hide() {
    let host = CardHost::new();
    host.write("/etc/rancher/k3s/config.yaml", "data-dir: /mnt/my-ssd/k3s\n");
    host.write("/etc/fstab", "LABEL=ssd /mnt/my-ssd ext4 nofail 0 2\n");
    let root = "25 1 254:2 / / rw - ext4 /dev/vda2 rw\n36 25 254:1 / /boot/firmware rw - vfat /dev/vda1 rw\n";
    host.write("/proc/self/mountinfo", root);
    let none = host.configure("").exits(0);
    assert!(!none.stderr.contains("B-05"), "the card has nothing for k3s: {}", none.stderr);
    host.write(&format!("{CARD}/app.yaml"), APP);
    let said = host.configure("").exits(0);
    let found = said.finds("B-05", "warn").to_string();
    assert!(found.contains("systemd-escape --path --suffix=mount /mnt/my-ssd"), "{found}");
    assert!(!host.exists("/mnt/my-ssd"));

    host.write("/proc/self/mountinfo", format!("{root}37 25 254:16 / /mnt/my-ssd rw - ext4 /dev/vdb rw\n"));
    let said = host.configure("").exits(0);
    assert!(!said.stderr.contains("B-05"), "{}", said.stderr);
    assert_eq!(host.read("/mnt/my-ssd/k3s/server/manifests/weaver-card/weaver-card-app.yaml"), APP);
}

#[test]
fn of_a_directory_full_of_files_none_is_looked_at() {
    let host = CardHost::new();
    for number in 0..201 {
        host.write(&format!("{CARD}/app-{number}.yaml"), APP);
    }
    host.configure("").exits(0).finds("B-10", "warn");
    assert!(!host.exists(K3S));
}
