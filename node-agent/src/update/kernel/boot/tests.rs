use std::cell::Cell;
use std::collections::BTreeMap;

use anyhow::anyhow;
use weaver_diagnostics::kernel_trial::trial_files::{files, trial_cmdline};
use weaver_diagnostics::package_update::plan::UpgradeRefusal;

use super::*;

const MODEL: &str = "Raspberry Pi 4 Model B Rev 1.5";
const RELEASE: &str = "6.12.62+rpt-rpi-v8";
const RELEASES: (&str, &str) = ("6.12.47+rpt-rpi-v8", RELEASE);
const CONFIG: &str = "auto_initramfs=1\n";
const CMDLINE: &str = "root=x rw\n";

/// A boot partition with a kernel, and the files of a newer one.
struct Board {
    dir: tempfile::TempDir,
    root: HostRoot,
}

impl Board {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().join("root"));
        let board = Self { dir, root };
        board.write("root/proc/device-tree/model", MODEL);
        board.write("root/boot/firmware/config.txt", CONFIG);
        board.write("root/boot/firmware/cmdline.txt", CMDLINE);
        for name in ["kernel8.img", "initramfs8", "bcm2711-rpi-4-b.dtb", "overlays/vc4.dtbo"] {
            board.write(&format!("root/boot/firmware/{name}"), "old");
        }
        for name in ["kernel", "initramfs", "bcm2711-rpi-4-b.dtb", "overlays/README", "overlays/vc4.dtbo"] {
            board.write(&format!("new/{name}"), "new");
        }
        board
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn boot(&self) -> TrialBoot<'_> {
        TrialBoot::of(&self.root)
    }

    fn stage(&self, cut: Cut<'_>) -> anyhow::Result<()> {
        let new = self.dir.path().join("new");
        let from = KernelFiles {
            kernel: new.join("kernel"),
            initramfs: new.join("initramfs"),
            overlays: new.join("overlays"),
            trees: new,
        };
        let boot = self.boot();
        let trial = trial_text(CONFIG, RELEASES.0, RELEASE);
        let refused = |refusal: UpgradeRefusal| anyhow!("{refusal}");
        let names = names(&boot.config(TRYBOOT, &trial, true), RELEASE).map_err(refused)?;
        let files = files(&names, &from.names(), &boot.present()?).map_err(refused)?;
        boot.stage(&files, &from, (&names.cmdline, &trial_cmdline(CMDLINE)), &trial, cut)
    }

    fn keep(&self, cut: Cut<'_>) -> anyhow::Result<()> {
        self.boot().select(RELEASES, cut)?;
        self.boot().publish("cmdline.txt", cut)
    }

    /// What the firmware loads: each file with its content, by Raspberry Pi's rules of `os_prefix`.
    fn start(&self, is_trial: bool) -> BTreeMap<String, String> {
        let boot = self.boot();
        let name = if is_trial && boot.path(TRYBOOT).exists() { TRYBOOT } else { FILE };
        let config = boot.config(name, &boot.text(name).unwrap().unwrap(), is_trial);
        let prefix = config.value("os_prefix").unwrap().unwrap_or("");
        let names = names(&config, RELEASE).unwrap();
        let overlays = if boot.path(&format!("{prefix}overlays/README")).exists() { prefix } else { "" };
        let mut loads = ["bcm2711-rpi-4-b.dtb", &names.kernel, &names.initramfs.unwrap()]
            .map(|file| format!("{prefix}{file}"))
            .to_vec();
        loads.push(format!("{overlays}overlays/vc4.dtbo"));
        let read =
            |file: &String| fs::read_to_string(boot.path(file)).unwrap_or_else(|_| format!("no {file}"));
        let loaded: BTreeMap<_, _> = loads.iter().map(|file| (file.clone(), read(file))).collect();
        let cmdline = boot.text(&format!("{prefix}{}", names.cmdline)).unwrap().unwrap();
        assert!(cmdline.ends_with(CMDLINE), "{cmdline}");
        loaded
    }

    /// `old` or `new`, of all that is loaded.
    fn starts(&self, is_trial: bool) -> String {
        let loaded = self.start(is_trial);
        let all: std::collections::BTreeSet<_> = loaded.values().cloned().collect();
        assert_eq!((all.len(), loaded.len()), (1, 4), "a start of parts: {loaded:?}");
        all.into_iter().next().unwrap()
    }
}

/// Does it with the power lost before each change, one after the other, until one run comes to its end.
fn at_each_change(mut act: impl FnMut(Cut<'_>) -> bool) -> usize {
    for lost in 0_usize.. {
        let left = Cell::new(lost);
        let cut = || {
            let before = left.get();
            left.set(before.saturating_sub(1));
            if before == 0 { Err(io::Error::other("power lost")) } else { Ok(()) }
        };
        if act(&cut) {
            return lost;
        }
    }
    unreachable!("the range has no end")
}

#[test]
fn wherever_the_power_is_lost_while_a_trial_is_put_in_place_the_old_kernel_starts() {
    let changes = at_each_change(|cut| {
        let board = Board::new();
        // What an earlier trial left.
        board.write("root/boot/firmware/weaver-kernel/kernel8.img", "earlier");
        board.write("root/boot/firmware/tryboot.txt", &trial_text(CONFIG, "a", "b"));
        let is_done = board.stage(cut).is_ok();
        assert_eq!(board.starts(false), "old");
        if is_done {
            assert_eq!(board.starts(true), "new");
        }
        board.stage(&|| Ok(())).unwrap();
        assert_eq!((board.starts(false), board.starts(true)), ("old".to_owned(), "new".to_owned()));
        board.boot().clear(&|| Ok(())).unwrap();
        assert!(!board.boot().is_there());
        is_done
    });
    assert!(changes > 6, "{changes}");
}

#[test]
fn wherever_the_power_is_lost_while_a_kernel_is_kept_the_old_or_the_new_one_starts_whole() {
    let changes = at_each_change(|cut| {
        let board = Board::new();
        board.stage(&|| Ok(())).unwrap();
        let is_done = board.keep(cut).is_ok();
        let starts = board.starts(false);
        assert!(starts == "old" || starts == "new", "{starts}");
        assert!(!is_done || starts == "new");
        // The next boot continues.
        board.keep(&|| Ok(())).unwrap();
        assert_eq!(board.starts(false), "new");
        let config = board.boot().text(FILE).unwrap().unwrap();
        assert_eq!(config, CONFIG, "as its owner wrote it");
        board.boot().clear(&|| Ok(())).unwrap();
        assert_eq!(board.starts(false), "new");
        assert_eq!(board.boot().text("cmdline.txt").unwrap().unwrap(), CMDLINE);
        is_done
    });
    assert!(changes > 5, "{changes}");
}

#[test]
fn what_each_start_takes_is_not_removed() {
    let board = Board::new();
    board.stage(&|| Ok(())).unwrap();
    board.boot().select(RELEASES, &|| Ok(())).unwrap();
    let error = board.boot().clear(&|| Ok(())).unwrap_err().to_string();
    assert!(error.contains("config.txt starts the kernel in weaver-kernel"), "{error}");
    assert_eq!(board.starts(false), "new");
}

#[test]
fn a_configuration_of_another_program_is_neither_taken_nor_removed() {
    let board = Board::new();
    board.stage(&|| Ok(())).unwrap();
    board.write("root/boot/firmware/tryboot.txt", "kernel=mine\n");
    let error = board.boot().select(RELEASES, &|| Ok(())).unwrap_err().to_string();
    assert!(error.contains("tryboot.txt is not that of the trial any more"), "{error}");
    board.boot().clear(&|| Ok(())).unwrap();
    assert_eq!(board.boot().text(TRYBOOT).unwrap().unwrap(), "kernel=mine\n");
}

#[test]
fn what_its_owner_writes_into_the_configuration_during_a_trial_stays() {
    const PATH: &str = "root/boot/firmware/config.txt";
    let board = Board::new();
    board.stage(&|| Ok(())).unwrap();
    board.write(PATH, "auto_initramfs=1\ndtoverlay=disable-wifi\n");
    let selected = board.boot().select(RELEASES, &|| Ok(())).unwrap();
    assert_eq!(board.starts(false), "new");
    // While the packages are installed.
    board.write(PATH, &format!("{selected}dtparam=audio=on\n"));
    let error = board.boot().clear(&|| Ok(())).unwrap_err().to_string();
    assert!(error.contains("config.txt starts the kernel in weaver-kernel"), "{error}");
    board.boot().publish("cmdline.txt", &|| Ok(())).unwrap();
    let kept = board.boot().text(FILE).unwrap().unwrap();
    assert_eq!(kept, "auto_initramfs=1\ndtoverlay=disable-wifi\n\n[all]\ndtparam=audio=on\n");
    assert_eq!(board.starts(false), "new");
}

#[test]
fn what_its_owner_does_to_an_overlay_of_their_own_during_a_trial_stays() {
    const MINE: &str = "root/boot/firmware/overlays/mine.dtbo";
    let board = Board::new();
    board.write(MINE, "mine");
    board.write("root/boot/firmware/overlays/gone.dtbo", "mine");
    board.stage(&|| Ok(())).unwrap();
    let staged = board.boot().path("weaver-kernel/overlays/mine.dtbo");
    assert_eq!(fs::read_to_string(staged).unwrap(), "mine", "the trial has it");
    board.write(MINE, "edited");
    fs::remove_file(board.boot().path("overlays/gone.dtbo")).unwrap();
    board.keep(&|| Ok(())).unwrap();
    assert_eq!(fs::read_to_string(board.boot().path("overlays/mine.dtbo")).unwrap(), "edited");
    for name in ["overlays/gone.dtbo", "copies.txt"] {
        assert!(!board.boot().path(name).exists(), "{name}");
    }
    assert_eq!(board.starts(false), "new");
}

#[test]
fn a_configuration_that_names_another_kernel_since_the_trial_began_is_left_as_it_is() {
    for mine in
        ["kernel=mine.img\n", "auto_initramfs=1\nkernel=mine.img\n", "auto_initramfs=1\ncmdline=mine.txt\n"]
    {
        let board = Board::new();
        board.stage(&|| Ok(())).unwrap();
        board.write("root/boot/firmware/config.txt", mine);
        let error = board.boot().select(RELEASES, &|| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("config.txt was changed during the trial"), "{error}");
        assert_eq!(board.boot().text(FILE).unwrap().unwrap(), mine);
    }
}
