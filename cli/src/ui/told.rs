//! What the code of the command line says on its way, for a page.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weaver_diagnostics::finding_text::clean;

/// For what a page has to ask the API server for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Lines, in order.
#[derive(Default)]
pub struct Told(Mutex<Vec<String>>);

impl Told {
    pub fn tell(&self, line: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(clean(line));
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
