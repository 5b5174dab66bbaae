//! What a review takes while it is converted, by its text. Pure.
//!
//! A value takes far more memory than its text: `{"a":0}` has seven bytes, and the map that is made of it seven
//! hundred. So what is parsed has a bound of its own ([`super::refusal::PARSED`]), which is judged before it is parsed.

/// A map with its first entries, as an allocator has it.
const MAP: u64 = 640;
/// The same of an array: four values, also where it has one.
const ARRAY: u64 = 160;
/// One value more in an array or in a map, with what the value allocates.
const VALUE: u64 = 64;
/// A key, and the part of a map's next node that an entry more takes.
const KEY: u64 = 64;
/// Each byte of the text once in a value, and once in the answer.
const BYTE: u64 = 2;
/// Most that the values in a text count for each of its characters: who may write 256 KiB of annotations, the most that
/// the API server stores, must not have a list refused by commas alone.
const IN_TEXT: u64 = 24;
/// Conversion compares an object with what would come back of it, and holds so many of it.
const COPIES: u64 = 10;
/// The arrays and maps around an object: `objects` in `request` in the review.
const AROUND: u64 = 3;

/// Bytes of memory that a review of this JSON takes at most.
pub fn of_review(json: &[u8]) -> u64 {
    let (mut all, mut before_object, mut largest_object, mut depth) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut rest = json;
    while let Some((byte, after)) = rest.split_first() {
        let (text, others) = after.split_at(if *byte == b'"' { length_of_text(after) } else { 0 });
        rest = others;
        all += BYTE + of_text(text);
        match byte {
            b',' => all += VALUE,
            b':' => all += KEY,
            b'{' | b'[' => {
                if depth == AROUND {
                    before_object = all;
                }
                depth += 1;
                all += if *byte == b'{' { MAP } else { ARRAY };
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == AROUND {
                    largest_object = largest_object.max(all - before_object);
                }
            }
            _ => {}
        }
    }
    all + COPIES * largest_object
}

/// Of the text that `json` begins with, up to the quote that ends it, and with that.
fn length_of_text(json: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = json.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(json.len(), |end| end + 1)
}

/// What the round-trip annotation has in its text is parsed as well. There too, an escape may stand for any character.
fn of_text(text: &[u8]) -> u64 {
    let (mut values, mut only_escape, mut before, mut is_escaped) = (0_u64, 0_u64, b'"', false);
    for byte in text {
        values += match byte {
            b'{' => MAP,
            b'[' => ARRAY,
            b',' => VALUE + KEY,
            // Also where it is an escape only for the next parser.
            b'u' if before == b'\\' => MAP,
            _ => 0,
        };
        only_escape += match byte {
            b'\\' if !is_escaped => 1,
            b'u' if is_escaped => 4,
            _ => 0,
        };
        is_escaped = *byte == b'\\' && !is_escaped;
        before = *byte;
    }
    let bytes = text.len() as u64;
    BYTE * bytes + values.min(IN_TEXT * bytes.saturating_sub(only_escape))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::webhook::refusal::{LARGEST, PARSED};

    fn review(objects: &Value) -> String {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
               "request": {"uid": "4b2a", "desiredAPIVersion": "weaver.example.com/v1beta1", "objects": objects}})
        .to_string()
    }

    /// As the API server stores one that is synced, without its managed fields.
    fn stored() -> Value {
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "Synced", "observedGeneration": 3,
                   "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "all copies are as their source is"})
        };
        let conditions = ["Ready", "Authorized", "SourceReady"].map(condition);
        json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
            "metadata": {"name": "settings", "namespace": "team-a", "generation": 3, "resourceVersion": "123456",
                         "uid": "7d4b7a3e-6a43-4f57-9a64-2f3f3f8e1c11",
                         "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["weaver.example.com/cleanup"]},
            "spec": {"serviceAccount": {"name": "sync"}, "source": {"name": "settings", "namespace": "team-a"},
                     "targets": {"namespaces": ["team-b", "team-c", "team-d"]}},
            "status": {"observedGeneration": 3, "conditions": conditions},
        })
    }

    #[test]
    fn a_list_of_stored_objects_may_be_as_large_as_any_request() {
        let one = stored().to_string();
        let objects = vec![one.as_str(); LARGEST / (one.len() + 1)].join(",");
        let weight = of_review(review(&json!(["ALL"])).replace("\"ALL\"", &objects).as_bytes());
        assert!(weight <= PARSED.into(), "{} MiB", weight >> 20);
        // The largest that the API server keeps.
        let mut large = stored();
        large["metadata"]["annotations"] = json!({"a": "x".repeat(3 << 20)});
        let weight = of_review(review(&json!([large])).as_bytes());
        assert!(weight <= PARSED.into(), "{} MiB", weight >> 20);
    }

    #[test]
    fn what_a_text_holds_counts_to_a_bound_and_a_value_by_what_it_allocates() {
        let of = |object: Value| of_review(review(&json!([object])).as_bytes());
        let text = of(json!("x".repeat(100)));
        // With the quote that ends it.
        assert_eq!(of(json!("{[:,]}".repeat(20))), text + 20 * BYTE + IN_TEXT * 121);
        // An escaped quote ends no text.
        assert_eq!(of(json!("\"{".repeat(25))), text - 25 * BYTE + IN_TEXT * 51);
        let escaped = review(&json!(["ALL"])).replace("ALL", &r"\u007b".repeat(100));
        assert_eq!(of_review(escaped.as_bytes()), text + 500 * BYTE + IN_TEXT * 101);
        assert_eq!(of(json!(format!("{}[", "x".repeat(99)))), text + ARRAY);
        assert!(of(json!([[1, 2, 3]])) > of(json!([1])) + (1 + COPIES) * 2 * VALUE);
        assert!(of(json!([[[0]]])) >= of(json!([[0]])) + (1 + COPIES) * ARRAY);
        assert!(of(json!({"a": {"b": 0}})) > of(json!({"a": 0})) + (1 + COPIES) * MAP);
    }

    #[test]
    fn the_annotations_of_a_stored_object_may_be_any_and_a_longer_text_counts_as_what_it_may_hold() {
        let of = |text: &str, bytes: usize| {
            let mut object = stored();
            object["metadata"]["annotations"] = json!({"weaver.example.com/converted": "ALL"});
            of_review(review(&json!([object])).replace("ALL", &text.repeat(bytes / text.len())).as_bytes())
        };
        let most = u64::from(PARSED);
        // The API server writes a `<` as an escape, which is one byte of the 256 KiB.
        for (text, bytes) in [(",", 256 << 10), ("[", 256 << 10), (r"\u003c", 6 * (256 << 10))] {
            assert!(of(text, bytes) <= most, "{text}");
        }
        for text in ["[0],", r#"{\"a\":0},"#, r"\u005b\u005d"] {
            assert!(of(text, 4 << 20) > most, "{text}");
        }
    }

    #[test]
    fn only_the_largest_object_counts_with_its_copies() {
        let of = |objects: Value| of_review(review(&objects).as_bytes());
        let one = of(json!([stored()]));
        assert!(of(json!([stored(), stored()])) < 2 * one);
        let both = of(json!([{"a": [0, 0, 0, 0]}, {}]));
        assert_eq!(both, of(json!([{}, {"a": [0, 0, 0, 0]}])));
    }
}
