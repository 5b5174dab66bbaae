use proptest::prelude::*;
use serde_json::{Value, json};
use weaver_diagnostics::finding_text::{is_unprintable, text};

use super::*;

fn pod(name: &str, container: &Value) -> Pod {
    let status = json!({"containerStatuses": [container]});
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "status": status}))
        .unwrap()
}

fn container(state: &Value, last: &Value) -> Value {
    json!({
        "name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": state, "lastState": last,
    })
}

fn waits(name: &str, reason: &str, message: &str) -> Pod {
    pod(name, &container(&json!({"waiting": {"reason": reason, "message": message}}), &json!({})))
}

fn judged(pods: &[Pod]) -> Vec<Finding> {
    let stuck: Vec<Stuck> = pods.iter().flat_map(not_pulled).collect();
    judge(&Recogniser::new().unwrap(), &stuck)
}

#[test]
fn each_reason_for_an_image_that_is_not_pulled_has_its_code() {
    let pull = "failed to pull and unpack image";
    let manifest = "https://registry-1.docker.io/v2/library/nginx/manifests/latest";
    for (reason, message, want, words) in [
        (
            "ErrImagePull",
            format!("rpc error: code = NotFound desc = {pull} \"docker.io/library/nginx:v999\": failed to resolve \
                     reference \"docker.io/library/nginx:v999\": docker.io/library/nginx:v999: not found"),
            "R-06",
            "the registry has no `docker.io/library/nginx:v999`",
        ),
        (
            "ImagePullBackOff",
            format!("Back-off pulling image \"mysql:5.7\": ErrImagePull: {pull} \"docker.io/library/mysql:5.7\": no \
                     match for platform in manifest: not found"),
            "R-05",
            "another processor",
        ),
        (
            "ErrImagePull",
            format!("{pull} \"docker.io/library/nginx:1\": failed to copy: httpReadSeeker: failed open: unexpected \
                     status code {manifest}: 429 Too Many Requests - Server message: toomanyrequests: You have \
                     reached your pull rate limit."),
            "R-07",
            "limits",
        ),
        (
            "ErrImagePull",
            format!("failed to do request: Head \"{manifest}\": dial tcp: lookup registry-1.docker.io: no such host"),
            "R-08",
            "does not reach registry-1.docker.io: no such host",
        ),
        (
            "ErrImagePull",
            format!("failed to do request: Head \"{manifest}\": dial tcp 54.198.86.24:443: connect: network is \
                     unreachable"),
            "R-08",
            "network is unreachable",
        ),
        (
            "ErrImagePull",
            "failed to resolve reference \"ghcr.io/me/app:1\": pull access denied, repository does not exist or may \
             require authorization: server message: insufficient_scope: authorization failed"
                .to_owned(),
            "R-09",
            "refuses access",
        ),
        ("ImagePullBackOff", "Back-off pulling image \"nginx\"".to_owned(), "R-11", "could not pull"),
        ("InvalidImageName", "Failed to apply default image tag".to_owned(), "R-11", "not valid"),
        ("ErrImageNeverPull", String::new(), "R-11", "imagePullPolicy is Never"),
        // A text that would be something else is none of this.
        ("ErrImagePull", "failed to find memory cgroup (v2)".to_owned(), "R-11", "could not pull"),
    ] {
        let found = judged(&[waits("web", reason, &message)]);
        assert_eq!(found.len(), 1, "{message}");
        assert_eq!((found[0].code.id(), found[0].severity()), (want, Severity::Warn), "{message}");
        assert!(found[0].message.contains(words), "{:?}", found[0].message);
        assert!(found[0].message.ends_with("(pods that wait: shop/web)"), "{:?}", found[0].message);
        assert!(found[0].evidence[0].place.file.contains("pod shop/web, container app"), "{found:?}");
        assert!(found[0].remedy.is_some());
    }
}

#[test]
fn what_is_on_its_way_or_has_another_fault_is_none_of_it() {
    for reason in ["ContainerCreating", "PodInitializing", "CrashLoopBackOff", "CreateContainerConfigError"] {
        assert!(judged(&[waits("web", reason, "no match for platform in manifest")]).is_empty(), "{reason}");
    }
    let running = json!({"running": {"startedAt": "2026-11-27T02:00:00Z"}});
    assert!(judged(&[pod("web", &container(&running, &json!({})))]).is_empty());
    assert!(judged(&[Pod::default()]).is_empty());
}

#[test]
fn pods_of_one_cause_are_one_finding_and_only_some_are_named() {
    let message = "failed to resolve reference \"docker.io/me/app:2\": docker.io/me/app:2: not found";
    let pods: Vec<Pod> = (0..8).map(|at| waits(&format!("web-{at}"), "ErrImagePull", message)).collect();
    let found = judged(&pods);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].message.contains("shop/web-0, ") && found[0].message.ends_with(" and 3 more)"),
        "{found:?}"
    );
    let other = waits("db", "InvalidImageName", "");
    assert_eq!(judged(&[pods[0].clone(), other]).len(), 2);
}

#[test]
fn a_container_that_ends_as_one_for_another_processor_is_asked_for_its_words() {
    let crash = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    for (code, want) in [(255, 1), (1, 0), (0, 0)] {
        let last = json!({"terminated": {"exitCode": code}});
        assert_eq!(of_other_format(&pod("web", &container(&crash, &last))).len(), want, "{code}");
    }
    assert!(of_other_format(&pod("web", &container(&json!({}), &json!({})))).is_empty());
    let one = Stuck {
        namespace: "shop".into(),
        pod: "web".into(),
        container: "app".into(),
        reason: "CrashLoopBackOff".into(),
        message: "exec /usr/local/bin/app: exec format error\n".into(),
    };
    let recogniser = Recogniser::new().unwrap();
    let found = recognised(&recogniser, &one).unwrap();
    assert_eq!(found.code, Code::ImageForOtherProcessor);
    assert_eq!(found.message, Code::ImageForOtherProcessor.title());
    // Its last line is any text: of the way to a registry it knows nothing.
    for message in [INSECURE, "Failed to pull image \"x\": 403 Forbidden"] {
        assert_eq!(
            recognised(&recogniser, &Stuck { message: message.into(), ..one.clone() }),
            None,
            "{message}"
        );
    }
}

/// A message whose recognised remedy would be of a registry that it names.
const INSECURE: &str = "pinging container registry x: Get \"https://evil.corp/v2/\": http: server gave HTTP response to \
                        HTTPS client";

#[test]
fn what_is_to_be_done_is_never_made_from_what_a_pod_says() {
    for message in [
        INSECURE,
        "Container image \"evil:1\" is not present with pull policy of Never",
        "Failed to pull image \"evil/x\": failed to extract layer sha256:0: blob sha256:9e: not found",
        "Head \"https://evil.corp:5000/v2/\": dial tcp 10.0.0.1:5000: connect: connection refused",
    ] {
        for reason in NOT_PULLED {
            let found = judged(&[waits("web", reason, message)]);
            assert_eq!(found.len(), 1, "{message}");
            assert_eq!(found[0].remedy, Some(found[0].code.row().remedy()), "{message}");
            if reason == INVALID_NAME {
                assert_eq!((found[0].code, &*found[0].evidence[0].saw), (Code::ImageNotPulled, INVALID_NAME));
            }
        }
    }
    let secret = "Failed to pull image \"x\": Get \"https://me:hunter2@reg/\": token=hunter2";
    for reason in NOT_PULLED {
        assert!(!text(&judged(&[waits("web", reason, secret)])[0]).contains("hunter2"), "{reason}");
    }
}

proptest! {
    // The signatures are compiled for each.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_a_pod_says_is_quoted_and_obeyed_by_no_one(message in any::<String>(), reason in 0..NOT_PULLED.len()) {
        for finding in judged(&[waits("web", NOT_PULLED[reason], &message)]) {
            let shown = text(&finding);
            prop_assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
        }
    }
}
