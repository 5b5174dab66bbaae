//! How long the storage under k3s takes to keep a small write: its database waits for each one.
//!
//! Only when asked for (`check --disk`): it writes, and an idle agent writes nothing. k3s' documentation asks for less than
//! 10 ms; where it is more, leases are lost under load (k3s-io/k3s#1850).

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weaver_diagnostics::finding::{Code, Finding, Place, Severity};

/// Writes of one measurement, of which the third slowest is the 99th percentile.
const WRITES: usize = 200;
/// Bytes of each.
const BLOCK: usize = 4096;
/// No measurement takes longer: a card that fails can take seconds for each write.
const LIMIT: Duration = Duration::from_secs(20);
/// What k3s needs, at the 99th percentile.
const ENOUGH: Duration = Duration::from_millis(10);

/// Measures in the directory, or in the nearest one above it that is there.
#[must_use]
pub fn finding(directory: &Path) -> Finding {
    let Some(directory) = directory.ancestors().find(|directory| directory.is_dir()) else {
        return unknown(directory, "it is not there");
    };
    match measure(directory) {
        Ok(times) => judge(directory, times),
        Err(error) => unknown(directory, &error.to_string()),
    }
}

fn unknown(directory: &Path, why: &str) -> Finding {
    let message = format!("how fast {} is could not be measured: {why}", directory.display());
    Finding::new(Code::CardSlow, message).milder(Severity::Unknown)
}

fn judge(directory: &Path, mut times: Vec<Duration>) -> Finding {
    times.sort();
    let Some(&worst) = times.last() else { return unknown(directory, "no write ended in time") };
    let p99 = times[(times.len() * 99).div_ceil(100) - 1];
    let median = times[times.len() / 2];
    let figures = format!(
        "fsync of {} writes of 4 KiB: median {median:.1?}, p99 {p99:.1?}, slowest {worst:.1?}",
        times.len()
    );
    let place = Place::file(directory.display().to_string());
    if p99 <= ENOUGH && times.len() == WRITES {
        let message = format!("the storage under {} is fast enough for k3s: {figures}", directory.display());
        return Finding::new(Code::CardSlow, message).milder(Severity::Ok);
    }
    let message = format!(
        "the storage under {} is slower than k3s needs ({ENOUGH:.0?} at the 99th percentile): {figures}",
        directory.display()
    );
    Finding::new(Code::CardSlow, message).saw(place, figures)
}

/// A file that goes when it is dropped.
struct Probe(PathBuf, File);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn measure(directory: &Path) -> std::io::Result<Vec<Duration>> {
    let path = directory.join(format!(".weaver-disk-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let mut probe = Probe(path, file);
    let begun = Instant::now();
    let mut times = Vec::with_capacity(WRITES);
    while times.len() < WRITES && begun.elapsed() < LIMIT {
        let since = Instant::now();
        probe.1.write_all(&[0x5a; BLOCK])?;
        probe.1.sync_data()?;
        times.push(since.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_is_judged_by_its_slow_writes() {
        let ms = Duration::from_millis;
        let directory = Path::new("/var");
        for (slow, count, severity) in [
            (ms(11), 0, Severity::Ok),
            (ms(500), 2, Severity::Ok),
            (ms(11), 3, Severity::Warn),
            (ms(10), 200, Severity::Ok),
        ] {
            let times = (0..WRITES).map(|n| if n < count { slow } else { ms(1) }).collect();
            assert_eq!(judge(directory, times).severity(), severity, "{slow:?} {count}");
        }
        // So slow that the time was over.
        assert_eq!(judge(directory, vec![ms(900); 22]).severity(), Severity::Warn);
        assert_eq!(judge(directory, Vec::new()).severity(), Severity::Unknown);
    }

    #[test]
    fn a_measurement_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let found = finding(&dir.path().join("not/yet/there"));
        assert!(found.message.contains("writes of 4 KiB"), "{}", found.message);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(finding(Path::new("not/there")).severity(), Severity::Unknown);
    }
}
