//! What a process uses of the machine's memory.

/// Memory of a process in MiB.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    pub now: f64,
    /// The most it has used.
    pub peak: f64,
}

impl ProcessMemory {
    pub fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of every process");
            line.trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
        };
        Self { now: field("VmRSS:"), peak: field("VmHWM:") }
    }
}
