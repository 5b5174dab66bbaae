//! Debian's security updates, where `weaver.toml` asks for them: does unattended-upgrades install them, and which does
//! it leave to the owner? And whether a reboot is pending, on any host.

use crate::finding::{Code, Finding, Place, Remedy, Severity};
use crate::finding_text::cut;
use crate::package_update::apt_error;
use crate::when::HOUR;

pub const PROGRAM: &str = "/usr/bin/unattended-upgrade";
/// What it says of its runs.
pub const LOG: &str = "/var/log/unattended-upgrades/unattended-upgrades.log";
/// Touched after each run that succeeds.
pub const STAMP: &str = "/var/lib/apt/periodic/upgrade-stamp";
/// apt's lists, which say until when they are valid.
pub const LISTS: &str = "/var/lib/apt/lists";
/// The packages that it did not upgrade, on one line.
pub const KEPT_BACK: &str = "/var/lib/unattended-upgrades/kept-back";
/// There where a reboot is pending.
pub const REBOOT_REQUIRED: &str = "/run/reboot-required";
/// The packages that ask for it, a line each.
pub const REBOOT_PACKAGES: &str = "/run/reboot-required.pkgs";

/// How each run begins.
const STARTED: &str = "Starting unattended upgrades script";
/// How long nothing may happen, and how long a list is valid.
const SILENCE: i64 = 7 * 24 * HOUR;
/// What was off cannot have updated itself, and is given two of its days.
const GRACE: i64 = 48 * HOUR;
const EVIDENCE: usize = 240;

/// What unattended-upgrades has left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecurityState {
    pub is_installed: bool,
    /// Its log, where it can be read.
    pub log: Option<String>,
    /// When a run last succeeded, in seconds since 1970.
    pub made: Option<i64>,
    /// Until when the list of security updates is valid; `None` where apt has none.
    pub list_until: Option<i64>,
    pub kept_back: Option<String>,
    /// In seconds since 1970.
    pub now: i64,
    /// Seconds since the boot.
    pub uptime: i64,
}

impl SecurityState {
    /// A warning where security updates do not reach this host, or wait for its owner.
    pub fn judge(&self) -> Option<Finding> {
        if !self.is_installed {
            let message = "weaver.toml asks for security updates, and unattended-upgrades is not installed";
            let remedy = Remedy::new("install it")
                .command("sudo apt-get update")
                .command("sudo apt-get install --no-install-recommends unattended-upgrades");
            return Some(finding(message, PROGRAM, "it is not there").remedy(remedy));
        }
        self.failed().or_else(|| self.silent()).or_else(|| self.waiting())
    }

    /// What the last run could not do.
    fn failed(&self) -> Option<Finding> {
        let (_, run) = self.log.as_deref()?.rsplit_once(STARTED)?;
        let errors: Vec<_> = run.lines().filter_map(error).collect();
        if let Some(first) = errors.first() {
            let refusal = apt_error::explained(&errors.join("\n"), &[]);
            let message = format!("security updates were not installed: {}", refusal.what);
            return Some(finding(&message, LOG, first).remedy(Remedy::new(refusal.remedy)));
        }
        let names: Vec<_> = run.lines().filter_map(asks).collect();
        if names.is_empty() {
            return None;
        }
        let names = names.join(" ");
        let message = format!("security updates wait, since a file of theirs was changed here: {names}");
        let remedy = Remedy::new("install them by hand: dpkg asks which of the two files is to stay")
            .command(format!("sudo apt-get install --only-upgrade {names}"));
        Some(finding(&message, LOG, "conffile prompt").remedy(remedy))
    }

    /// Nothing fails, and nothing comes.
    fn silent(&self) -> Option<Finding> {
        if self.uptime < GRACE {
            return None;
        }
        let Some(until) = self.list_until else {
            let message = "apt has no list of Debian's security updates";
            let remedy = Remedy::new(
                "see whether a file of /etc/apt/sources.list.d names the suite of security updates",
            )
            .command("sudo apt-get update");
            return Some(finding(message, LISTS, "none of Debian-Security").remedy(remedy));
        };
        if until < self.now {
            let message = "apt's list of security updates has expired: this host does not reach its source";
            let remedy = Remedy::new("see why").command("sudo apt-get update");
            return Some(finding(message, LISTS, "its Valid-Until is over").remedy(remedy));
        }
        // A stamp of the future is of a clock that was wrong.
        let is_old = self.made.is_none_or(|made| self.now > made + SILENCE);
        is_old.then(|| {
            let message = "for more than a week unattended-upgrades has not run to its end";
            finding(message, STAMP, "it is old, or not there")
        })
    }

    /// What is held back, or depends on it.
    fn waiting(&self) -> Option<Finding> {
        let names = self.kept_back.as_deref()?.split_whitespace().filter(|name| is_package(name));
        let names = names.collect::<Vec<_>>().join(" ");
        if names.is_empty() {
            return None;
        }
        let message = format!("security updates wait for you: {names}");
        let explain = "the board boots from them: install them while you can reach it, and reboot. The next run of \
                       unattended-upgrades clears this";
        let remedy = Remedy::new(explain)
            .command(format!("sudo apt-get install --only-upgrade {names}"))
            .command("sudo reboot");
        Some(finding(&message, KEPT_BACK, &names).remedy(remedy))
    }
}

fn finding(message: &str, file: &str, saw: &str) -> Finding {
    Finding::new(Code::SecurityUpdatesMissing, message).saw(Place::file(file), cut(saw, EVIDENCE))
}

/// What an error says: `2026-11-29 06:12:03,481 ERROR …`.
fn error(line: &str) -> Option<&str> {
    let mut words = line.splitn(4, ' ').skip(2);
    words.next().filter(|level| *level == "ERROR")?;
    words.next().filter(|_| line.starts_with(|c: char| c.is_ascii_digit()))
}

/// The package of which the owner would be asked something.
fn asks(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(" has conffile prompt")?;
    before.rsplit(' ').next().filter(|name| is_package(name))
}

/// What may be in a command.
fn is_package(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.:".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_part)
}

/// Until when a list is valid, in the words of the file; `None` where it is not one of security updates.
pub fn valid_until(release: &str) -> Option<&str> {
    let field = |name: &str| release.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    field("Label:").filter(|label| *label == "Debian-Security")?;
    field("Valid-Until:")
}

/// A reboot that an installed package asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingReboot {
    /// Why, where that is said.
    pub why: String,
    /// The packages that ask for it.
    pub packages: String,
    /// When the host reboots by itself.
    pub at: Option<String>,
}

impl PendingReboot {
    pub fn judge(&self) -> Finding {
        let by = self.packages.split_whitespace().collect::<Vec<_>>().join(", ");
        let by = if by.is_empty() { String::new() } else { format!(" for {by}") };
        let saw = self.why.lines().find(|line| !line.trim().is_empty()).unwrap_or("it is there");
        let pending = |message: String| {
            let finding = Finding::new(Code::RebootPending, cut(&message, EVIDENCE));
            finding.saw(Place::file(REBOOT_REQUIRED), cut(saw, EVIDENCE))
        };
        match &self.at {
            None => pending(format!("a reboot is pending{by}: until then what was replaced still runs")),
            // It comes by itself, as weaver.toml asks.
            Some(at) => pending(format!("this host reboots at {at}{by}")).milder(Severity::Ok),
        }
    }
}

#[cfg(test)]
mod tests;
