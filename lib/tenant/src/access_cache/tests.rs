//! Against an API server that grants nothing in all namespaces, and in each namespace what the test says.

use std::sync::{Arc, OnceLock};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use super::*;

fn of_core(resource: &str) -> GroupResource {
    GroupResource { group: String::new(), resource: resource.into() }
}

fn access(rules: &serde_json::Value) -> [(bool, bool); 2] {
    let status = json!({"incomplete": false, "nonResourceRules": [], "resourceRules": rules});
    let kinds = ["configmaps", "secrets"].map(of_core);
    let rules = Rules::of(&serde_json::from_value(status).unwrap(), &kinds);
    [0, 1].map(|index| (rules.0[index].touches, rules.0[index].lists))
}

/// Not to be asked.
fn cache() -> AccessCache {
    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, BoxError>("not to be asked".into())
    });
    let client = Client::new(service, "default");
    let share = MemoryBudget::new(REMEMBERED).share("team-a");
    AccessCache::new(move || client.clone(), Duration::from_mins(5), share)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_fit_is_tried_at_growing_intervals_until_the_rights_change() {
    let (cache, kind) = (cache(), &of_core("secrets"));
    let minutes = async |longest| {
        let mut minutes = 0;
        // Many resources use the watch.
        (0..100).for_each(|_| cache.does_not_fit(kind, None, longest));
        while !cache.may_fit(kind, None) {
            tokio::time::advance(Duration::from_mins(1)).await;
            minutes += 1;
        }
        minutes
    };
    assert!(cache.may_fit(kind, None));
    let mut pauses = Vec::new();
    for _ in 0..9 {
        pauses.push(minutes(AccessCache::LONGEST_PAUSE).await);
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 360, 360]);
    assert!(cache.may_fit(&of_core("configmaps"), None), "another kind");
    assert!(cache.may_fit(kind, Some("foo")), "less of it");
    cache.does_not_fit(kind, None, AccessCache::LONGEST_PAUSE);
    cache.does_not_see_all(kind, None);
    assert!(cache.may_fit(kind, None), "its rights are others");
    assert_eq!(minutes(AccessCache::LONGEST_PAUSE).await, 5);
    tokio::time::advance(AccessCache::LONGEST_PAUSE).await;
    assert_eq!(minutes(AccessCache::LONGEST_PAUSE).await, 5, "it fitted for hours");
    assert_eq!([minutes(AccessCache::FIRST_PAUSE).await, minutes(AccessCache::FIRST_PAUSE).await], [5, 5]);
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
        (json!([{"apiGroups": [""], "resources": ["configmaps/status"], "verbs": ["get"]}]), [none, none]),
    ] {
        assert_eq!(access(&rules), expected, "{rules}");
    }
}

/// Answers what `answer` says about the rights in a namespace: granted, or none, or an error.
fn asking(answer: impl Fn(&str) -> Option<bool> + Clone + Send + Sync + 'static) -> AccessCache {
    asking_within(&MemoryBudget::new(REMEMBERED), answer)
}

/// The same, where what is remembered has this budget.
fn asking_within(
    budget: &MemoryBudget,
    answer: impl Fn(&str) -> Option<bool> + Clone + Send + Sync + 'static,
) -> AccessCache {
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let is_rules = request.uri().path().ends_with("/selfsubjectrulesreviews");
            let body = request.into_body().collect_bytes().await?;
            let mut review: serde_json::Value = serde_json::from_slice(&body)?;
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
            review["status"] = if is_rules {
                let granted = answer(&namespace).ok_or("the server is busy")?;
                let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]});
                let rules = if granted { vec![rule] } else { Vec::new() };
                json!({"incomplete": false, "nonResourceRules": [], "resourceRules": rules})
            } else {
                json!({"allowed": false})
            };
            Ok::<_, BoxError>(Response::new(Body::from(review.to_string().into_bytes())))
        }
    });
    let client = Client::new(service, "default");
    AccessCache::new(move || client.clone(), Duration::from_mins(5), budget.share("team-a"))
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn who_may_not_list_is_not_asked_whether_it_may_watch() {
    /// What is granted, and what is asked for.
    const CASES: [(&[&str], &[&str]); 4] = [
        (&[], &["list"]),
        (&["watch"], &["list"]),
        (&["list"], &["list", "watch"]),
        (&["list", "watch"], &["list", "watch"]),
    ];
    for (granted, expected) in CASES {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let record = record.clone();
            async move {
                let body = request.into_body().collect_bytes().await?;
                let mut review: serde_json::Value = serde_json::from_slice(&body)?;
                let verb =
                    review["spec"]["resourceAttributes"]["verb"].as_str().unwrap_or_default().to_owned();
                review["status"] = json!({"allowed": granted.contains(&verb.as_str())});
                record.lock().push(verb);
                Ok::<_, BoxError>(Response::new(Body::from(review.to_string().into_bytes())))
            }
        });
        let client = Client::new(service, "default");
        let share = MemoryBudget::new(REMEMBERED).share("team-a");
        let cache = AccessCache::new(move || client.clone(), Duration::from_mins(5), share);
        for _ in 0..2 {
            assert_eq!(cache.sees_all(&of_core("secrets"), None).await.unwrap(), granted.len() == 2);
        }
        assert_eq!(*asked.lock(), expected, "{granted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_question_that_fails_loses_no_other_answer() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = asked.clone();
    let cache = asking(move |namespace| {
        let is_first = !record.lock().iter().any(|before| before == namespace);
        record.lock().push(namespace.to_owned());
        (namespace != "b" || !is_first).then_some(namespace != "c")
    });
    let (secrets, all) = (&of_core("secrets"), names(&["a", "b", "c", "d"]));
    cache.touched(secrets, all.clone()).await.unwrap_err();
    let mut first = std::mem::take(&mut *asked.lock());
    first.sort();
    assert_eq!(first, all);
    asked.lock().push("b".into());
    assert_eq!(cache.touched(secrets, all).await.unwrap(), names(&["a", "b", "d"]).into_iter().collect());
    assert_eq!(*asked.lock(), ["b", "b"], "the others were known");
}

/// It was given before the API server knew all Roles, perhaps.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_asked_about_again_soon_and_then_less_and_less_often() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = asked.clone();
    let cache = asking(move |namespace| {
        record.lock().push(namespace.to_owned());
        Some(namespace == "granted")
    });
    let (secrets, all) = (&of_core("secrets"), names(&["granted", "refused"]));
    let mut times = Vec::new();
    for second in 0..600 {
        assert_eq!(
            cache.touched(secrets, all.clone()).await.unwrap(),
            names(&["granted"]).into_iter().collect()
        );
        let of_refused = std::mem::take(&mut *asked.lock()).iter().any(|namespace| namespace == "refused");
        times.extend(of_refused.then_some(second));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(times, [0, 30, 90, 210, 450]);
}

#[tokio::test(start_paused = true)]
async fn once_the_server_was_lost_and_is_reached_again_refusals_are_asked_about_again_and_grants_are_not() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (record, is_filled) = (asked.clone(), Arc::new(AtomicBool::new(false)));
    let is_known = is_filled.clone();
    let cache = asking(move |namespace| {
        record.lock().push(namespace.to_owned());
        Some(namespace == "early" || is_known.load(Ordering::Relaxed))
    });
    let (secrets, all) = (&of_core("secrets"), names(&["early", "late"]));
    let touched = async || {
        let touched = cache.touched(secrets, all.clone()).await.unwrap();
        asked.lock().sort();
        (touched.len(), std::mem::take(&mut *asked.lock()))
    };
    assert_eq!(touched().await, (1, all.clone()));
    is_filled.store(true, Ordering::Relaxed);
    cache.reaches_server();
    assert_eq!(touched().await, (1, Vec::new()), "it was not lost");
    cache.loses_server();
    assert_eq!(touched().await, (1, Vec::new()), "it may still not know");
    cache.reaches_server();
    assert_eq!(touched().await, (2, names(&["late"])));
}

#[tokio::test(start_paused = true)]
async fn where_every_question_fails_few_are_asked() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = asked.clone();
    let cache = asking(move |namespace| {
        record.lock().push(namespace.to_owned());
        None
    });
    let many = (0..100).map(|number| format!("n-{number}")).collect();
    cache.touched(&of_core("secrets"), many).await.unwrap_err();
    assert!(asked.lock().len() <= 2 * CONCURRENCY, "{:?}", asked.lock());
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_while_the_rest_is_asked_counts_still() {
    let own: Arc<OnceLock<Arc<AccessCache>>> = Arc::default();
    let seen = own.clone();
    let cache = Arc::new(asking(move |namespace| {
        if namespace == "b" {
            seen.get().unwrap().forget(Duration::ZERO);
        }
        Some(true)
    }));
    own.set(cache.clone()).ok().unwrap();
    let secrets = &of_core("secrets");
    let one = cache.listable(secrets, names(&["a"])).await.unwrap();
    assert_eq!(one, names(&["a"]).into_iter().collect());
    let both = cache.listable(secrets, names(&["a", "b"])).await.unwrap();
    assert_eq!(both, names(&["a", "b"]).into_iter().collect());
}

#[tokio::test(start_paused = true)]
async fn names_that_a_tenant_makes_up_are_remembered_up_to_a_bound_and_asked_again_beyond_it() {
    let asked: Arc<Mutex<usize>> = Arc::default();
    let (record, budget) = (asked.clone(), MemoryBudget::new(64 << 10));
    let cache = asking_within(&budget, move |_| {
        *record.lock() += 1;
        Some(true)
    });
    let secrets = &of_core("secrets");
    let made_up = |round: usize| (0..100).map(|number| format!("n-{round}-{number}")).collect::<Vec<_>>();
    for round in 0..50 {
        assert_eq!(cache.listable(secrets, made_up(round)).await.unwrap().len(), 100);
        cache.does_not_see_all(secrets, Some(&format!("s-{round}")));
        cache.does_not_fit(secrets, Some(&format!("s-{round}")), AccessCache::LONGEST_PAUSE);
        assert!(budget.used() <= 64 << 10, "{}", budget.used());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(std::mem::take(&mut *asked.lock()), 5_000);
    cache.listable(secrets, made_up(49)).await.unwrap();
    assert!(*asked.lock() < 100, "none of the last answers was remembered: {}", asked.lock());
    tokio::time::advance(Duration::from_hours(24)).await;
    cache.forget_expired();
    assert!(budget.used() < 200, "{} bytes of what is of no use any more", budget.used());
    drop(cache);
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_more_kinds_than_are_remembered_each_has_its_own_answer() {
    let cache = asking(|_| Some(true));
    let kinds: Vec<GroupResource> =
        (0..KINDS + 10).map(|number| of_core(&format!("kind-{number}"))).collect();
    for _ in 0..2 {
        for kind in &kinds {
            assert!(cache.listable(kind, names(&["a"])).await.unwrap().is_empty(), "{kind}");
        }
        let secrets = cache.listable(&of_core("secrets"), names(&["a"])).await.unwrap();
        assert_eq!(secrets, names(&["a"]).into_iter().collect());
        assert!(cache.touches(&of_core("secrets"), "a").await.unwrap());
    }
    assert_eq!(cache.kinds.lock().len(), KINDS);
    assert!(!cache.touched_before(&of_core("secrets"), "a"), "not a kind that is remembered");
}
