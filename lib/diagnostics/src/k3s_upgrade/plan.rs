//! May k3s be replaced, and by which steps?
//!
//! What is not known refuses nothing: who acts asks twice, before anything is written and when the new program lies
//! next to the old one. All reasons against it are reported at once, each with what to do.

use std::fmt;

use super::version::{Skew, Version};
use super::{Role, UpgradeRequest};

/// How many times its own size a k3s takes below its data when it has unpacked itself there.
const UNPACKED: u64 = 4;
/// MiB that are left free besides, also by the copy of the datastore that is made before.
pub(crate) const MARGIN: u64 = 64;

/// The unit that runs k3s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct K3sUnit {
    pub role: Role,
    /// Whether it runs as it should.
    pub active: bool,
}

/// What speaks for the content of the new program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hash {
    /// No one has looked yet, or it is a program that was kept here.
    Unknown,
    Missing {
        /// The list in which its hash was looked for.
        list: String,
    },
    /// It has another hash than it should.
    Wrong {
        /// That which it should have.
        wanted: String,
        /// That which it has.
        found: String,
    },
    /// It has the hash that it should have.
    Right,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeCandidate {
    /// What it is called in words, such as its path.
    pub shown: String,
    /// Whether it is a program for this machine.
    pub kind: Option<Result<(), String>>,
    /// What speaks for its content.
    pub hash: Hash,
    pub asked: Option<Version>,
    /// The version that it reports.
    pub version: Option<Result<Version, String>>,
    /// Its size in bytes.
    pub size: Option<u64>,
}

/// Room, in bytes; `None` where the system does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Where the program lies.
    pub program: Option<u64>,
    /// Where k3s unpacks itself.
    pub data: Option<u64>,
    /// Whether both are the same file system.
    pub shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Why this process may not replace the program.
    pub may_not_write: Option<UpgradeRefusal>,
    /// The unit that runs k3s; `None` where there is none.
    pub unit: Option<K3sUnit>,
    /// Why k3s would not start again once it is stopped.
    pub held_back: Option<String>,
    /// Whether its API server answers; `None` for an agent, or if it was not checked.
    pub ready: Option<Result<(), String>>,
    /// The version of the installed program, or why it is not known.
    pub installed: Result<Version, String>,
    /// The version of the server that an agent has joined, if known.
    pub server: Option<Version>,
    pub candidate: UpgradeCandidate,
    pub free_space: FreeSpace,
}

/// A reason against the upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeRefusal {
    pub what: String,
    pub remedy: String,
}

impl UpgradeRefusal {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for UpgradeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

/// What is done, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeStep {
    /// The old program gets a second name.
    Keep,
    /// The new one is installed.
    Replace,
    /// The old one is installed again.
    PutBack,
    /// k3s is stopped and started.
    Restart,
    /// k3s is what it was before.
    Prove,
}

/// To the new program.
pub const FORWARD: [UpgradeStep; 4] =
    [UpgradeStep::Keep, UpgradeStep::Replace, UpgradeStep::Restart, UpgradeStep::Prove];
/// Back to the old one.
pub const BACK: [UpgradeStep; 3] = [UpgradeStep::PutBack, UpgradeStep::Restart, UpgradeStep::Prove];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradePlan {
    /// This version is there.
    Nothing(Version),
    /// Not as it is now.
    Refused(Vec<UpgradeRefusal>),
    /// These steps, in the role of this node.
    Go(Role, &'static [UpgradeStep]),
}

pub fn plan(facts: &Facts, request: UpgradeRequest) -> UpgradePlan {
    let candidate = &facts.candidate;
    let version = candidate.version.as_ref().and_then(|version| version.as_ref().ok());
    let version = version.or(candidate.asked.as_ref());
    // For a k3s that does not work the same version is not enough to conclude that there is nothing to do.
    let works = facts.unit.is_some_and(|unit| unit.active) && !matches!(facts.ready, Some(Err(_)));
    if let (Ok(installed), Some(version)) = (&facts.installed, version)
        && installed == version
        && (works || request == UpgradeRequest::RollBack)
    {
        return UpgradePlan::Nothing(version.clone());
    }
    let mut refusals: Vec<_> = facts.may_not_write.iter().cloned().collect();
    let mut refuse = |what: String, remedy: &str| refusals.push(UpgradeRefusal::new(what, remedy));
    of_the_node(facts, request, &mut refuse);
    of_the_program(candidate, &mut refuse);
    if let (Ok(installed), Some(version)) = (&facts.installed, version) {
        of_versions(installed, version, facts.server.as_ref(), request, &mut refuse);
    }
    if let Some(size) = candidate.size {
        of_free_space(size, facts.free_space, &mut refuse);
    }
    match facts.unit {
        Some(unit) if refusals.is_empty() => UpgradePlan::Go(unit.role, &FORWARD),
        _ => UpgradePlan::Refused(refusals),
    }
}

fn of_the_node(facts: &Facts, request: UpgradeRequest, refuse: &mut impl FnMut(String, &str)) {
    if let Some(why) = &facts.held_back {
        refuse(
            format!("once stopped, k3s would not start again: {why}"),
            "`sudo weaver doctor` says what to do",
        );
    }
    let Some(unit) = facts.unit else {
        let what = "neither k3s.service nor k3s-agent.service runs or is enabled".to_owned();
        return refuse(what, "`sudo systemctl enable --now` the one for this node's role");
    };
    // Before a rollback k3s may not work.
    if request == UpgradeRequest::RollBack {
        return;
    }
    if !unit.active {
        let what = format!("{} does not run, so nothing could be verified afterwards", unit.role.unit());
        refuse(what, "`sudo weaver doctor` says why, or `sudo weaver node rollback`");
    } else if let Some(Err(why)) = &facts.ready {
        let what =
            format!("its API server is not ready now, so nothing could be verified afterwards ({why})");
        refuse(what, "`sudo weaver doctor` says why, or `sudo weaver node rollback`");
    }
    if let Err(why) = &facts.installed {
        let what = format!("the installed k3s does not report its version ({why})");
        refuse(what, "`sudo weaver node rollback`, or reinstall k3s");
    }
}

fn of_the_program(candidate: &UpgradeCandidate, refuse: &mut impl FnMut(String, &str)) {
    let shown = &candidate.shown;
    if let Some(Err(why)) = &candidate.kind {
        refuse(format!("{shown}: {why}"), "pass the k3s program for this machine");
    }
    match &candidate.hash {
        Hash::Unknown | Hash::Right => {}
        Hash::Missing { list } => {
            let remedy = format!("put the release's {list} next to it, or pass the hash with --sha256 HEX");
            refuse(format!("the expected SHA-256 of {shown} is unknown"), &remedy);
        }
        Hash::Wrong { wanted, found } => {
            let what = format!("{shown} has SHA-256 {found} and should have {wanted}");
            refuse(what, "do not use it; fetch it again");
        }
    }
    match (&candidate.version, &candidate.asked) {
        (Some(Err(why)), _) => refuse(format!("{shown} is not accepted as k3s: {why}"), "name k3s itself"),
        (Some(Ok(found)), Some(asked)) if found != asked => {
            refuse(format!("{shown} reports that it is {found}"), "do not use it; fetch it again");
        }
        _ => {}
    }
}

fn of_versions(
    installed: &Version,
    version: &Version,
    server: Option<&Version>,
    request: UpgradeRequest,
    refuse: &mut impl FnMut(String, &str),
) {
    match version.after(installed) {
        Err(Skew::Down) => {
            let what = format!(
                "from {installed} down to {version}: the older one may not read the present database"
            );
            let remedy = match request {
                UpgradeRequest::Upgrade => "take a version of the same minor version, or a newer one",
                UpgradeRequest::RollBack => {
                    "restore the database of the older version, and install it by hand"
                }
            };
            refuse(what, remedy);
        }
        Err(Skew::TooFar { next }) => {
            let what = format!("from {installed} to {version} is more than one minor version");
            refuse(what, &format!("upgrade to {next} first"));
        }
        Ok(()) | Err(Skew::AheadOfServer) => {}
    }
    if let Some(server) = server
        && version.under(server).is_err()
    {
        refuse(
            format!("{version} is newer than the server, which runs {server}"),
            "upgrade the server first",
        );
    }
}

fn of_free_space(size: u64, free_space: FreeSpace, refuse: &mut impl FnMut(String, &str)) {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let unpacked = size.saturating_mul(UNPACKED);
    let next_to = if free_space.shared { size.saturating_add(unpacked) } else { size };
    let data = free_space.data.filter(|_| !free_space.shared);
    for (location, free, needed) in
        [("next to k3s", free_space.program, next_to), ("for k3s' data", data, unpacked)]
    {
        let needed = mib(needed).saturating_add(MARGIN);
        if let Some(free) = free.map(|free| free >> 20)
            && free < needed
        {
            let what = format!("{free} MiB are free {location}, and {needed} are needed");
            refuse(what, "`sudo du -xh / | sort -h | tail -n 20` shows what fills it");
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
