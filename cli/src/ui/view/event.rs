//! The operator's Events about a resource.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use weaver_diagnostics::finding_text::{clean_lines, cut};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventView {
    pub at: Option<Timestamp>,
    pub is_warning: bool,
    pub reason: String,
    pub message: String,
    pub count: i32,
}

/// Events of one object that are listed, and those that are shown. Anyone who may write Events in a namespace may write
/// very many about an object.
pub const MOST: usize = 2_000;
pub const SHOWN: usize = 200;
/// Characters of a reason and of a message.
const REASON: usize = 128;
const MESSAGE: usize = 4_096;

/// The latest events of an object, the latest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct History {
    pub events: Vec<EventView>,
    /// Were there more than were listed? The API server has them by name, so they may be later than these.
    pub is_cut: bool,
}

impl History {
    /// Adds some more; the earliest are dropped.
    pub fn extend(&mut self, events: &[Event]) {
        self.events.extend(events.iter().map(view));
        self.events.sort_by_key(|event| std::cmp::Reverse(event.at));
        self.events.truncate(SHOWN);
    }
}

fn view(event: &Event) -> EventView {
    let series = event.series.as_ref();
    let last = series.and_then(|series| series.last_observed_time.as_ref()).or(event.event_time.as_ref());
    let at = last.map(|time| time.0).max(event.last_timestamp.as_ref().map(|time| time.0));
    EventView {
        at: at.or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.as_deref().map(|reason| cut(reason, REASON)).unwrap_or_default(),
        message: event.message.as_deref().map(message).unwrap_or_default(),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
    }
}

/// Keeps its lines, such as those of a Role.
fn message(text: &str) -> String {
    let text = text.trim_end();
    let end = text.char_indices().nth(MESSAGE).map_or(text.len(), |(end, _)| end);
    clean_lines(&text[..end]) + if end < text.len() { "…" } else { "" }
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
        let mut history = History::default();
        history.extend(&all);
        let shown = history.events;
        let reasons: Vec<_> = shown.iter().map(|event| (event.reason.as_str(), event.count)).collect();
        assert_eq!(reasons, [("New\\u{7}", 7), ("Mid", 3), ("Old", 1)]);
        assert!(shown[0].is_warning && shown[0].message == "a\nb" && !shown[1].is_warning);
    }

    #[test]
    fn of_very_many_the_latest_are_kept_whatever_they_are_called() {
        let at = |minute: usize| {
            let time = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
            let value = json!({"metadata": {}, "involvedObject": {}, "reason": minute.to_string(),
                               "message": "x".repeat(9_000), "lastTimestamp": time});
            serde_json::from_value::<Event>(value).unwrap()
        };
        let mut history = History::default();
        history.extend(&(0..300).map(at).collect::<Vec<_>>());
        history.extend(&[at(301)]);
        assert_eq!((history.events.len(), history.events[0].reason.as_str()), (SHOWN, "301"));
        assert_eq!(history.events[SHOWN - 1].reason, "101");
        assert_eq!(history.events[0].message.chars().count(), MESSAGE + 1);
    }
}
