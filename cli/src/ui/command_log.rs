//! What the code of the command line reports and shows, for a page.

use std::time::Duration;

use parking_lot::Mutex;
use weaver_diagnostics::finding_text::clean;

use crate::sync::planned::PlannedCopy;

/// For requests of a page to the API server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same for so many objects, one after the other.
pub fn patience(objects: usize) -> Duration {
    PATIENCE + Duration::from_secs(1) * u32::try_from(objects).unwrap_or(u32::MAX)
}

/// Lines and copies, in order.
#[derive(Default)]
pub struct CommandLog {
    lines: Mutex<Vec<String>>,
    copies: Mutex<Vec<PlannedCopy>>,
}

impl CommandLog {
    pub fn tell(&self, line: &str) {
        self.lines.lock().push(clean(line));
    }

    pub fn show(&self, copy: PlannedCopy) {
        self.copies.lock().push(copy);
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    pub fn copies(&self) -> Vec<PlannedCopy> {
        self.copies.lock().clone()
    }
}
