//! Waiting with a deadline, and what the tests are given.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest wait for anything that events bring about: a busy machine has needed 40 s to remove a definition.
pub const SOON: Duration = Duration::from_secs(90);

/// Reads a variable that `weaver-devstack with-server` sets.
pub fn given(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run this through `make test`"))
        .into()
}

/// Asks `question` until it answers, or fails with what it said last.
pub async fn eventually<T, E: Debug, F>(what: &str, question: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    eventually_within(SOON, what, question).await
}

/// The same for what takes longer.
pub async fn eventually_within<T, E: Debug, F>(
    limit: Duration,
    what: &str,
    mut question: impl FnMut() -> F,
) -> T
where
    F: Future<Output = Result<T, E>>,
{
    let begun = Instant::now();
    loop {
        match question().await {
            Ok(answer) => return answer,
            Err(last) if begun.elapsed() > limit => {
                panic!("not within {limit:?}: {what}; last seen: {last:#?}")
            }
            Err(_) => tokio::time::sleep(pause(begun.elapsed())).await,
        }
    }
}

/// A tenth of what was waited: who waits for long asks less often, which the processors have other work for.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(50), Duration::from_millis(250))
}
