//! The harness: emulates the firmware and runs the image in QEMU.
//!
//! `weaver-image boot` shows what the firmware does, prints how to connect to the machine and hands the terminal to its
//! console. Tests use [`machine::Machine`].
//!
//! Guarantees: the image is never written; only loopback is bound; no process outlives the harness; without `--dir`
//! nothing is left behind. Failure: a missing program is named with its package, a card that a board would not boot
//! with the file on it and the remedy.

pub mod board;
pub mod card;
pub mod cmdline;
pub mod console;
pub mod device_tree;
pub mod emulator;
pub mod fat;
pub mod firmware;
pub mod host_names;
pub mod kubectl;
pub mod machine;
pub mod overlay;
pub mod partition;
pub mod programs;
pub mod qemu;
pub mod qmp;
pub mod running;
pub mod settings;
pub mod snapshot;
pub mod ssh;
pub mod stage;
pub mod weaver_toml;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use weaver_devstack::files;
use weaver_devstack::signals::ForwardedSignals;
use weaver_devstack::steps::{Steps, say};

use board::Board;
use card::{Card, Edits};
use host_names::HostNames;
use kubectl::export_command;
use qemu::{Console, Emulated, EmulatedHardware, ForwardedPorts, GuestClock, QemuStart};
use running::{End, free_ports, switch_on};
use ssh::quoted;
use stage::{Setup, Stage};

/// Boot the card image in QEMU, with its console on this terminal.
#[derive(Debug, clap::Args)]
pub struct BootOptions {
    /// The card image; the newest `out/*.img` unless given.
    pub image: Option<PathBuf>,
    /// Board whose firmware is emulated.
    #[arg(long, value_enum, default_value = "pi4")]
    pub board: Board,
    /// What QEMU emulates: its own fast machine, or a Pi 3B with the card in its slot and no network.
    #[arg(long, value_enum, default_value = "virt")]
    pub machine: Emulated,
    /// Memory in MiB; a Pi 3B has its own.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(256..=65536))]
    pub memory: u32,
    /// Size of the card, in MiB or with a G: 8192, 8G.
    #[arg(long, default_value = "8G", value_parser = card_size)]
    pub size: u64,
    /// The clock at power-on: `epoch`, as on a Pi, `host`, or a date (UTC).
    #[arg(long, default_value = "epoch")]
    pub rtc: GuestClock,
    /// Keep the card image in this directory and reuse it for the next boot.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Add to the kernel's command line; may be given more than once.
    #[arg(long, allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// A name for the API, added to weaver.toml; kubectl uses the first.
    #[arg(long = "name", default_value = "pi.test")]
    pub names: Vec<String>,
    /// Put this file on the card as weaver.toml.
    #[arg(long)]
    pub weaver_toml: Option<PathBuf>,
}

const PROGRAMS: [&str; 8] =
    ["qemu-system-aarch64", "qemu-img", "qemu-io", "mcopy", "fdtput", "ssh-keygen", "ssh", "setpriv"];

/// Boots the image until it is switched off.
///
/// # Errors
/// When it cannot be booted; see the module.
pub fn run(options: &BootOptions) -> Result<ExitCode> {
    let caught = ForwardedSignals::take()?;
    programs::require(&PROGRAMS)?;
    let has_network = options.machine == Emulated::Virt;
    if !has_network && options.board != Board::Pi3 {
        bail!("--machine raspi3b is a Pi 3: add --board pi3");
    }
    let image = match &options.image {
        Some(image) => image.clone(),
        None => newest_image(Path::new("out"))?,
    };
    let mut steps = Steps::begin();
    let card = prepare(options, &image, &mut steps)?;
    let setup = Setup {
        board: options.board,
        hardware: EmulatedHardware {
            machine: options.machine,
            memory_mib: options.memory,
            clock: options.rtc.clone(),
            ..EmulatedHardware::default()
        },
        arguments: options.append.clone(),
    };
    let ports = free_ports()?;
    let kubectl = write_kubectl(&card, &options.names, ports)?;
    let console_log = card.dir().join("console.log");
    let mut is_trial = false;
    loop {
        let stage = Stage::new(card.overlay(), &setup, is_trial)?;
        steps.done("firmware played", "");
        for step in &stage.played.steps {
            say(format_args!("            {step}"));
        }
        if has_network {
            say_access(&card, ports, &kubectl);
        }
        say("console     follows; Ctrl-A x ends the machine\n");
        let start = QemuStart {
            played: &stage.played,
            hardware: &setup.hardware,
            card: card.overlay().path(),
            ports,
            console: Console::Terminal,
            console_log: &console_log,
            qmp: &card.dir().join("qmp"),
            snapshot: None,
        };
        let mut running = switch_on(card.dir(), start, false, |pid| caught.tell(Some(pid)))?;
        let ended = running.emulator.wait_forever();
        caught.tell(None);
        ended?;
        match running.why()? {
            End::Reset if caught.received().is_none() => {
                is_trial = console::asks_for_trial(&console::text(&console_log));
                say("\nthe guest restarts: the firmware reads the card again");
            }
            _ => break,
        }
    }
    if options.dir.is_some() {
        say(format_args!("\nthe card is kept in {}", card.dir().display()));
    }
    Ok(caught
        .received()
        .map_or(ExitCode::SUCCESS, |signal| ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))))
}

fn say_access(card: &Card, ports: ForwardedPorts, kubectl: &Path) {
    let ssh = card.key().args(ports.ssh).iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ");
    say(format_args!("ports       127.0.0.1:{} is the API, 127.0.0.1:{} is ssh", ports.api, ports.ssh));
    say(format_args!("ssh         {ssh}"));
    say(format_args!("kubectl     {} get nodes", shown(&kubectl.display().to_string())));
}

fn prepare(options: &BootOptions, image: &Path, steps: &mut Steps) -> Result<Card> {
    let read =
        |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let edits = Edits {
        weaver_toml: options.weaver_toml.as_ref().map(read).transpose()?,
        names: options.names.clone(),
        ..Edits::default()
    };
    let card = match &options.dir {
        Some(dir) => Card::in_dir(dir, image, options.size, &edits)?,
        None => Card::new(image, options.size, &edits)?,
    };
    if card.is_fresh() {
        steps.done("card", format_args!("made from {}, {} MiB", image.display(), options.size >> 20));
    } else {
        steps.done("card", format_args!("used again, made from {}", image.display()));
        say(
            "            as it was prepared then: --size and --weaver-toml are for a new card, --name for kubectl",
        );
    }
    Ok(card)
}

/// A script that runs kubectl as a laptop would: under a name that the API
/// serves, with a kubeconfig that it fetches from the Pi first.
fn write_kubectl(card: &Card, names: &[String], ports: ForwardedPorts) -> Result<PathBuf> {
    let name = names.first().ok_or_else(|| anyhow!("give the API a name: --name pi.test"))?;
    let hosts = HostNames::write(&card.dir().join("hosts"), names)?;
    let kubeconfig = card.dir().join("kubeconfig");
    // One of an earlier run has another port.
    files::remove(&kubeconfig)?;
    let joined = |args: &[String]| args.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ");
    let script = format!(
        "#!/bin/sh\n\
         # kubectl for the machine of this directory, under the name {name}.\n\
         set -eu\nconfig={config}\n\
         if [ ! -s \"$config\" ]; then\n  umask 077\n  {ssh} {export} >\"$config.new\"\n  mv \"$config.new\" \"$config\"\nfi\n\
         exec {hosts} {kubectl} --kubeconfig \"$config\" \"$@\"\n",
        config = quoted(&kubeconfig.display().to_string()),
        ssh = joined(&card.key().args(ports.ssh)),
        export = quoted(&format!("sudo -n {}", export_command(name, ports.api))),
        hosts = joined(&hosts.args()),
        kubectl = joined(&kubectl::program()?),
    );
    let path = card.dir().join("kubectl");
    files::replace(&path, script.as_bytes(), 0o755)?;
    Ok(path)
}

/// A word for a shell, quoted only where it must be.
fn shown(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { quoted(word) }
}

fn newest_image(dir: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).map(Iterator::flatten).into_iter().flatten();
    let images =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "img"));
    let newest = images.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    newest.ok_or_else(|| {
        anyhow!("no image (*.img) in {}; `make image K3S=testbed` builds one, or name one", dir.display())
    })
}

/// Bytes of a card, from MiB or, with a G, GiB.
fn card_size(text: &str) -> Result<u64> {
    let (digits, unit) = match text.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1 << 30),
        None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1 << 20),
    };
    let number: u64 = digits.parse().map_err(|_| anyhow!("write a size in MiB or with a G: 8192, 8G"))?;
    match number.checked_mul(unit) {
        Some(bytes) if (1 << 20..=1 << 40).contains(&bytes) => Ok(bytes),
        _ => bail!("a card has 1 MiB to 1 TiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [("8G", 8 << 30), ("4g", 4 << 30), ("2048", 2 << 30), ("512M", 512 << 20)] {
            assert_eq!(card_size(text).unwrap(), bytes, "{text}");
        }
        for bad in ["", "G", "8T", "-1", "0", "99999999999999999999G", "17179869184G"] {
            assert!(card_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_image_is_said_with_the_command_that_builds_one() {
        let dir = tempfile::tempdir().unwrap();
        for directory in [dir.path(), &dir.path().join("none")] {
            assert!(newest_image(directory).unwrap_err().to_string().contains("make image K3S=testbed"));
        }
        fs::write(dir.path().join("a.img"), "").unwrap();
        fs::write(dir.path().join("b.img.xz"), "").unwrap();
        assert_eq!(newest_image(dir.path()).unwrap(), dir.path().join("a.img"));
    }
}
