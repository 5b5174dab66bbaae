//! What two machines wrote to their cards, recorded once for all tests of a run: a first boot that imports a token from
//! weaver.toml, with an upgrade of k3s on it; and a repair on a card whose boot files turn the memory controller off.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use weaver_image::boot::card::{Card, Edits};
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::boot::qemu::EmulatedHardware;
use weaver_image::booted::{BOOTED, edits, wait_for_unit};

use super::write_log::WriteLog;
use crate::root::image;

/// A secret that is moved off the boot partition.
pub const TOKEN: &str = "token-of-the-power-cuts";
/// The word that turns memory off, as someone left it in the boot files.
pub const FAULT: &str = "cgroup_disable=memory";

const CARD: u64 = 8 << 30;
/// Next to other work of the builder's.
const BOOT: Duration = Duration::from_mins(25);
const UPGRADE: Duration = Duration::from_mins(25);

/// A machine's writes, of which a part is looked at.
pub struct Recording {
    dir: PathBuf,
    card: Card,
    /// The entries of the part.
    pub part: Range<usize>,
    pub log: WriteLog,
}

impl Recording {
    /// The part of this name, recorded now unless a test before did.
    pub fn of(part: &str) -> Self {
        let all =
            std::env::var_os(BOOTED).map(PathBuf::from).expect("WEAVER_BOOTED is not set").join("power-cuts");
        let dir = all.join(if part == "repair" { "repair" } else { "first-boot" });
        if !dir.join("end.qcow2").exists() {
            record(part, &dir).unwrap();
        }
        let text = fs::read_to_string(dir.join(part)).unwrap();
        let bounds: Vec<usize> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let card = Card::in_dir(&dir, &image(), CARD, &owner()).unwrap();
        let log = WriteLog::open(&dir.join("log")).unwrap();
        Self { dir, card, part: bounds[0]..bounds[1], log }
    }

    /// The card before the first entry of the log, as a sparse file.
    pub fn write_start(&self, to: &Path) {
        self.card.overlay().write_raw(to).unwrap();
    }

    /// The card when its machine was off, as QEMU left it.
    pub fn end(&self) -> PathBuf {
        self.dir.join("end.qcow2")
    }

    pub fn card(&self) -> &Card {
        &self.card
    }
}

fn owner() -> Edits {
    let plain = edits();
    let text = plain.weaver_toml.as_deref().unwrap_or_default();
    let with_token = text.replace("[k3s.options]", &format!("[k3s]\ntoken = \"{TOKEN}\"\n\n[k3s.options]"));
    assert!(with_token.contains(TOKEN));
    Edits { weaver_toml: Some(with_token), ..plain }
}

fn record(part: &str, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).context("making room for a recording")?;
    let card = Arc::new(Card::in_dir(dir, &image(), CARD, &owner())?);
    if part == "repair" {
        card.overlay().edit_fat(|fat| {
            let text = String::from_utf8(fat.read("cmdline.txt")?.context("the card has a cmdline.txt")?)?;
            fat.write("cmdline.txt", format!("{} {FAULT}\n", text.trim_end()).as_bytes())
        })?;
    }
    let hardware = EmulatedHardware { write_log: Some(dir.join("log")), ..EmulatedHardware::default() };
    let mut machine = Machine::start(&card, &Setup { hardware, ..Setup::default() })?;
    machine.wait_for_ssh(BOOT)?;
    if part == "repair" {
        repair(&mut machine, dir)?;
    } else {
        boot_and_upgrade(&mut machine, dir)?;
    }
    machine.power_off(BOOT)?;
    machine.overlay().copy_to(&dir.join("end.qcow2")).map(drop)
}

fn boot_and_upgrade(machine: &mut Machine, dir: &Path) -> anyhow::Result<()> {
    wait_for_unit(machine, "weaver-operator.service", BOOT)?;
    let booted = settled(machine, dir)?;
    fs::write(dir.join("first-boot"), format!("0 {booted}"))?;
    another_k3s(machine)?;
    let begun = settled(machine, dir)?;
    let upgrade = "weaver node upgrade --k3s /dev/shm/k3s --wait 900 \
                   --sha256 $(sha256sum /dev/shm/k3s | cut -c 1-64)";
    println!("{}", machine.run_within(upgrade, UPGRADE)?);
    Ok(fs::write(dir.join("upgrade"), format!("{begun} {}", settled(machine, dir)?))?)
}

fn repair(machine: &mut Machine, dir: &Path) -> anyhow::Result<()> {
    wait_for_unit(machine, "weaver-node-agent.service", BOOT)?;
    let begun = settled(machine, dir)?;
    let repaired = machine.attempt("weaver-node-agent repair", BOOT)?;
    println!("{}{}", repaired.stdout, repaired.stderr);
    anyhow::ensure!(repaired.stdout.contains("Changed."), "the repair changed nothing");
    Ok(fs::write(dir.join("repair"), format!("{begun} {}", settled(machine, dir)?))?)
}

/// The program of the card with another version in its bytes, in the guest's memory. A real k3s has the server packed
/// in it, and unpacks it into a directory of its hash where there is none: the other version gets one by another hash.
const ANOTHER_K3S: &str = r#"set -e
old=$(k3s --version | sed -n 's/^k3s version \(v[0-9.]*\).*/\1/p')
case $old in *9) new=${old%9}8 ;; *) new=${old%?}$((${old##*[!0-9]} + 1)) ;; esac
edit="s/$(printf %s "$old" | sed 's/[.]/[.]/g')/$new/g"
cd /var/lib/rancher/k3s
if packed=$(readlink data/current); then
    packed=${packed##*/}
    other=$(printf %s "$packed" | tr 0123456789abcdef 123456789abcdef0)
    cp -a "data/$packed" "data/$other"
    LC_ALL=C sed "$edit" "data/$packed/bin/k3s" > "data/$other/bin/k3s"
    edit="$edit; s/$packed/$other/g"
fi
LC_ALL=C sed "$edit" /usr/local/bin/k3s > /dev/shm/k3s
chmod 755 /dev/shm/k3s
/dev/shm/k3s --version"#;

fn another_k3s(machine: &Machine) -> anyhow::Result<()> {
    println!("{}", machine.run_within(ANOTHER_K3S, UPGRADE)?);
    Ok(())
}

/// With all buffered writes of the guest flushed: how many entries there are.
fn settled(machine: &mut Machine, dir: &Path) -> anyhow::Result<usize> {
    machine.run("sync")?;
    let log = machine.quiesced(|_| WriteLog::open(&dir.join("log")))?;
    Ok(log.entries().len())
}
