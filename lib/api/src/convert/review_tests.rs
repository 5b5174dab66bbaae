//! The protocol, on whole reviews as the API server sends them (`golden/`), and on what it should never send.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

fn answer(request: &Value) -> Value {
    let review = serde_json::from_value(request.clone()).unwrap();
    serde_json::to_value(super::review(review)).unwrap()
}

fn request(desired: &str, objects: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
           "request": {"uid": "4b2a", "desiredAPIVersion": desired, "objects": objects}})
}

fn sync(version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("weaver.example.com/{version}"), "kind": "ConfigMapSync",
           "metadata": {"name": name, "namespace": "team-a"}, "spec": {}})
}

/// Each `X.request.json` is answered by `X.response.json`, to the last field. `WEAVER_WRITE_GOLDEN=1` writes
/// the answers again; what changed is then read in the diff.
#[test]
fn the_golden_reviews_are_answered_as_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/convert/golden");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".request.json")) else { continue };
        let request: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let answer = answer(&request);
        let expected = format!("{name}.response.json");
        if std::env::var_os("WEAVER_WRITE_GOLDEN").is_some() {
            fs::write(&expected, serde_json::to_string_pretty(&answer).unwrap() + "\n").unwrap();
        }
        let golden: Value = serde_json::from_str(&fs::read_to_string(&expected).unwrap()).unwrap();
        assert_eq!(answer, golden, "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "only {seen} golden reviews in {}", folder.display());
}

#[test]
fn the_uid_is_echoed_and_order_and_number_are_kept() {
    let names: Vec<String> = (0..500).map(|n| format!("sync-{n}")).collect();
    let objects: Vec<Value> = names.iter().map(|name| sync("v1alpha1", name)).collect();
    let response = &answer(&request("weaver.example.com/v1beta1", &json!(objects)))["response"];
    assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("4b2a"), &json!("Success")));
    let converted = response["convertedObjects"].as_array().unwrap();
    let found: Vec<&str> = converted.iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(found, names);
    assert!(converted.iter().all(|object| object["apiVersion"] == "weaver.example.com/v1beta1"));
}

#[test]
fn an_object_at_the_wanted_version_is_left_as_it_is() {
    let objects = json!([sync("v1beta1", "a"), sync("v1alpha1", "b")]);
    let answer = answer(&request("weaver.example.com/v1beta1", &objects));
    assert_eq!(answer["response"]["convertedObjects"][0], objects[0]);
}

#[test]
fn what_cannot_be_converted_is_named_with_its_place_and_nothing_is_half_done() {
    let without = |field: &str| {
        let mut object = sync("v1alpha1", "a");
        object.as_object_mut().unwrap().remove(field);
        object
    };
    let mut foreign = sync("v1alpha1", "a");
    foreign["kind"] = json!("Pod");
    let mut report = sync("v1beta1", "a");
    report["kind"] = json!("NodeReport");
    let beta = "weaver.example.com/v1beta1";
    for (desired, object, words) in [
        (
            "weaver.example.com/v2",
            sync("v1alpha1", "a"),
            "ConfigMapSync has no version weaver.example.com/v2",
        ),
        ("v1beta1", sync("v1alpha1", "a"), "ConfigMapSync has no version v1beta1,"),
        ("other.example.com/v1beta1", sync("v1alpha1", "a"), "has no version other.example.com/v1beta1"),
        (beta, sync("v0", "a"), "ConfigMapSync has no version weaver.example.com/v0"),
        (beta, foreign, "not Pod of weaver.example.com/v1alpha1"),
        (beta, report, "not NodeReport of"),
        (beta, without("kind"), "it has no kind"),
        (beta, without("apiVersion"), "it has no apiVersion"),
        (beta, without("metadata"), "it has no metadata"),
        (beta, json!("text"), "it has no apiVersion"),
        (beta, Value::Null, "it has no apiVersion"),
    ] {
        let answer = answer(&request(desired, &json!([sync("v1beta1", "fine"), object])));
        let response = &answer["response"];
        let message = response["result"]["message"].as_str().unwrap();
        let place = if desired == beta { "objects[1]" } else { "objects[0]" };
        assert!(message.starts_with(place) && message.contains(words), "{message}");
        assert_eq!((&response["result"]["status"], &response["uid"]), (&json!("Failure"), &json!("4b2a")));
        assert_eq!(response["convertedObjects"], json!([]));
    }
}

#[test]
fn a_review_without_a_request_is_refused() {
    let answer = answer(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}));
    assert_eq!(answer["response"]["result"]["status"], "Failure");
    assert!(answer["response"]["result"]["message"].as_str().unwrap().contains("no request"));
}
