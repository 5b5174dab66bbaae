//! The access review cache: in which namespaces an account has rights, asked as the account itself and remembered for
//! a while.
//!
//! Used where a refusal would be the wrong way to find out: which namespaces a tenant may learn of at all,
//! where its objects can be searched, and whether one watch can do for all namespaces. No request is spared a
//! judgement by it: the API server judges each one again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use weaver_client::call::{CallError, call};

use super::review::{Access, GroupResource, missing};

/// Questions in flight at once.
const CONCURRENCY: usize = 8;

/// [`AccessCache::ask_again`] forgets no more often than that: who may ask for it may do so in a loop.
const BETWEEN_REFRESHES: Duration = Duration::from_secs(30);

/// What one watch can be on: all objects of a kind, in one namespace or in all of them.
type Scope = (GroupResource, Option<String>);

/// What is known of the rights of one account.
pub struct AccessCache {
    /// Makes clients that act as the account.
    connect: Box<dyn Fn() -> Client + Send + Sync>,
    lasts: Duration,
    /// All kinds that were ever asked for: one review answers for all of them.
    kinds: Mutex<BTreeSet<GroupResource>>,
    all: Mutex<HashMap<Scope, (Instant, bool)>>,
    within: Mutex<HashMap<String, (Instant, Rules)>>,
    /// Where one watch showed too much.
    too_large: Mutex<HashMap<Scope, TooLarge>>,
    /// When [`AccessCache::ask_again`] forgot last.
    refreshed: Mutex<Option<Instant>>,
    /// Two callers that want to know the same wait for one answer.
    asking: AsyncMutex<()>,
}

/// A watch that showed too much: it is not tried again for that long, until then.
#[derive(Clone, Copy)]
struct TooLarge {
    pause: Duration,
    until: Instant,
}

/// What an account may do in one namespace, by kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Rules(HashMap<GroupResource, OfKind>);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct OfKind {
    /// Any right on it, be it on one object only.
    touches: bool,
    /// It may list all objects.
    lists: bool,
}

impl AccessCache {
    /// Pause before one watch on all namespaces is tried again that showed more than may be kept, or that was
    /// one too many.
    pub const FIRST_PAUSE: Duration = Duration::from_mins(5);

    /// Longest of the pauses after lists that were too large. Each try reads several MiB to learn that they still are.
    pub const LONGEST_PAUSE: Duration = Duration::from_hours(6);

    /// Clients that act as the account are made by `connect`. Answers are used for as long as `lasts`: that bounds how
    /// long a tenant learns of a namespace in which it has no right any more.
    #[must_use]
    pub fn new(connect: impl Fn() -> Client + Send + Sync + 'static, lasts: Duration) -> Self {
        Self {
            connect: Box::new(connect),
            lasts,
            kinds: Mutex::default(),
            all: Mutex::default(),
            within: Mutex::default(),
            too_large: Mutex::default(),
            refreshed: Mutex::default(),
            asking: AsyncMutex::default(),
        }
    }

    /// A new client that acts as the account. It has a queue of 10 KiB, and twice that after 32 requests: none is kept
    /// for an account that has nothing to do.
    #[must_use]
    pub fn client(&self) -> Client {
        (self.connect)()
    }

    /// May it list and watch all objects of `kind` in this namespace; without one, in all namespaces at once?
    ///
    /// # Errors
    /// If the API server cannot be asked.
    pub async fn sees_all(&self, kind: &GroupResource, namespace: Option<&str>) -> Result<bool, CallError> {
        if let Some(answer) = self.is_known_to_see_all(kind, namespace) {
            return Ok(answer);
        }
        let _asking = self.asking.lock().await;
        if let Some(answer) = self.is_known_to_see_all(kind, namespace) {
            return Ok(answer);
        }
        let asked = ["list", "watch"].map(|verb| on_all(kind, verb, namespace));
        let answer = missing(&self.client(), asked.to_vec()).await?.is_empty();
        self.learn_of_all(kind, namespace, answer);
        Ok(answer)
    }

    /// It has just been refused what [`AccessCache::sees_all`] said it may.
    pub fn does_not_see_all(&self, kind: &GroupResource, namespace: Option<&str>) {
        self.learn_of_all(kind, namespace, false);
    }

    fn learn_of_all(&self, kind: &GroupResource, namespace: Option<&str>, answer: bool) {
        let scope = scope(kind, namespace);
        if !answer {
            // With other rights it may see other objects.
            lock(&self.too_large).remove(&scope);
        }
        let mut all = lock(&self.all);
        if namespace.is_some() && !answer {
            // Nor does it see all namespaces, whatever was answered.
            all.remove(&(kind.clone(), None));
        }
        all.insert(scope, (Instant::now(), answer));
    }

    /// Is one watch on all objects there worth a try, where it is allowed? Not for a while after
    /// [`AccessCache::does_not_fit`].
    #[must_use]
    pub fn may_fit(&self, kind: &GroupResource, namespace: Option<&str>) -> bool {
        let all = lock(&self.too_large);
        all.get(&scope(kind, namespace)).is_none_or(|large| Instant::now() >= large.until)
    }

    /// One watch on all objects there cannot be kept. The pause before the next try doubles each time, up to `longest`.
    pub fn does_not_fit(&self, kind: &GroupResource, namespace: Option<&str>, longest: Duration) {
        let (now, mut all) = (Instant::now(), lock(&self.too_large));
        let scope = scope(kind, namespace);
        let before = all.get(&scope).filter(|large| now < large.until + Self::LONGEST_PAUSE);
        // All who share the watch find it out together.
        if before.is_some_and(|large| now < large.until) {
            return;
        }
        let pause = before.map_or(Self::FIRST_PAUSE, |large| (large.pause * 2).min(longest));
        all.insert(scope, TooLarge { pause, until: now + pause });
    }

    /// Those of `namespaces` in which it has any right on `kind`.
    ///
    /// # Errors
    /// If the API server cannot be asked; then nothing may be concluded.
    pub async fn touched(
        &self,
        kind: &GroupResource,
        namespaces: Vec<String>,
    ) -> Result<BTreeSet<String>, CallError> {
        self.those(kind, namespaces, |access| access.touches).await
    }

    /// Has it any right on `kind` in this namespace now? Asked for a namespace that has just changed, so what
    /// was answered before does not count. A refusal is not remembered: a Role may follow within seconds.
    ///
    /// # Errors
    /// As [`AccessCache::touched`].
    pub async fn touches(&self, kind: &GroupResource, namespace: &str) -> Result<bool, CallError> {
        if self.is_known_to_see_all(kind, None) == Some(true) {
            return Ok(true);
        }
        let rules = self.ask(&self.kinds_and(kind), namespace).await?;
        let touches = rules.touches(kind);
        let mut known = lock(&self.within);
        if touches {
            known.insert(namespace.to_owned(), (Instant::now(), rules));
        } else {
            known.remove(namespace);
        }
        Ok(touches)
    }

    /// Had it a right on `kind` there, when it was asked last?
    #[must_use]
    pub fn touched_before(&self, kind: &GroupResource, namespace: &str) -> bool {
        let known = lock(&self.within);
        known.get(namespace).is_some_and(|(asked, rules)| asked.elapsed() < self.lasts && rules.touches(kind))
    }

    fn is_known_to_see_all(&self, kind: &GroupResource, namespace: Option<&str>) -> Option<bool> {
        let all = lock(&self.all);
        let known = |scope| {
            let (asked, answer) = all.get(&scope)?;
            (asked.elapsed() < self.lasts).then_some(*answer)
        };
        // Who sees all namespaces sees each.
        known(scope(kind, None))
            .filter(|answer| *answer || namespace.is_none())
            .or_else(|| namespace.and_then(|namespace| known(scope(kind, Some(namespace)))))
    }

    /// Those of `namespaces` in which it may list objects of `kind`.
    ///
    /// # Errors
    /// As [`AccessCache::touched`].
    pub async fn listable(
        &self,
        kind: &GroupResource,
        namespaces: Vec<String>,
    ) -> Result<BTreeSet<String>, CallError> {
        self.those(kind, namespaces, |access| access.lists).await
    }

    async fn those(
        &self,
        kind: &GroupResource,
        namespaces: Vec<String>,
        wanted: fn(OfKind) -> bool,
    ) -> Result<BTreeSet<String>, CallError> {
        if self.sees_all(kind, None).await? {
            return Ok(namespaces.into_iter().collect());
        }
        let _asking = self.asking.lock().await;
        let kinds = &self.kinds_and(kind);
        // Kept separately from the cache, which may drop entries while the rest is asked.
        let mut known: HashMap<String, OfKind> = {
            let mut within = lock(&self.within);
            within.retain(|_, (asked, _)| asked.elapsed() < self.lasts);
            let known = |namespace: &String| {
                let (_, rules) = within.get(namespace)?;
                Some((namespace.clone(), *rules.0.get(kind)?))
            };
            namespaces.iter().filter_map(known).collect()
        };
        let unknown: Vec<String> =
            namespaces.iter().filter(|namespace| !known.contains_key(*namespace)).cloned().collect();
        let mut answers = stream::iter(unknown)
            .map(|namespace| async move {
                let rules = self.ask(kinds, &namespace).await;
                (namespace, rules)
            })
            .buffer_unordered(CONCURRENCY);
        let mut failed = Vec::new();
        // One question that fails loses no other answer; where all of them do, it is not waited for each.
        while failed.len() < CONCURRENCY
            && let Some((namespace, rules)) = answers.next().await
        {
            match rules {
                Ok(rules) => {
                    known.extend(rules.0.get(kind).map(|of_kind| (namespace.clone(), *of_kind)));
                    lock(&self.within).insert(namespace, (Instant::now(), rules));
                }
                Err(error) => failed.push(error),
            }
        }
        if let Some(error) = failed.pop() {
            return Err(error);
        }
        let allowed = |namespace: &String| known.get(namespace).copied().is_some_and(wanted);
        Ok(namespaces.into_iter().filter(allowed).collect())
    }

    /// All kinds that were ever asked for, and `kind`.
    fn kinds_and(&self, kind: &GroupResource) -> BTreeSet<GroupResource> {
        let mut kinds = lock(&self.kinds);
        if !kinds.contains(kind) {
            kinds.insert(kind.clone());
        }
        kinds.clone()
    }

    async fn ask(&self, kinds: &BTreeSet<GroupResource>, namespace: &str) -> Result<Rules, CallError> {
        let review = SelfSubjectRulesReview {
            spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.into()) },
            ..SelfSubjectRulesReview::default()
        };
        let client = self.client();
        let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
        let status = call(reviews.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let mut rules = Rules::of(&status, kinds);
        // An authorizer that cannot list its rules, such as a webhook, can still be asked about one.
        if status.incomplete {
            for kind in kinds {
                let asked = ["create", "list"].map(|verb| on_all(kind, verb, Some(namespace)));
                let missing = missing(&client, asked.to_vec()).await?;
                let [creates, lists] = asked.map(|access| !missing.contains(&access));
                let known = rules.0.entry(kind.clone()).or_default();
                *known = OfKind { touches: known.touches || creates || lists, lists: known.lists || lists };
            }
        }
        Ok(rules)
    }

    /// Forgets what was answered longer ago than `age`.
    pub fn forget(&self, age: Duration) {
        lock(&self.all).retain(|_, (asked, _)| asked.elapsed() < age);
        lock(&self.within).retain(|_, (asked, _)| asked.elapsed() < age);
    }

    /// Forgets everything that was answered, once in 30 seconds at most: its rights may be others by now.
    pub fn ask_again(&self) {
        let (now, mut refreshed) = (Instant::now(), lock(&self.refreshed));
        if refreshed.is_none_or(|last| now >= last + BETWEEN_REFRESHES) {
            *refreshed = Some(now);
            self.forget(Duration::ZERO);
        }
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scope(kind: &GroupResource, namespace: Option<&str>) -> Scope {
    (kind.clone(), namespace.map(str::to_owned))
}

/// The verb on all objects of the kind.
fn on_all(kind: &GroupResource, verb: &'static str, namespace: Option<&str>) -> Access {
    Access { verb: verb.into(), resource: kind.clone(), namespace: namespace.map(str::to_owned), name: None }
}

impl Rules {
    fn touches(&self, kind: &GroupResource) -> bool {
        self.0.get(kind).is_some_and(|of_kind| of_kind.touches)
    }

    fn of(status: &SubjectRulesReviewStatus, kinds: &BTreeSet<GroupResource>) -> Self {
        let of_kind = |kind: &GroupResource| {
            let rules = status.resource_rules.iter().filter(|rule| is_about(rule, kind));
            rules.fold(OfKind::default(), |known, rule| {
                let unnamed = rule.resource_names.as_ref().is_none_or(Vec::is_empty);
                let lists = unnamed && rule.verbs.iter().any(|verb| verb == "list" || verb == "*");
                OfKind { touches: known.touches || !rule.verbs.is_empty(), lists: known.lists || lists }
            })
        };
        Self(kinds.iter().map(|kind| (kind.clone(), of_kind(kind))).collect())
    }
}

fn is_about(rule: &ResourceRule, kind: &GroupResource) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|item| item == wanted || item == "*")
    };
    has(&rule.api_groups, &kind.group) && has(&rule.resources, &kind.resource)
}

#[cfg(test)]
mod tests;
