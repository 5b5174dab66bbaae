//! What the kernel's log says of the host, since this start: an SD card that no longer answers, errors of a
//! file system, a process that was ended for want of memory, too little power.
//!
//! A record goes in, a state of findings comes out. The recogniser, the one of `weaver explain`, says whether a line is
//! an error; here it gets its device or process, how often and since when.
//!
//! Guarantees: a record is counted once, by its number, however often the log is read from its beginning; what is kept
//! is bounded; a message stays the same while its trouble lasts, since each change would be reported and written to the
//! card. What is over is no finding forever: after a day, or a week where data may be lost, it is left out. A pod that
//! hits its own memory limit is no fault of the node.

mod reading;
mod record;
#[cfg(test)]
mod tests;
mod trouble;
mod wording;

use std::collections::BTreeMap;

use aho_corasick::BuildError;

use self::{reading::OutOfMemory, record::KernelRecord, trouble::KernelProblem};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::finding_text;
use crate::recognise::{LogContext, RESETS, Recogniser};

/// Where the kernel's log is read.
pub const KMSG: &str = "/dev/kmsg";

/// Troubles that are kept. Beyond that, the one that was quiet for longest is dropped.
const MOST: usize = 24;
/// Characters of a record that are shown.
const SHOWN: usize = 200;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// How often, and when.
#[derive(Debug)]
struct Occurrences {
    count: u64,
    first: u64,
    last: u64,
    /// What is shown: the state at some counts only, so that the tenth error of a minute is no news.
    shown: (u64, u64, String),
    /// When it was last sent as an event.
    reported: Option<u64>,
    /// The file system is mounted for writing again.
    is_mended: bool,
    code: Code,
    remedy: Option<Remedy>,
}

/// A trouble that a record reports.
struct TroubleRecord {
    trouble: KernelProblem,
    subject: String,
    code: Code,
    remedy: Option<Remedy>,
    shown: String,
}

/// Something that the kernel said just now, in the terms of node-problem-detector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelEvent {
    /// A reason of its rules for the kernel, or one in their style.
    pub reason: &'static str,
    pub note: String,
}

pub struct KernelLog {
    recogniser: Recogniser,
    context: LogContext,
    memory: OutOfMemory,
    /// The number of the last record.
    last: Option<u64>,
    seen: BTreeMap<(KernelProblem, String), Occurrences>,
}

impl KernelLog {
    /// Nothing was read yet.
    ///
    /// # Errors
    /// As of [`Recogniser::new`].
    pub fn new() -> Result<Self, BuildError> {
        Ok(Self {
            recogniser: Recogniser::new()?,
            context: LogContext::default(),
            memory: OutOfMemory::default(),
            last: None,
            seen: BTreeMap::new(),
        })
    }

    /// Takes in one line of the log; what is no record of the kernel's, or was taken before, changes nothing. Returns
    /// what is worth an event: each trouble once in an hour.
    pub fn take(&mut self, line: &str) -> Option<KernelEvent> {
        let record = KernelRecord::read(line)?;
        if self.last.is_some_and(|last| record.sequence <= last) {
            return None;
        }
        self.last = Some(record.sequence);
        let KernelRecord { at, text, .. } = record;
        if let Some(device) = reading::mounted(text)
            && let Some(seen) = self.seen.get_mut(&(KernelProblem::ReadOnly, device.to_owned()))
        {
            seen.is_mended = true;
        }
        self.context.at(at);
        let record = self.judge(text)?;
        self.count(record, at)
    }

    fn judge(&mut self, text: &str) -> Option<TroubleRecord> {
        let found = self.recogniser.judge_in(&mut self.context, text.as_bytes(), || Place::file(KMSG));
        if let Some(port) = self.context.disks().reset_port(text) {
            let code = Code::UsbDiskFails;
            return Some(TroubleRecord {
                trouble: KernelProblem::DiskReset,
                subject: format!("at port {port}"),
                code,
                remedy: Some(code.row().remedy()),
                shown: finding_text::cut(text, SHOWN),
            });
        }
        let Finding { code, evidence, remedy, .. } = found?;
        let (trouble, subject) = if code == Code::OutOfMemory {
            self.memory.read(text)?
        } else {
            reading::trouble(code, text, self.context.slots(), self.context.disks())?
        };
        let shown = finding_text::cut(evidence.first().map_or(text, |evidence| &evidence.saw), SHOWN);
        Some(TroubleRecord { trouble, subject, code, remedy, shown })
    }

    fn count(&mut self, record: TroubleRecord, at: u64) -> Option<KernelEvent> {
        let TroubleRecord { trouble, subject, code, remedy, shown: text } = record;
        let key = (trouble, subject.clone());
        if self.seen.len() >= MOST && !self.seen.contains_key(&key) {
            let quiet = self.seen.iter().min_by_key(|(_, seen)| seen.last).map(|(key, _)| key.clone());
            if let Some(quiet) = quiet {
                self.seen.remove(&quiet);
            }
        }
        let seen = self.seen.entry(key).or_insert_with(|| Occurrences {
            count: 0,
            first: at,
            last: at,
            shown: (0, at, String::new()),
            reported: None,
            is_mended: false,
            code,
            remedy: None,
        });
        // After a long rest it begins again: what was is no part of what is.
        if at.saturating_sub(seen.last) > trouble.lasts() {
            (seen.count, seen.first) = (0, at);
        }
        seen.count += 1;
        seen.last = at;
        seen.is_mended = false;
        (seen.code, seen.remedy) = (code, remedy);
        if is_round(seen.count) || at.saturating_sub(seen.shown.1) >= HOUR {
            seen.shown = (seen.count, at, text);
        }
        if trouble == KernelProblem::DiskReset && seen.count < u64::from(RESETS) {
            return None;
        }
        let reason = trouble
            .reason()
            .filter(|_| seen.reported.is_none_or(|reported| at.saturating_sub(reported) >= HOUR))?;
        seen.reported = Some(at);
        Some(KernelEvent { reason, note: format!("{}: {}", trouble.message(&subject, false), seen.shown.2) })
    }

    /// What is wrong. `now` is in microseconds since the start, `date` gives the date of such a time.
    pub fn findings(&self, now: u64, date: impl Fn(u64) -> String) -> Vec<Finding> {
        let current = self.seen.iter().filter(|((trouble, _), seen)| seen.is_current(*trouble, now));
        current.map(|((trouble, subject), seen)| trouble.finding(subject, seen, &date)).collect()
    }
}

impl Occurrences {
    fn is_current(&self, trouble: KernelProblem, now: u64) -> bool {
        let is_lasting = trouble == KernelProblem::ReadOnly && !self.is_mended;
        let is_fresh = now.saturating_sub(self.last) <= trouble.lasts();
        let is_enough = trouble != KernelProblem::DiskReset || self.count >= u64::from(RESETS);
        (is_lasting || is_fresh) && is_enough
    }

    fn evidence(&self, date: impl Fn(u64) -> String) -> String {
        let (count, last, text) = &self.shown;
        if *count == 1 {
            return format!("at {}: {text}", date(self.first));
        }
        format!("{count} times from {} to {}: {text}", date(self.first), date(*last))
    }
}

/// 1, 2, 3, 5, 10, 20, 50, 100 and so on.
fn is_round(count: u64) -> bool {
    let mut digits = count;
    while digits.is_multiple_of(10) && digits > 0 {
        digits /= 10;
    }
    matches!(digits, 1 | 2 | 5) || count == 3
}
