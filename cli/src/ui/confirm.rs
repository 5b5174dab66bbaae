//! What a user was shown and has not confirmed yet. Pure, but for the secrets, which are random.
//!
//! Guarantees: what is done is what was shown, whatever has changed meanwhile; each confirmation works once, for a
//! limited time, and only for its object. They are kept in this program, so no other run and no other browser has one:
//! to send it, the cookie is needed as well.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::access::random;
use super::view::sync::SyncKey;

/// How long a user may take to confirm.
pub const VALID: Duration = Duration::from_mins(10);
/// The most pages that wait for a confirmation; beyond that the oldest is dropped.
const WAITING: usize = 16;

/// What waits for a confirmation; `T` is what would be done.
pub struct Confirmations<T>(Mutex<VecDeque<Confirmation<T>>>);

struct Confirmation<T> {
    token: String,
    object: SyncKey,
    /// `None` once a user has agreed.
    what: Option<T>,
    at: Instant,
}

/// What a token confirms.
#[derive(Debug, Eq, PartialEq)]
pub enum Agreed<T> {
    Now(T),
    /// It was confirmed before, as with a second click.
    Before,
    ToNothing,
}

impl<T> Default for Confirmations<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Confirmations<T> {
    /// Keeps what is shown to the user now; returns the token of its confirmation.
    pub fn ask(&self, object: SyncKey, what: T, now: Instant) -> anyhow::Result<String> {
        let token = random()?;
        let mut waiting = self.0.lock();
        if waiting.len() == WAITING {
            waiting.pop_front();
        }
        waiting.push_back(Confirmation { token: token.clone(), object, what: Some(what), at: now });
        Ok(token)
    }

    /// What this token confirms, once.
    pub fn take(&self, object: &SyncKey, token: &str, now: Instant) -> Agreed<T> {
        let mut waiting = self.0.lock();
        waiting.retain(|shown| now.saturating_duration_since(shown.at) < VALID);
        let is_it = |shown: &Confirmation<T>| {
            bool::from(shown.token.as_bytes().ct_eq(token.as_bytes())) && shown.object == *object
        };
        let Some(at) = waiting.iter().position(is_it) else { return Agreed::ToNothing };
        waiting[at].what.take().map_or(Agreed::Before, Agreed::Now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::sync::SyncKind;
    use super::super::view::sync::tests::key;
    use super::*;

    fn object(name: &str) -> SyncKey {
        key(SyncKind::ConfigMap, name)
    }

    #[test]
    fn each_confirmation_works_once_where_it_was_shown() {
        let (confirmations, now) = (Confirmations::default(), Instant::now());
        let token = confirmations.ask(object("a"), 1, now).unwrap();
        let other = confirmations.ask(object("a"), 2, now).unwrap();
        for wrong in ["", "x", &token[1..], &format!("{token}x")] {
            assert_eq!(confirmations.take(&object("a"), wrong, now), Agreed::ToNothing, "{wrong}");
        }
        for other in [object("b"), key(SyncKind::Resource, "a")] {
            assert_eq!(confirmations.take(&other, &token, now), Agreed::ToNothing, "{other:?}");
        }
        assert_eq!(confirmations.take(&object("a"), &token, now), Agreed::Now(1));
        assert_eq!(confirmations.take(&object("a"), &token, now), Agreed::Before, "again");
        assert_eq!(
            confirmations.take(&object("b"), &token, now),
            Agreed::ToNothing,
            "again, of another object"
        );
        assert_eq!(confirmations.take(&object("a"), &other, now), Agreed::Now(2));
    }

    #[test]
    fn what_is_old_and_what_is_too_much_is_forgotten() {
        let (confirmations, now) = (Confirmations::default(), Instant::now());
        let tokens: Vec<String> =
            (0..=WAITING).map(|number| confirmations.ask(object("a"), number, now).unwrap()).collect();
        assert_eq!(confirmations.take(&object("a"), &tokens[0], now), Agreed::ToNothing);
        assert_eq!(confirmations.take(&object("a"), &tokens[1], now + VALID / 2), Agreed::Now(1));
        assert_eq!(confirmations.take(&object("a"), &tokens[2], now + VALID), Agreed::ToNothing);
    }
}
