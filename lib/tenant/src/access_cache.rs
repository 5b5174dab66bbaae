//! The access review cache: in which namespaces an account has rights, asked as the account itself and remembered for
//! a while.
//!
//! Used where a refusal would be the wrong way to find out: which namespaces a tenant may learn of at all,
//! where its objects can be searched, and whether one watch can do for all namespaces. No request is spared a
//! judgement by it: the API server judges each one again.
//!
//! An API server that has just started answers before it knows all Roles, so a refusal may be wrong: it is used for a
//! short time at first ([`Answered`]), and not at all once the account has lost the server and reached it again.
//!
//! Which namespaces are asked about, a tenant decides by what it writes. So what is remembered has a bound for all
//! accounts of its namespace; what does not fit is asked again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use weaver_client::call::CallError;

use self::answered::Answered;
use self::rules::{OfKind, Rules, on_all};
use super::answers::RememberedAnswers;
use super::budget::{MemoryBudget, MemoryPermit, MemoryShare};
use super::review::{GroupResource, missing};

mod answered;
mod rules;

/// Questions in flight at once.
const CONCURRENCY: usize = 8;

/// [`AccessCache::ask_again`] forgets no more often than that: who may ask for it may do so in a loop.
const BETWEEN_REFRESHES: Duration = Duration::from_secs(30);

/// Bytes of all that is remembered of all accounts, or twice as much where many namespaces have accounts
/// ([`MemoryBudget`]). An account that selects among a thousand namespaces takes a quarter of a MiB.
pub const REMEMBERED: usize = 8 << 20;

/// Bytes of what is remembered of watches that show too much, of one account: some fifty of them. Apart from the rest,
/// since each that is forgotten is tried again, and reads megabytes.
const TOO_LARGE: usize = 16 << 10;

/// Kinds of which the answers for one account are remembered.
const KINDS: usize = 64;

/// What one watch can be on: all objects of a kind, in one namespace or in all of them.
type Scope = (GroupResource, Option<String>);

/// What is known of the rights of one account.
pub struct AccessCache {
    /// Makes clients that act as the account.
    connect: Box<dyn Fn() -> Client + Send + Sync>,
    lasts: Duration,
    share: Arc<MemoryShare>,
    /// Kinds that were asked for, up to [`KINDS`]: one review answers for all of them.
    kinds: Mutex<Vec<(GroupResource, MemoryPermit)>>,
    all: Mutex<RememberedAnswers<Scope, Answered<bool>>>,
    within: Mutex<RememberedAnswers<String, Answered<Rules>>>,
    /// Where one watch showed too much.
    too_large: Mutex<RememberedAnswers<Scope, TooLarge>>,
    /// When [`AccessCache::ask_again`] forgot last.
    refreshed: Mutex<Option<Instant>>,
    /// The API server did not answer a request of the account's watches, and none of them since.
    lost: AtomicBool,
    /// Two callers that want to know the same wait for one answer.
    asking: AsyncMutex<()>,
}

/// A watch that showed too much: it is not tried again for that long, until then.
#[derive(Clone, Copy)]
struct TooLarge {
    pause: Duration,
    until: Instant,
}

/// For which kinds one review is made.
struct AskedKinds {
    /// Those that are remembered, in their order, and behind them the one in question where it is not.
    kinds: Vec<GroupResource>,
    /// Index of the one in question.
    this: usize,
    /// How many are remembered.
    kept: usize,
}

impl AccessCache {
    /// Pause before one watch on all namespaces is tried again that showed more than may be kept, or that was
    /// one too many.
    pub const FIRST_PAUSE: Duration = Duration::from_mins(5);

    /// Longest of the pauses after lists that were too large. Each try reads several MiB to learn that they still are.
    pub const LONGEST_PAUSE: Duration = Duration::from_hours(6);

    /// Clients that act as the account are made by `connect`. Answers are used for as long as `lasts`: that bounds how
    /// long a tenant learns of a namespace in which it has no right any more. A refusal is used for half a minute at
    /// first, and for longer each time that it is repeated. What is remembered is taken from `share`.
    #[must_use]
    pub fn new(
        connect: impl Fn() -> Client + Send + Sync + 'static,
        lasts: Duration,
        share: Arc<MemoryShare>,
    ) -> Self {
        Self {
            connect: Box::new(connect),
            lasts,
            kinds: Mutex::default(),
            all: Mutex::new(RememberedAnswers::new(share.clone())),
            within: Mutex::new(RememberedAnswers::new(share.clone())),
            too_large: Mutex::new(RememberedAnswers::new(MemoryBudget::new(TOO_LARGE).share(""))),
            share,
            refreshed: Mutex::default(),
            lost: AtomicBool::new(false),
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
        let (client, mut answer) = (self.client(), true);
        // Most accounts may do neither, and one answer says so.
        for verb in ["list", "watch"] {
            answer = answer && missing(&client, vec![on_all(kind, verb, namespace)]).await?.is_empty();
        }
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
            self.too_large.lock().remove(&scope);
        }
        let mut all = self.all.lock();
        if namespace.is_some() && !answer {
            // Nor does it see all namespaces, whatever was answered.
            all.remove(&(kind.clone(), None));
        }
        let bytes = texts(&scope);
        let answered = Answered::after(answer, all.get(&scope).map(|(_, before)| before));
        all.put(scope, answered, bytes);
    }

    /// Is one watch on all objects there worth a try, where it is allowed? Not for a while after
    /// [`AccessCache::does_not_fit`].
    #[must_use]
    pub fn may_fit(&self, kind: &GroupResource, namespace: Option<&str>) -> bool {
        let all = self.too_large.lock();
        all.get(&scope(kind, namespace)).is_none_or(|(_, large)| Instant::now() >= large.until)
    }

    /// One watch on all objects there cannot be kept. The pause before the next try doubles each time, up to `longest`.
    pub fn does_not_fit(&self, kind: &GroupResource, namespace: Option<&str>, longest: Duration) {
        let (now, mut all) = (Instant::now(), self.too_large.lock());
        let scope = scope(kind, namespace);
        let before = all.get(&scope).map(|(_, large)| *large);
        let before = before.filter(|large| now < large.until + Self::LONGEST_PAUSE);
        // All who share the watch find it out together.
        if before.is_some_and(|large| now < large.until) {
            return;
        }
        let pause = before.map_or(Self::FIRST_PAUSE, |large| (large.pause * 2).min(longest));
        let bytes = texts(&scope);
        all.put(scope, TooLarge { pause, until: now + pause }, bytes);
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
        let kinds = self.kinds_and(kind);
        let rules = Rules::ask(&self.client(), &kinds.kinds, namespace).await?;
        let touches = rules.of_kind(kinds.this).touches;
        if touches {
            self.learn_within(namespace.to_owned(), rules, &kinds);
        } else {
            self.within.lock().remove(namespace);
        }
        Ok(touches)
    }

    fn learn_within(&self, namespace: String, mut rules: Rules, kinds: &AskedKinds) {
        // Behind those that are remembered another kind may come next.
        rules.0.truncate(kinds.kept);
        rules.0.shrink_to_fit();
        let bytes = namespace.len() + size_of_val(rules.0.as_slice());
        let mut within = self.within.lock();
        let answered = Answered::after(rules, within.get(&namespace).map(|(_, before)| before));
        within.put(namespace, answered, bytes);
    }

    /// Had it a right on `kind` there, when it was asked last?
    #[must_use]
    pub fn touched_before(&self, kind: &GroupResource, namespace: &str) -> bool {
        let Some(this) = self.kinds.lock().iter().position(|(known, _)| known == kind) else { return false };
        let known = self.within.lock();
        known
            .get(namespace)
            .is_some_and(|(asked, known)| asked.elapsed() < self.lasts && known.answer.of_kind(this).touches)
    }

    fn is_known_to_see_all(&self, kind: &GroupResource, namespace: Option<&str>) -> Option<bool> {
        let all = self.all.lock();
        let known = |scope| {
            let (asked, known) = all.get(&scope)?;
            (asked.elapsed() < known.lasts(known.answer, self.lasts)).then_some(known.answer)
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
        let (this, is_kept, lasts) = (kinds.this, kinds.this < kinds.kept, self.lasts);
        // Kept separately from the cache, which may drop entries while the rest is asked.
        let mut known: HashMap<String, OfKind> = {
            let mut within = self.within.lock();
            within.retain(|asked, _| asked.elapsed() < answered::kept(lasts));
            let known = |namespace: &String| {
                let (asked, known) = within.get(namespace)?;
                let of_kind = *known.answer.0.get(this).filter(|_| is_kept)?;
                let is_used = asked.elapsed() < known.lasts(wanted(of_kind), lasts);
                is_used.then(|| (namespace.clone(), of_kind))
            };
            namespaces.iter().filter_map(known).collect()
        };
        let unknown: Vec<String> =
            namespaces.iter().filter(|namespace| !known.contains_key(*namespace)).cloned().collect();
        let mut answers = stream::iter(unknown)
            .map(|namespace| async move {
                let rules = Rules::ask(&self.client(), &kinds.kinds, &namespace).await;
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
                    known.insert(namespace.clone(), rules.of_kind(this));
                    self.learn_within(namespace, rules, kinds);
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

    /// The kinds that are remembered, and `kind`.
    fn kinds_and(&self, kind: &GroupResource) -> AskedKinds {
        let mut known = self.kinds.lock();
        let bytes = size_of::<(GroupResource, MemoryPermit)>() + kind.group.len() + kind.resource.len();
        let is_known = known.iter().any(|(known, _)| known == kind);
        if !is_known
            && known.len() < KINDS
            && let Some(permit) = self.share.take(bytes)
        {
            known.push((kind.clone(), permit));
        }
        let mut kinds: Vec<GroupResource> = known.iter().map(|(kind, _)| kind.clone()).collect();
        let kept = kinds.len();
        let this = kinds.iter().position(|known| known == kind).unwrap_or(kept);
        if this == kept {
            kinds.push(kind.clone());
        }
        AskedKinds { kinds, this, kept }
    }

    /// Forgets what was answered longer ago than `age`.
    pub fn forget(&self, age: Duration) {
        self.all.lock().retain(|asked, _| asked.elapsed() < age);
        self.within.lock().retain(|asked, _| asked.elapsed() < age);
    }

    /// Forgets what is of no use any more: others of the same namespace may remember something in its place.
    pub fn forget_expired(&self) {
        self.forget(answered::kept(self.lasts));
        let now = Instant::now();
        self.too_large.lock().retain(|_, large| now < large.until + Self::LONGEST_PAUSE);
    }

    /// A watch of the account failed by itself, and not by what the API server decided.
    pub(crate) fn loses_server(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// A list or a watch of the account was granted. Where the server had been lost, it may have said no since then for
    /// want of Roles that it has read by now: refusals are forgotten.
    pub(crate) fn reaches_server(&self) {
        if self.lost.swap(false, Ordering::Relaxed) {
            self.all.lock().retain(|_, known| known.answer);
            self.within.lock().retain(|_, known| known.answer.grant_all());
        }
    }

    /// Forgets everything that was answered, once in 30 seconds at most: its rights may be others by now.
    pub fn ask_again(&self) {
        let (now, mut refreshed) = (Instant::now(), self.refreshed.lock());
        if refreshed.is_none_or(|last| now >= last + BETWEEN_REFRESHES) {
            *refreshed = Some(now);
            self.forget(Duration::ZERO);
        }
    }
}

fn scope(kind: &GroupResource, namespace: Option<&str>) -> Scope {
    (kind.clone(), namespace.map(str::to_owned))
}

/// Bytes of the names in it.
fn texts((kind, namespace): &Scope) -> usize {
    kind.group.len() + kind.resource.len() + namespace.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests;
