//! Room on the root file system, where k3s keeps its images and its data. Reader
//! and verdict; what cannot be asked is not judged, and neither is a fixture's.

use nix::sys::statvfs::statvfs;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};

use crate::host_root::HostRoot;

/// MiB. k3s with its images takes some 3 GiB; a card of 8 GB has about 7,000 for the root.
const LEAST_SIZE: u64 = 6000;
/// Percent. Below it k3s has the kubelet evict containers (`--eviction-hard` in k3s' `agent_linux.go`).
const LEAST_FREE: u64 = 5;

/// A warning where the root is known to be small or full.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    let told = statvfs(root.host()?).ok()?;
    let mib = |blocks: u64| blocks.saturating_mul(told.fragment_size()) >> 20;
    judge(mib(told.blocks()), mib(told.blocks_available()))
}

fn judge(size: u64, free: u64) -> Option<Finding> {
    let (code, message, remedy) = if size < LEAST_SIZE {
        let message =
            format!("the root file system has {size} MiB, k3s with its containers wants {LEAST_SIZE}");
        let remedy = Remedy::new("write the image to a card of 8 GB or more");
        (Code::CardTooSmall, message, remedy)
    } else if free.saturating_mul(100) < size.saturating_mul(LEAST_FREE) {
        // What is free is no part of the message: each change would be news, and news are written to the card.
        let message =
            format!("less than {LEAST_FREE} % of the root file system are free: k3s evicts containers");
        let remedy = Remedy::new("see what fills it, and remove what is not needed:")
            .command("sudo du -xh / | sort -h | tail -n 20");
        (Code::DiskPressure, message, remedy)
    } else {
        return None;
    };
    let saw = format!("{free} MiB of {size} are free");
    // k3s runs, and does what it can.
    Some(Finding::new(code, message).milder(Severity::Warn).saw(Place::file("/"), saw).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (size, free, code) in [
            (3500, 900, Some(Code::CardTooSmall)),
            (3500, 0, Some(Code::CardTooSmall)),
            (0, 0, Some(Code::CardTooSmall)),
            (LEAST_SIZE - 1, 5000, Some(Code::CardTooSmall)),
            (LEAST_SIZE, 300, None),
            (LEAST_SIZE, 299, Some(Code::DiskPressure)),
            (29_000, 1449, Some(Code::DiskPressure)),
            (29_000, 1450, None),
            (u64::MAX, u64::MAX, None),
            (29_000, 26_000, None),
        ] {
            let found = judge(size, free);
            assert_eq!(found.as_ref().map(|f| f.code), code, "{size} {free}");
            assert!(found.is_none_or(|f| f.severity() == Severity::Warn && f.remedy.is_some()));
        }
        let small = judge(3500, 900).unwrap();
        assert!(small.message.contains("3500 MiB") && small.message.contains("6000"), "{small:?}");
        assert_eq!(small.evidence[0].to_string(), "/: 900 MiB of 3500 are free");
        assert_eq!(judge(29_000, 1).unwrap().message, judge(29_000, 2).unwrap().message, "no news");
    }

    #[test]
    fn a_fixture_is_not_judged_by_the_disk_that_it_lies_on() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(finding(&HostRoot::new(dir.path().to_owned())), None);
    }
}
