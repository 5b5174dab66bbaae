//! Who holds the Lease: a process, named so that another one on the same machine can tell whether it is gone.
//!
//! `<host>_<machine>_<boot>_<pid namespace>_<pid>_<start>`: of a holder of the same boot and the same pid
//! namespace the kernel is asked; one of the same host and machine and an earlier boot is gone. So an
//! operator that was killed, or lost its power, is followed at once by the one that systemd starts, and a
//! process that is stopped, or runs elsewhere, is never taken for dead.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, gethostname};
use procfs_core::{FromRead as _, process::Stat};

/// What this process knows of itself and of others next to it.
#[derive(Clone, Debug)]
pub struct ProcessIdentity {
    host: String,
    /// `/etc/machine-id`; empty where there is none, as in most containers.
    machine: String,
    boot: String,
    namespace: String,
}

/// The name of this process, and how others of this machine are recognised.
///
/// If the kernel's files cannot be read the name is a random one, and no other process is recognised.
pub fn this_process() -> (String, ProcessIdentity) {
    let host = gethostname().ok().and_then(|name| name.into_string().ok()).filter(|name| !name.is_empty());
    let host = host.unwrap_or_else(|| "unknown".to_owned()).replace('_', "-");
    let origin = ProcessIdentity {
        machine: machine(),
        host,
        boot: boot(),
        namespace: fs::metadata("/proc/self/ns/pid").map(|meta| inode(&meta)).unwrap_or_default(),
    };
    let pid = std::process::id();
    let name = match state(Path::new("/proc"), pid) {
        Some(ProcessState { start, .. }) if !origin.boot.is_empty() && !origin.namespace.is_empty() => {
            let ProcessIdentity { host, machine, boot, namespace } = &origin;
            format!("{host}_{machine}_{boot}_{namespace}_{pid}_{start}")
        }
        _ => format!("{}_{:016x}", origin.host, fastrand::u64(..)),
    };
    (name, origin)
}

/// `/etc/machine-id`, once it is one: before the first boot is over it may say `uninitialized`.
fn machine() -> String {
    id(&fs::read_to_string("/etc/machine-id").unwrap_or_default())
}

/// An id of this boot. In a unit that sees no more of `/proc` than processes, systemd says it (`%b`).
fn boot() -> String {
    let kernels = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = id(&kernels);
    if known.is_empty() { id(&std::env::var("WEAVER_BOOT_ID").unwrap_or_default()) } else { known }
}

/// A number of 32 digits, with or without dashes; nothing, where it is none.
fn id(text: &str) -> String {
    let plain = text.trim().replace('-', "");
    let is_one = plain.len() == 32
        && plain.chars().all(|char| char.is_ascii_hexdigit())
        && plain.chars().any(|char| char != '0');
    if is_one { plain } else { String::new() }
}

fn inode(meta: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt as _;
    meta.ino().to_string()
}

impl ProcessIdentity {
    /// Is the holder known to run no more?
    pub fn is_gone(&self, holder: &str) -> bool {
        let parts: Vec<&str> = holder.split('_').collect();
        let [host, machine, boot, namespace, pid, start] = parts[..] else { return false };
        // A process that does not know its own boot cannot compare another's.
        if boot.is_empty() || self.boot.is_empty() {
            return false;
        }
        if boot != self.boot {
            return !machine.is_empty() && (host, machine) == (&self.host, &self.machine);
        }
        let numbers = pid.parse::<u32>().ok().filter(|pid| *pid > 0).zip(start.parse::<u64>().ok());
        let (true, Some((pid, start))) = (namespace == self.namespace, numbers) else { return false };
        match state(Path::new("/proc"), pid) {
            Some(found) => found.start != start || found.is_dead,
            // Its files may be hidden from us; whether it is there is not.
            None => i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)),
        }
    }
}

/// What `/proc/PID/stat` says.
struct ProcessState {
    /// In ticks after the boot.
    start: u64,
    /// It has ended, and its parent has not waited for it (a zombie).
    is_dead: bool,
}

fn state(proc: &Path, pid: u32) -> Option<ProcessState> {
    let stat = Stat::from_file(proc.join(pid.to_string()).join("stat")).ok()?;
    Some(ProcessState { start: stat.starttime, is_dead: matches!(stat.state, 'Z' | 'X' | 'x') })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn named(origin: &ProcessIdentity, pid: u32, start: u64) -> String {
        format!("{}_{}_{}_{}_{pid}_{start}", origin.host, origin.machine, origin.boot, origin.namespace)
    }

    #[test]
    fn this_process_lives_and_one_that_was_killed_does_not() {
        let (me, origin) = this_process();
        assert!(me.split('_').count() == 6 && !origin.is_gone(&me), "{me}");
        assert_eq!(this_process().0, me, "always the same");
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let name = named(&origin, pid, state(Path::new("/proc"), pid).unwrap().start);
        assert!(!origin.is_gone(&name));
        assert!(Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
        assert!(!origin.is_gone(&name), "a stopped process may wake");
        child.kill().unwrap();
        let dead = || state(Path::new("/proc"), pid).is_none_or(|state| state.is_dead);
        while !dead() {
            std::thread::yield_now();
        }
        assert!(origin.is_gone(&name), "though no one has waited for it");
        child.wait().unwrap();
        assert!(origin.is_gone(&name));
    }

    #[test]
    fn another_start_is_another_process_and_what_is_elsewhere_is_not_known() {
        let (me, origin) = this_process();
        let start = state(Path::new("/proc"), std::process::id()).unwrap().start;
        assert!(origin.is_gone(&named(&origin, std::process::id(), start + 1)), "the pid was used again");
        // Of another user, and perhaps hidden: init is always there.
        assert!(!origin.is_gone(&named(&origin, 1, state(Path::new("/proc"), 1).map_or(1, |one| one.start))));
        let contained = ProcessIdentity { namespace: "1".into(), ..origin.clone() };
        let gone = named(&origin, u32::MAX / 2, 1);
        assert!(origin.is_gone(&gone) && !contained.is_gone(&gone));
        // What ran before the power was lost is gone; what runs on another machine is not.
        let here = ProcessIdentity { machine: "m".into(), ..origin.clone() };
        let before = ProcessIdentity { boot: "before".into(), ..here.clone() };
        assert!(here.is_gone(&named(&before, 1, 1)));
        for elsewhere in [
            ProcessIdentity { machine: "n".into(), ..before.clone() },
            ProcessIdentity { machine: String::new(), ..before.clone() },
            ProcessIdentity { host: "other".into(), ..before.clone() },
            ProcessIdentity { boot: String::new(), ..before.clone() },
        ] {
            assert!(!here.is_gone(&named(&elsewhere, 1, 1)), "{elsewhere:?}");
        }
        let blind = ProcessIdentity { boot: String::new(), ..here.clone() };
        assert!(!blind.is_gone(&named(&here, 1, 1)) && !blind.is_gone(&named(&before, 1, 1)));
        let unknown = ProcessIdentity { machine: String::new(), ..here };
        assert!(!unknown.is_gone(&named(&ProcessIdentity { machine: String::new(), ..before }, 1, 1)));
        for odd in ["", "a", "laptop", "a_b_c_d_e_f", &format!("{me}_x"), &named(&origin, 0, 1)] {
            assert!(!origin.is_gone(odd), "{odd}");
        }
    }

    #[test]
    fn only_a_number_is_an_id() {
        let plain = "3d1219c7c4c5404aaa1f6d2a48adfda4";
        assert_eq!(id(&format!("{plain}\n")), plain);
        assert_eq!(id("3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"), plain);
        for odd in ["", "uninitialized", "%b", &plain[1..], &"0".repeat(32), &format!("{plain}0")] {
            assert_eq!(id(odd), "", "{odd}");
        }
    }

    #[test]
    fn a_program_may_be_called_anything() {
        let dir = tempfile::tempdir().unwrap();
        let of = |line: &str| {
            fs::create_dir_all(dir.path().join("7")).unwrap();
            fs::write(dir.path().join("7/stat"), line).unwrap();
            state(dir.path(), 7)
        };
        let line = |name: &str, letter: &str| {
            let rest = "0 ".repeat(30);
            format!("7 ({name}) {letter} 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 4242 {rest}")
        };
        for name in ["a", "a) S (b", ") ", "weaver operator"] {
            let found = of(&line(name, "S")).unwrap();
            assert_eq!((found.start, found.is_dead), (4_242, false), "{name}");
        }
        assert!(of(&line("a", "Z")).unwrap().is_dead);
        assert!(of("").is_none() && of("7 (a) S 1").is_none());
    }
}
