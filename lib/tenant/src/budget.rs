//! Memory that tenants share: each may use what the others leave, and always has a part of its own.
//!
//! A tenant decides how much there is to remember of it. A [`MemoryBudget`] is a number of bytes for all tenants; each
//! takes from its [`MemoryShare`], and gives back by dropping the [`MemoryPermit`]. Once all of it is used, a share
//! may still grow to an equal part, as many parts as there are shares, until all of them together use twice the budget.
//! So one tenant that uses much does not take what another one needs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A number of bytes for all tenants; a clone is the same one.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Budget>);

struct Budget {
    most: usize,
    used: AtomicUsize,
    /// How many shares there are.
    parts: AtomicUsize,
    shares: Mutex<HashMap<String, Weak<MemoryShare>>>,
}

/// What one tenant uses of the budget.
pub struct MemoryShare {
    budget: Arc<Budget>,
    used: AtomicUsize,
}

/// So many bytes, until it is dropped.
pub struct MemoryPermit {
    share: Arc<MemoryShare>,
    bytes: usize,
}

impl MemoryBudget {
    /// A budget of `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Budget {
            most,
            used: AtomicUsize::new(0),
            parts: AtomicUsize::new(0),
            shares: Mutex::default(),
        }))
    }

    /// Bytes that are used.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// What `tenant` uses of it. It is forgotten with its last clone and its last permit.
    #[must_use]
    pub fn share(&self, tenant: &str) -> Arc<MemoryShare> {
        let mut shares = self.0.shares.lock();
        if let Some(share) = shares.get(tenant).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        self.0.parts.fetch_add(1, Ordering::Relaxed);
        let share = Arc::new(MemoryShare { budget: self.0.clone(), used: AtomicUsize::new(0) });
        shares.insert(tenant.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl MemoryShare {
    /// Takes so many bytes; `None`, where they do not fit.
    #[must_use]
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<MemoryPermit> {
        let all = self.budget.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Gives them back where they do not fit.
        let permit = MemoryPermit { share: self.clone(), bytes };
        let part = self.budget.most / self.budget.parts.load(Ordering::Relaxed).max(1);
        // Earlier shares had larger parts, when they were fewer.
        let fits = all <= self.budget.most || own <= part && all <= 2 * self.budget.most;
        fits.then_some(permit)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.budget.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.share.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.share.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many permits of ten bytes as fit.
    fn fill(share: &Arc<MemoryShare>) -> Vec<MemoryPermit> {
        std::iter::from_fn(|| share.take(10)).take(1_000).collect()
    }

    #[test]
    fn a_tenant_that_takes_all_leaves_each_other_one_its_part() {
        let budget = MemoryBudget::new(1_000);
        let greedy = budget.share("greedy");
        let taken = fill(&greedy);
        assert_eq!((taken.len(), budget.used()), (100, 1_000));
        let others = ["a", "b", "c"].map(|name| budget.share(name));
        let parts: Vec<_> = others.iter().map(fill).collect();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [25, 25, 25], "a quarter each");
        assert!(greedy.take(1).is_none());
        assert!(budget.used() <= 2_000, "twice the budget");
        drop(taken);
        assert!(!fill(&others[0]).is_empty(), "what is given back is for all");
    }

    #[test]
    fn however_many_tenants_come_one_after_the_other_it_is_twice_the_budget_at_most() {
        let budget = MemoryBudget::new(1_000);
        let taken: Vec<_> = (0..100).map(|number| fill(&budget.share(&number.to_string()))).collect();
        assert_eq!(budget.used(), 2_000);
        assert!(taken[..3].iter().all(|permits| permits.len() >= 33));
    }

    #[test]
    fn what_is_dropped_is_given_back_and_a_share_without_permits_is_forgotten() {
        let budget = MemoryBudget::new(100);
        let taken = fill(&budget.share("a"));
        assert!(budget.share("a").take(10).is_none(), "it is the same share");
        assert!(budget.share("b").take(60).is_none(), "it is one of two");
        drop(taken);
        assert_eq!(budget.used(), 0);
        let part = budget.share("b").take(100);
        assert_eq!((part.is_some(), budget.used()), (true, 100), "what did not fit was not counted");
        drop(part);
        drop(budget.share("c"));
        assert_eq!(budget.0.parts.load(Ordering::Relaxed), 0);
        assert_eq!(budget.0.shares.lock().len(), 1, "a forgotten one is removed with the next");
    }
}
