//! How large the image is, and what of.

use std::fs;
use std::process::Command;

use weaver_image::boot::fat::Fat;
use weaver_image::build::disk::{FAT_START, ROOT_START};

use super::measured::{Measured, draw, mib};
use super::sizes::{self, PartSize};
use crate::root::{Root, extract, image};

const BUDGET: u64 = 400 << 20;
const K3S: &str = "/usr/local/bin/k3s";
const OURS: [&str; 3] = ["/usr/bin/weaver-node-agent", "/usr/bin/weaver-operator", "/usr/bin/weaver"];
/// Bars of the picture, but for the last, which sums up the rest.
const SHOWN: usize = 24;

fn of_files(root: &Root, name: &str, ours: bool, is_one: impl Fn(&str) -> bool) -> PartSize {
    let files = root.entries.iter().filter(|(path, entry)| entry.is_file && is_one(path));
    let bytes = files.map(|(_, entry)| entry.size).sum();
    assert!(bytes > 0, "there is no {name} on the card");
    PartSize { name: name.to_owned(), bytes, ours }
}

/// Bytes of the files on the boot partition.
fn of_boot_partition() -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fat");
    extract(FAT_START, ROOT_START - FAT_START, &file);
    let fat = Fat::new(&file);
    let output = Command::new("mdir").args(["-/", "-a", "-i"]).arg(fat.path()).arg("::/").output().unwrap();
    let reported = String::from_utf8(output.stdout).unwrap();
    let (_, total) = reported.split_once("Total files listed:").expect("mdir sums up");
    let bytes = total.lines().find_map(|line| Some(line.split_once(" files ")?.1.split_once("bytes")?.0));
    bytes.unwrap().split_whitespace().collect::<String>().parse().unwrap()
}

/// What a file takes packed, as the image is.
fn packed(content: &[u8]) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, content).unwrap();
    let done = Command::new("xz").args(["-T0", "-0"]).arg(&file).status().unwrap();
    assert!(done.success());
    fs::metadata(file.with_extension("xz")).unwrap().len()
}

#[test]
#[ignore = "needs the image, also packed: make soak"]
fn the_packed_image_is_within_its_budget() {
    let root = Root::read();
    let mut parts = sizes::packages(&root.text("/var/lib/dpkg/status"));
    assert!(parts.len() > 100, "dpkg knows of {} packages only", parts.len());
    let of_packages: u64 = parts.iter().map(|part| part.bytes).sum();
    let count = parts.len();
    let k3s = root.bytes(K3S);
    parts.push(of_files(&root, "the testbed, in k3s' place", false, |path| path == K3S));
    parts.push(of_files(&root, "initramfs, made here", false, |path| path.starts_with("/boot/initrd.img-")));
    let named = |path: &str| of_files(&root, path.trim_start_matches("/usr/bin/"), true, |at| at == path);
    let ours: Vec<_> = OURS.map(named).into();
    let of_ours: u64 = ours.iter().map(|part| part.bytes).sum();
    parts.extend(ours);
    let boot = of_boot_partition();
    parts.push(PartSize { name: "boot partition, copies mostly".to_owned(), bytes: boot, ours: false });
    let title = "The test image by package, as installed";
    draw("image.svg", title, "MiB, not compressed; ours in orange", &sizes::largest(parts, SHOWN));

    let path = image().with_extension("img.xz");
    let whole = fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).len();
    let testbed = packed(&k3s);
    let mut measured = Measured::begin("30-image");
    let what = "the test image, packed (`xz -0`), our programs as they ship";
    measured.budget(what, &mib(whole), "< 400 MiB", whole < BUDGET);
    measured.row(
        "of it the testbed in k3s' place; a real k3s may have that and what is left of the budget",
        &mib(testbed),
    );
    measured.row(&format!("{count} packages of Debian's, as installed"), &mib(of_packages));
    measured.row("our three programs, as installed", &mib(of_ours));
    measured.row("files on the boot partition", &mib(boot));
    measured.judge();
}
