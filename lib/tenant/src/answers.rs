//! Answers that are remembered, as many as fit: who asks may make up ever new questions.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use tokio::time::Instant;

use super::budget::{MemoryPermit, MemoryShare};

/// What an answer costs besides the texts in it, in a table that is half full.
const EACH: usize = 256;

/// The answers to questions of one sort.
pub struct RememberedAnswers<Q, A> {
    share: Arc<MemoryShare>,
    kept: HashMap<Q, Remembered<A>>,
}

struct Remembered<A> {
    asked: Instant,
    answer: A,
    _permit: MemoryPermit,
}

impl<Q: Eq + Hash, A> RememberedAnswers<Q, A> {
    pub fn new(share: Arc<MemoryShare>) -> Self {
        Self { share, kept: HashMap::new() }
    }

    /// What was answered, and when.
    pub fn get<K>(&self, question: &K) -> Option<(Instant, &A)>
    where
        Q: Borrow<K>,
        K: Eq + Hash + ?Sized,
    {
        self.kept.get(question).map(|kept| (kept.asked, &kept.answer))
    }

    /// Remembers an answer of now, with texts of so many `bytes`. Where it does not fit, the older half of the others
    /// is forgotten, and where that is not enough, it is not remembered.
    pub fn put(&mut self, question: Q, answer: A, bytes: usize) {
        self.kept.remove(&question);
        let permit = self.share.take(EACH + bytes).or_else(|| {
            self.forget_older_half();
            self.share.take(EACH + bytes)
        });
        if let Some(permit) = permit {
            self.kept.insert(question, Remembered { asked: Instant::now(), answer, _permit: permit });
        }
    }

    pub fn remove<K>(&mut self, question: &K)
    where
        Q: Borrow<K>,
        K: Eq + Hash + ?Sized,
    {
        self.kept.remove(question);
    }

    /// Forgets what is not `wanted` any more, by when it was asked and what was answered.
    pub fn retain(&mut self, wanted: impl Fn(Instant, &A) -> bool) {
        self.kept.retain(|_, kept| wanted(kept.asked, &kept.answer));
        self.kept.shrink_to(self.kept.len() * 2);
    }

    fn forget_older_half(&mut self) {
        let mut times: Vec<Instant> = self.kept.values().map(|kept| kept.asked).collect();
        times.sort_unstable();
        if let Some(&middle) = times.get(times.len() / 2) {
            self.retain(|asked, _| asked > middle);
        }
    }
}
