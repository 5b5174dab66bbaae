//! Who uses a watch, and who waits for which of its objects.

use std::collections::{BTreeMap, BTreeSet};

use super::kept::NamespacedName;

/// A user, and which of its interests it is: an object that was made again under the same name has one next to
/// the one of its predecessor, which ends later.
pub type WatchUser<U> = (U, u64);

/// The users of one watch. Ten thousand may share one, so no event looks at each.
pub struct WatchUsers<U> {
    /// With the objects that each waits for.
    all: BTreeMap<WatchUser<U>, BTreeSet<NamespacedName>>,
    waiting: BTreeMap<NamespacedName, BTreeSet<WatchUser<U>>>,
}

impl<U> Default for WatchUsers<U> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), waiting: BTreeMap::new() }
    }
}

impl<U: Clone + Ord> WatchUsers<U> {
    /// Adds a user that waits for these `objects`, or replaces what it waits for.
    pub fn insert(&mut self, user: WatchUser<U>, objects: BTreeSet<NamespacedName>) {
        self.remove(&user);
        for object in &objects {
            self.waiting.entry(object.clone()).or_default().insert(user.clone());
        }
        self.all.insert(user, objects);
    }

    pub fn remove(&mut self, user: &WatchUser<U>) {
        for object in self.all.remove(user).into_iter().flatten() {
            if let Some(waiting) = self.waiting.get_mut(&object) {
                waiting.remove(user);
                if waiting.is_empty() {
                    self.waiting.remove(&object);
                }
            }
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &U> {
        self.all.keys().map(|(user, _)| user)
    }

    /// Those of the users that are `concerned`, and those that wait for `object`; each once.
    pub fn woken(&self, concerned: &[U], object: &NamespacedName) -> BTreeSet<U> {
        let uses = |user: &&U| {
            let interests = ((*user).clone(), u64::MIN)..=((*user).clone(), u64::MAX);
            self.all.range(interests).next().is_some()
        };
        let waiting = self.waiting.get(object).into_iter().flatten().map(|(user, _)| user);
        concerned.iter().filter(uses).chain(waiting).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_concerned_or_waits_is_woken_once_and_who_left_is_not() {
        let object = |name: &str| ("foo".to_owned(), name.to_owned());
        let mut users = WatchUsers::default();
        for (user, interest, waits) in
            [("a", 1, vec!["x"]), ("a", 2, vec![]), ("b", 3, vec!["x", "y"]), ("c", 4, vec![])]
        {
            users.insert((user, interest), waits.into_iter().map(object).collect());
        }
        let woken = |users: &WatchUsers<_>, concerned: &[&'static str], name| {
            users.woken(concerned, &object(name)).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(woken(&users, &["c", "stranger"], "z"), ["c"]);
        assert_eq!(woken(&users, &["a"], "x"), ["a", "b"]);
        users.insert(("b", 3), BTreeSet::from([object("z")]));
        assert_eq!(woken(&users, &[], "y"), Vec::<&str>::new());
        assert_eq!(woken(&users, &[], "z"), ["b"]);
        users.remove(&("a", 1));
        assert_eq!(woken(&users, &["a"], "x"), ["a"], "it has another interest");
        for user in [("a", 2), ("b", 3), ("c", 4)] {
            users.remove(&user);
        }
        assert!(users.all.is_empty() && users.waiting.is_empty());
    }
}
