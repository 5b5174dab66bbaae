//! Waiting for what comes true a moment later.

use std::time::{Duration, Instant};

/// Under emulation all takes its time: k3s 100 s to start again, and twice that where the builder has other work.
pub const LIMIT: Duration = Duration::from_mins(8);
/// How often to look: a longer wait looks less often, since each look costs the guest a second of its time.
const LOOKS: u32 = 240;

/// Looks until it is so.
///
/// # Panics
/// When it is not in time, with what was seen last.
pub fn until<T>(what: &str, look: impl FnMut() -> anyhow::Result<Result<T, String>>) -> T {
    until_within(LIMIT, what, look)
}

/// The same with a limit of its own.
///
/// # Panics
/// As [`until`].
pub fn until_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> anyhow::Result<Result<T, String>>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        let seen = match look() {
            Ok(Ok(found)) => return found,
            Ok(Err(seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        assert!(
            Instant::now() < deadline,
            "{what} did not come within {} s; last seen: {seen}",
            limit.as_secs()
        );
        std::thread::sleep(limit / LOOKS);
    }
}
