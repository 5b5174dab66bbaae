//! Texts that many objects repeat, each in memory once.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Such as names of namespaces: a thousand syncs with 128 targets each name a few hundred.
#[derive(Debug, Default)]
pub struct SharedTexts(Mutex<KnownTexts>);

#[derive(Debug, Default)]
struct KnownTexts {
    texts: HashSet<Arc<str>>,
    /// How many there are when those that nothing uses any more are dropped.
    prune_at: usize,
}

impl SharedTexts {
    /// The text, which others that are equal share.
    pub fn of(&self, text: &str) -> Arc<str> {
        let mut known = self.0.lock();
        if let Some(found) = known.texts.get(text) {
            return Arc::clone(found);
        }
        if known.texts.len() >= known.prune_at {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.prune_at = known.texts.len() * 2 + 64;
        }
        let text: Arc<str> = text.into();
        known.texts.insert(Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_those_that_nothing_uses_are_dropped() {
        let shared = SharedTexts::default();
        let kept = shared.of("foo");
        assert!(Arc::ptr_eq(&kept, &shared.of("foo")));
        for number in 0..1_000 {
            shared.of(&number.to_string());
        }
        let known = shared.0.lock();
        assert!(known.texts.contains("foo") && known.texts.len() < 100, "{}", known.texts.len());
    }
}
