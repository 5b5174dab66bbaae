//! How often the boot partition may be written: at most [`A_DAY`] times in any
//! 24 hours, over restarts too. A FAT on a card is neither journalled nor made
//! for many writes.
//!
//! Where the record of writes cannot be kept on disk (a full disk is one of the faults to
//! show), this process counts on its own.

use std::{fs, path::PathBuf};

use jiff::Timestamp;
use tracing::warn;
use weaver_host::durable_file;

/// Writes in 24 hours. The text and its form for programs together are one.
pub const A_DAY: usize = 24;
const DAY: i64 = 86_400;

/// The writes of the last day: seconds since 1970, one write a line.
#[derive(Debug)]
pub struct WriteBudget {
    path: PathBuf,
    /// The same, for when the file is not available.
    kept: Vec<i64>,
}

impl WriteBudget {
    /// A budget with its record in this file.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, kept: Vec::new() }
    }

    /// Records one write, before it is made.
    ///
    /// # Errors
    /// There were too many; the next is allowed at this time.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let before = match fs::read_to_string(&self.path) {
            Ok(text) => text.lines().filter_map(|line| line.trim().parse().ok()).collect(),
            Err(_) => std::mem::take(&mut self.kept),
        };
        let outcome = admit(&before, now.as_second());
        self.kept = match &outcome {
            Ok(after) => after.clone(),
            Err(_) => before,
        };
        let after = outcome.map_err(|next| Timestamp::from_second(next).unwrap_or(Timestamp::MAX))?;
        let lines: Vec<_> = after.iter().map(ToString::to_string).collect();
        let text = lines.join("\n") + "\n";
        if let Some(parent) = self.path.parent()
            && let Err(error) = fs::create_dir_all(parent)
        {
            warn!("cannot make {}: {error}", parent.display());
        }
        if let Err(error) = durable_file::replace(&self.path, text.as_bytes(), 0o640) {
            warn!("{error}; writes of the boot partition are counted until this program exits");
            // Its content would be used as the truth the next time.
            drop(fs::remove_file(&self.path));
        }
        Ok(())
    }
}

/// The writes that still count and this one, or when the next is allowed. A
/// clock that was set leaves entries far away on either side: they are dropped.
fn admit(writes: &[i64], now: i64) -> Result<Vec<i64>, i64> {
    let counts = |second: &i64| second.abs_diff(now) < DAY.unsigned_abs();
    let mut recent: Vec<i64> = writes.iter().copied().filter(counts).collect();
    recent.sort_unstable();
    if recent.len() < A_DAY {
        recent.push(now);
        return Ok(recent);
    }
    // The entry whose expiry leaves fewer than a day's worth.
    let oldest = recent.len() - A_DAY;
    Err(recent[oldest] + DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_card_is_written_at_most_so_often_a_day() {
        let full: Vec<i64> = (0..24).map(|n| NOW - 1000 + n).collect();
        let with = |more: &[i64]| [&full[1..], more].concat();
        for (writes, want) in [
            (vec![], Ok(1)),
            (full[..23].to_vec(), Ok(24)),
            (full.clone(), Err(NOW - 1000 + DAY)),
            (with(&[NOW - DAY]), Ok(24)),
            (with(&[NOW - DAY + 1]), Err(NOW + 1)),
            (with(&[NOW + DAY]), Ok(24)),
            (with(&[NOW + 10]), Err(NOW - 999 + DAY)),
            (with(&[0]), Ok(24)),
            (with(&[i64::MAX, i64::MIN]), Ok(24)),
            (vec![NOW - 5; 30], Err(NOW - 5 + DAY)),
        ] {
            assert_eq!(admit(&writes, NOW).map(|after| after.len()), want, "{writes:?}");
        }
    }

    #[test]
    fn the_count_outlives_the_process_and_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/card-writes");
        for n in 0..24 {
            WriteBudget::new(path.clone()).take(at(NOW + n)).unwrap();
        }
        assert_eq!(WriteBudget::new(path.clone()).take(at(NOW + 30)), Err(at(NOW + DAY)));
        WriteBudget::new(path.clone()).take(at(NOW + DAY)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 24);
        fs::write(&path, "garbage\n\n12x\n").unwrap();
        WriteBudget::new(path.clone()).take(at(NOW + DAY)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", NOW + DAY));
    }

    #[test]
    fn without_a_file_this_process_counts() {
        let dir = tempfile::tempdir().unwrap();
        // A file at the path of the directory: nothing can be made below it.
        fs::write(dir.path().join("state"), "").unwrap();
        let mut budget = WriteBudget::new(dir.path().join("state/card-writes"));
        for n in 0..24 {
            budget.take(at(NOW + n)).unwrap();
        }
        assert_eq!(budget.take(at(NOW + 24)), Err(at(NOW + DAY)));
    }
}
