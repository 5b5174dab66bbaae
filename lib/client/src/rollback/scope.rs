//! A body of writes that is undone as a whole, unless it ends well.

use std::fmt;

use tokio::runtime::Handle;

use super::Rollback;
use super::undo::Undone;

/// The error of a [`scope`], and what became of what was written before it.
#[derive(Debug)]
pub struct RolledBack<E> {
    /// Why the body ended.
    pub error: E,
    /// The last write first.
    pub undone: Vec<Undone>,
}

impl<E: fmt::Display> fmt::Display for RolledBack<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        self.undone.iter().try_for_each(|undone| write!(f, "; {undone}"))
    }
}

impl<E: std::error::Error> std::error::Error for RolledBack<E> {}

/// Runs `body`, and undoes what it wrote through the [`Rollback`] unless it ends well.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use std::time::Duration;
/// # use weaver_client::rollback::{RolledBack, Rollback, scope};
/// # use weaver_client::{Conflicts, Error, Objects, WaitProgress};
/// async fn both(maps: &Objects<ConfigMap>, first: &ConfigMap, second: &ConfigMap) -> Result<(), RolledBack<Error>> {
///     scope(async |writes: &mut Rollback| {
///         writes.apply(maps, "first", first, Conflicts::Refuse).await?;
///         // If this one is refused, the first is as it was before.
///         writes.apply(maps, "second", second, Conflicts::Refuse).await?;
///         Ok(())
///     })
///     .await
/// }
/// ```
///
/// If the future is dropped before it ends (a timeout, `select!`, a panic in `body`), the undoing is spawned on
/// the current tokio runtime: its result is not visible, and a runtime that is shut down cancels it. A write
/// that was being sent then has no known answer, and is left alone. Where that is not enough, call
/// [`Rollback::undo`] yourself.
///
/// # Errors
/// That of `body`, with what was undone.
pub async fn scope<T, E>(body: impl AsyncFnOnce(&mut Rollback) -> Result<T, E>) -> Result<T, RolledBack<E>> {
    let mut guard = ScopeGuard(Rollback::new());
    match body(&mut guard.0).await {
        Ok(result) => {
            guard.0.steps.clear();
            Ok(result)
        }
        Err(error) => {
            let undone = guard.0.undo_all().await;
            Err(RolledBack { error, undone })
        }
    }
}

/// Undoes in the background what is left when a scope is dropped.
struct ScopeGuard(Rollback);

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        let mut rollback = std::mem::take(&mut self.0);
        if rollback.steps.is_empty() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { rollback.undo_all().await });
        }
    }
}
