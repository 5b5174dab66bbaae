//! What a machine needs before it can make the card's root file system.
//!
//! One that is not arm64 needs the emulator, registered with the kernel; a user needs a range of subordinate ids, and
//! the program that maps them. Each is checked, and a missing one is named with its remedy.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

const REGISTERED: &str = "/proc/sys/fs/binfmt_misc/qemu-aarch64";
const FORMATS: [&str; 2] = ["/usr/lib/binfmt.d/qemu-aarch64.conf", "/etc/binfmt.d/qemu-aarch64.conf"];

/// What was seen of this machine.
#[derive(Debug, Clone)]
struct BuildMachine {
    is_arm64: bool,
    /// The kernel's entry for arm64 programs; `None` where there is none.
    registered: Option<String>,
    /// Subordinate ids and their program; root needs none.
    user: Option<BuildUser>,
}

#[derive(Debug, Clone, Copy)]
struct BuildUser {
    has_subordinate_ids: bool,
    has_newuidmap: bool,
}

/// Checks that mmdebstrap can make an arm64 root here; root registers the emulator where that is missing.
///
/// # Errors
/// What is missing, with the command that brings it.
pub fn check() -> Result<()> {
    let mut machine = look();
    if machine.registered.is_none() && machine.user.is_none() && !machine.is_arm64 {
        register();
        machine = look();
    }
    judge(&machine)
}

fn judge(machine: &BuildMachine) -> Result<()> {
    if !machine.is_arm64 {
        match &machine.registered {
            None => bail!(
                "the kernel does not start arm64 programs: as root, `apt-get install qemu-user-static` and \
                 `mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; cat {} > \
                 /proc/sys/fs/binfmt_misc/register`",
                FORMATS[0]
            ),
            Some(entry) if !entry.lines().any(|line| line == "enabled") => {
                bail!("{REGISTERED} is disabled: as root, `echo 1 > {REGISTERED}`")
            }
            // Without F the emulator would have to lie inside the new root.
            Some(entry) if !entry.lines().any(|line| line.starts_with("flags:") && line.contains('F')) => {
                bail!(
                    "{REGISTERED} lacks the flag F, so the emulator is not found inside the new root: as root, \
                 `echo -1 > {REGISTERED}; cat {} > /proc/sys/fs/binfmt_misc/register`",
                    FORMATS[0]
                )
            }
            Some(_) => {}
        }
    }
    let Some(user) = machine.user else { return Ok(()) };
    if !user.has_newuidmap {
        bail!(
            "newuidmap is missing, without which only root can make a root file system: `apt-get install uidmap`"
        );
    }
    if !user.has_subordinate_ids {
        bail!(
            "this user has no range in /etc/subuid or /etc/subgid: as root, \
             `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`"
        );
    }
    Ok(())
}

fn look() -> BuildMachine {
    let is_there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    };
    let me = user();
    let has_range = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().any(|line| {
            line.split(':')
                .next()
                .is_some_and(|name| Some(name) == me.1.as_deref() || name == me.0.to_string())
        })
    };
    BuildMachine {
        is_arm64: std::env::consts::ARCH == "aarch64",
        registered: fs::read_to_string(REGISTERED).ok(),
        user: (me.0 != 0).then(|| BuildUser {
            has_subordinate_ids: has_range("/etc/subuid") && has_range("/etc/subgid"),
            has_newuidmap: is_there("newuidmap"),
        }),
    }
}

/// Number and name of the current user.
fn user() -> (u32, Option<String>) {
    let uid = nix::unistd::geteuid();
    let name = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    (uid.as_raw(), name)
}

/// Does what systemd's binfmt service would; a failure shows in the next check.
fn register() {
    let directory = Path::new("/proc/sys/fs/binfmt_misc");
    if !directory.join("register").exists() {
        let _ = std::process::Command::new("mount")
            .args(["-t", "binfmt_misc", "binfmt_misc"])
            .arg(directory)
            .stderr(std::process::Stdio::null())
            .status();
    }
    for format in FORMATS {
        if let Ok(text) = fs::read_to_string(format) {
            let _ = fs::write(directory.join("register"), text.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> BuildMachine {
        BuildMachine {
            is_arm64: false,
            registered: Some("enabled\ninterpreter /x\nflags: POCF\n".into()),
            user: None,
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        assert!(judge(&fit()).is_ok());
        let native = BuildMachine { is_arm64: true, registered: None, ..fit() };
        assert!(judge(&native).is_ok());
        let as_user = |has_newuidmap, has_subordinate_ids| BuildMachine {
            user: Some(BuildUser { has_subordinate_ids, has_newuidmap }),
            ..fit()
        };
        assert!(judge(&as_user(true, true)).is_ok());
        for (machine, says) in [
            (BuildMachine { registered: None, ..fit() }, "does not start arm64 programs"),
            (BuildMachine { registered: Some("disabled\nflags: F\n".into()), ..fit() }, "echo 1 >"),
            (BuildMachine { registered: Some("enabled\nflags: OC\n".into()), ..fit() }, "lacks the flag F"),
            (as_user(false, true), "uidmap"),
            (as_user(true, false), "usermod --add-subuids"),
        ] {
            let error = judge(&machine).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
