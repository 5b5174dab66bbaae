//! The access review cache: in which namespaces an account has rights, asked as the account itself and remembered for
//! a while.
//!
//! Used where a refusal would be the wrong way to find out: which namespaces a tenant may learn of at all,
//! where its objects can be searched, and whether one watch can do for all namespaces. No request is spared a
//! judgement by it: the API server judges each one again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
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

/// What is known of the rights of one account.
pub struct AccessCache {
    /// Acts as the account.
    client: Client,
    lasts: Duration,
    /// All kinds that were ever asked for: one review answers for all of them.
    kinds: Mutex<BTreeSet<GroupResource>>,
    everywhere: Mutex<HashMap<GroupResource, (Instant, bool)>>,
    within: Mutex<HashMap<String, (Instant, Rules)>>,
    /// Kinds of which one watch on all namespaces showed too much.
    too_large: Mutex<HashMap<GroupResource, TooLarge>>,
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

    /// `client` acts as the account. Answers are used for as long as `lasts`: that bounds how long a tenant learns of a
    /// namespace in which it has no right any more.
    #[must_use]
    pub fn new(client: Client, lasts: Duration) -> Self {
        Self {
            client,
            lasts,
            kinds: Mutex::default(),
            everywhere: Mutex::default(),
            within: Mutex::default(),
            too_large: Mutex::default(),
            asking: AsyncMutex::default(),
        }
    }

    /// The client that asks.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// May it list and watch objects of `kind` in all namespaces at once?
    ///
    /// # Errors
    /// If the API server cannot be asked.
    pub async fn is_everywhere(&self, kind: &GroupResource) -> Result<bool, CallError> {
        if let Some(answer) = self.is_known_everywhere(kind) {
            return Ok(answer);
        }
        let _asking = self.asking.lock().await;
        if let Some(answer) = self.is_known_everywhere(kind) {
            return Ok(answer);
        }
        let answer = missing(&self.client, ["list", "watch"].map(|verb| on_all(kind, verb, None)).to_vec());
        let answer = answer.await?.is_empty();
        self.learn_everywhere(kind, answer);
        Ok(answer)
    }

    /// It has just been refused what [`AccessCache::is_everywhere`] said it may.
    pub fn is_not_everywhere(&self, kind: &GroupResource) {
        self.learn_everywhere(kind, false);
    }

    fn learn_everywhere(&self, kind: &GroupResource, answer: bool) {
        lock(&self.everywhere).insert(kind.clone(), (Instant::now(), answer));
        if !answer {
            // With other rights it may see other objects.
            lock(&self.too_large).remove(kind);
        }
    }

    /// Is one watch on all namespaces worth a try, where it is allowed? Not for a while after
    /// [`AccessCache::does_not_fit`].
    #[must_use]
    pub fn may_fit(&self, kind: &GroupResource) -> bool {
        lock(&self.too_large).get(kind).is_none_or(|large| Instant::now() >= large.until)
    }

    /// One watch on all namespaces cannot be kept. The pause before the next try doubles each time, up to `longest`.
    pub fn does_not_fit(&self, kind: &GroupResource, longest: Duration) {
        let (now, mut all) = (Instant::now(), lock(&self.too_large));
        let before = all.get(kind).filter(|large| now < large.until + Self::LONGEST_PAUSE);
        // All who share the watch find it out together.
        if before.is_some_and(|large| now < large.until) {
            return;
        }
        let pause = before.map_or(Self::FIRST_PAUSE, |large| (large.pause * 2).min(longest));
        all.insert(kind.clone(), TooLarge { pause, until: now + pause });
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
        if self.is_known_everywhere(kind) == Some(true) {
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

    fn is_known_everywhere(&self, kind: &GroupResource) -> Option<bool> {
        let known = lock(&self.everywhere).get(kind).copied();
        known.filter(|(asked, _)| asked.elapsed() < self.lasts).map(|(_, answer)| answer)
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
        if self.is_everywhere(kind).await? {
            return Ok(namespaces.into_iter().collect());
        }
        let _asking = self.asking.lock().await;
        let kinds = &self.kinds_and(kind);
        let unknown: Vec<String> = {
            let mut known = lock(&self.within);
            known.retain(|_, (asked, _)| asked.elapsed() < self.lasts);
            let is_known = |namespace: &String| {
                known.get(namespace).is_some_and(|(_, rules)| rules.0.contains_key(kind))
            };
            namespaces.iter().filter(|namespace| !is_known(namespace)).cloned().collect()
        };
        let answers: Vec<(String, Rules)> = stream::iter(unknown)
            .map(|namespace| async move {
                let rules = self.ask(kinds, &namespace).await?;
                Ok::<_, CallError>((namespace, rules))
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let mut known = lock(&self.within);
        known.extend(answers.into_iter().map(|(namespace, rules)| (namespace, (Instant::now(), rules))));
        let allowed = |namespace: &String| {
            let rules = known.get(namespace).and_then(|(_, rules)| rules.0.get(kind));
            rules.copied().is_some_and(wanted)
        };
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
        let reviews: Api<SelfSubjectRulesReview> = Api::all(self.client.clone());
        let status = call(reviews.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let mut rules = Rules::of(&status, kinds);
        // An authorizer that cannot list its rules, such as a webhook, can still be asked about one.
        if status.incomplete {
            for kind in kinds {
                let asked = ["create", "list"].map(|verb| on_all(kind, verb, Some(namespace)));
                let missing = missing(&self.client, asked.to_vec()).await?;
                let [creates, lists] = asked.map(|access| !missing.contains(&access));
                let known = rules.0.entry(kind.clone()).or_default();
                *known = OfKind { touches: known.touches || creates || lists, lists: known.lists || lists };
            }
        }
        Ok(rules)
    }

    /// Forgets what was answered longer ago than `age`.
    pub fn forget(&self, age: Duration) {
        lock(&self.everywhere).retain(|_, (asked, _)| asked.elapsed() < age);
        lock(&self.within).retain(|_, (asked, _)| asked.elapsed() < age);
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
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
mod tests {
    use serde_json::json;

    use super::*;

    fn of_core(resource: &str) -> GroupResource {
        GroupResource { group: String::new(), resource: resource.into() }
    }

    fn access(rules: &serde_json::Value) -> [(bool, bool); 2] {
        let status = json!({"incomplete": false, "nonResourceRules": [], "resourceRules": rules});
        let kinds = ["configmaps", "secrets"].map(of_core);
        let rules = Rules::of(&serde_json::from_value(status).unwrap(), &kinds.clone().into());
        kinds.map(|kind| (rules.0[&kind].touches, rules.0[&kind].lists))
    }

    /// Not to be asked.
    fn cache() -> AccessCache {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, tower::BoxError>("not to be asked".into())
        });
        AccessCache::new(Client::new(service, "default"), Duration::from_mins(5))
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_does_not_fit_is_tried_at_growing_intervals_until_the_rights_change() {
        let (cache, kind) = (cache(), &of_core("secrets"));
        let minutes = async |longest| {
            let mut minutes = 0;
            // Many resources use the watch.
            (0..100).for_each(|_| cache.does_not_fit(kind, longest));
            while !cache.may_fit(kind) {
                tokio::time::advance(Duration::from_mins(1)).await;
                minutes += 1;
            }
            minutes
        };
        assert!(cache.may_fit(kind));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pauses.push(minutes(AccessCache::LONGEST_PAUSE).await);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 360, 360]);
        assert!(cache.may_fit(&of_core("configmaps")), "another kind");
        cache.does_not_fit(kind, AccessCache::LONGEST_PAUSE);
        cache.is_not_everywhere(kind);
        assert!(cache.may_fit(kind), "its rights are others");
        assert_eq!(minutes(AccessCache::LONGEST_PAUSE).await, 5);
        tokio::time::advance(AccessCache::LONGEST_PAUSE).await;
        assert_eq!(minutes(AccessCache::LONGEST_PAUSE).await, 5, "it fitted for hours");
        assert_eq!(
            [minutes(AccessCache::FIRST_PAUSE).await, minutes(AccessCache::FIRST_PAUSE).await],
            [5, 5]
        );
    }

    #[test]
    fn any_right_on_a_kind_is_enough_to_learn_of_a_namespace_and_list_alone_to_search_it() {
        let (none, touches, lists) = ((false, false), (true, false), (true, true));
        for (rules, expected) in [
            (json!([]), [none, none]),
            (json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]), [touches, none]),
            (json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]), [none, lists]),
            (
                json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["list"]}]),
                [none, touches],
            ),
            (json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]), [lists, lists]),
            (json!([{"apiGroups": ["apps"], "resources": ["configmaps"], "verbs": ["list"]}]), [none, none]),
            (
                json!([{"apiGroups": [""], "resources": ["configmaps/status"], "verbs": ["get"]}]),
                [none, none],
            ),
        ] {
            assert_eq!(access(&rules), expected, "{rules}");
        }
    }
}
