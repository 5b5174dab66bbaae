//! What k3s is configured to use decides, and not what is there.

use super::*;

#[tokio::test]
async fn a_datastore_elsewhere_is_refused_although_the_file_of_before_is_there() {
    const ENDPOINT: &str = "postgres://k3s:hunter2@db.lan:5432/k3s";
    let old = BackupScene::new("raspi", 40);
    let backup = old.backup().await;
    for (path, text) in [
        ("/etc/rancher/k3s/config.yaml", "datastore-endpoint: VALUE\n"),
        ("/etc/rancher/k3s/config.yaml.d/50-mine.yaml", "datastore-endpoint: VALUE\n"),
        ("/etc/systemd/system/k3s.service", "[Service]\nExecStart=k3s server --datastore-endpoint=VALUE\n"),
        ("/etc/systemd/system/k3s.service.d/1.conf", "[Service]\nEnvironment=K3S_DATASTORE_ENDPOINT=VALUE\n"),
    ] {
        let scene = BackupScene::new("raspi", 3);
        scene.write(path, &text.replace("VALUE", ENDPOINT));
        let error = to(scene.request(&scene.at("/backups"))).await.unwrap_err();
        let said = format!("{error:#} {error:?}");
        assert!(error.is::<Refused>() && said.contains(path), "{said}");
        assert!(!said.contains("hunter2") && scene.names("/backups").is_empty(), "{said}");
        let held = NodeLock::take(&scene.at("/var/lib/weaver"), "an upgrade of k3s").unwrap();
        let said = scene.before_upgrade(&held).await.unwrap();
        assert!(said.contains("is not saved: the datastore of this k3s is a database elsewhere"), "{said}");
        assert!(said.contains(path) && !said.contains("hunter2"), "{said}");
        drop(held);
        let code = scene.run(&["restore", backup.to_str().unwrap()]).await.unwrap();
        assert_eq!((code, scene.read("/calls")), (exit_code::KNOWN_BAD, String::new()), "{path}");
    }
    let own = BackupScene::new("raspi", 3);
    own.write("/etc/rancher/k3s/config.yaml", "datastore-endpoint: sqlite://\n");
    assert_eq!(to(own.request(&own.at("/backups"))).await.unwrap().manifest.rows, 3);
}

#[tokio::test]
async fn volumes_that_are_elsewhere_are_refused_and_their_absence_is_reported() {
    let scene = BackupScene::new("raspi", 1);
    let config = "/etc/rancher/k3s/config.yaml";
    let with = || BackupRequest { volumes: true, ..scene.request(&scene.at("/backups")) };
    scene.write(config, "default-local-storage-path: /mnt/ssd\n");
    let error = to(with()).await.unwrap_err();
    let said = error.to_string();
    assert!(
        error.is::<Refused>() && said.contains("/mnt/ssd, by `default-local-storage-path` in "),
        "{said}"
    );
    assert!(scene.names("/backups").is_empty());
    assert!(
        to(scene.request(&scene.at("/backups"))).await.is_ok(),
        "without them there is nothing against it"
    );

    scene.write(config, "default-local-storage-path: /var/lib/rancher/k3s/storage/\n");
    let made = to(with()).await.unwrap();
    assert_eq!(made.no_volumes, None);
    assert!(made.manifest.members.contains_key("k3s/storage/pvc-1/data"));
    fs::remove_dir_all(scene.at("/var/lib/rancher/k3s/storage")).unwrap();
    let said = reported(&to(with()).await.unwrap());
    assert!(said.ends_with("no volume is in it: there is none in /var/lib/rancher/k3s/storage"), "{said}");
}

#[tokio::test]
async fn a_backup_without_the_ca_is_an_error_and_removes_no_older_one() {
    for name in ["server-ca.crt", "server-ca.key"] {
        let scene = BackupScene::new("raspi", 1);
        let older = format!("weaver-backup-{}-20200101T000000Z.tar", scene.owner());
        scene.write(&format!("/backups/{older}"), "");
        fs::remove_file(scene.at("/var/lib/rancher/k3s/server/tls").join(name)).unwrap();
        let request = BackupRequest { keep: Some(1), ..scene.request(&scene.at("/backups")) };
        let error = to(request).await.unwrap_err().to_string();
        assert!(error.contains(&format!("tls/{name} is missing")), "{error}");
        assert_eq!(scene.names("/backups"), [older]);
    }
}

#[test]
fn only_a_volume_may_lose_a_member_while_it_is_read() {
    use archive::{ArchiveInput, EntryKind};
    let dir = tempfile::tempdir().unwrap();
    for (name, is_lost) in [("k3s/storage/pvc-1/data", true), ("k3s/server/token", false)] {
        for kind in [EntryKind::File, EntryKind::Directory] {
            let mut writer = ArchiveWriter::new(Vec::new(), Progress::waiting("archive"));
            let (name, path) = (name.to_owned(), dir.path().join("gone"));
            let added = writer.add(&ArchiveInput { name: name.clone(), path, kind, most: u64::MAX });
            assert_eq!(added.is_ok(), is_lost, "{name} {kind:?}");
        }
    }
}

#[tokio::test]
async fn a_backup_that_an_upgrade_cannot_make_may_be_skipped() {
    let scene = BackupScene::new("raspi", 1);
    fs::remove_file(scene.at("/var/lib/rancher/k3s/server/tls/server-ca.key")).unwrap();
    let held = NodeLock::take(&scene.at("/var/lib/weaver"), "an upgrade of k3s").unwrap();
    let said = format!("{:#}", scene.before_upgrade(&held).await.unwrap_err());
    assert!(said.contains("nothing was changed: `--no-backup` skips it"), "{said}");
}

#[tokio::test]
async fn before_an_upgrade_of_a_node_without_a_datastore_of_its_own_it_says_that_nothing_is_saved() {
    type Change = fn(&BackupScene);
    let worker: Change = |scene| scene.write("/etc/weaver/k3s-agent", "");
    let etcd: Change = |scene| scene.write("/var/lib/rancher/k3s/server/db/etcd/member", "");
    let never_ran: Change = |scene| fs::remove_dir_all(scene.at("/var/lib/rancher/k3s/server")).unwrap();
    for (change, why) in [
        (worker, "this node has joined another's cluster"),
        (etcd, "the datastore of this k3s is etcd, which `sudo k3s etcd-snapshot save` saves"),
        (never_ran, "there is none yet"),
    ] {
        let scene = BackupScene::new("raspi", 1);
        change(&scene);
        let held = NodeLock::take(&scene.at("/var/lib/weaver"), "an upgrade of k3s").unwrap();
        let said = scene.before_upgrade(&held).await.unwrap();
        assert!(said.starts_with(&format!("The state of k3s is not saved: {why}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!scene.at("/var/lib/weaver/backups").exists());
    }
}
