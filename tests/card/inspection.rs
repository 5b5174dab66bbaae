//! The image as a file: which files are where, who owns them, and what must not be there.

use std::collections::BTreeSet;
use std::process::Command;

use weaver_diagnostics::kept_cmdline::GENERATED;
use weaver_diagnostics::weaver_toml::security_updates::HELD_BACK;
use weaver_image::boot::partition;
use weaver_image::build::disk::{FAT_LABEL, FAT_START, ROOT_LABEL, ROOT_START};
use weaver_image::build::{bootable, own_packages, packages};
use weaver_image::elf;

use crate::root::{Root, extract, image, kernel};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn source(path: &str) -> String {
    std::fs::read_to_string(format!("{SOURCE}/{path}")).unwrap()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn the_partition_table_is_what_a_pi_3_reads() {
    let boot = partition::boot_partition(&image()).unwrap();
    assert_eq!((boot.offset, boot.length), (FAT_START, ROOT_START - FAT_START));
    let table = run("sfdisk", &["--dump", image().to_str().unwrap()]);
    assert!(table.contains("label: dos"), "a Pi 3's ROM takes no GPT: {table}");
    assert_eq!(table.matches("type=").count(), 2, "{table}");
    assert!(table.contains("type=c") && table.contains("type=83"), "{table}");
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn both_file_systems_are_clean_and_found_by_label() {
    let home = tempfile::tempdir().unwrap();
    let (boot, root) = (home.path().join("boot"), home.path().join("root"));
    let size = image().metadata().unwrap().len();
    extract(FAT_START, ROOT_START - FAT_START, &boot);
    extract(ROOT_START, size - ROOT_START, &root);
    run("fsck.vfat", &["-n", boot.to_str().unwrap()]);
    run("e2fsck", &["-f", "-n", root.to_str().unwrap()]);
    let label =
        |path: &std::path::Path| run("blkid", &["-o", "value", "-s", "LABEL", "-p", path.to_str().unwrap()]);
    assert_eq!(label(&boot).trim(), FAT_LABEL);
    assert_eq!(label(&root).trim(), ROOT_LABEL);
    let card = Root::read();
    let fstab = card.text("/etc/fstab");
    assert!(
        fstab.contains(&format!("LABEL={FAT_LABEL}")) && fstab.contains(&format!("LABEL={ROOT_LABEL}")),
        "{fstab}"
    );
    let line = fstab.lines().find(|line| line.contains("/boot/firmware")).unwrap();
    for option in ["nofail", "dirsync", "noatime", "umask=0077", "x-systemd.device-timeout=60s"] {
        assert!(line.contains(option), "{option}: {line}");
    }
}

/// Larger files are programs, libraries and lists.
const LARGEST_TEXT: u64 = 64 << 10;

fn boot_files_of_the_image() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = format!("{}@@{FAT_START}", image().display());
    run("mcopy", &["-i", &at, "-s", "-n", "-Q", "::/*", home.path().to_str().unwrap()]);
    home
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn the_boot_files_are_those_of_every_board() {
    let home = boot_files_of_the_image();
    let card = Root::read();
    let mut own = bootable::Kernel::default();
    for (path, _) in card.entries.iter().filter(|(_, entry)| entry.is_file) {
        own.add(path, || Ok(card.bytes(path))).unwrap();
    }
    bootable::verify(home.path(), &own, kernel()).unwrap();
    let cmdline = std::fs::read_to_string(home.path().join("cmdline.txt")).unwrap();
    // What else there is boot-config takes for the owner's. Debian's kernel needs no cgroup token.
    assert_eq!(cmdline.split_whitespace().collect::<Vec<_>>(), GENERATED, "{cmdline}");
    assert!(home.path().join("weaver.toml").is_file(), "the sample is on the card");
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn nothing_of_a_builder_or_of_another_card_is_on_it() {
    let card = Root::read();
    assert_eq!(card.get("/etc/machine-id").size, 0, "each card makes its own");
    for absent in [
        "/var/lib/dbus/machine-id",
        "/var/lib/systemd/random-seed",
        "/etc/apt/apt.conf.d/99mmdebstrap",
        // Security updates are off until weaver.toml asks for them.
        "/etc/apt/apt.conf.d/20auto-upgrades",
        "/etc/apt/apt.conf.d/90-weaver-security",
        "/etc/dpkg/dpkg.cfg.d/99mmdebstrap",
        "/etc/apt/sources.list",
        "/usr/bin/qemu-aarch64-static",
        "/var/lib/rancher",
        "/weaver-packages",
        "/etc/rancher/k3s/k3s.yaml",
    ] {
        assert!(!card.has(absent), "{absent} is on the card");
    }
    for (path, entry) in &card.entries {
        let name = path.rsplit('/').next().unwrap();
        assert!(!name.starts_with("ssh_host_"), "a host key: {path}");
        assert!(!name.starts_with("authorized_keys") || entry.is_dir, "someone's key: {path}");
        assert!(!name.ends_with(".dpkg-dist") && !name.ends_with(".dpkg-new"), "{path}");
        assert!(!path.starts_with("/var/cache/apt/archives/") || entry.is_dir || name == "lock", "{path}");
        assert!(!path.starts_with("/boot/firmware/"), "below the mount point: {path}");
        assert!(!path.starts_with("/var/lib/weaver/webhook/"), "of a webhook that ran: {path}");
    }
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn no_secret_is_on_it() {
    let card = Root::read();
    for line in card.text("/etc/shadow").lines() {
        let hash = line.split(':').nth(1).unwrap();
        assert!(hash.starts_with(['!', '*']), "an account with a password: {line}");
    }
    // Split, so that this very file, were it on the card, would not count.
    let patterns = [
        ["-----BEGIN ", "PRIVATE KEY"],
        ["-----BEGIN EC ", "PRIVATE KEY"],
        ["-----BEGIN OPENSSH ", "PRIVATE KEY"],
        ["-----BEGIN RSA ", "PRIVATE KEY"],
        ["-----BEGIN ENCRYPTED ", "PRIVATE KEY"],
        // In a kubeconfig it is in base64.
        ["client-key-", "data:"],
        // A token of k3s: K10, a hash, two colons, a name.
        ["::server", ":"],
    ];
    let patterns = patterns.map(|parts| parts.concat());
    let judge = |path: &str, bytes: &[u8]| {
        let text = if bytes.starts_with(b"\x7fELF") { "".into() } else { String::from_utf8_lossy(bytes) };
        for pattern in &patterns {
            assert!(!text.contains(pattern.as_str()), "{path} holds a secret: {pattern}");
        }
    };
    for (path, entry) in &card.entries {
        // Programs know what such a line looks like.
        let is_python = std::path::Path::new(path).extension().is_some_and(|extension| extension == "py");
        if entry.is_file && entry.size <= LARGEST_TEXT && !is_python {
            judge(path, &card.bytes(path));
        }
    }
    let home = boot_files_of_the_image();
    let mut open = vec![home.path().to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.metadata().unwrap().len() <= LARGEST_TEXT {
                judge(&path.display().to_string(), &std::fs::read(&path).unwrap());
            }
        }
    }
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn what_writes_the_boot_partition_is_held_back_from_unattended_updates() {
    let card = Root::read();
    let is_held = |name: &str| {
        HELD_BACK
            .iter()
            .any(|held| held.strip_suffix('$').map_or(name.starts_with(held), |held| name == held))
    };
    let scripts = card.entries.keys().filter_map(|path| {
        let (name, kind) = path.strip_prefix("/var/lib/dpkg/info/")?.rsplit_once('.')?;
        ["postinst", "triggers"].contains(&kind).then_some((path, name.split(':').next()?))
    });
    let makes_initramfs = scripts.filter(|(path, _)| card.text(path).contains("update-initramfs"));
    let names: BTreeSet<_> = makes_initramfs.map(|(_, name)| name).collect();
    assert!(names.contains("udev") && names.contains("raspi-firmware"), "{names:?}");
    let free: Vec<_> = names.into_iter().filter(|name| !is_held(name)).collect();
    assert!(free.is_empty(), "a power cut while they are installed leaves half an initramfs: {free:?}");
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn owners_and_modes_are_those_of_a_card() {
    let card = Root::read();
    for (path, mode) in [
        ("/usr/bin/weaver-node-agent", 0o755),
        ("/usr/bin/weaver-operator", 0o755),
        ("/usr/bin/weaver", 0o755),
        ("/usr/local/bin/k3s", 0o755),
        ("/usr/lib/weaver/grow-root", 0o755),
        ("/usr/lib/weaver/ssh-hostkeys", 0o755),
        ("/usr/lib/weaver/reboot-required", 0o755),
        ("/etc/sudoers.d/weaver-admin", 0o440),
        ("/etc/ssh/sshd_config.d/10-weaver.conf", 0o644),
    ] {
        let entry = card.get(path);
        assert_eq!((entry.mode, entry.uid, entry.gid), (mode, 0, 0), "{path}");
    }
    for (path, entry) in &card.entries {
        if !entry.is_file && !entry.is_dir {
            continue;
        }
        assert!(entry.mode & 0o002 == 0 || entry.mode & 0o1000 != 0, "everybody may write {path}");
        let ours = path.contains("weaver") && !path.starts_with("/home");
        assert!(!ours || entry.uid == 0, "{path} is not root's");
    }
    let set: BTreeSet<_> = card
        .entries
        .iter()
        .filter(|(_, e)| e.is_file && e.mode & 0o4000 != 0)
        .map(|(path, _)| path.as_str())
        .collect();
    let known = [
        "/usr/bin/chfn",
        "/usr/bin/chsh",
        "/usr/bin/gpasswd",
        "/usr/bin/mount",
        "/usr/bin/newgrp",
        "/usr/bin/passwd",
        "/usr/bin/su",
        "/usr/bin/sudo",
        "/usr/bin/umount",
        "/usr/lib/dbus-1.0/dbus-daemon-launch-helper",
        "/usr/lib/openssh/ssh-keysign",
    ];
    let new: Vec<_> = set.iter().filter(|path| !known.contains(path)).collect();
    assert!(new.is_empty(), "programs that run as root for everybody: {new:?}");
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn units_are_linked_as_the_preset_says_and_no_first_boot_unit_runs() {
    let card = Root::read();
    let preset = ["10-weaver-card", "10-weaver"]
        .map(|name| card.text(&format!("/usr/lib/systemd/system-preset/{name}.preset")))
        .concat();
    for line in preset.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (enable, unit) = match words[..] {
            ["enable", unit] => (true, unit),
            ["disable", unit] => (false, unit),
            _ => continue,
        };
        let links: Vec<_> = card
            .entries
            .iter()
            .filter(|(path, e)| {
                path.starts_with("/etc/systemd/system/")
                    && path.ends_with(&format!("/{unit}"))
                    && e.link.is_some()
            })
            .filter(|(path, _)| path.contains(".wants/"))
            .collect();
        assert_eq!(enable, !links.is_empty(), "{unit}: {links:?}");
        for (path, entry) in links {
            assert!(card.has(entry.link.as_deref().unwrap()), "{path} points to nothing");
        }
    }
    for masked in ["systemd-firstboot.service", "sshd-keygen.service"] {
        let link = card.get(&format!("/etc/systemd/system/{masked}")).link.as_deref();
        assert_eq!(link, Some("/dev/null"), "{masked}");
    }
    let target = card.get("/etc/systemd/system/default.target").link.clone().unwrap();
    assert!(target.ends_with("multi-user.target"), "{target}");
    let users = card.text("/etc/passwd");
    for user in ["weaver", "weaver-webhook", "weaver-admin"] {
        assert!(users.lines().any(|line| line.starts_with(&format!("{user}:"))), "{user}: {users}");
    }
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn our_programs_run_on_debian_13_and_k3s_is_for_the_card() {
    let card = Root::read();
    for program in ["weaver-node-agent", "weaver-operator", "weaver"] {
        let facts = elf::read(&card.bytes(&format!("/usr/bin/{program}"))).unwrap();
        let faults = facts.faults(elf::ProgramOrigin::Ours);
        assert!(faults.is_empty(), "{program}: {faults:?}");
    }
    let k3s = elf::read(&card.bytes("/usr/local/bin/k3s")).unwrap();
    assert!(k3s.faults(elf::ProgramOrigin::Foreign).is_empty());
    let release = card.text("/usr/lib/os-release");
    assert!(release.contains("IMAGE_ID=config-weaver"), "{release}");
    let field = |key: &str| release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let variant = field("VARIANT_ID").map(|id| format!("-{id}")).unwrap_or_default();
    let name = format!("config-weaver-{}{variant}-arm64.img", field("IMAGE_VERSION").unwrap());
    assert_eq!(image().file_name().unwrap(), name.as_str(), "{release}");
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn packages_are_those_that_were_reviewed() {
    let card = Root::read();
    let status = card.text("/var/lib/dpkg/status");
    let lines: Vec<String> = status
        .split("\n\n")
        .filter(|entry| entry.contains("Status: install ok installed"))
        .map(|entry| {
            let field =
                |key: &str| entry.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("-").to_owned();
            format!("{}\t{}\t{}\t-\t-\n", field("Package: "), field("Version: "), field("Architecture: "))
        })
        .collect();
    let installed = packages::installed(&lines.concat(), "").unwrap();
    let (ours, installed): (Vec<_>, Vec<_>) =
        installed.into_iter().partition(|package| own_packages::NAMES.contains(&package.name.as_str()));
    let ours: Vec<_> = ours.iter().map(|package| (package.name.as_str(), package.version.as_str())).collect();
    // For dpkg a pre-release comes before the release by this sign.
    let version = env!("CARGO_PKG_VERSION").replacen('-', "~", 1);
    assert_eq!(ours, own_packages::NAMES.map(|name| (name, version.as_str())));
    let more = kernel().installed().map(source).unwrap_or_default();
    packages::compare(&(source("image/packages.installed") + &more), &installed).unwrap();
    for package in &installed {
        let is_kernels = kernel().installed().is_some() && package.name.starts_with("linux-");
        assert_eq!(package.version.contains("~bpo"), is_kernels, "{} {}", package.name, package.version);
    }
    let sources = "/etc/apt/sources.list.d/backports.sources";
    assert_eq!(
        card.has(sources),
        kernel().sources().is_some(),
        "upgrades of the kernel come from where it came"
    );
    let names: BTreeSet<_> = installed.iter().map(|package| package.name.as_str()).collect();
    for asked in packages::asked(&source("image/packages")) {
        assert!(names.contains(asked), "{asked} was asked for");
    }
    for unwanted in ["containerd", "docker.io", "fake-hwclock", "kubernetes-client"] {
        assert!(!names.contains(unwanted), "{unwanted}");
    }
}

/// Whether packages' scripts write it by themselves.
fn is_generated(path: &str) -> bool {
    ["/etc/apt/apt.conf.d/50unattended-upgrades", "/usr/lib/udev/hwdb.bin", "/usr/share/info/dir"]
        .contains(&path)
        || path.starts_with("/etc/pam.d/common-")
        || path.starts_with("/usr/lib/modules/") && path.contains("/modules.")
        || path.contains("/__pycache__/")
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn each_file_of_the_system_belongs_to_a_package() {
    let card = Root::read();
    let files_of = |name: &str| card.text(&format!("/var/lib/dpkg/info/{name}.list"));
    for (name, file) in [
        ("config-weaver", "/usr/bin/weaver-node-agent"),
        ("config-weaver", "/usr/lib/systemd/system/weaver-operator.service"),
        ("config-weaver-card", "/usr/lib/systemd/system/k3s.service"),
        ("config-weaver-card", "/etc/netplan/10-wired.yaml"),
        ("weaver", "/usr/bin/weaver"),
    ] {
        assert!(files_of(name).lines().any(|line| line == file), "{name} has no {file}");
    }
    let name =
        |path: &String| Some(path.strip_prefix("/var/lib/dpkg/info/")?.strip_suffix(".list")?.to_owned());
    let lists: String = card.entries.keys().filter_map(name).map(|name| files_of(&name)).collect();
    let owned: BTreeSet<_> = lists.lines().collect();
    let is_system =
        |path: &str| path.starts_with("/usr/") || path.starts_with("/etc/") && path.contains(".d/");
    let others: Vec<_> = card
        .entries
        .iter()
        .filter(|(_, entry)| entry.is_file)
        .map(|(path, _)| path.as_str())
        .filter(|path| is_system(path) && !owned.contains(path) && !is_generated(path))
        // Of an image that is no release, and of one with another kernel.
        .filter(|path| !["05-variant.issue", "backports.sources"].iter().any(|name| path.ends_with(name)))
        .collect();
    assert_eq!(
        others,
        ["/etc/apt/sources.list.d/debian.sources", "/usr/lib/clock-epoch", "/usr/local/bin/k3s"]
    );
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn the_clock_never_starts_below_the_day_of_the_image() {
    let card = Root::read();
    let epoch = card.get("/usr/lib/clock-epoch").modified;
    assert!(epoch >= i64::try_from(weaver_image::build::rootfs::EPOCH).unwrap(), "{epoch}");
    let newer: Vec<_> = card
        .entries
        .iter()
        .filter(|(_, entry)| entry.modified > epoch)
        .map(|(path, _)| path)
        .take(5)
        .collect();
    assert!(newer.is_empty(), "from the future: {newer:?}");
}
