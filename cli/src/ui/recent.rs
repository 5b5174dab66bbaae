//! Answers of the API server that are a few seconds old: a page that reloads on every change does not send each request
//! again.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer is used again.
const FRESH: Duration = Duration::from_secs(10);
/// The most answers that are kept; beyond that the oldest is dropped.
const KEPT: usize = 16;

/// Answers by request.
pub struct Recent<T>(Mutex<VecDeque<(String, Instant, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    /// The answer to this, if it is fresh; else the result of `ask`, which is kept unless it failed.
    pub async fn get<E>(&self, key: String, ask: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        if let Some(answer) = self.fresh(&key, Instant::now()) {
            return Ok(answer);
        }
        let answer = ask.await?;
        self.keep(key, Instant::now(), answer.clone());
        Ok(answer)
    }

    fn fresh(&self, key: &str, now: Instant) -> Option<T> {
        let mut kept = self.0.lock();
        kept.retain(|(_, at, _)| now.saturating_duration_since(*at) < FRESH);
        kept.iter().find(|(known, ..)| known == key).map(|(.., answer)| answer.clone())
    }

    fn keep(&self, key: String, now: Instant, answer: T) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((key, now, answer));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_is_asked_again_only_when_it_is_old_failed_or_too_many_are_kept() {
        let (recent, asked) = (Recent::default(), Cell::new(0));
        let ask = async |key: &str| {
            let answer = recent.get(key.to_owned(), async {
                asked.set(asked.get() + 1);
                if key == "bad" { Err(()) } else { Ok(asked.get()) }
            });
            answer.await
        };
        assert_eq!((ask("a").await, ask("a").await, ask("b").await), (Ok(1), Ok(1), Ok(2)));
        assert_eq!((ask("bad").await, ask("bad").await, asked.get()), (Err(()), Err(()), 4));
        tokio::time::advance(FRESH).await;
        assert_eq!(ask("a").await, Ok(5));
        for number in 0..KEPT {
            ask(&number.to_string()).await.unwrap();
        }
        assert!(ask("a").await.unwrap() > 5);
    }
}
