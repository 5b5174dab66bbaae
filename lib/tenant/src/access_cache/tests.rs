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
    let rules = Rules::of(&serde_json::from_value(status).unwrap(), &kinds.clone().into());
    kinds.map(|kind| (rules.0[&kind].touches, rules.0[&kind].lists))
}

/// Not to be asked.
fn cache() -> AccessCache {
    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, BoxError>("not to be asked".into())
    });
    let client = Client::new(service, "default");
    AccessCache::new(move || client.clone(), Duration::from_mins(5))
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
    AccessCache::new(move || client.clone(), Duration::from_mins(5))
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn one_question_that_fails_loses_no_other_answer() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = asked.clone();
    let cache = asking(move |namespace| {
        let is_first = !lock(&record).iter().any(|before| before == namespace);
        lock(&record).push(namespace.to_owned());
        (namespace != "b" || !is_first).then_some(namespace != "c")
    });
    let (secrets, all) = (&of_core("secrets"), names(&["a", "b", "c", "d"]));
    cache.touched(secrets, all.clone()).await.unwrap_err();
    let mut first = std::mem::take(&mut *lock(&asked));
    first.sort();
    assert_eq!(first, all);
    lock(&asked).push("b".into());
    assert_eq!(cache.touched(secrets, all).await.unwrap(), names(&["a", "b", "d"]).into_iter().collect());
    assert_eq!(*lock(&asked), ["b", "b"], "the others were known");
}

#[tokio::test(start_paused = true)]
async fn where_every_question_fails_few_are_asked() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = asked.clone();
    let cache = asking(move |namespace| {
        lock(&record).push(namespace.to_owned());
        None
    });
    let many = (0..100).map(|number| format!("n-{number}")).collect();
    cache.touched(&of_core("secrets"), many).await.unwrap_err();
    assert!(lock(&asked).len() <= 2 * CONCURRENCY, "{:?}", lock(&asked));
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
