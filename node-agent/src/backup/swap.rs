//! Moves the restored files to their targets, and keeps the old ones.
//!
//! Guarantees: called again after an interruption at any moment, it ends in the same state; the files that were there
//! first are the kept ones. Failure: names the file; it can be called again.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use weaver_diagnostics::node_backup::record::{PathReturn, PathSwap, RestoreRecord};
use weaver_host::durable_file::{self, flush_directory_of, found, if_there};

use crate::boot_config::settings_file::is_mounted;
use crate::fat_file;
use crate::host_root::HostRoot;

/// Called before each change; a test cuts the power there.
pub type Cut<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// Moves everything to its target.
///
/// # Errors
/// A step failed.
pub fn all(root: &HostRoot, record: &RestoreRecord, cut: Cut<'_>) -> anyhow::Result<()> {
    for swap in &record.swaps {
        let done = if swap.is_on_fat { onto_fat(root, swap, cut) } else { rename(root, swap, cut) };
        done.with_context(|| format!("cannot put {} in its place", swap.target))?;
    }
    for volume in &record.returns {
        let done = put_back(root, volume, cut);
        done.with_context(|| format!("cannot put {} back", volume.target))?;
    }
    for stale in &record.stale {
        cut()?;
        let removed = remove(&root.real(stale));
        removed.with_context(|| format!("cannot remove {stale}"))?;
    }
    Ok(())
}

fn rename(root: &HostRoot, swap: &PathSwap, cut: Cut<'_>) -> io::Result<()> {
    let [target, restored, kept] = [&swap.target, &swap.restored, &swap.kept].map(|path| root.real(path));
    if !is_there(&restored)? {
        // It was moved already, unless the disk of both is not mounted.
        return fs::symlink_metadata(&target).map(drop);
    }
    if is_there(&target)? {
        cut()?;
        if is_there(&kept)? {
            // A cut came between the two renames, and a process has made it again since.
            remove(&target)?;
        } else {
            fs::rename(&target, &kept)?;
        }
        flush_directory_of(&target)?;
    }
    cut()?;
    fs::rename(&restored, &target)?;
    flush_directory_of(&target)
}

/// Nothing is moved onto what the backup, or a process, has put there.
fn put_back(root: &HostRoot, volume: &PathReturn, cut: Cut<'_>) -> io::Result<()> {
    let [target, kept] = [&volume.target, &volume.kept].map(|path| root.real(path));
    if is_there(&kept)? && !is_there(&target)? {
        cut()?;
        fs::rename(&kept, &target)?;
        flush_directory_of(&target)?;
        flush_directory_of(&kept)?;
    }
    Ok(())
}

fn onto_fat(root: &HostRoot, swap: &PathSwap, cut: Cut<'_>) -> io::Result<()> {
    let [target, restored, kept] = [&swap.target, &swap.restored, &swap.kept].map(|path| root.real(path));
    let Some(content) = found(fs::read(&restored))? else { return Ok(()) };
    let directory = Path::new(&swap.target).parent().unwrap_or(Path::new("/"));
    if is_mounted(root, directory).map_err(io::Error::other)? == Some(false) {
        return Err(io::Error::other(format!("{} is not mounted", directory.display())));
    }
    let source = |error: durable_file::WriteError| error.source;
    if !is_there(&kept)?
        && let Some(present) = found(fs::read(&target))?
    {
        cut()?;
        durable_file::replace(&kept, &present, 0o600).map_err(source)?;
    }
    cut()?;
    let mode = fs::metadata(&target).map_or(0o644, |metadata| metadata.permissions().mode() & 0o7777);
    fat_file::replace(&target, &content, mode).map_err(source)?;
    cut()?;
    fs::remove_file(&restored)?;
    flush_directory_of(&restored)
}

/// A link counts whatever its target. Only a path that does not exist is not there: of one that a disk cannot read
/// nothing is known.
fn is_there(path: &Path) -> io::Result<bool> {
    Ok(found(fs::symlink_metadata(path))?.is_some())
}

/// Removes a file or a directory, if there is one.
pub fn remove(path: &Path) -> io::Result<()> {
    if_there(match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::node_backup::record::RestorePhase;

    use super::*;

    const OLD: &str = "old";
    const NEW: &str = "new";

    struct Scene {
        _dir: tempfile::TempDir,
        root: HostRoot,
        record: RestoreRecord,
    }

    impl Scene {
        /// A directory, a file, a file that was not there before, and one on the boot partition.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = HostRoot::new(dir.path().to_owned());
            let swap = |target: &str, is_on_fat| PathSwap {
                target: target.to_owned(),
                restored: format!("/state{target}.restored"),
                kept: format!("/state{target}.before-restore"),
                is_on_fat,
            };
            let swaps = vec![
                swap("/server", false),
                swap("/file", false),
                swap("/fresh", false),
                swap("/toml", true),
            ];
            for directory in ["/state/server.restored", "/server/volume"] {
                fs::create_dir_all(root.real(directory)).unwrap();
            }
            for (path, text) in [
                ("/server/db", OLD),
                ("/server/volume/data", OLD),
                ("/file", OLD),
                ("/toml", OLD),
                ("/state/server.restored/db", NEW),
                ("/state/file.restored", NEW),
                ("/state/fresh.restored", NEW),
                ("/state/toml.restored", NEW),
                ("/stale", OLD),
            ] {
                fs::write(root.real(path), text).unwrap();
            }
            let record = RestoreRecord {
                begun: String::new(),
                node: String::new(),
                made: String::new(),
                swaps,
                returns: vec![PathReturn {
                    target: "/server/volume".to_owned(),
                    kept: "/state/server.before-restore/volume".to_owned(),
                }],
                stale: vec!["/stale".to_owned()],
                boot: String::new(),
                phase: RestorePhase::Swap,
            };
            Self { _dir: dir, root, record }
        }

        fn read(&self, path: &str) -> Option<String> {
            fs::read_to_string(self.root.real(path)).ok()
        }

        #[track_caller]
        fn is_new(&self, cut_at: usize) {
            for path in ["/server/db", "/file", "/fresh", "/toml"] {
                assert_eq!(self.read(path).as_deref(), Some(NEW), "{path} {cut_at}");
            }
            for path in ["server.before-restore/db", "file.before-restore", "toml.before-restore"] {
                assert_eq!(self.read(&format!("/state/{path}")).as_deref(), Some(OLD), "{path} {cut_at}");
            }
            assert_eq!(self.read("/server/volume/data").as_deref(), Some(OLD), "{cut_at}");
            assert_eq!(self.read("/stale"), None);
            let left = fs::read_dir(self.root.real("/state")).unwrap().count();
            assert_eq!(left, 3, "{cut_at}");
        }
    }

    #[test]
    fn cut_at_each_step_it_ends_in_the_same_state() {
        let mut cuts = 0;
        for cut_at in 0.. {
            let scene = Scene::new();
            let mut step = 0;
            let mut cut = || {
                step += 1;
                if step == cut_at + 1 { Err(io::Error::other("power")) } else { Ok(()) }
            };
            let done = all(&scene.root, &scene.record, &mut cut);
            if done.is_ok() {
                scene.is_new(cut_at);
                break;
            }
            cuts += 1;
            all(&scene.root, &scene.record, &mut || Ok(())).unwrap();
            scene.is_new(cut_at);
            // And again, where only the note of its end was lost.
            all(&scene.root, &scene.record, &mut || Ok(())).unwrap();
            scene.is_new(cut_at);
        }
        assert_eq!(cuts, 10);
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_what_is_not_there() {
        // Under these names there is something, but no file that can be read.
        for target in ["/toml", "/file"] {
            for is_restored in [true, false] {
                let mut scene = Scene::new();
                let swap = scene.record.swaps.iter_mut().find(|swap| swap.target == target).unwrap();
                let path = if is_restored { &mut swap.restored } else { &mut swap.kept };
                *path = "/stale/below-a-file".to_owned();
                let error = all(&scene.root, &scene.record, &mut || Ok(())).unwrap_err();
                let error = format!("{error:#}");
                assert!(error.starts_with(&format!("cannot put {target} in its place")), "{error}");
                assert_eq!(scene.read(target).as_deref(), Some(OLD));
            }
        }
    }

    #[test]
    fn a_volume_that_the_backup_has_all_the_same_is_the_restored_one() {
        let scene = Scene::new();
        fs::create_dir(scene.root.real("/state/server.restored/volume")).unwrap();
        fs::write(scene.root.real("/state/server.restored/volume/data"), NEW).unwrap();
        all(&scene.root, &scene.record, &mut || Ok(())).unwrap();
        assert_eq!(scene.read("/server/volume/data").as_deref(), Some(NEW));
        assert_eq!(scene.read("/state/server.before-restore/volume/data").as_deref(), Some(OLD));
    }

    #[test]
    fn what_was_made_between_the_two_renames_is_not_what_is_kept() {
        let scene = Scene::new();
        let mut step = 0;
        let mut cut = || {
            step += 1;
            if step == 2 { Err(io::Error::other("power")) } else { Ok(()) }
        };
        all(&scene.root, &scene.record, &mut cut).unwrap_err();
        // A k3s that was started by hand.
        fs::create_dir(scene.root.real("/server")).unwrap();
        fs::write(scene.root.real("/server/db"), "made meanwhile").unwrap();
        all(&scene.root, &scene.record, &mut || Ok(())).unwrap();
        scene.is_new(2);
    }
}
