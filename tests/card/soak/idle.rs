//! Ten minutes without requests.

use std::time::{Duration, Instant};

use weaver_image::boot::machine::Machine;
use weaver_image::booted::counted_machine;

use super::measured::{Measured, mib};
use crate::node::report;
use crate::poll::until;

const REST: Duration = Duration::from_mins(10);
/// As long as this nothing is written before the rest begins: what follows a start is done then.
const CALM: Duration = Duration::from_mins(1);
const OURS: [&str; 3] = ["weaver-node-agent", "weaver-webhook", "weaver-operator"];
const AGENT: &str = "weaver-node-agent";
const SLICE: &str = "/sys/fs/cgroup/weaver.slice";
const MIB: u64 = 1 << 20;

/// What was used since the boot.
struct Meters {
    /// Bytes that our slice wrote, of all disks.
    written: u64,
    /// Bytes that anyone wrote to the card.
    card: u64,
    /// Microseconds of processor time, a unit of ours each, then k3s.
    processor: Vec<u64>,
    /// The boot partition as a laptop would find it.
    fat: String,
}

/// Bytes that our slice wrote to disks.
fn written(machine: &Machine) -> u64 {
    let reported = machine.run(&format!("cat {SLICE}/io.stat")).unwrap();
    let fields = reported.split_whitespace().filter_map(|field| field.strip_prefix("wbytes="));
    fields.map(|bytes| bytes.parse::<u64>().unwrap()).sum()
}

fn meters(machine: &mut Machine) -> Meters {
    // What is still in memory only counts as written.
    machine.run("sync").unwrap();
    let sectors = machine.run("cat /sys/block/vda/stat").unwrap();
    let sectors: u64 = sectors.split_whitespace().nth(6).unwrap().parse().unwrap();
    let usage = |cgroup: String| -> u64 {
        let reported = machine.run(&format!("cat {cgroup}/cpu.stat")).unwrap();
        let usage = reported.lines().find_map(|line| line.strip_prefix("usage_usec ")).unwrap();
        usage.trim().parse().unwrap()
    };
    let mut processor: Vec<u64> = OURS.map(|unit| usage(format!("{SLICE}/{unit}.service"))).to_vec();
    processor.push(usage("/sys/fs/cgroup/system.slice/k3s.service".to_owned()));
    let written = written(machine);
    Meters { written, card: sectors * 512, processor, fat: machine.fat_sha256().unwrap() }
}

/// Waits until the machine's own clock has gone on by [`REST`]; gives what it has, in microseconds.
fn rest(machine: &Machine) -> u64 {
    let uptime = || {
        let reported = machine.run("cut -d ' ' -f 1 /proc/uptime").unwrap();
        Duration::from_secs_f64(reported.trim().parse().unwrap())
    };
    let (begun, deadline) = (uptime(), Instant::now() + 3 * REST);
    loop {
        let rested = uptime().saturating_sub(begun);
        if rested >= REST {
            return u64::try_from(rested.as_micros()).unwrap();
        }
        assert!(Instant::now() < deadline, "the machine's clock has gone on by {rested:?} only");
        std::thread::sleep(REST.saturating_sub(rested));
    }
}

/// Resident memory, bytes.
fn resident(machine: &Machine, unit: &str) -> u64 {
    let asked = format!("grep VmRSS /proc/$(systemctl show --value -p MainPID {unit}.service)/status");
    let reported = machine.run(&asked).unwrap();
    reported.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The most memory that a program has had, and the least that can be seen: what its parent has when it starts it.
fn peak(machine: &Machine, program: &str) -> (u64, u64) {
    let of = |program: &str| -> u64 {
        let script = format!(
            "import resource, subprocess; subprocess.run(\"{program}\".split(), stdout=subprocess.DEVNULL, check=True); \
             print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        );
        let reported = machine.run(&format!("python3 -I -S -c '{script}'")).unwrap();
        reported.trim().parse::<u64>().unwrap() << 10
    };
    (of(program), of("/bin/true"))
}

#[test]
#[ignore = "needs the booted image and a quarter of an hour: make soak"]
fn ten_idle_minutes_write_nothing_to_the_card() {
    let mut machine = counted_machine().unwrap();
    until("a node that is well", || {
        let said = report(&machine)?;
        Ok(if said["gate"] == "open" { Ok(()) } else { Err(said["reason"].to_string()) })
    });
    until("a minute in which nothing is written", || {
        let before = written(&machine);
        std::thread::sleep(CALM);
        let more = written(&machine) - before;
        Ok(if more == 0 { Ok(()) } else { Err(format!("{more} bytes")) })
    });
    let before = meters(&mut machine);
    // The start wrote NODE-STATUS: a meter that shows nothing of it is broken.
    assert!(before.written > 0, "our slice has written nothing since the boot, says its io.stat");
    let rested = rest(&machine);
    let after = meters(&mut machine);

    let mut measured = Measured::begin("10-idle");
    memory(&mut measured, &machine);
    let used: Vec<u64> =
        after.processor.iter().zip(&before.processor).map(|(after, before)| after - before).collect();
    let share = |used: u64| {
        let hundredths = used * 10_000 / rested;
        format!("{}.{:02} % of one core", hundredths / 100, hundredths % 100)
    };
    for (unit, used) in OURS.iter().zip(&used) {
        measured.row(&format!("{unit} at rest: processor ¹"), &share(*used));
    }
    measured.row("the testbed in k3s' place next to them: processor ¹", &share(used[OURS.len()]));
    let written = after.written - before.written;
    let bytes = format!("{written} bytes");
    measured.budget("our slice writes to disks in ten idle minutes", &bytes, "0 bytes", written == 0);
    let same = before.fat == after.fat;
    let words = if same { "the same" } else { "changed" };
    measured.budget("the boot partition after them", words, "the same bytes", same);
    let card = mib(after.card - before.card);
    measured.row("all writes to the card in that time: journal of the root, the testbed's database", &card);
    measured.judge();
}

fn memory(measured: &mut Measured, machine: &Machine) {
    let (check, least) = peak(machine, "/usr/bin/weaver-node-agent check");
    let words = if check > least { mib(check) } else { format!("at most {}", mib(least)) };
    measured.budget("one host check: memory at its peak", &words, "< 15 MiB", check < 15 * MIB);
    let mut sum = 0;
    for unit in OURS {
        let bytes = resident(machine, unit);
        sum += bytes;
        let what = format!("{unit} at rest: resident memory");
        if unit == AGENT {
            measured.budget(&what, &mib(bytes), "< 15 MiB", bytes < 15 * MIB);
        } else {
            measured.row(&what, &mib(bytes));
        }
    }
    measured.budget("all three at rest: resident memory", &mib(sum), "< 45 MiB", sum < 45 * MIB);
}
