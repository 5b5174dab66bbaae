//! Locks of files, which the kernel takes from a process that ends.

use std::fs::{File, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// Locks `file` until it is closed. Waits that long for another process that has it, and blocks its thread.
///
/// # Errors
/// Another process still has it, or the file cannot be locked.
pub fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => sleep(POLL),
            locked => return locked,
        }
    }
}
