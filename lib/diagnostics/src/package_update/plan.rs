//! Which packages are replaced by which versions, and the reasons against it.

use std::cmp::Ordering;

use super::PACKAGES;
use super::apt::AptPackage;
use super::dpkg::InstalledPackage;
use super::version::compare;
pub use crate::k3s_upgrade::plan::UpgradeRefusal;

/// How many times what the packages take: the kept ones, the new ones, and these unpacked next to the old.
const SPACE_FACTOR: u64 = 3;
/// KiB that are left free besides.
const MARGIN: u64 = 64 * 1024;
/// Where a version that was kept here comes from.
pub const KEPT: &str = "kept on this host by the last update";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct PackageVersion {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateFacts {
    /// Reasons against it whatever is installed.
    pub refusals: Vec<UpgradeRefusal>,
    pub installed: Vec<InstalledPackage>,
    pub known: Vec<AptPackage>,
    /// What an earlier update kept.
    pub kept: Vec<PackageVersion>,
    /// The version that was asked for.
    pub asked: Option<String>,
    /// The machine's, in Debian's words.
    pub architecture: String,
    /// KiB that are free where the packages go.
    pub free: Option<u64>,
}

/// A package that is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageChange {
    pub name: String,
    pub from: String,
    pub to: String,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdatePlan {
    /// All of them, to one version.
    Go(Vec<PackageChange>),
    /// They have this version, and no source has a newer one.
    Nothing {
        version: String,
        source: Option<String>,
    },
    Refused(Vec<UpgradeRefusal>),
}

pub fn plan(facts: &UpdateFacts) -> UpdatePlan {
    let mut refusals = facts.refusals.clone();
    let ours: Vec<_> = PACKAGES.iter().filter_map(|name| facts.installed(name)).collect();
    let Some(first) = ours.first() else {
        refusals.push(UpgradeRefusal::new(
            "no package of Config Weaver is installed here",
            "install them with `sudo apt install ./config-weaver_VERSION_ARCH.deb ./weaver_VERSION_ARCH.deb`",
        ));
        return UpdatePlan::Refused(refusals);
    };
    if let Some(broken) = ours.iter().find(|package| !package.is_whole) {
        let what = format!(
            "the package {} is only partly installed: an installation was interrupted or failed",
            broken.name
        );
        refusals.push(UpgradeRefusal::new(what, "sudo dpkg --configure -a"));
    }
    let main = facts.known.iter().find(|known| known.name == first.name);
    let newest = main.and_then(|known| known.candidate.as_deref());
    let Some(target) = facts.asked.as_deref().or(newest) else {
        refusals.push(no_source(facts));
        return UpdatePlan::Refused(refusals);
    };
    let changes: Vec<_> = ours.iter().filter(|package| package.version != target).collect();
    if changes.is_empty() {
        let source = main.and_then(|known| known.source_of(target)).map(str::to_owned);
        return match (source, facts.asked.as_ref()) {
            (None, None) => UpdatePlan::Refused(with(refusals, no_source(facts))),
            (source, _) if refusals.is_empty() => UpdatePlan::Nothing { version: target.to_owned(), source },
            _ => UpdatePlan::Refused(refusals),
        };
    }
    if facts.asked.is_none()
        && changes.iter().any(|package| compare(target, &package.version) == Ordering::Less)
    {
        let what = format!("apt prefers {target}, which is older than what is installed");
        let remedy = format!(
            "a pin in /etc/apt/preferences.d says so; `sudo weaver node update --to {target}` installs it"
        );
        refusals.push(UpgradeRefusal::new(what, remedy));
    }
    let needed = ours.iter().map(|package| package.kib).sum::<u64>() * SPACE_FACTOR + MARGIN;
    if let Some(free) = facts.free.filter(|free| *free < needed) {
        let what =
            format!("{} MiB are free below /var/lib/weaver, and {} are needed", free / 1024, needed / 1024);
        refusals.push(UpgradeRefusal::new(
            what,
            "sudo apt-get clean, or see what takes it: sudo du -xh / | sort -h | tail",
        ));
    }
    let mut planned = Vec::new();
    for package in changes {
        match facts.source(&package.name, target) {
            Some(source) => planned.push(PackageChange {
                name: package.name.clone(),
                from: package.version.clone(),
                to: target.to_owned(),
                source,
            }),
            None => refusals.push(facts.absent(&package.name, target)),
        }
    }
    if refusals.is_empty() { UpdatePlan::Go(planned) } else { UpdatePlan::Refused(refusals) }
}

/// Whether the packages kept by an earlier update are enough for the requested version, whatever the sources have.
pub fn needs_no_source(facts: &UpdateFacts) -> bool {
    let Some(asked) = facts.asked.as_deref() else { return false };
    let is_there =
        |package: &&InstalledPackage| package.version == asked || facts.is_kept(&package.name, asked);
    let mut ours = PACKAGES.iter().filter_map(|name| facts.installed(name)).peekable();
    ours.peek().is_some() && ours.all(|package| is_there(&package))
}

/// Whether one of these becomes older.
pub fn is_downgrade(changes: &[PackageChange]) -> bool {
    changes.iter().any(|change| compare(&change.to, &change.from) == Ordering::Less)
}

/// Why the definitions stand against it: `lost` is what one release stores and the other does not know.
pub fn stored_refusal(changes: &[PackageChange], lost: &[String]) -> Option<UpgradeRefusal> {
    let change = changes.first().filter(|_| !lost.is_empty())?;
    let (from, to, stored) = (&change.from, &change.to, lost.join(", "));
    Some(if is_downgrade(changes) {
        UpgradeRefusal::new(
            format!("{from} stores {stored}, which {to} does not know"),
            format!(
                "what it stored stays unreadable for {to}: restore a backup of the cluster from before {from} was \
                 installed, or export the objects, `weaver uninstall`, install {to} with apt, and create them again"
            ),
        )
    } else {
        UpgradeRefusal::new(
            format!(
                "{to} stores {stored}, which {from} does not know: after that there is no way back to {from}"
            ),
            "make a backup with `sudo weaver node backup DIR`, then add --one-way",
        )
    })
}

impl UpdateFacts {
    fn installed(&self, name: &str) -> Option<&InstalledPackage> {
        self.installed.iter().find(|package| package.name == name)
    }

    fn source(&self, name: &str, version: &str) -> Option<String> {
        let known = self.known.iter().find(|known| known.name == name);
        let offered = known.and_then(|known| known.source_of(version)).map(str::to_owned);
        offered.or_else(|| self.is_kept(name, version).then(|| KEPT.to_owned()))
    }

    fn is_kept(&self, name: &str, version: &str) -> bool {
        self.kept.iter().any(|kept| kept.name == name && kept.version == version)
    }

    /// A version that no source has for this package.
    fn absent(&self, name: &str, version: &str) -> UpgradeRefusal {
        let known = self.known.iter().find(|known| known.name == name);
        let mut there: Vec<_> = known.into_iter().flat_map(AptPackage::versions).collect();
        let kept = self.kept.iter().filter(|kept| kept.name == name);
        there.extend(kept.map(|kept| kept.version.as_str()));
        let what = format!("no source has {name} {version} for {}", self.architecture);
        if there.is_empty() {
            return UpgradeRefusal::new(
                what,
                "the source is incomplete: have its owner run `make deb apt` again",
            );
        }
        there.sort_by(|a, b| compare(b, a));
        UpgradeRefusal::new(what, format!("there is {}", there.join(", ")))
    }
}

fn no_source(facts: &UpdateFacts) -> UpgradeRefusal {
    let what = format!("no apt source has a package of Config Weaver for {}", facts.architecture);
    UpgradeRefusal::new(
        what,
        "name one: on a card in section [update] of weaver.toml, elsewhere in \
        /etc/apt/sources.list.d/config-weaver.sources",
    )
}

fn with(mut refusals: Vec<UpgradeRefusal>, last: UpgradeRefusal) -> Vec<UpgradeRefusal> {
    refusals.push(last);
    refusals
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
