//! On a host of a test's own, whose k3s writes to its datastore meanwhile.

mod configured;
mod volume_content;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use clap::Parser as _;
use rusqlite::Connection;

use weaver_diagnostics::exit_code;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::node_backup::left_out::LeftOut;

use super::command::run;
use super::schedule::schedule;
use super::*;
use crate::args::{AgentArgs, AgentCommand};
use crate::host_root::HostRoot;

/// The root of a server, k3s' connection to its datastore, and a directory for backups.
pub struct BackupScene {
    dir: tempfile::TempDir,
    database: Option<Connection>,
}

pub const SECRET: &str = "K10the-token-of-a-test";

impl BackupScene {
    pub fn new(node: &str, rows: i64) -> Self {
        let mut scene = Self { dir: tempfile::tempdir().unwrap(), database: None };
        for (path, text) in [
            ("/proc/sys/kernel/hostname", node),
            ("/proc/sys/kernel/random/boot_id", "one"),
            ("/etc/rancher/k3s/config.yaml", "write-kubeconfig-mode: '0600'\n"),
            ("/etc/rancher/k3s/config.yaml.d/90-weaver.yaml", "tls-san+: [pi.lan]\n"),
            ("/etc/rancher/k3s/k3s.yaml", "made at each start"),
            ("/etc/rancher/node/password", "secret"),
            ("/var/lib/rancher/k3s/server/token", SECRET),
            ("/var/lib/rancher/k3s/server/tls/server-ca.crt", node),
            ("/var/lib/rancher/k3s/server/tls/server-ca.key", "secret"),
            ("/var/lib/rancher/k3s/server/logs/audit.log", "not wanted"),
            ("/var/lib/rancher/k3s/server/static/charts/traefik.tgz", "not wanted"),
            ("/var/lib/rancher/k3s/server/psa.yaml", "of the owner"),
            ("/var/lib/rancher/k3s/server/manifests/mine.yaml", "kind: List"),
            ("/var/lib/rancher/k3s/storage/pvc-1/data", "of a pod"),
            ("/var/lib/rancher/k3s/agent/client-kubelet.crt", "of the cluster before"),
            ("/var/lib/weaver/boot-config/node-name", node),
            ("/var/lib/weaver/ledger.json", "of this card"),
            ("/boot/firmware/weaver.toml", node),
            ("/usr/local/bin/k3s", "#!/bin/sh\necho k3s version v1.36.4+k3s1\n"),
            ("/systemctl", "#!/bin/sh\nshift 2\necho \"$@\" >> \"${0%/*}/calls\"\necho ActiveState=active\n"),
        ] {
            scene.write(path, text);
        }
        for program in ["/usr/local/bin/k3s", "/systemctl"] {
            fs::set_permissions(scene.at(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(scene.at("/var/lib/rancher/k3s/server/tls"), fs::Permissions::from_mode(0o700))
            .unwrap();
        symlink("data", scene.at("/var/lib/rancher/k3s/storage/pvc-1/link")).unwrap();
        for directory in ["/var/lib/rancher/k3s/server/db", "/backups"] {
            fs::create_dir_all(scene.at(directory)).unwrap();
        }
        let database = datastore::tests::make(&scene.at("/var/lib/rancher/k3s/server/db/state.db"), rows);
        scene.database = Some(database);
        scene
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    pub fn names(&self, path: &str) -> Vec<String> {
        let mut names = common::names(&self.at(path)).unwrap();
        names.sort();
        names
    }

    /// Runs the command line on this host.
    pub async fn run(&self, words: &[&str]) -> anyhow::Result<u8> {
        let root = self.dir.path().to_str().unwrap();
        let root = ["--root", root];
        let words = ["weaver-node-agent"].iter().chain(words).chain(&root);
        match AgentArgs::try_parse_from(words).unwrap().resolve().unwrap().command {
            AgentCommand::Backup(args) => run(args).await,
            AgentCommand::Restore(args) => restore::run(args).await,
            AgentCommand::BootConfig(args) => Ok(crate::boot_config::run(&args)),
            other => panic!("{other:?}"),
        }
    }

    pub fn request(&self, target: &Path) -> BackupRequest {
        let words = ["weaver-node-agent", "backup", "x", "--root", self.dir.path().to_str().unwrap()];
        let AgentCommand::Backup(args) = AgentArgs::parse_from(words).command else { panic!() };
        let host: Host = args.host.into();
        BackupRequest {
            program: host.root.real(&args.program),
            host,
            state_dir: args.state_dir,
            target: target.to_owned(),
            volumes: false,
            keep: None,
            since: None,
            must_be_mounted: false,
            seal: Seal::Open,
        }
    }

    /// As an upgrade has it made.
    pub async fn before_upgrade(&self, held: &NodeLock) -> anyhow::Result<String> {
        let request = self.request(Path::new("/"));
        before_upgrade(held, &request.host, &request.state_dir, &request.program).await
    }

    /// The owner part of its backups' names.
    pub fn owner(&self) -> String {
        let ca = identity::ca_fingerprint(&HostRoot::new(self.at("/")), Path::new("/var/lib/rancher/k3s"));
        name::owner("raspi", Some(&ca.unwrap()))
    }

    /// A backup of this host in one file.
    pub async fn backup(&self) -> PathBuf {
        to(self.request(&self.at("/backups/one.tar"))).await.unwrap().path
    }
}

/// The members of a backup, by their names.
fn members(path: &Path) -> Vec<String> {
    let mut archive = tar::Archive::new(File::open(path).unwrap());
    let entries = archive.entries().unwrap();
    entries.map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_is_in_it_and_who_may_read_it() {
    let scene = BackupScene::new("raspi", 30);
    let made = to(scene.request(&scene.at("/backups"))).await.unwrap();
    assert_eq!((made.manifest.revision, made.manifest.rows), (30, 30));
    assert_eq!((made.manifest.node.as_str(), made.manifest.k3s.as_deref()), ("raspi", Some("v1.36.4+k3s1")));
    let metadata = fs::metadata(&made.path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    let name = made.path.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with(&format!("weaver-backup-{}-2", scene.owner())) && scene.names("/backups") == [name],
        "{name}"
    );
    assert_eq!(
        members(&made.path),
        [
            "k3s/server/db/state.db",
            "k3s/server/manifests/",
            "k3s/server/manifests/mine.yaml",
            "k3s/server/psa.yaml",
            "k3s/server/tls/",
            "k3s/server/tls/server-ca.crt",
            "k3s/server/tls/server-ca.key",
            "k3s/server/token",
            "etc/rancher/k3s/config.yaml",
            "etc/rancher/k3s/config.yaml.d/",
            "etc/rancher/k3s/config.yaml.d/90-weaver.yaml",
            "etc/rancher/node/password",
            "weaver/state/boot-config/node-name",
            "weaver/boot/weaver.toml",
            "manifest.json",
        ]
    );
    let shown =
        show::show(&made.path, &seal::DecryptionArgs::default(), &scene.at("/var/lib/weaver")).unwrap();
    assert!(shown.contains("datastore  revision 30, 30 rows, whole") && !shown.contains(SECRET), "{shown}");
    assert_eq!(
        scene.names("/var/lib/weaver"),
        ["backup-show", "boot-config", "ledger.json", "node.lock"],
        "no copy is left"
    );
    assert_eq!(scene.names("/var/lib/weaver/backup-show"), ["node.lock"]);
    let with =
        to(BackupRequest { volumes: true, ..scene.request(&scene.at("/backups/with.tar")) }).await.unwrap();
    let with = members(&with.path);
    assert!(
        with.ends_with(
            &["k3s/storage/pvc-1/", "k3s/storage/pvc-1/data", "k3s/storage/pvc-1/link", "manifest.json"]
                .map(str::to_owned)
        ),
        "{with:?}"
    );
}

#[tokio::test]
async fn the_usual_kubeconfig_as_a_link_to_one_that_is_gone_stops_no_backup() {
    let scene = BackupScene::new("raspi", 1);
    let usual = scene.at(K3S_KUBECONFIG);
    fs::remove_file(&usual).unwrap();
    symlink("/srv/kubeconfig.yaml", &usual).unwrap();
    let mut request = scene.request(&scene.at("/backups"));
    request.host.admin_kubeconfig = "/srv/kubeconfig.yaml".into();
    let made = to(request).await.unwrap();
    assert!(!members(&made.path).iter().any(|name| name.ends_with("k3s.yaml")));
}

#[tokio::test]
async fn the_oldest_of_this_node_go() {
    let scene = BackupScene::new("raspi", 1);
    let owner = scene.owner();
    // Another node of this name uses the share, too.
    for other in [&owner, "raspi-00000000", "attic"] {
        for day in ["01", "02"] {
            scene.write(&format!("/backups/weaver-backup-{other}-202001{day}T000000Z.tar"), "");
        }
    }
    scene.write(&format!("/backups/.weaver-backup-{owner}.part"), "of one that was killed");
    let made = to(BackupRequest { keep: Some(2), ..scene.request(&scene.at("/backups")) }).await.unwrap();
    assert_eq!(made.removed, [format!("weaver-backup-{owner}-20200101T000000Z.tar")]);
    assert_eq!(scene.names("/backups").len(), 6, "{:?}", scene.names("/backups"));
}

#[tokio::test]
async fn what_is_refused_writes_nothing() {
    let scene = BackupScene::new("raspi", 1);
    let at = |path: &str| scene.at(path).to_str().unwrap().to_owned();
    assert_eq!(scene.run(&["backup", &at("/boot/firmware")]).await.unwrap(), exit_code::KNOWN_BAD);
    assert_eq!(scene.run(&["backup", &at("/boot/firmware/b.tar")]).await.unwrap(), exit_code::KNOWN_BAD);
    assert_eq!(
        scene.run(&["backup", &at("/backups"), "--must-be-mounted"]).await.unwrap(),
        exit_code::KNOWN_BAD
    );
    for (target, why) in [
        ("/none/b.tar", "there is no directory"),
        ("/none/", "there is no directory"),
        ("/usr/local/bin/k3s/b.tar", "there is no directory"),
    ] {
        let error = scene.run(&["backup", &at(target)]).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = scene.run(&["backup", &at("/backups/b.tar"), "--keep", "3"]).await.unwrap_err().to_string();
    assert!(error.contains("--keep counts the backups in a directory"), "{error}");
    let error = scene.run(&["backup", "/dev/null"]).await.unwrap_err().to_string();
    assert!(error.contains("/dev/null is no file"), "{error}");
    assert_eq!(
        (scene.names("/backups"), scene.names("/boot/firmware")),
        (vec![], vec!["weaver.toml".to_owned()])
    );
}

#[tokio::test]
async fn a_worker_etcd_and_a_server_that_never_ran_have_nothing_to_save() {
    let worker = BackupScene::new("raspi", 1);
    worker.write("/etc/weaver/k3s-agent", "");
    let etcd = BackupScene::new("raspi", 1);
    etcd.write("/var/lib/rancher/k3s/server/db/etcd/member", "");
    let elsewhere = BackupScene::new("raspi", 1);
    fs::remove_dir_all(elsewhere.at("/var/lib/rancher/k3s/server/db")).unwrap();
    for scene in [worker, etcd, elsewhere] {
        let error = to(scene.request(&scene.at("/backups"))).await.unwrap_err();
        assert!(error.is::<Refused>(), "{error:#}");
        assert!(scene.names("/backups").is_empty());
    }
    let fresh = BackupScene::new("raspi", 1);
    fs::remove_dir_all(fresh.at("/var/lib/rancher/k3s/server")).unwrap();
    let error = to(fresh.request(&fresh.at("/backups"))).await.unwrap_err().to_string();
    assert!(error.contains("has k3s run?"), "{error}");
}

#[tokio::test]
async fn a_damaged_datastore_becomes_no_backup() {
    let mut scene = BackupScene::new("raspi", 1);
    let path = scene.at("/var/lib/rancher/k3s/server/db/state.db");
    scene.database = None;
    fs::write(&path, "no database, though long enough to have a header of its own").unwrap();
    let error = format!("{:#}", to(scene.request(&scene.at("/backups"))).await.unwrap_err());
    assert!(error.contains("state.db") && error.contains("not a database"), "{error}");
    assert!(scene.names("/backups").is_empty() && !scene.at("/var/lib/weaver/backup.part").exists());
}

/// A file system of 64 KiB that fills up while it is written.
#[tokio::test]
async fn a_disk_that_fills_up_keeps_nothing_half_written() {
    let scene = BackupScene::new("raspi", 1);
    let backup = BackupFile::of(Path::new("/dev"), "raspi", "20261127T082200Z", false).unwrap();
    assert!(backup.is_directory);
    // The kernel's own full disk.
    let sources = [archive::ArchiveInput {
        name: "k3s/server/token".to_owned(),
        path: scene.at("/var/lib/rancher/k3s/server/token"),
        kind: archive::EntryKind::File,
        most: u64::MAX,
    }];
    let manifest = manifest();
    let device = File::options().write(true).open("/dev/full").unwrap();
    let error =
        write(device, sources.into_iter(), manifest, &backup, &Seal::Open, Progress::waiting("archive"))
            .map_err(full(Path::new("/mnt/usb")));
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.starts_with("there is no space left in /mnt/usb: free some"), "{error}");
    let backup = BackupFile::of(&scene.at("/backups"), "raspi", "20261127T082200Z", false).unwrap();
    let (_file, unfinished) = backup.begin().unwrap();
    assert_eq!(scene.names("/backups").len(), 1);
    drop(unfinished);
    assert!(scene.names("/backups").is_empty());
}

#[tokio::test]
async fn one_at_a_time_and_no_word_of_a_secret() {
    let scene = BackupScene::new("raspi", 1);
    let held = NodeLock::take(&scene.at("/var/lib/weaver"), "a restore").unwrap();
    let error = to(scene.request(&scene.at("/backups"))).await.unwrap_err();
    assert!(error.to_string().contains("a restore is running on this node"), "{error:#}");
    drop(held);
    let made = to(scene.request(&scene.at("/backups"))).await.unwrap();
    assert!(!format!("{} {made:?}", reported(&made)).contains(SECRET));
}

#[tokio::test]
async fn one_is_shown_while_something_else_changes_the_node_and_keeps_nothing_from_it() {
    let scene = BackupScene::new("raspi", 1);
    let backup = scene.backup().await;
    let state_dir = scene.at("/var/lib/weaver");
    let shown = || show::show(&backup, &seal::DecryptionArgs::default(), &state_dir);
    let held = NodeLock::take(&state_dir, "a restore").unwrap();
    assert!(shown().unwrap().contains("revision 1, 1 rows, whole"));
    drop(held);
    let _held = NodeLock::take(&state_dir.join("backup-show"), "a check of a backup").unwrap();
    scene.backup().await;
    let error = shown().unwrap_err().to_string();
    assert!(error.starts_with("a check of a backup is running"), "another one uses its place: {error}");
}

#[tokio::test]
async fn before_an_upgrade_the_last_two_stay_where_only_root_reads() {
    let scene = BackupScene::new("raspi", 1);
    let held = NodeLock::take(&scene.at("/var/lib/weaver"), "an upgrade of k3s").unwrap();
    let said = scene.before_upgrade(&held).await.unwrap();
    let backups = format!("The state of k3s is saved in {}/", scene.at("/var/lib/weaver/backups").display());
    assert!(said.starts_with(&backups), "{said}");
    assert_eq!(scene.names("/var/lib/weaver/backups").len(), 1);
    assert_eq!(
        fs::metadata(scene.at("/var/lib/weaver/backups")).unwrap().permissions().mode() & 0o7777,
        0o700
    );
}

#[tokio::test]
async fn the_timer_that_meets_another_change_of_the_node_ends_well_and_tries_again() {
    let scene = BackupScene::new("raspi", 1);
    let target = scene.at("/backups").display().to_string();
    let words = ["backup", target.as_str(), "--when=daily"];
    let held = NodeLock::take(&scene.at("/var/lib/weaver"), "a restore").unwrap();
    assert_eq!(scene.run(&words).await.unwrap(), exit_code::FINE);
    assert!(scene.names("/backups").is_empty() && scene.read("/var/lib/weaver/backup.json").is_empty());
    drop(held);
    assert_eq!(scene.run(&words).await.unwrap(), exit_code::FINE);
    assert_eq!(scene.names("/backups").len(), 1);
}

#[tokio::test]
async fn an_encrypted_one_may_be_on_the_boot_partition_and_opens_with_its_key_alone() {
    let scene = BackupScene::new("raspi", 5);
    for (file, text) in [("/right", "correct horse\n"), ("/wrong", "incorrect horse\n"), ("/empty", "\n")] {
        scene.write(file, text);
    }
    let identity = age::x25519::Identity::generate();
    scene.write("/identity", age::secrecy::ExposeSecret::expose_secret(&identity.to_string()));
    let other = age::x25519::Identity::generate();
    scene.write("/other", age::secrecy::ExposeSecret::expose_secret(&other.to_string()));
    let at = |path: &str| scene.at(path).to_str().unwrap().to_owned();
    let target = at("/boot/firmware/b.tar.age");
    for (make, right, wrong) in [
        (
            ["--passphrase-file".to_owned(), at("/right")],
            ["--passphrase-file", "/right"],
            ["--passphrase-file", "/wrong"],
        ),
        (
            ["--recipient".to_owned(), identity.to_public().to_string()],
            ["--identity", "/identity"],
            ["--identity", "/other"],
        ),
    ] {
        assert_eq!(scene.run(&["backup", &target, &make[0], &make[1]]).await.unwrap(), exit_code::FINE);
        let bytes = fs::read(&target).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
        for (keys, want) in [
            (Some(right), exit_code::FINE),
            (Some(wrong), exit_code::KNOWN_BAD),
            (None, exit_code::KNOWN_BAD),
        ] {
            let keys: Vec<_> = keys.iter().flat_map(|[flag, file]| [(*flag).to_owned(), at(file)]).collect();
            let words = ["backup", "--show", &target].into_iter().chain(keys.iter().map(String::as_str));
            assert_eq!(scene.run(&words.collect::<Vec<_>>()).await.unwrap(), want, "{keys:?}");
        }
        // Cut short, and one bit of it changed.
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        for damaged in [&bytes[..middle], &bytes[..bytes.len() - 1], &changed, &bytes[..30]] {
            scene.write("/damaged", "");
            fs::write(scene.at("/damaged"), damaged).unwrap();
            let words = ["backup", "--show", &at("/damaged"), right[0], &at(right[1])];
            assert_eq!(scene.run(&words).await.unwrap(), exit_code::KNOWN_BAD, "{}", damaged.len());
        }
    }
    for wrong in [["--recipient", "age1nonsense"], ["--passphrase-file", "/none"]] {
        assert!(scene.run(&["backup", &target, wrong[0], wrong[1]]).await.is_err(), "{wrong:?}");
    }
    let error = scene.run(&["backup", &target, "--passphrase-file", &at("/empty")]).await.unwrap_err();
    assert!(error.to_string().contains("its first line is empty"), "{error:#}");
}

fn manifest() -> BackupManifest {
    BackupManifest {
        format: FORMAT,
        node: "raspi".to_owned(),
        k3s: None,
        data_dir: String::new(),
        made: String::new(),
        revision: 1,
        rows: 1,
        volumes: false,
        left_out: LeftOut::default(),
        members: [].into(),
    }
}

/// A pod that has a volume changes it between the listing and the reading.
#[test]
fn what_a_pod_puts_into_the_place_of_a_file_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    fs::write(root.join("token"), SECRET).unwrap();
    fs::create_dir(root.join("elsewhere")).unwrap();
    fs::write(root.join("elsewhere/data"), SECRET).unwrap();
    symlink(root.join("token"), root.join("data")).unwrap();
    symlink(SECRET, root.join("elsewhere/link")).unwrap();
    fs::create_dir(root.join("elsewhere/below")).unwrap();
    symlink("elsewhere", root.join("directory")).unwrap();
    nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(root.join("whole"), "of the pod").unwrap();
    let mut writer = ArchiveWriter::new(Vec::new(), Progress::waiting("archive"));
    for name in ["data", "directory/data", "pipe", "gone", "whole"] {
        let (path, kind) = (root.join(name), archive::EntryKind::File);
        let name = format!("k3s/storage/{name}");
        writer.add(&archive::ArchiveInput { name, path, kind, most: u64::MAX }).unwrap();
    }
    for (name, kind) in [
        ("whole", archive::EntryKind::Directory),
        ("whole", archive::EntryKind::Link),
        ("elsewhere", archive::EntryKind::Link),
        ("directory", archive::EntryKind::Directory),
        ("directory/below", archive::EntryKind::Directory),
        ("directory/link", archive::EntryKind::Link),
    ] {
        let (name, path) = (format!("k3s/storage/other/{name}"), root.join(name));
        writer.add(&archive::ArchiveInput { name, path, kind, most: u64::MAX }).unwrap();
    }
    let (bytes, manifest) = writer.end(manifest()).unwrap();
    assert_eq!(manifest.members.keys().collect::<Vec<_>>(), ["k3s/storage/whole"]);
    // What has gone is missed by no one.
    assert_eq!(manifest.left_out.count, 3 + 6, "{:?}", manifest.left_out);
    assert!(!String::from_utf8_lossy(&bytes).contains(SECRET));
    let mut archive = tar::Archive::new(&bytes[..]);
    assert_eq!(
        archive.entries().unwrap().map(|entry| entry.unwrap().size()).filter(|size| *size == 10).count(),
        1
    );
}

#[tokio::test]
async fn the_timer_makes_one_when_it_is_due_and_its_failure_is_in_the_report() {
    let scene = BackupScene::new("raspi", 1);
    scene.write("/etc/weaver/backup.env", "WEAVER_BACKUP_TARGET=/mnt/usb\nWEAVER_BACKUP_WHEN=daily\n");
    scene.write("/proc/uptime", "90000.12 100.00\n");
    let root = HostRoot::new(scene.at("/"));
    let found = || schedule(&root).unwrap().judge().map(|finding| finding.message);
    assert!(found().unwrap().contains("none was made yet"), "{:?}", found());

    let (backups, absent) = (scene.at("/backups"), scene.at("/mnt/usb"));
    let words = |target: &Path| {
        ["backup", &target.display().to_string(), "--when=daily", "--keep=1"].map(str::to_owned)
    };
    fs::create_dir(scene.at("/mnt")).unwrap();
    // As another card of this name left it.
    scene.write(&format!("/backups/weaver-backup-{}-20200101T000000Z.tar", scene.owner()), "");
    assert!(scene.run(&words(&absent).each_ref().map(String::as_str)).await.is_err());
    assert!(
        found().unwrap().contains("the last attempt failed: --keep counts the backups in a directory, and "),
        "{:?}",
        found()
    );

    for _ in 0..2 {
        let code = scene.run(&words(&backups).each_ref().map(String::as_str)).await.unwrap();
        assert_eq!((code, scene.names("/backups").len()), (exit_code::FINE, 2));
        assert_eq!(found(), None);
    }
    // The clock was wrong, or the record is damaged.
    for (record, directory) in [("{\"made\": 99999999999, \"failure\": null}", "/future"), ("{", "/damaged")]
    {
        scene.write("/var/lib/weaver/backup.json", record);
        fs::create_dir(scene.at(directory)).unwrap();
        let words = words(&scene.at(directory));
        assert_eq!(scene.run(&words.each_ref().map(String::as_str)).await.unwrap(), exit_code::FINE);
        assert_eq!(scene.names(directory).len(), 1);
        assert_eq!(found(), None);
    }
    // It was ended in the middle of one, or its recipient is none.
    let unsealed = [&words(&backups)[..], &["--recipient=age1x".to_owned()]].concat();
    assert!(scene.run(&unsealed.iter().map(String::as_str).collect::<Vec<_>>()).await.is_err());
    assert!(found().unwrap().contains("a recipient is not one of age"), "{:?}", found());
    for asked in ["WEAVER_BACKUP_WHEN='daily' \n", "WEAVER_BACKUP_WHEN=daily\nWEAVER_BACKUP_WHEN=often\n"] {
        scene.write("/etc/weaver/backup.env", asked);
        let is_read = !found().unwrap().contains("WEAVER_BACKUP_WHEN is not");
        assert_eq!(is_read, asked.contains("'daily'"), "{:?}", found());
    }
}
