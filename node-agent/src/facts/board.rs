//! Reads the board's memory, its clock, its power and its heat.
//!
//! The power: the flags of the firmware on Raspberry Pi's kernels, the alarm of the voltage where that driver is built.

use jiff::Timestamp;
use procfs_core::{FromBufRead as _, Meminfo};
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::host::board::{BoardMemory, Clock, MEMINFO};
use weaver_diagnostics::power::Power;

use crate::host_root::HostRoot;

const PLATFORM: &str = "/sys/devices/platform";
const HWMON: &str = "/sys/class/hwmon";
const HEAT: &str = "/sys/class/thermal/thermal_zone0/temp";

/// The memory that the kernel has.
pub(crate) fn memory(root: &HostRoot) -> Option<BoardMemory> {
    let text = root.read_if_possible(MEMINFO)?.text;
    Some(BoardMemory { total: Meminfo::from_buf_read(text.as_bytes()).ok()?.mem_total })
}

/// The state of the clock at this moment.
pub(crate) fn clock(now: Timestamp) -> Clock {
    let second = now.as_second();
    Clock { second, date: Timestamp::from_second(second).unwrap_or(now).to_string() }
}

/// What can be read of the power; `None` on what is no Raspberry Pi.
pub(crate) fn power(root: &HostRoot) -> Option<Power> {
    is_pi(root).then(|| flags(root).or_else(|| alarm(root)).unwrap_or(Power::NoReader))
}

/// The processor's temperature on a Raspberry Pi, in thousandths of a degree Celsius.
pub(crate) fn heat(root: &HostRoot) -> Option<(Place, i64)> {
    let text = root.read_if_possible(HEAT).filter(|_| is_pi(root))?.text;
    Some((Place::file(HEAT), text.trim().parse().ok()?))
}

fn is_pi(root: &HostRoot) -> bool {
    root.device_model().is_some_and(|model| model.starts_with("Raspberry Pi"))
}

/// `soc/soc:firmware/get_throttled`, whose names differ from board to board: hexadecimal, without `0x`.
fn flags(root: &HostRoot) -> Option<Power> {
    let below = |dir: &str, has: &str| -> Vec<String> {
        let names = root.list(dir).unwrap_or_default();
        names.iter().filter(|name| name.contains(has)).map(|name| format!("{dir}/{name}")).collect()
    };
    let files = below(PLATFORM, "soc").into_iter().flat_map(|soc| below(&soc, "firmware"));
    files.map(|firmware| format!("{firmware}/get_throttled")).find_map(|path| {
        let text = root.read_if_possible(&path)?.text;
        let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
        Some(Power::Flags(Place::file(path), flags))
    })
}

fn alarm(root: &HostRoot) -> Option<Power> {
    let sensors = root.list(HWMON).unwrap_or_default();
    sensors.iter().map(|sensor| format!("{HWMON}/{sensor}")).find_map(|sensor| {
        let is_voltage = root.read_if_possible(format!("{sensor}/name"))?.text.trim() == "rpi_volt";
        let path = format!("{sensor}/in0_lcrit_alarm");
        let alarm = is_voltage.then(|| root.read_if_possible(&path)).flatten()?.text.trim() == "1";
        Some(Power::Alarm(Place::file(path), alarm))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    const PI: (&str, &str) = ("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0");

    #[test]
    fn each_reader_of_the_power_and_none() {
        for (files, want) in [
            (vec![], "None"),
            (vec![("/proc/device-tree/model", "linux,dummy-virt\0")], "None"),
            (vec![PI], "NoReader"),
            (vec![PI, ("/sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n")], "327685"),
            (vec![PI, ("/sys/devices/platform/soc@107c000000/x:firmware/get_throttled", "0\n")], ", 0)"),
            (vec![PI, ("/sys/devices/platform/soc/soc:firmware/get_throttled", "what\n")], "NoReader"),
            (
                vec![
                    PI,
                    ("/sys/class/hwmon/hwmon0/name", "cpu_thermal\n"),
                    ("/sys/class/hwmon/hwmon1/name", "rpi_volt\n"),
                    ("/sys/class/hwmon/hwmon1/in0_lcrit_alarm", "1\n"),
                ],
                "true",
            ),
        ] {
            let (_dir, root) = host(&files);
            let read = format!("{:?}", power(&root));
            assert!(read.contains(want), "{files:?}: {read}");
        }
    }

    #[test]
    fn the_heat_of_a_pi() {
        let zone = (HEAT, "84200\n");
        for (files, want) in
            [(vec![], None), (vec![PI], None), (vec![zone], None), (vec![PI, zone], Some(84_200))]
        {
            let (_dir, root) = host(&files);
            assert_eq!(heat(&root).map(|(_, heat)| heat), want, "{files:?}");
        }
    }

    #[test]
    fn the_memory_of_the_kernel() {
        let whole = include_str!("../../tests/node_agent/support/meminfo");
        for (text, want) in [
            (whole, Some(451_424_256)),
            ("MemTotal: much\n", None),
            ("MemTotal:\n", None),
            ("MemTotal: 99999999999999999999 kB\n", None),
            ("", None),
        ] {
            let (_dir, root) = host(&[(MEMINFO, text)]);
            assert_eq!(memory(&root).map(|memory| memory.total), want, "{text}");
        }
        assert_eq!(memory(&host(&[]).1), None);
    }

    #[test]
    fn the_clock_to_the_second() {
        let clock = clock("1970-01-01T00:00:01.5Z".parse().unwrap());
        assert_eq!(clock, Clock { second: 1, date: "1970-01-01T00:00:01Z".into() });
    }
}
