//! On a host of a test's own, whose disk is a directory.

use std::cell::Cell;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use weaver_diagnostics::host::storage::MOUNTS;

use super::*;
use crate::data_disk::disks::OpenDisk;

const UUID: &str = "0a1b2c3d-0001-4000-8000-00000000000f";
const STATE: &str = "/var/lib/weaver";
const DATABASE: &str = "k3s/server/db/state.db";

struct MoveScene {
    dir: tempfile::TempDir,
    root: HostRoot,
    devices: Vec<BlockDevice>,
    free: u64,
    /// How often the disk can be mounted before it goes away.
    mounts: Cell<usize>,
}

impl Disks for MoveScene {
    fn list(&self) -> anyhow::Result<Vec<BlockDevice>> {
        Ok(self.devices.clone())
    }

    fn mount(&self, _: &BlockDevice) -> anyhow::Result<OpenDisk> {
        let left = self.mounts.get().checked_sub(1).context("cannot mount /dev/sda1: No such device")?;
        self.mounts.set(left);
        Ok(OpenDisk { path: self.disk(), free: self.free, unmounts: false })
    }
}

impl MoveScene {
    /// A server, and a disk that its owner has used.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().join("card"));
        let ssd = BlockDevice {
            path: "/dev/sda1".to_owned(),
            label: Some("ssd".to_owned()),
            uuid: Some(UUID.to_owned()),
            file_system: Some("ext4".to_owned()),
            ..BlockDevice::default()
        };
        let scene = Self { dir, root, devices: vec![ssd], free: 9 << 30, mounts: Cell::new(100) };
        for path in [DATABASE, "k3s/server/token", "k3s/storage/pvc/data", "own/file"] {
            write(&scene.point().join(path), path);
        }
        for directory in ["photos", "lost+found"] {
            fs::create_dir_all(scene.disk().join(directory)).unwrap();
        }
        scene
    }

    fn disk(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn point(&self) -> PathBuf {
        self.root.real(MOUNT_POINT)
    }

    fn mover(&self, k3s_ran: bool) -> Mover<'_> {
        Mover {
            root: &self.root,
            state_dir: self.root.real(STATE),
            disks: self,
            patience: Duration::ZERO,
            k3s_ran,
        }
    }

    fn run_cut(&self, cut: Cut<'_>) -> anyhow::Result<Option<DataDiskRecord>> {
        self.mover(false).run(Some(&DiskName::Label("ssd".to_owned())), cut)
    }

    fn run(&self) -> anyhow::Result<Option<DataDiskRecord>> {
        self.run_cut(&mut || Ok(()))
    }

    #[track_caller]
    fn refused(&self, why: &str) {
        let before = Tree::read(self.dir.path()).unwrap();
        let error = format!("{:#}", self.run().unwrap_err());
        assert!(error.contains(why), "{error}");
        let after = Tree::read(self.dir.path()).unwrap();
        let differs = before.difference(&after).map(Path::to_owned);
        assert!(differs.as_deref().is_none_or(|path| path.starts_with("card/var/lib/weaver")), "{differs:?}");
        assert!(!self.has_record(), "{why}");
    }

    fn has_record(&self) -> bool {
        self.root.exists(format!("{STATE}/data-disk.json"))
    }

    /// Whether systemd mounts the disk at the next boot.
    fn is_mounted_at_boot(&self) -> bool {
        let link = fs::read_link(self.root.real(mount_unit::LINK)).ok();
        link.is_some_and(|unit| self.root.exists(unit))
    }

    /// What a boot after a cut finds: the card's data or the disk's, whole; and without a record, the card's.
    #[track_caller]
    fn is_old_or_new(&self, cut_at: usize) {
        let has_all = |directory: &Path| {
            let names = [DATABASE, "k3s/server/token", "k3s/storage/pvc/data", "own/file"];
            names.iter().all(|name| fs::read_to_string(directory.join(name)).is_ok_and(|text| text == *name))
        };
        assert!(has_all(&self.point()) || has_all(&self.root.real(KEPT)), "{cut_at}: the card lost its data");
        if !self.has_record() {
            assert!(has_all(&self.point()) && !self.is_mounted_at_boot(), "{cut_at}: the card is in force");
        }
        if self.is_mounted_at_boot() {
            assert!(self.has_record() && has_all(&self.disk()), "{cut_at}: the disk is in force");
        }
    }

    #[track_caller]
    fn is_moved(&self, cut_at: usize) {
        self.is_old_or_new(cut_at);
        assert!(self.is_mounted_at_boot() && self.root.exists(KEPT), "{cut_at}");
        assert_eq!(fs::read_dir(self.point()).unwrap().count(), 0, "{cut_at}: the mount point is empty");
        let mut names = names(&self.disk()).unwrap();
        names.sort();
        assert_eq!(names, ["k3s", "lost+found", "own", "photos"], "{cut_at}");
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_data_is_moved_once() {
    let scene = MoveScene::new();
    let record = scene.run().unwrap().unwrap();
    assert_eq!((record.asked.as_str(), record.uuid.as_str()), ("LABEL=ssd", UUID));
    assert_eq!(record.entries, ["k3s", "own"]);
    scene.is_moved(0);
    let unit = fs::read_to_string(scene.root.real(mount_unit::PATH)).unwrap();
    assert!(unit.contains(&format!("What=/dev/disk/by-uuid/{UUID}\n")), "{unit}");
    // The disk was not mounted in time, and another boot completes what is complete.
    write(&scene.disk().join("k3s/later"), "x");
    assert_eq!(scene.run().unwrap(), Some(record));
    scene.is_moved(0);
    assert!(scene.disk().join("k3s/later").exists());
}

#[test]
fn a_card_that_k3s_has_not_used_has_nothing_to_keep() {
    let scene = MoveScene::new();
    fs::remove_dir_all(scene.point()).unwrap();
    assert_eq!(scene.run().unwrap().unwrap().entries, [""; 0]);
    assert!(scene.is_mounted_at_boot() && scene.point().is_dir() && !scene.root.exists(KEPT));
}

#[test]
fn without_a_disk_to_move_to_nothing_is_done() {
    let scene = MoveScene::new();
    assert_eq!(scene.mover(false).run(None, &mut || Ok(())).unwrap(), None);
    assert!(!scene.has_record() && !scene.is_mounted_at_boot());
}

#[test]
fn cut_at_each_step_the_old_or_the_new_is_in_force_and_the_next_boot_completes_it() {
    let mut cuts = 0;
    for cut_at in 0.. {
        let scene = MoveScene::new();
        let mut step = 0;
        let mut cut = || {
            step += 1;
            if step == cut_at + 1 { Err(io::Error::other("power")) } else { Ok(()) }
        };
        if scene.run_cut(&mut cut).is_ok() {
            scene.is_moved(cut_at);
            break;
        }
        cuts += 1;
        scene.is_old_or_new(cut_at);
        scene.run().unwrap();
        scene.is_moved(cut_at);
    }
    assert_eq!(cuts, 11);
}

#[test]
fn a_copy_that_was_cut_off_is_made_again() {
    let scene = MoveScene::new();
    write(&scene.disk().join(UNFINISHED).join("k3s/half"), "x");
    scene.run().unwrap();
    scene.is_moved(0);
    assert!(!scene.disk().join("k3s/half").exists());
}

#[test]
fn a_disk_that_goes_away_before_the_copy_is_whole_leaves_the_card_in_force_and_after_it_the_disk() {
    let scene = MoveScene::new();
    scene.mounts.set(0);
    scene.refused("No such device");
    // At the second mount the copy is whole and recorded: k3s waits for the disk from then on.
    scene.mounts.set(1);
    let error = format!("{:#}", scene.run().unwrap_err());
    assert!(error.contains("No such device") && scene.has_record(), "{error}");
    scene.is_old_or_new(0);
    let mut away = scene;
    let disks = std::mem::take(&mut away.devices);
    let error = format!("{:#}", away.run().unwrap_err());
    assert!(error.contains(&format!("no disk has UUID={UUID}")), "{error}");
    away.devices = disks;
    away.mounts.set(1);
    away.run().unwrap();
    away.is_moved(0);
}

#[test]
fn what_is_unfit_is_refused_and_nothing_is_changed() {
    let unfit = |change: &dyn Fn(&mut MoveScene), why: &str| {
        let mut scene = MoveScene::new();
        change(&mut scene);
        scene.refused(why);
    };
    unfit(&|scene| scene.devices.clear(), "no disk has LABEL=ssd");
    unfit(&|scene| scene.devices.push(scene.devices[0].clone()), "2 file systems have LABEL=ssd");
    unfit(&|scene| scene.devices[0].file_system = Some("exfat".to_owned()), "has exfat");
    unfit(&|scene| scene.devices[0].is_card = true, "that the system runs from");
    unfit(
        &|scene| scene.free = 1 << 30,
        "/dev/sda1 (LABEL=ssd) is too small: 4096 MiB are needed, 1024 are free",
    );
    unfit(
        &|scene| write(&scene.disk().join("k3s/server/token"), "another's"),
        "already has a directory `k3s`",
    );
    unfit(&|scene| write(&scene.root.real(KEPT).join("k3s/x"), "x"), "from an earlier move");
    let config = "/etc/rancher/k3s/config.yaml";
    unfit(&|scene| write(&scene.root.real(config), "data-dir: /data\n"), "k3s keeps its data in /data");
    let mounted = "26 25 8:1 / /var/lib/rancher/k3s rw - ext4 /dev/sdb1 rw\n";
    unfit(&|scene| write(&scene.root.real(MOUNTS), mounted), "mounted at /var/lib/rancher/k3s");
    let linked = |scene: &mut MoveScene| {
        fs::rename(scene.point(), scene.root.real("/data")).unwrap();
        symlink("/data", scene.point()).unwrap();
    };
    unfit(&linked, "is a link");
}

#[test]
fn while_k3s_may_be_writing_nothing_is_moved() {
    let scene = MoveScene::new();
    let error = scene.mover(true).run(Some(&DiskName::Label("ssd".to_owned())), &mut || Ok(())).unwrap_err();
    assert!(error.to_string().contains("was started in this boot"), "{error}");
    assert!(!scene.has_record());
}

#[test]
fn a_disk_that_lost_the_data_is_not_put_in_force() {
    let scene = MoveScene::new();
    scene.mounts.set(1);
    scene.run().unwrap_err();
    fs::remove_dir_all(scene.disk().join(UNFINISHED)).unwrap();
    scene.mounts.set(1);
    let error = format!("{:#}", scene.run().unwrap_err());
    assert!(error.contains("has no k3s any more"), "{error}");
    assert!(!scene.is_mounted_at_boot());
}

/// Owners need root, as a mark of overlayfs on what a layer removes does.
#[test]
fn a_copy_has_what_layers_of_images_have() {
    let scene = MoveScene::new();
    let at = |name: &str| scene.point().join(name);
    fs::hard_link(at("own/file"), at("own/same")).unwrap();
    symlink("../nowhere", at("own/link")).unwrap();
    fs::set_permissions(at("own/file"), fs::Permissions::from_mode(0o4755)).unwrap();
    let _socket = UnixListener::bind(at("own/socket")).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(at("own"), Some(1000), Some(1001)).unwrap();
        mknod(&at("own/removed"), SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)).unwrap();
    }
    scene.run().unwrap();
    let on_disk = |name: &str| fs::symlink_metadata(scene.disk().join("own").join(name)).unwrap();
    assert_eq!(on_disk("file").ino(), on_disk("same").ino());
    assert_eq!(on_disk("file").mode() & 0o7777, 0o4755);
    assert_eq!(fs::read_link(scene.disk().join("own/link")).unwrap(), Path::new("../nowhere"));
    if is_root {
        assert_eq!((on_disk("").uid(), on_disk("").gid()), (1000, 1001));
        assert_eq!(on_disk("removed").mode() & SFlag::S_IFMT.bits(), SFlag::S_IFCHR.bits());
    }
}

#[test]
fn a_copy_that_differs_is_seen() {
    let scene = MoveScene::new();
    let copied = scene.dir.path().join("copy");
    tree::copy(&scene.point(), &copied).unwrap();
    let differs = || {
        let (from, to) = (Tree::read(&scene.point()).unwrap(), Tree::read(&copied).unwrap());
        from.difference(&to).map(|path| path.display().to_string())
    };
    assert_eq!(differs(), None);
    fs::write(copied.join(DATABASE), "short").unwrap();
    assert_eq!(differs().as_deref(), Some(DATABASE));
    fs::remove_file(copied.join(DATABASE)).unwrap();
    assert_eq!(differs().as_deref(), Some(DATABASE));
    tree::copy(&scene.point(), &copied).unwrap_err();
}
