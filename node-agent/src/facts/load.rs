//! Reads how busy the machine is: pressure where the kernel measures it, else load, waiting for the disk and
//! free memory.

use std::thread;
use std::time::Duration;

use procfs_core::{
    FromBufRead as _, FromRead as _, LoadAverage, Meminfo, PressureRecord, parse_pressure_record,
};
use weaver_diagnostics::host::board::MEMINFO;
use weaver_diagnostics::host::load::{HostLoad, LOADAVG, PRESSURE, Pressure, STAT};

use crate::host_root::HostRoot;

/// Between two reads of the processors' times.
const BETWEEN: Duration = Duration::from_secs(1);

/// How busy the machine is now. Takes a second where the kernel measures no pressure.
pub(crate) fn read(root: &HostRoot) -> HostLoad {
    let text = |path| root.read_if_possible(path).map(|file| file.text);
    let load = text(LOADAVG).and_then(|text| LoadAverage::from_read(text.as_bytes()).ok());
    let (load, before) = (load.map(|load| load.one), times(root));
    let processors = before.as_ref().map(|before| before.processors);
    let pressure = pressure(root);
    if pressure.is_some() {
        return HostLoad { pressure, load, processors, ..HostLoad::default() };
    }
    let disk_wait = before.and_then(|before| {
        thread::sleep(BETWEEN);
        before.disk_wait(&times(root)?)
    });
    HostLoad { pressure, load, processors, disk_wait, memory_available: memory_available(root) }
}

fn pressure(root: &HostRoot) -> Option<Pressure> {
    // Kernels before 5.13 have no second line for the processor.
    let some = |name: &str| -> Option<PressureRecord> {
        let text = root.read_if_possible(format!("{PRESSURE}/{name}"))?.text;
        let line = text.lines().find(|line| line.starts_with("some "))?;
        parse_pressure_record(line).ok()
    };
    Some(Pressure { processor: some("cpu")?.avg60, memory: some("memory")?.avg60, disk: some("io")?.avg60 })
}

fn memory_available(root: &HostRoot) -> Option<f32> {
    let text = root.read_if_possible(MEMINFO)?.text;
    let memory = Meminfo::from_buf_read(text.as_bytes()).ok()?;
    percent(memory.mem_available?, memory.mem_total)
}

/// Times of the processors since the boot, in ticks.
#[derive(Debug)]
struct Times {
    processors: u16,
    disk_wait: u64,
    all: u64,
}

impl Times {
    /// In percent of the time of one processor.
    fn disk_wait(&self, later: &Self) -> Option<f32> {
        let of_all = percent(later.disk_wait.checked_sub(self.disk_wait)?, later.all.checked_sub(self.all)?)?;
        Some((of_all * f32::from(self.processors)).min(100.0))
    }
}

fn times(root: &HostRoot) -> Option<Times> {
    let text = root.read_if_possible(STAT)?.text;
    let first = text.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal; what follows is counted into the first two.
    let ticks: Vec<u64> = first.split_whitespace().map_while(|ticks| ticks.parse().ok()).take(8).collect();
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let processors = u16::try_from(text.lines().filter(is_processor).count()).ok()?;
    let all = ticks.iter().try_fold(0_u64, |all, ticks| all.checked_add(*ticks))?;
    Some(Times { processors, disk_wait: *ticks.get(4)?, all })
}

fn percent(part: u64, whole: u64) -> Option<f32> {
    #[expect(clippy::cast_precision_loss, reason = "a percentage for a user")]
    (whole > 0).then(|| part as f32 / whole as f32 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    const STAT_4: &str =
        "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 25 0\ncpu1 25 0\ncpu2 25 0\ncpu3 25 0\nctxt 5\n";
    const LOAD: (&str, &str) = (LOADAVG, "8.52 4.10 2.00 9/230 4711\n");

    fn some(avg60: &str) -> String {
        format!(
            "some avg10=0.00 avg60={avg60} avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        )
    }

    #[test]
    fn pressure_of_the_last_minute_where_the_kernel_has_it() {
        let (cpu, io, memory) = (some("93.25"), some("12.50"), some("0.00"));
        let file = |name: &str| format!("{PRESSURE}/{name}");
        let (at_cpu, at_io, at_memory) = (file("cpu"), file("io"), file("memory"));
        let want = Pressure { processor: 93.25, memory: 0.0, disk: 12.5 };
        let old = "some avg10=0.00 avg60=93.25 avg300=0.00 total=1\n";
        for (cpu, want) in [
            (cpu.as_str(), Some(want)),
            (old, Some(want)),
            ("", None),
            ("some", None),
            ("some avg60=much\n", None),
            ("some avg10=0.00\n", None),
        ] {
            let (_dir, root) = host(&[(&at_cpu, cpu), (&at_io, &io), (&at_memory, &memory)]);
            assert_eq!(pressure(&root), want, "{cpu}");
        }
        let (_dir, root) =
            host(&[(&at_cpu, &cpu), (&at_io, &io), (&at_memory, &memory), LOAD, (STAT, STAT_4)]);
        let read = read(&root);
        assert_eq!((read.pressure, read.load, read.processors), (Some(want), Some(8.52), Some(4)));
        assert_eq!(read.disk_wait, None, "it is not needed, and takes a second");
    }

    #[test]
    fn without_pressure_it_is_load_waiting_and_memory() {
        let memory = (MEMINFO, "MemTotal: 1000 kB\nMemAvailable: 30 kB\n");
        let whole = include_str!("../../tests/node_agent/support/meminfo");
        let (_dir, root) = host(&[LOAD, (STAT, STAT_4), (MEMINFO, whole)]);
        let read = super::read(&root);
        assert_eq!((read.pressure, read.load, read.processors), (None, Some(8.52), Some(4)));
        // The file of a test does not change.
        assert_eq!(read.disk_wait, None);
        assert!(read.memory_available.is_some_and(|part| (0.0..=100.0).contains(&part)), "{read:?}");
        assert!(read.is_busy());
        let (_dir, root) = host(&[memory]);
        assert_eq!(super::read(&root).load, None);
        assert_eq!(super::read(&host(&[]).1), HostLoad::default());
    }

    #[test]
    fn waiting_for_a_disk_is_of_one_processor() {
        let times = |stat: &str| times(&host(&[(STAT, stat)]).1);
        let before = times(STAT_4).unwrap();
        for (later, want) in [
            // A hundred ticks of four processors, a quarter of which one of them waited through.
            ("cpu  100 0 100 775 125 0 0 0\n", Some(100.0)),
            ("cpu  100 0 100 800 100 0 0 0\n", Some(0.0)),
            // The kernel may count it back.
            ("cpu  100 0 100 800 99 0 0 0\n", None),
            (STAT_4, None),
        ] {
            assert_eq!(before.disk_wait(&times(later).unwrap()), want, "{later}");
        }
        for bad in ["", "cpu", "cpu \n", "cpu  1 2 3\n", "intr 5\n", "cpu  a b c d e\n"] {
            assert!(times(bad).is_none(), "{bad}");
        }
        let much = u64::MAX;
        assert!(times(&format!("cpu  {much} {much} 0 0 0\n")).is_none());
    }

    #[test]
    fn this_machine() {
        let here = super::read(&HostRoot::new("/".into()));
        assert!(here.load.is_some() && here.processors.is_some_and(|count| count > 0), "{here:?}");
        assert!(here.scarce().is_some());
    }
}
