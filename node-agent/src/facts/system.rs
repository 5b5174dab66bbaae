//! Measures this machine: memory, load, temperature, disks, and since when it runs.
//!
//! Nothing is kept between two measurements, and only what is shown is read: the agent must stay small.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use sysinfo::{Component, Components, MemoryRefreshKind, System};
use weaver_api::v1beta1::{NodeDisk, NodeMemory, NodeSystem};

use super::storage::{existing, space};
use crate::host_root::HostRoot;

/// Unrounded; `None` for a directory that replaces a root.
pub(crate) fn measured(root: &HostRoot, data_dir: &Path) -> Option<NodeSystem> {
    let root = root.host()?;
    Some(NodeSystem {
        boot_time: boot_time(),
        memory: memory(),
        load_percent: System::load_average().ok().map(|load| whole(load.fifteen * 100.0)),
        temperature_celsius: temperature(),
        disks: disks(root, data_dir),
    })
}

/// Seconds since the boot.
pub(crate) fn uptime(root: &HostRoot) -> Option<i64> {
    // They come first.
    root.read_if_possible("/proc/uptime")?.text.split(['.', ' ']).next()?.parse().ok()
}

fn boot_time() -> Option<String> {
    let second = i64::try_from(System::boot_time().ok()?).ok()?;
    Some(Timestamp::from_second(second).ok()?.to_string())
}

fn memory() -> Option<NodeMemory> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let memory =
        NodeMemory { total_mib: mib(system.total_memory()), available_mib: mib(system.available_memory()) };
    (memory.total_mib > 0).then_some(memory)
}

/// The temperature of the hottest sensor.
fn temperature() -> Option<i64> {
    let sensors = Components::new_with_refreshed_list().ok()?;
    let degrees = sensors.iter().filter_map(Component::temperature);
    degrees.filter(|degrees| degrees.is_finite()).map(|degrees| whole(degrees.into())).max()
}

/// The root, and the data where it is on another file system.
fn disks(root: &Path, data_dir: &Path) -> Vec<NodeDisk> {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let data = existing(data_dir).filter(|path| device(path) != device(root));
    let disk = |path: &Path| {
        let (size, free) = space(path)?;
        Some(NodeDisk { path: path.display().to_string(), size_mib: mib(size), free_mib: mib(free) })
    };
    [Some(root), data].into_iter().flatten().filter_map(disk).collect()
}

fn mib(bytes: u64) -> i64 {
    i64::try_from(bytes >> 20).unwrap_or(i64::MAX)
}

#[allow(clippy::cast_possible_truncation, reason = "a conversion with `as` saturates")]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn this_machine_and_no_fixture() {
        let here = measured(&HostRoot::new("/".into()), Path::new("/proc/none/k3s")).unwrap();
        let memory = here.memory.unwrap();
        assert!(memory.total_mib > 100 && memory.available_mib <= memory.total_mib, "{memory:?}");
        assert!(here.boot_time.unwrap().parse::<Timestamp>().unwrap() < Timestamp::now());
        assert!(here.load_percent.unwrap() >= 0);
        assert!(here.temperature_celsius.is_none_or(|degrees| (-50..200).contains(&degrees)));
        assert_eq!(here.disks[0].path, "/");
        assert!(
            here.disks[0].size_mib >= here.disks[0].free_mib && here.disks.len() == 2,
            "/proc is another one"
        );
        let (_dir, root) = host(&[]);
        assert_eq!(measured(&root, Path::new("/")), None);
    }
}
