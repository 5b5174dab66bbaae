//! What the operator has said of a resource: Kubernetes' Events.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use weaver_diagnostics::finding_text::{clean, clean_lines};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventView {
    pub at: Option<Timestamp>,
    pub is_warning: bool,
    pub reason: String,
    pub message: String,
    pub count: i32,
}

/// The latest first.
pub fn events(events: &[Event]) -> Vec<EventView> {
    let mut shown: Vec<EventView> = events.iter().map(view).collect();
    shown.sort_by_key(|event| std::cmp::Reverse(event.at));
    shown
}

fn view(event: &Event) -> EventView {
    let series = event.series.as_ref();
    let last = series.and_then(|series| series.last_observed_time.as_ref()).or(event.event_time.as_ref());
    let at = last.map(|time| time.0).max(event.last_timestamp.as_ref().map(|time| time.0));
    EventView {
        at: at.or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.as_deref().map(clean).unwrap_or_default(),
        message: event.message.as_deref().map(|text| clean_lines(text.trim_end())).unwrap_or_default(),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_event_comes_first_by_whichever_time_it_has() {
        let of = |value: serde_json::Value| serde_json::from_value::<Event>(value).unwrap();
        let all = [
            of(
                json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}, "involvedObject": {}, "reason": "Old"}),
            ),
            of(
                json!({"metadata": {}, "involvedObject": {}, "reason": "New\u{7}", "type": "Warning", "message": "a\nb\n",
                      "eventTime": "2026-01-01T00:00:02.000000Z",
                      "series": {"count": 7, "lastObservedTime": "2026-01-01T00:09:00.000000Z"}}),
            ),
            of(json!({"metadata": {}, "involvedObject": {}, "reason": "Mid", "count": 3,
                      "lastTimestamp": "2026-01-01T00:05:00Z"})),
        ];
        let shown = events(&all);
        let reasons: Vec<_> = shown.iter().map(|event| (event.reason.as_str(), event.count)).collect();
        assert_eq!(reasons, [("New\\u{7}", 7), ("Mid", 3), ("Old", 1)]);
        assert!(shown[0].is_warning && shown[0].message == "a\nb" && !shown[1].is_warning);
    }
}
