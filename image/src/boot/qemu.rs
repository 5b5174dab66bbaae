//! QEMU's command line for one machine: a pure function of the options.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;

use super::firmware::Played;

/// The machine that QEMU emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Emulated {
    /// QEMU's own, with a fast disk and a network. Its device tree gets the board's name.
    #[default]
    Virt,
    /// A Pi 3B with the card in its SD slot and the device tree of the card: 1 GiB, no network, slow.
    Raspi3b,
}

/// The real-time clock when the machine is switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GuestClock {
    /// 1970-01-01: a Pi has no clock that runs without power.
    #[default]
    Epoch,
    /// The time of the host.
    Host,
    /// A date, `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`, in UTC.
    At(String),
}

impl FromStr for GuestClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        match text {
            "epoch" => Ok(Self::Epoch),
            "host" => Ok(Self::Host),
            _ if ["0000-00-00", "0000-00-00T00:00:00"].contains(&shape.as_str()) => {
                Ok(Self::At(text.to_owned()))
            }
            _ => Err("write `epoch`, `host`, YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS".to_owned()),
        }
    }
}

/// What the machine is made of.
#[derive(Clone, Debug)]
pub struct EmulatedHardware {
    pub machine: Emulated,
    /// Memory in MiB; a Pi 3B has its own.
    pub memory_mib: u32,
    /// The clock at power-on.
    pub clock: GuestClock,
    /// Receives all that is written to the card, by QEMU's `blklogwrites`. Such a machine has no snapshots.
    pub write_log: Option<PathBuf>,
    /// Further arguments of QEMU's, behind all others.
    pub qemu_arguments: Vec<String>,
}

impl Default for EmulatedHardware {
    fn default() -> Self {
        Self {
            machine: Emulated::Virt,
            memory_mib: 2048,
            clock: GuestClock::Epoch,
            write_log: None,
            qemu_arguments: Vec::new(),
        }
    }
}

/// Where the guest's console is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Console {
    /// The terminal; Ctrl-A x ends the machine. A copy goes to the log.
    Terminal,
    Log,
}

/// The forwarded ports, on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedPorts {
    /// To the guest's 22.
    pub ssh: u16,
    /// To the guest's 6443.
    pub api: u16,
}

/// The name of the network device, for `set_link`.
pub const LINK: &str = "net0";

/// What one start needs.
pub struct QemuStart<'a> {
    /// What the firmware found.
    pub played: &'a Played,
    pub hardware: &'a EmulatedHardware,
    /// The card, a qcow2 file.
    pub card: &'a Path,
    pub ports: ForwardedPorts,
    pub console: Console,
    /// Receives what the console shows.
    pub console_log: &'a Path,
    pub qmp: &'a Path,
    /// A snapshot in the card to continue from.
    pub snapshot: Option<&'a str>,
}

/// `virt`: processors and memory. With `dump`, QEMU writes its device tree there and ends.
pub fn virt_arguments(hardware: &EmulatedHardware, dump: Option<&Path>) -> Vec<OsString> {
    let mut board = OsString::from("virt");
    if let Some(to) = dump {
        board.push(",dumpdtb=");
        board.push(escaped(to));
    }
    let mut words = vec![OsString::from("-M"), board];
    // The Pi 4's core. `max` computes pointer authentication and is 2-3 times slower.
    words.extend(["-cpu", "cortex-a72", "-smp", "2", "-m"].map(OsString::from));
    words.push(hardware.memory_mib.to_string().into());
    words.extend(["-nodefaults", "-display", "none"].map(OsString::from));
    words
}

/// All arguments of QEMU's.
pub fn arguments(start: &QemuStart<'_>) -> Vec<OsString> {
    let mut words = match start.hardware.machine {
        Emulated::Virt => virt_arguments(start.hardware, None),
        Emulated::Raspi3b => ["-M", "raspi3b", "-nodefaults", "-display", "none"].map(OsString::from).into(),
    };
    let mut option = |name: &str, parts: &[&dyn AsRef<std::ffi::OsStr>]| {
        let mut value = OsString::new();
        for part in parts {
            value.push(part);
        }
        words.extend([OsString::from(name), value]);
    };
    let drive = drive(start.card, start.hardware.write_log.as_deref());
    option("-kernel", &[&start.played.kernel]);
    if let Some(initramfs) = &start.played.initramfs {
        option("-initrd", &[initramfs]);
    }
    option("-append", &[&start.played.arguments]);
    option("-dtb", &[&start.played.tree]);
    match start.hardware.machine {
        Emulated::Virt => {
            option("-drive", &[&"if=none,", &drive]);
            option("-device", &[&"virtio-blk-pci,drive=card"]);
            let ForwardedPorts { ssh, api } = start.ports;
            let forward =
                format!("user,id={LINK},hostfwd=tcp:127.0.0.1:{ssh}-:22,hostfwd=tcp:127.0.0.1:{api}-:6443");
            option("-netdev", &[&forward]);
            // No option ROM: it is in another package, and nothing boots from the network.
            option("-device", &[&format!("virtio-net-pci,netdev={LINK},romfile=")]);
            // The Pi has a generator of random numbers and a watchdog.
            option("-device", &[&"virtio-rng-pci"]);
            option("-device", &[&"i6300esb"]);
        }
        Emulated::Raspi3b => {
            option("-drive", &[&"if=sd,", &drive]);
            // The console of the card, ttyS1, is the second one.
            option("-serial", &[&"null"]);
        }
    }
    // The firmware runs again at every reset, so QEMU ends there and we emulate it.
    option("-action", &[&"reboot=shutdown,watchdog=reset"]);
    let base = match &start.hardware.clock {
        GuestClock::Epoch => "1970-01-01T00:00:00",
        GuestClock::Host => "utc",
        GuestClock::At(date) => date,
    };
    option("-rtc", &[&"base=", &base]);
    let log = escaped(start.console_log);
    match start.console {
        Console::Terminal => {
            option("-chardev", &[&"stdio,id=console,mux=on,signal=off,logfile=", &log]);
            option("-mon", &[&"chardev=console,mode=readline"]);
        }
        Console::Log => option("-chardev", &[&"file,id=console,path=", &log]),
    }
    option("-serial", &[&"chardev:console"]);
    option("-qmp", &[&"unix:", &escaped(start.qmp), &",server=on,wait=off"]);
    if let Some(name) = start.snapshot {
        option("-loadvm", &[&name]);
    }
    // QEMU starts paused until the control socket is connected: a guest that ends at once would be gone before QEMU
    // could be asked why.
    words.push("-S".into());
    words.extend(start.hardware.qemu_arguments.iter().map(OsString::from));
    words
}

/// The card as a drive. Where its writes are logged, with a cache that the guest sees and must flush.
fn drive(card: &Path, log: Option<&Path>) -> OsString {
    let mut words = OsString::from("id=card,");
    let Some(log) = log else {
        words.push("format=qcow2,file=");
        words.push(escaped(card));
        return words;
    };
    words.push(
        "cache=writeback,driver=blklogwrites,file.driver=qcow2,file.file.driver=file,file.file.filename=",
    );
    words.push(escaped(card));
    words.push(",log.driver=file,log.filename=");
    words.push(escaped(log));
    words
}

/// In QEMU's options a comma within a value is written twice.
fn escaped(path: &Path) -> OsString {
    path.to_str().map_or_else(|| path.into(), |text| text.replace(',', ",,").into())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn text(change: impl FnOnce(&mut QemuStart<'_>), hardware: &EmulatedHardware) -> String {
        let played = Played {
            kernel: PathBuf::from("/t/kernel"),
            initramfs: Some(PathBuf::from("/t/initramfs")),
            tree: PathBuf::from("/t/dtb"),
            arguments: "root=LABEL=a rw".to_owned(),
            steps: Vec::new(),
        };
        let mut start = QemuStart {
            played: &played,
            hardware,
            card: Path::new("/t/a,b.qcow2"),
            ports: ForwardedPorts { ssh: 20_022, api: 26_443 },
            console: Console::Log,
            console_log: Path::new("/t/console.log"),
            qmp: Path::new("/t/qmp"),
            snapshot: None,
        };
        change(&mut start);
        let words: Vec<_> = arguments(&start).iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn the_whole_line() {
        assert_eq!(
            text(|_| {}, &EmulatedHardware::default()),
            "-M virt -cpu cortex-a72 -smp 2 -m 2048 -nodefaults -display none -kernel /t/kernel \
             -initrd /t/initramfs -append root=LABEL=a rw -dtb /t/dtb \
             -drive if=none,id=card,format=qcow2,file=/t/a,,b.qcow2 -device virtio-blk-pci,drive=card \
             -netdev user,id=net0,hostfwd=tcp:127.0.0.1:20022-:22,hostfwd=tcp:127.0.0.1:26443-:6443 \
             -device virtio-net-pci,netdev=net0,romfile= -device virtio-rng-pci -device i6300esb \
             -action reboot=shutdown,watchdog=reset -rtc base=1970-01-01T00:00:00 \
             -chardev file,id=console,path=/t/console.log -serial chardev:console \
             -qmp unix:/t/qmp,server=on,wait=off -S"
        );
    }

    #[test]
    fn what_can_be_chosen() {
        let plain = EmulatedHardware::default();
        assert!(text(|start| start.snapshot = Some("ready"), &plain).ends_with("-loadvm ready -S"));
        let terminal = text(|start| start.console = Console::Terminal, &plain);
        assert!(terminal.contains("-chardev stdio,id=console,mux=on,signal=off,logfile=/t/console.log -mon"));
        let more = EmulatedHardware {
            machine: Emulated::Virt,
            memory_mib: 1024,
            clock: GuestClock::At("2027-01-02".to_owned()),
            write_log: None,
            qemu_arguments: vec!["-snapshot".to_owned()],
        };
        let line = text(|_| {}, &more);
        assert!(
            line.contains("-m 1024 ")
                && line.contains("-rtc base=2027-01-02 ")
                && line.ends_with(" -S -snapshot")
        );
        let host = EmulatedHardware { clock: GuestClock::Host, ..EmulatedHardware::default() };
        assert!(text(|_| {}, &host).contains("-rtc base=utc "));
        let dump = virt_arguments(&plain, Some(Path::new("/t/a,b")));
        assert!(dump.contains(&OsString::from("virt,dumpdtb=/t/a,,b")));
    }

    #[test]
    fn writes_are_logged_where_the_guest_sees_a_cache_that_it_must_flush() {
        let logged =
            EmulatedHardware { write_log: Some(PathBuf::from("/t/w,l")), ..EmulatedHardware::default() };
        let drive = "-drive if=none,id=card,cache=writeback,driver=blklogwrites,file.driver=qcow2,\
                     file.file.driver=file,file.file.filename=/t/a,,b.qcow2,log.driver=file,log.filename=/t/w,,l \
                     -device virtio-blk-pci,drive=card ";
        let line = text(|_| {}, &logged);
        assert!(line.contains(drive), "{line}");
    }

    #[test]
    fn a_pi_3_has_the_card_in_its_slot_and_the_console_on_its_second_port() {
        let line =
            text(|_| {}, &EmulatedHardware { machine: Emulated::Raspi3b, ..EmulatedHardware::default() });
        assert!(line.starts_with("-M raspi3b -nodefaults -display none -kernel "), "{line}");
        assert!(
            line.contains("-drive if=sd,id=card,format=qcow2,file=/t/a,,b.qcow2 -serial null "),
            "{line}"
        );
        assert!(line.contains("-serial chardev:console ") && !line.contains("virtio"), "{line}");
    }

    #[test]
    fn clocks() {
        assert_eq!("epoch".parse(), Ok(GuestClock::Epoch));
        assert_eq!("host".parse(), Ok(GuestClock::Host));
        for date in ["2027-12-31", "2027-12-31T23:59:59"] {
            assert_eq!(date.parse(), Ok(GuestClock::At(date.to_owned())));
        }
        for bad in ["", "now", "2027", "2027-1-1", "2027-01-01,clock=vm", "2027-01-01T00:00:00Z"] {
            assert!(bad.parse::<GuestClock>().unwrap_err().starts_with("write `epoch`"), "{bad}");
        }
    }
}
