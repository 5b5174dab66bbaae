//! What the card costs: memory, processor, writes, a share of the boot, space. Each test leaves its rows for
//! docs/explanation/performance.md, also where a budget is exceeded, and then fails.
//!
//! Time on the machine is the number of its instructions (`Setup::counted`), so that it is the same whatever else
//! this one does. Seconds and shares of a processor are not judged all the same; bytes and ratios are.

mod bars;
mod boot_line;
mod boot_share;
mod idle;
mod image_size;
mod measured;
mod sizes;
mod time_line;

/// All units of ours.
const OURS: [&str; 7] = [
    "weaver-boot-config",
    "weaver-grow-root",
    "weaver-ssh-hostkeys",
    "weaver-preflight",
    "weaver-node-agent",
    "weaver-webhook",
    "weaver-operator",
];
