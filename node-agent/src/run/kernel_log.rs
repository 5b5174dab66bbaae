//! Follows the kernel's log: each record of `/dev/kmsg` goes into the state of
//! [`weaver_diagnostics::host::kernel_log`], whose findings are part of each round's report.
//!
//! `/dev/kmsg` and not `journalctl --follow`: it is a file that this process keeps open, so that reading continues when
//! programs can no longer be loaded from the card, and it has the records of this start only. A new agent reads what
//! the kernel's buffer still has, from its beginning.
//!
//! Guarantees: reading never delays a check, and has a rate limit, however much the kernel writes; records that were
//! overwritten before they were read are skipped. Where the log cannot be read that is logged once, and no finding; the
//! agent does its other work.

use std::{
    convert::Infallible,
    fs::OpenOptions,
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt as _,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use nix::{
    fcntl::OFlag,
    time::{ClockId, clock_gettime},
};
use parking_lot::Mutex;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use tracing::info;
use weaver_diagnostics::{
    finding::Finding,
    host::kernel_log::{KMSG, KernelLog},
};

use super::status::AgentStatus;
use crate::{host_root::HostRoot, node_verdicts::VerdictChange};

/// Longer than any record, which the kernel returns whole or not at all.
const RECORD: usize = 16 * 1024;
/// Records that are read without a pause, and the pause: some thousands in a second are enough for any start.
const BATCH: u32 = 256;
const PAUSE: Duration = Duration::from_millis(50);
/// By how much the computed start time may differ between two reads, in seconds: a clock is slewed.
const SLEWED: i64 = 5;

/// The findings of the log, shared by the reader and the reporter.
#[derive(Clone)]
pub struct SharedLog(Arc<Mutex<LogState>>);

struct LogState {
    log: KernelLog,
    /// When this host was started, in seconds since 1970.
    started: i64,
}

impl SharedLog {
    /// Nothing was read yet.
    ///
    /// # Errors
    /// The recogniser could not be made, which depends on no input.
    pub fn new() -> anyhow::Result<Self> {
        let log = KernelLog::new().context("preparing the search for the kernel's errors")?;
        Ok(Self(Arc::new(Mutex::new(LogState { log, started: 0 }))))
    }

    /// What is wrong by now.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings_at(Timestamp::now().as_second(), since_start())
    }

    fn findings_at(&self, now: i64, since_start: Duration) -> Vec<Finding> {
        let state = &mut *self.0.lock();
        // The dates of one record are the same in each round, unless the clock was set.
        let started = now.saturating_sub_unsigned(since_start.as_secs());
        if (started - state.started).abs() > SLEWED {
            state.started = started;
        }
        let started = state.started;
        let date = |at: u64| {
            let second = started.saturating_add_unsigned(at / 1_000_000);
            Timestamp::from_second(second).map_or_else(|_| "an unknown time".to_owned(), |at| at.to_string())
        };
        let micros = u64::try_from(since_start.as_micros()).unwrap_or(u64::MAX);
        state.log.findings(micros, date)
    }
}

/// The time since the start, by the clock of the records.
fn since_start() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

/// Runs until `stop`; returns before it only with an error that is no failure to read.
pub async fn follow(
    root: HostRoot,
    shared: SharedLog,
    status: AgentStatus,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let reading = async {
        let Err(failure) = read(&root, &shared, &status).await;
        if failure.kind() == ErrorKind::NotFound {
            info!("{KMSG} does not exist: card errors that only the kernel logs are not reported");
        } else {
            info!(
                "cannot read {KMSG}, so card errors that only the kernel logs are not reported: {failure}. It needs \
                CAP_SYSLOG and access to the device, as in weaver-node-agent.service"
            );
        }
    };
    tokio::select! {
        () = async { reading.await; std::future::pending().await } => Ok(()),
        () = stop.cancelled() => Ok(()),
    }
}

async fn read(root: &HostRoot, shared: &SharedLog, status: &AgentStatus) -> io::Result<Infallible> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(root.real(KMSG))?;
    // It is read as a pipe is: a call waits for the next record, and no thread for the call.
    let file = pipe::Receiver::from_file_unchecked(file)?;
    let mut buffer = vec![0; RECORD];
    // Records from before this agent started are only in the report; an Event is about the present.
    let (mut is_new, mut unpaused) = (false, 0);
    loop {
        file.readable().await?;
        let length = match file.try_read(&mut buffer) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it has ended")),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                is_new = true;
                continue;
            }
            Err(error) if is_of_one_record(&error) => continue,
            Err(error) => return Err(error),
        };
        let records = String::from_utf8_lossy(&buffer[..length]);
        let events: Vec<_> = {
            let log = &mut shared.0.lock().log;
            records.lines().filter_map(|line| log.take(line)).collect()
        };
        if is_new {
            status.add_news(events.into_iter().map(|event| VerdictChange {
                reason: event.reason,
                is_bad: true,
                note: event.note,
            }));
        }
        unpaused += 1;
        if unpaused >= BATCH {
            unpaused = 0;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Overwritten before it was read (EPIPE), longer than the buffer (EINVAL), interrupted: the next one is read next.
fn is_of_one_record(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::InvalidInput | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn what_is_there_already_is_a_finding_and_what_comes_then_an_event_too() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        let path = dir.path().join("dev/kmsg");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut kernel = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut say = |sequence: u64, text: &str| {
            writeln!(kernel, "3,{sequence},{},-;{text}", since_start().as_micros()).unwrap();
        };
        say(1, "mmc0: Timeout waiting for hardware interrupt.");
        let (shared, status) = (SharedLog::new().unwrap(), AgentStatus::new(dir.path().join("report.json")));
        let stop = CancellationToken::new();
        let root = HostRoot::new(dir.path().to_owned());
        let following = tokio::spawn(follow(root, shared.clone(), status.clone(), stop.clone()));
        let until = async |what: &dyn Fn() -> bool| {
            let looking = async {
                while !what() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_mins(1), looking).await.unwrap();
        };
        until(&|| shared.findings().len() == 1).await;
        assert_eq!(status.take_news(), [], "of before");
        say(2, "EXT4-fs error (device mmcblk0p2): ext4_lookup:1: inode #2: comm x: bad");
        until(&|| shared.findings().len() == 2).await;
        let news = status.take_news();
        assert_eq!((news.len(), news[0].reason, news[0].is_bad), (1, "Ext4Error", true), "{news:?}");
        assert_eq!(status.take_news(), []);
        stop.cancel();
        following.await.unwrap().unwrap();
    }

    #[test]
    fn what_concerns_one_record_does_not_end_the_reading() {
        for (number, goes_on) in [
            (nix::libc::EPIPE, true),
            (nix::libc::EINVAL, true),
            (nix::libc::EINTR, true),
            (nix::libc::EPERM, false),
            (nix::libc::EIO, false),
        ] {
            assert_eq!(is_of_one_record(&io::Error::from_raw_os_error(number)), goes_on, "{number}");
        }
    }

    #[test]
    fn a_date_stays_while_the_clock_is_slewed_and_follows_when_it_is_set() {
        let shared = SharedLog::new().unwrap();
        shared.0.lock().log.take("2,1,10000000,-;hwmon hwmon1: Undervoltage detected!");
        let saw = |now, since| {
            let found = shared.findings_at(now, Duration::from_secs(since)).remove(0);
            found.evidence[0].saw.split(": ").next().unwrap().to_owned()
        };
        // Before a time server was heard, after, and a day of slewing later.
        assert_eq!(saw(60, 60), "at 1970-01-01T00:00:10Z");
        assert_eq!(saw(1_800_000_000, 70), "at 2027-01-15T07:59:00Z");
        assert_eq!(saw(1_800_000_033, 100), "at 2027-01-15T07:59:00Z");
        assert_eq!(shared.findings_at(1_800_100_000, Duration::from_secs(100_070)), [], "of yesterday");
    }
}
