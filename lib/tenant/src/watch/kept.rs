//! What the watches of one namespace's accounts may use together, and the objects that one of them shows.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Namespace and name of an object; of a kind without namespaces, the first is empty.
pub type NamespacedName = (String, String);

/// What the watches of the accounts of one namespace may use together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WatchLimits {
    /// How many watches. Those that are refused count as well: each is tried again and again.
    pub watches: usize,
    /// What all of them may keep, in bytes; label selectors, which may be long, count as well.
    pub bytes: usize,
    /// What one of them may keep, in bytes. Who may write where it watches decides how much it shows; the rest is left
    /// for the others.
    pub bytes_each: usize,
    /// Lists at once. Each may be as long as an answer may be, and is in memory twice while it is read.
    pub lists: usize,
}

/// A thousand watches, 16 MiB kept by all and 10 by one, four lists.
impl Default for WatchLimits {
    fn default() -> Self {
        Self { watches: 1_024, bytes: 16 << 20, bytes_each: 10 << 20, lists: 4 }
    }
}

/// What is used of the [`WatchLimits`].
pub struct Share {
    pub limits: WatchLimits,
    bytes: AtomicUsize,
    /// How many watches there are.
    pub watches: AtomicUsize,
    /// One permit per list.
    pub lists: Arc<Semaphore>,
}

impl Share {
    pub fn new(limits: WatchLimits) -> Self {
        Self {
            limits,
            bytes: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            lists: Arc::new(Semaphore::new(limits.lists)),
        }
    }

    /// Is the limit of watches reached? Which ones are requested follows from what the tenant has written, so this
    /// reveals nothing about namespaces.
    pub fn has_most_watches(&self) -> bool {
        self.watches.load(Ordering::Relaxed) >= self.limits.watches
    }

    /// May the selector of one more watch take so many bytes?
    pub fn may_take(&self, selector: usize) -> bool {
        selector == 0 || self.bytes.load(Ordering::Relaxed) + selector <= self.limits.bytes
    }

    /// One more watch, whose selector takes so many bytes.
    pub fn add(&self, selector: usize) {
        self.watches.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(selector, Ordering::Relaxed);
    }

    /// The end of what was [added](Self::add).
    pub fn remove(&self, selector: usize) {
        self.watches.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(selector, Ordering::Relaxed);
    }
}

/// There is more to keep than may be kept.
#[derive(Debug, PartialEq)]
pub struct TooMuch;

/// The objects of one watch. What they use of the share is given back when they go.
pub struct WatchedObjects<T> {
    share: Arc<Share>,
    bytes: usize,
    /// In order. A tree would have room for eleven, and most watches show one.
    kept: Vec<KeptObject<T>>,
}

struct KeptObject<T> {
    key: NamespacedName,
    object: T,
    bytes: usize,
}

impl<T> WatchedObjects<T> {
    pub fn new(share: Arc<Share>) -> Self {
        Self { share, bytes: 0, kept: Vec::new() }
    }

    /// Puts an object of so many `bytes` in; gives back what was there.
    ///
    /// # Errors
    /// If the share is used up, or the watch's part of it. What the objects use that these `replace` does not count.
    pub fn put(
        &mut self,
        key: NamespacedName,
        object: T,
        bytes: usize,
        replace: usize,
    ) -> Result<Option<T>, TooMuch> {
        let before = match self.find(&key) {
            Ok(at) => {
                let before = mem::replace(&mut self.kept[at], KeptObject { key, object, bytes });
                self.give_back(before.bytes);
                Some(before.object)
            }
            Err(at) => {
                self.kept.insert(at, KeptObject { key, object, bytes });
                None
            }
        };
        let all = self.share.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes += bytes;
        let limits = self.share.limits;
        let fits = all.saturating_sub(replace) <= limits.bytes && self.bytes <= limits.bytes_each;
        if fits { Ok(before) } else { Err(TooMuch) }
    }

    pub fn remove(&mut self, key: &NamespacedName) -> Option<T> {
        let at = self.find(key).ok()?;
        let before = self.kept.remove(at);
        self.give_back(before.bytes);
        Some(before.object)
    }

    /// Gives back the memory that more objects would need.
    pub fn fit(&mut self) {
        self.kept.shrink_to_fit();
    }

    /// Bytes that the kept objects use, as they were counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&self, key: &NamespacedName) -> Option<&T> {
        self.find(key).ok().map(|at| &self.kept[at].object)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NamespacedName, &T)> {
        self.kept.iter().map(|kept| (&kept.key, &kept.object))
    }

    pub fn clear(&mut self) {
        self.kept = Vec::new();
        self.give_back(self.bytes);
    }

    /// Where it is, or would be.
    fn find(&self, key: &NamespacedName) -> Result<usize, usize> {
        self.kept.binary_search_by(|kept| kept.key.cmp(key))
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.share.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl<T> Drop for WatchedObjects<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = 100;

    fn share() -> Arc<Share> {
        Arc::new(Share::new(WatchLimits { watches: 3, bytes: 100 * EACH, bytes_each: 60 * EACH, lists: 1 }))
    }

    fn key(number: usize) -> NamespacedName {
        ("foo".into(), number.to_string())
    }

    #[test]
    fn the_watches_of_one_tenant_share_what_they_may_keep_and_give_it_back() {
        let share = share();
        let (mut one, mut two) = (WatchedObjects::new(share.clone()), WatchedObjects::new(share.clone()));
        for number in 0..100 {
            let objects = if number % 2 == 0 { &mut one } else { &mut two };
            assert_eq!(objects.put(key(number), (), EACH, 0), Ok(None));
        }
        assert_eq!(two.put(key(1), (), EACH, 0), Ok(Some(())), "one that is there costs nothing more");
        assert_eq!(two.put(key(100), (), EACH, 0), Err(TooMuch));
        drop(two);
        // A list of all objects does not count twice.
        let mut listed = WatchedObjects::new(share.clone());
        for number in 0..60 {
            assert_eq!(listed.put(key(number), (), EACH, one.bytes()), Ok(None), "{number}");
        }
        drop((one, listed));
        assert_eq!(share.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_object_is_found_whatever_came_before_and_after_it() {
        let mut objects = WatchedObjects::new(share());
        for number in [7, 3, 9, 1, 5] {
            assert_eq!(objects.put(key(number), number, EACH, 0), Ok(None));
        }
        assert_eq!(objects.put(key(3), 33, 2 * EACH, 0), Ok(Some(3)));
        assert_eq!((objects.remove(&key(7)), objects.remove(&key(7))), (Some(7), None));
        objects.fit();
        let found = [0, 1, 3, 5, 7, 9].map(|number| objects.get(&key(number)).copied());
        assert_eq!(found, [None, Some(1), Some(33), Some(5), None, Some(9)]);
        assert_eq!(objects.iter().map(|(_, object)| *object).collect::<Vec<_>>(), [1, 33, 5, 9]);
        assert_eq!(objects.bytes(), 5 * EACH);
        objects.clear();
        assert_eq!((objects.bytes(), objects.get(&key(1))), (0, None));
    }

    /// Someone fills a namespace that one of them is on.
    #[test]
    fn one_watch_leaves_the_others_of_its_tenant_what_they_need() {
        let share = share();
        let (mut filled, mut other) = (WatchedObjects::new(share.clone()), WatchedObjects::new(share));
        let fits = (0..1_000).take_while(|number| filled.put(key(*number), (), EACH, 0).is_ok()).count();
        assert_eq!(fits, 60);
        filled.clear();
        for number in 0..fits {
            assert_eq!(filled.put(key(number), (), EACH, 0), Ok(None));
        }
        for number in 0..40 {
            assert_eq!(other.put(key(number), (), EACH, 0), Ok(None));
        }
    }
}
