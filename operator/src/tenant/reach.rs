//! In which namespaces an account has rights, asked as the account itself and remembered for a while.
//!
//! Used where a refusal would be the wrong way to find out: which selected namespaces a tenant may learn of at all,
//! where its copies can be looked for, and whether one watch can do for all namespaces. What an answer allows is never
//! done on that answer: the API server judges each request anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use kube::api::{Api, PostParams};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use weaver_api::v1beta1::SourceKind;
use weaver_client::call::{CallError, call};

use super::TenantClient;
use super::rights::{Right, missing};

/// Questions in flight at once.
const CONCURRENCY: usize = 8;

/// Pause before one watch on all namespaces is tried again that showed more than may be kept, or for which there was no room.
pub const FIRST_PAUSE: Duration = Duration::from_mins(5);

/// Longest of the pauses after lists that were too large. Each try reads several MiB to learn that they still are.
pub const LONGEST_PAUSE: Duration = Duration::from_hours(6);

/// What is known of one account.
pub struct Reach {
    lasts: Duration,
    everywhere: Mutex<HashMap<SourceKind, (Instant, bool)>>,
    within: Mutex<HashMap<String, (Instant, Access)>>,
    /// Kinds of which one watch on all namespaces showed too much.
    too_large: Mutex<HashMap<SourceKind, TooLarge>>,
    /// Two resources that want to know the same wait for one answer.
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
struct Access(BTreeMap<SourceKind, OfKind>);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct OfKind {
    /// Any right on it, be it on one object only.
    touches: bool,
    /// It may list all objects.
    lists: bool,
}

impl Reach {
    /// Answers are used for as long as `lasts`: that bounds how long a tenant is told of a namespace in which it has
    /// no right any more.
    #[must_use]
    pub fn new(lasts: Duration) -> Self {
        Self {
            lasts,
            everywhere: Mutex::default(),
            within: Mutex::default(),
            too_large: Mutex::default(),
            asking: AsyncMutex::default(),
        }
    }

    /// May it list and watch objects of `kind` in all namespaces at once?
    ///
    /// # Errors
    /// If the API server cannot be asked.
    pub async fn is_everywhere(&self, tenant: &TenantClient, kind: SourceKind) -> Result<bool, CallError> {
        if let Some(answer) = self.is_known_everywhere(kind) {
            return Ok(answer);
        }
        let _asking = self.asking.lock().await;
        if let Some(answer) = self.is_known_everywhere(kind) {
            return Ok(answer);
        }
        let rights =
            ["list", "watch"].map(|verb| Right { kind, namespace: String::new(), object: None, verb });
        let answer = missing(tenant, rights.to_vec()).await?.is_empty();
        self.learn_everywhere(kind, answer);
        Ok(answer)
    }

    /// It has just been refused what [`Reach::is_everywhere`] said it may.
    pub fn is_not_everywhere(&self, kind: SourceKind) {
        self.learn_everywhere(kind, false);
    }

    fn learn_everywhere(&self, kind: SourceKind, answer: bool) {
        lock(&self.everywhere).insert(kind, (Instant::now(), answer));
        if !answer {
            // With other rights it may see other objects.
            lock(&self.too_large).remove(&kind);
        }
    }

    /// Is one watch on all namespaces worth a try, where it is allowed? Not for a while after [`Reach::does_not_fit`].
    #[must_use]
    pub fn may_fit(&self, kind: SourceKind) -> bool {
        lock(&self.too_large).get(&kind).is_none_or(|large| Instant::now() >= large.until)
    }

    /// One watch on all namespaces cannot be kept. The pause before the next try doubles each time, up to `longest`.
    pub fn does_not_fit(&self, kind: SourceKind, longest: Duration) {
        let (now, mut all) = (Instant::now(), lock(&self.too_large));
        let before = all.get(&kind).filter(|large| now < large.until + LONGEST_PAUSE);
        // Resources that share the watch find it out together.
        if before.is_some_and(|large| now < large.until) {
            return;
        }
        let pause = before.map_or(FIRST_PAUSE, |large| (large.pause * 2).min(longest));
        all.insert(kind, TooLarge { pause, until: now + pause });
    }

    /// Those of `namespaces` in which it has any right on `kind`.
    ///
    /// # Errors
    /// If the API server cannot be asked; then nothing may be concluded.
    pub async fn touched(
        &self,
        tenant: &TenantClient,
        kind: SourceKind,
        namespaces: Vec<String>,
    ) -> Result<BTreeSet<String>, CallError> {
        self.those(tenant, kind, namespaces, |access| access.touches).await
    }

    /// Has it any right on `kind` in this namespace now? Asked for a namespace that has just changed, so what was answered
    /// before does not count. A refusal is not remembered: a Role may follow within seconds.
    ///
    /// # Errors
    /// As [`Reach::touched`].
    pub async fn touches(
        &self,
        tenant: &TenantClient,
        kind: SourceKind,
        namespace: &str,
    ) -> Result<bool, CallError> {
        if self.is_known_everywhere(kind) == Some(true) {
            return Ok(true);
        }
        let access = ask(tenant, namespace).await?;
        let touches = access.touches(kind);
        let mut known = lock(&self.within);
        if touches {
            known.insert(namespace.to_owned(), (Instant::now(), access));
        } else {
            known.remove(namespace);
        }
        Ok(touches)
    }

    /// Had it a right on `kind` there, when it was asked last?
    #[must_use]
    pub fn touched_before(&self, kind: SourceKind, namespace: &str) -> bool {
        let known = lock(&self.within);
        known
            .get(namespace)
            .is_some_and(|(asked, access)| asked.elapsed() < self.lasts && access.touches(kind))
    }

    fn is_known_everywhere(&self, kind: SourceKind) -> Option<bool> {
        let known = lock(&self.everywhere).get(&kind).copied();
        known.filter(|(asked, _)| asked.elapsed() < self.lasts).map(|(_, answer)| answer)
    }

    /// Those of `namespaces` in which it may list objects of `kind`.
    ///
    /// # Errors
    /// As [`Reach::touched`].
    pub async fn listable(
        &self,
        tenant: &TenantClient,
        kind: SourceKind,
        namespaces: Vec<String>,
    ) -> Result<BTreeSet<String>, CallError> {
        self.those(tenant, kind, namespaces, |access| access.lists).await
    }

    async fn those(
        &self,
        tenant: &TenantClient,
        kind: SourceKind,
        namespaces: Vec<String>,
        wanted: fn(OfKind) -> bool,
    ) -> Result<BTreeSet<String>, CallError> {
        if self.is_everywhere(tenant, kind).await? {
            return Ok(namespaces.into_iter().collect());
        }
        let _asking = self.asking.lock().await;
        let unknown: Vec<String> = {
            let mut known = lock(&self.within);
            known.retain(|_, (asked, _)| asked.elapsed() < self.lasts);
            namespaces.iter().filter(|namespace| !known.contains_key(*namespace)).cloned().collect()
        };
        let answers: Vec<(String, Access)> = stream::iter(unknown)
            .map(|namespace| async move {
                let access = ask(tenant, &namespace).await?;
                Ok::<_, CallError>((namespace, access))
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let mut known = lock(&self.within);
        known.extend(answers.into_iter().map(|(namespace, access)| (namespace, (Instant::now(), access))));
        let allowed = |namespace: &String| {
            let access = known.get(namespace).and_then(|(_, access)| access.0.get(&kind));
            access.copied().is_some_and(wanted)
        };
        Ok(namespaces.into_iter().filter(allowed).collect())
    }

    /// Forgets what was answered longer ago than `age`: somebody asks for a fresh look.
    pub fn forget(&self, age: Duration) {
        lock(&self.everywhere).retain(|_, (asked, _)| asked.elapsed() < age);
        lock(&self.within).retain(|_, (asked, _)| asked.elapsed() < age);
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(tenant: &TenantClient, namespace: &str) -> Result<Access, CallError> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.into()) },
        ..SelfSubjectRulesReview::default()
    };
    let reviews: Api<SelfSubjectRulesReview> = Api::all(tenant.client());
    let status = call(reviews.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
    let mut access = Access::of(&status);
    // An authorizer that cannot list its rules, such as a webhook, can still be asked about one.
    if status.incomplete {
        for kind in SourceKind::ALL {
            let rights = ["create", "list"].map(|verb| Right {
                kind,
                namespace: namespace.into(),
                object: None,
                verb,
            });
            let missing = missing(tenant, rights.to_vec()).await?;
            let [creates, lists] = rights.map(|right| !missing.contains(&right));
            let known = access.0.entry(kind).or_default();
            *known = OfKind { touches: known.touches || creates || lists, lists: known.lists || lists };
        }
    }
    Ok(access)
}

impl Access {
    fn touches(&self, kind: SourceKind) -> bool {
        self.0.get(&kind).is_some_and(|of_kind| of_kind.touches)
    }

    fn of(status: &SubjectRulesReviewStatus) -> Self {
        let mut access = Self::default();
        for kind in SourceKind::ALL {
            let rules = status.resource_rules.iter().filter(|rule| is_about(rule, kind));
            let of_kind = rules.fold(OfKind::default(), |known, rule| {
                let unnamed = rule.resource_names.as_ref().is_none_or(Vec::is_empty);
                let lists = unnamed && rule.verbs.iter().any(|verb| verb == "list" || verb == "*");
                OfKind { touches: known.touches || !rule.verbs.is_empty(), lists: known.lists || lists }
            });
            access.0.insert(kind, of_kind);
        }
        access
    }
}

fn is_about(rule: &ResourceRule, kind: SourceKind) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|item| item == wanted || item == "*")
    };
    has(&rule.api_groups, "") && has(&rule.resources, kind.plural())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn access(rules: &serde_json::Value) -> [(bool, bool); 2] {
        let status = json!({"incomplete": false, "nonResourceRules": [], "resourceRules": rules});
        let access = Access::of(&serde_json::from_value(status).unwrap());
        SourceKind::ALL.map(|kind| (access.0[&kind].touches, access.0[&kind].lists))
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_does_not_fit_is_tried_at_growing_intervals_until_the_rights_change() {
        let (reach, kind) = (Reach::new(Duration::from_mins(5)), SourceKind::Secret);
        let minutes = async |longest| {
            let mut minutes = 0;
            // Many resources use the watch.
            (0..100).for_each(|_| reach.does_not_fit(kind, longest));
            while !reach.may_fit(kind) {
                tokio::time::advance(Duration::from_mins(1)).await;
                minutes += 1;
            }
            minutes
        };
        assert!(reach.may_fit(kind));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pauses.push(minutes(LONGEST_PAUSE).await);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 360, 360]);
        assert!(reach.may_fit(SourceKind::ConfigMap), "another kind");
        reach.does_not_fit(kind, LONGEST_PAUSE);
        reach.is_not_everywhere(kind);
        assert!(reach.may_fit(kind), "its rights are others");
        assert_eq!(minutes(LONGEST_PAUSE).await, 5);
        tokio::time::advance(LONGEST_PAUSE).await;
        assert_eq!(minutes(LONGEST_PAUSE).await, 5, "it fitted for hours");
        assert_eq!([minutes(FIRST_PAUSE).await, minutes(FIRST_PAUSE).await], [5, 5]);
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
