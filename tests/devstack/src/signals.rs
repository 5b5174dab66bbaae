//! SIGTERM and SIGINT while a command runs inside a disposable stack.
//!
//! Guarantee: the command gets the signal, ends, and the stack is taken down in order; a second signal, or one before
//! the command runs, ends everything at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use parking_lot::Mutex;

/// The command that gets the signals.
pub struct ForwardedSignals {
    command: Arc<Mutex<Option<Pid>>>,
    received: Arc<AtomicI32>,
}

impl ForwardedSignals {
    /// Takes SIGTERM and SIGINT over. Call it before any thread is started:
    /// each inherits the blocked set. Programs would too; see [`unblocked`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take() -> Result<Self> {
        let set: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
        set.thread_block().context("cannot block signals")?;
        let source = SignalFd::new(&set).context("cannot receive signals")?;
        let command = Arc::new(Mutex::new(None));
        let received = Arc::new(AtomicI32::new(0));
        let (target, last) = (Arc::clone(&command), Arc::clone(&received));
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while let Ok(Some(signal)) = source.read_signal() {
                let number = signal.ssi_signo.cast_signed();
                let earlier = last.swap(number, Ordering::SeqCst);
                let command: Option<Pid> = *target.lock();
                match (command, earlier) {
                    (Some(command), 0) => {
                        // The command has already got the Ctrl-C of a terminal (sent by the kernel).
                        if signal.ssi_code <= 0 {
                            let _ = Signal::try_from(number).and_then(|signal| kill(command, signal));
                        }
                    }
                    // What was started here gets SIGTERM from the kernel.
                    _ => std::process::exit(128 + number),
                }
            }
        })?;
        Ok(Self { command, received })
    }

    /// From now on the process `command` gets the signals.
    pub fn tell(&self, command: Option<u32>) {
        let pid = command.and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        *self.command.lock() = pid;
    }

    /// The signal that was received, if any.
    pub fn received(&self) -> Option<i32> {
        Some(self.received.load(Ordering::SeqCst)).filter(|number| *number != 0)
    }
}

/// Does something, such as starting a program, with no signal blocked in this
/// thread. A signal that arrives just then has its usual effect.
///
/// # Errors
/// When the kernel refuses, or what is done fails.
pub fn unblocked<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    let before =
        SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK).context("cannot unblock signals")?;
    let done = act();
    before.thread_set_mask().context("cannot block signals again")?;
    done
}
