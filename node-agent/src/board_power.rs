//! Reads what the board says of its power: the flags of the firmware on Raspberry Pi's kernels, the alarm of the voltage
//! where that driver is built.

use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::power::{self, Power};

use crate::host_root::HostRoot;

const PLATFORM: &str = "/sys/devices/platform";
const HWMON: &str = "/sys/class/hwmon";

/// What can be read; `None` on what is no Raspberry Pi.
#[must_use]
pub fn read(root: &HostRoot) -> Option<Power> {
    if !root.device_model()?.starts_with("Raspberry Pi") {
        return None;
    }
    Some(flags(root).or_else(|| alarm(root)).unwrap_or(Power::NoReader))
}

/// A warning where the processor is so hot that the firmware slows it down.
#[must_use]
pub fn heat(root: &HostRoot) -> Option<Finding> {
    const HEAT: &str = "/sys/class/thermal/thermal_zone0/temp";
    root.device_model().filter(|model| model.starts_with("Raspberry Pi"))?;
    let text = root.read_if_possible(HEAT)?.text;
    power::heat(Place::file(HEAT), text.trim().parse().ok()?)
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

    #[test]
    fn each_reader_and_none() {
        const PI: (&str, &str) = ("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0");
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
            let read = format!("{:?}", read(&root));
            assert!(read.contains(want), "{files:?}: {read}");
        }
    }
}
