//! How many files this process may have open; each connection is one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::debug;

/// Raises the limit as far as the process may: systemd and container runtimes begin with 1,024 of many more, for
/// programs that use `select`, and this one does not.
pub fn raise_limit() {
    let files = Resource::RLIMIT_NOFILE;
    let raised = getrlimit(files).and_then(
        |(soft, hard)| {
            if soft < hard { setrlimit(files, hard, hard) } else { Ok(()) }
        },
    );
    if let Err(error) = raised {
        debug!(%error, "raising the limit of open files");
    }
}
