//! The API server's clock, read from the `Date` of its answers.
//!
//! The server issues tokens and judges them, so a token that is kept, in a Secret say, is renewed by its clock: this
//! machine's may be hours off. Between two answers time is counted on a monotonic clock. A `Date` has whole
//! seconds, and a proxy's delay comes on top: good for what lives minutes.

use std::sync::Arc;

use http::HeaderMap;
use http::header::DATE;
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The clock; a clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct ServerClock(Arc<Mutex<Option<(Timestamp, Instant)>>>);

impl ServerClock {
    /// Reads the date of an answer; without one that can be read, nothing changes. For a layer around a transport.
    pub fn read(&self, answer: &HeaderMap) {
        let date = answer.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) {
            *self.0.lock() = Some((date, Instant::now()));
        }
    }

    /// What it shows now; this machine's clock until the first answer.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let last = *self.0.lock();
        let since = |then: Instant| SignedDuration::try_from(then.elapsed()).unwrap_or(SignedDuration::MAX);
        last.and_then(|(date, then)| date.checked_add(since(then)).ok()).unwrap_or_else(Timestamp::now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;

    fn answer(date: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))])
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_date_that_was_sent_continues() {
        let clock = ServerClock::default();
        assert!(clock.now().duration_since(Timestamp::now()).abs() < SignedDuration::from_secs(5));
        clock.read(&answer("Sun, 06 Nov 1994 08:49:37 GMT"));
        tokio::time::advance(Duration::from_secs(23)).await;
        assert_eq!(clock.now().to_string(), "1994-11-06T08:50:00Z");
        for nothing in [HeaderMap::new(), answer("soon"), answer("")] {
            clock.read(&nothing);
        }
        assert_eq!(clock.now().to_string(), "1994-11-06T08:50:00Z");
        clock.clone().read(&answer("Sun, 06 Nov 1994 08:40:00 GMT"));
        assert_eq!(clock.now().to_string(), "1994-11-06T08:40:00Z", "a clock that was set back");
    }
}
