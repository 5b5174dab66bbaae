//! Archives of container images on the boot partition, which k3s imports when it starts.
//!
//! k3s imports each archive of `agent/images` in its data directory, and reads it there at every start; an image counts
//! as in use, so that the kubelet does not delete it, as long as its archive is there
//! (<https://docs.k3s.io/add-ons/import-images>). It gets links to the files on the boot partition: a copy would need
//! the space twice on one card, and be written while the boot waits.
//!
//! Guarantees: what is in that directory and no link of ours stays; an archive with a fault keeps no other from being
//! imported.

use std::path::Path;

use crate::finding::{Code, Finding, Place, Remedy};
use crate::image_archive::{ArchiveFault, Packing};

/// The directory next to `weaver.toml`.
pub const DIRECTORY: &str = "images";
/// Below k3s' data directory, where it imports from.
pub const OF_K3S: &str = "agent/images";

/// How the links are called, so that none is a file of the owner's.
const PREFIX: &str = "weaver-card-";
/// Ends of what lies next to an archive that was downloaded.
const COMPANIONS: [&str; 5] = [".asc", ".json", ".sha256", ".sig", ".txt"];

/// An archive of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveOnCard {
    pub name: String,
    /// In bytes.
    pub size: u64,
    pub fault: Option<ArchiveFault>,
}

/// A symbolic link as it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its path on the host.
    pub path: String,
    /// The path that it leads to.
    pub target: String,
}

/// What follows from the archives on the card.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CardImages {
    pub links: Vec<Link>,
    /// Links of ours whose archive is gone, or is not imported.
    pub removed: Vec<String>,
    pub findings: Vec<Finding>,
}

/// Whether a file is an archive, or was meant as one.
pub fn is_meant(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_archive = Packing::by_name(name).is_ok() || lower.contains(".tar.");
    is_archive && !name.starts_with('.') && !COMPANIONS.iter().any(|end| lower.ends_with(end))
}

/// `into` is k3s' directory, `made` the names of our links in it, `free` the bytes of its disk, where known.
pub fn plan(
    directory: &Path,
    on_card: &[ArchiveOnCard],
    into: &Path,
    made: &[String],
    free: Option<u64>,
) -> CardImages {
    let mut plan = CardImages::default();
    let (mut free, mut wanted) = (free, Vec::new());
    for ArchiveOnCard { name, size, fault } in on_card {
        let path = directory.join(name).display().to_string();
        if let Some(ArchiveFault { why, remedy }) = fault {
            plan.findings.push(refused(&path, why, Remedy::new(remedy.as_str())));
            continue;
        }
        // k3s knows extensions in lower case only.
        let link = format!("{PREFIX}{}", name.to_ascii_lowercase());
        // An archive that was there before is imported already, which took its space.
        if !made.contains(&link)
            && let Some(left) = free
        {
            if *size > left {
                plan.findings.push(too_large(&path, *size, left, into));
                continue;
            }
            free = Some(left - size);
        }
        plan.links.push(Link { path: into.join(&link).display().to_string(), target: path });
        wanted.push(link);
    }
    let gone = made.iter().filter(|name| !wanted.contains(name));
    plan.removed = gone.map(|name| into.join(name).display().to_string()).collect();
    plan
}

/// Whether a link of k3s' directory is ours: its name, and where it leads.
pub fn is_ours(name: &str, target: &Path, directory: &Path) -> bool {
    name.starts_with(PREFIX) && target.parent() == Some(directory)
}

/// That there are so many files that none is looked at.
pub fn too_many(directory: &Path, most: usize) -> Finding {
    let path = directory.display().to_string();
    refused(
        &path,
        &format!("more than {most} files are in it"),
        Remedy::new("save several images into one archive"),
    )
}

/// The least that it takes: k3s keeps the layers as they are in the archive, and unpacks them.
fn too_large(path: &str, size: u64, free: u64, into: &Path) -> Finding {
    let (needs, free) = (size.div_ceil(1 << 20), free >> 20);
    let why =
        format!("it needs more than {needs} MiB, and the disk of {} has {free} MiB free", into.display());
    let remedy = "delete images that no pod uses, or move the data of k3s to a larger disk";
    refused(path, &why, Remedy::new(remedy).command("sudo k3s crictl rmi --prune"))
}

fn refused(path: &str, why: &str, remedy: Remedy) -> Finding {
    let place = Place::file(path);
    Finding::new(Code::CardImageRefused, format!("{place}: {why}; it is not imported"))
        .saw(place, why)
        .remedy(remedy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CARD: &str = "/boot/firmware/images";
    const K3S: &str = "/data/agent/images";

    fn archive(name: &str, mib: u64, fault: Option<&str>) -> ArchiveOnCard {
        let fault = fault.map(|why| ArchiveFault::new(why, "copy it again"));
        ArchiveOnCard { name: name.to_owned(), size: mib << 20, fault }
    }

    /// Links as `NAME -> TARGET`, what is removed, what is said.
    fn planned(on_card: &[ArchiveOnCard], made: &[&str], free: Option<u64>) -> [Vec<String>; 3] {
        let made: Vec<_> = made.iter().map(|&name| name.to_owned()).collect();
        let free = free.map(|mib| mib << 20);
        let CardImages { links, removed, findings } =
            plan(Path::new(CARD), on_card, Path::new(K3S), &made, free);
        let links = links.into_iter().map(|link| format!("{} -> {}", link.path, link.target));
        [links.collect(), removed, findings.into_iter().map(|finding| finding.message).collect()]
    }

    #[test]
    fn each_archive_is_linked_and_a_bad_one_is_named() {
        let on_card = [archive("App.TAR", 1, None), archive("b.tar", 1, Some("it is empty"))];
        let [links, removed, said] = planned(&on_card, &["weaver-card-b.tar"], None);
        assert_eq!(links, ["/data/agent/images/weaver-card-app.tar -> /boot/firmware/images/App.TAR"]);
        assert_eq!(removed, ["/data/agent/images/weaver-card-b.tar"]);
        assert_eq!(said, ["/boot/firmware/images/b.tar: it is empty; it is not imported"]);
    }

    #[test]
    fn a_link_whose_archive_is_gone_is_removed() {
        let [links, removed, said] = planned(&[], &["weaver-card-app.tar"], Some(0));
        assert_eq!((links.len(), said.len()), (0, 0));
        assert_eq!(removed, ["/data/agent/images/weaver-card-app.tar"]);
    }

    #[test]
    fn new_archives_need_space_and_those_that_were_imported_do_not() {
        let on_card = [archive("a.tar", 60, None), archive("b.tar", 60, None), archive("c.tar", 30, None)];
        let [links, _, said] = planned(&on_card, &[], Some(100));
        assert_eq!(links.len(), 2);
        let want =
            "b.tar: it needs more than 60 MiB, and the disk of /data/agent/images has 40 MiB free; it is not";
        assert!(said.len() == 1 && said[0].contains(want), "{said:?}");
        let [links, _, said] = planned(&on_card, &["weaver-card-b.tar"], Some(100));
        assert_eq!((links.len(), said), (3, vec![]));
        assert_eq!(planned(&on_card, &[], None)[0].len(), 3);
    }

    #[test]
    fn what_is_looked_at_and_what_is_ours() {
        for name in ["a.tar", "a.TAR.GZ", "a.tgz", "a.tar.xz", "a.tar.zst", "a.tar.zst.part"] {
            assert!(is_meant(name), "{name}");
        }
        for name in ["readme.txt", "._a.tar", "a.tar.zst.sha256", "a.tar.gz.asc", "a.zip", "tar"] {
            assert!(!is_meant(name), "{name}");
        }
        let ours = |name: &str, target: &str| is_ours(name, Path::new(target), Path::new(CARD));
        assert!(ours("weaver-card-a.tar", "/boot/firmware/images/a.tar"));
        assert!(!ours("a.tar", "/boot/firmware/images/a.tar"));
        assert!(!ours("weaver-card-a.tar", "/home/ada/a.tar"));
    }

    proptest! {
        #[test]
        fn every_archive_is_linked_or_named_and_no_more_space_is_given_than_there_is(
            sizes in proptest::collection::vec((0_u64..200, any::<bool>()), 0..8), free in 0_u64..400,
        ) {
            let on_card: Vec<_> = (0..).zip(&sizes)
                .map(|(at, (size, is_bad))| archive(&format!("{at}.tar"), *size, is_bad.then_some("bad")))
                .collect();
            let [links, removed, said] = planned(&on_card, &[], Some(free));
            prop_assert_eq!(links.len() + said.len(), on_card.len());
            prop_assert!(removed.is_empty());
            let is_linked = |one: &&ArchiveOnCard| links.iter().any(|link| link.ends_with(&format!("/{}", one.name)));
            let used: u64 = on_card.iter().filter(is_linked).map(|one| one.size >> 20).sum();
            prop_assert!(used <= free);
        }
    }
}
