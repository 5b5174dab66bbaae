//! Why this process may write: it holds the lease, or is configured to run without
//! one.

use tracing::warn;
use weaver_client::call::CallError;

use super::fence::Fence;
use super::hold::{Ending, HeldLease, Holder, Leases};
use crate::log_code;

/// The right to write.
pub enum Lead {
    Alone,
    Held(Box<HeldLease>),
}

impl Lead {
    /// Waits for leadership; `waits_for` gets the current holder.
    ///
    /// # Errors
    /// If the lease may not be read or written.
    pub async fn take(
        standalone: bool,
        leases: Leases,
        fence: &Fence,
        waits_for: impl FnMut(Holder<'_>),
    ) -> Result<Self, CallError> {
        if standalone {
            warn!(
                code = log_code::STANDALONE,
                "running without leader election: no other operator may run in this cluster"
            );
            fence.open();
            return Ok(Self::Alone);
        }
        leases.acquire(waits_for).await.map(|held| Self::Held(Box::new(held)))
    }

    /// Keeps it; ends when it is lost, or another is to have it.
    pub async fn keep(&mut self) -> Ending {
        match self {
            Self::Alone => std::future::pending().await,
            Self::Held(held) => held.keep().await,
        }
    }

    /// Gives it back. Nothing is written after that.
    pub async fn release(self) {
        if let Self::Held(held) = self {
            held.release().await;
        }
    }
}
