//! Takes `metadata.managedFields` out of the API server's JSON before it is parsed.
//!
//! Who may write an object may put into the field what the API server keeps and no parser of Rust takes: a time after
//! the year 9999, or two hundred levels of fields. One such object made the list of its whole kind unreadable, for all
//! tenants. In place of the value stands `null`: always ([`removed_from`]), for a program that never reads the field,
//! or only where no parser takes it ([`readable_in`]).
//!
//! Only the field's own place counts: in an object, in each of a list, in what a watch or a review for conversion
//! contains. A key of that name anywhere else is content, and stays. What is no JSON passes as it is.

use std::mem;

use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use kube::client::DynBody;
use kube::core::ObjectMeta;

/// An answer of the API server without the field.
#[must_use]
pub fn removed_from(answer: Response<Box<DynBody>>) -> Response<Box<DynBody>> {
    scanned(answer, Scanner::default())
}

/// An answer of the API server with the field only where a parser takes it.
#[must_use]
pub fn readable_in(answer: Response<Box<DynBody>>) -> Response<Box<DynBody>> {
    scanned(answer, Scanner { kept: Some(Vec::new()), ..Scanner::default() })
}

fn scanned(answer: Response<Box<DynBody>>, mut scanner: Scanner) -> Response<Box<DynBody>> {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return answer;
    }
    answer.map(|body| {
        let without = body.map_frame(move |frame| frame.map_data(|data| scanner.pass(&data).into()));
        Box::new(without) as Box<DynBody>
    })
}

/// A whole document without the field.
#[must_use]
pub fn removed(json: &[u8]) -> Vec<u8> {
    Scanner::default().pass(json)
}

/// Does a parser take this value of the field?
fn is_readable(field: &[u8]) -> bool {
    // It is one level deeper than in a list.
    let object = [b"[[[[{\"managedFields\":".as_slice(), field, b"}]]]]"].concat();
    serde_json::from_slice::<[[[[ObjectMeta; 1]; 1]; 1]; 1]>(&object).is_ok()
}

/// An array or an object on the way to the field.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The answer itself, or an object in it.
    Object,
    /// `request` of a review.
    Request,
    /// `items` of a list, `objects` of a request.
    Items,
    Metadata,
}

#[derive(Clone, Copy, PartialEq)]
enum Text {
    /// A key on the way.
    Key,
    Other,
}

/// Reads JSON piece by piece.
#[derive(Default)]
struct Scanner {
    /// The arrays and objects around what is read now, as far as they are on the way.
    way: Vec<Place>,
    /// How many are open off the way.
    off_way: usize,
    /// They belong to the field.
    is_field: bool,
    /// What was read of the field, where one that a parser takes stays.
    kept: Option<Vec<u8>>,
    /// The text that is read now.
    text: Option<Text>,
    is_escaped: bool,
    /// What comes next in the innermost object is a key.
    is_key_next: bool,
    /// The last key on the way, without what is longer than any that counts.
    key: Vec<u8>,
}

/// As long as the longest key that counts, and one more.
const KEY: usize = b"managedFields".len() + 1;

impl Scanner {
    /// What is left of the next piece.
    fn pass(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut left = Vec::with_capacity(piece.len());
        let mut rest = piece;
        loop {
            let (text, others) = rest.split_at(self.length_of_text(rest));
            left.extend_from_slice(text);
            let Some((&byte, after)) = others.split_first() else { return left };
            rest = after;
            let was_field = self.is_field;
            self.read(byte);
            if !was_field && !self.is_field {
                left.push(byte);
                continue;
            }
            if let Some(field) = &mut self.kept {
                field.push(byte);
            }
            if !self.is_field {
                let field = self.kept.as_mut().map(mem::take).filter(|field| is_readable(field));
                left.extend_from_slice(field.as_deref().unwrap_or(b"null"));
            }
        }
    }

    /// How many of the next bytes belong to a text that stays: most of a megabyte is one.
    fn length_of_text(&self, bytes: &[u8]) -> usize {
        if self.text != Some(Text::Other) || self.is_escaped || self.is_field {
            return 0;
        }
        bytes.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(bytes.len())
    }

    fn read(&mut self, byte: u8) {
        if let Some(text) = self.text {
            self.read_text(text, byte);
            return;
        }
        match byte {
            b'"' => {
                let is_key = self.off_way == 0 && self.is_key_next;
                self.text = Some(if is_key { Text::Key } else { Text::Other });
                if is_key {
                    self.key.clear();
                }
            }
            b'{' | b'[' if self.off_way > 0 => self.off_way += 1,
            b'{' | b'[' => self.open(byte),
            b'}' | b']' if self.off_way > 0 => {
                self.off_way -= 1;
                self.is_field &= self.off_way > 0;
            }
            b'}' | b']' => {
                self.way.pop();
                self.is_key_next = false;
            }
            b',' if self.off_way == 0 => self.is_key_next = self.way.last() != Some(&Place::Items),
            b':' if self.off_way == 0 => self.is_key_next = false,
            _ => {}
        }
    }

    fn read_text(&mut self, text: Text, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => {
                self.text = None;
                return;
            }
            _ => {}
        }
        if text == Text::Key && self.key.len() < KEY {
            self.key.push(byte);
        }
    }

    fn open(&mut self, byte: u8) {
        use Place::{Items, Metadata, Object, Request};
        let next = match (self.way.last(), byte, self.key.as_slice()) {
            (None | Some(Items), b'{', _) | (Some(Object), b'{', b"object") => Some(Object),
            (Some(Object), b'{', b"metadata") => Some(Metadata),
            (Some(Object), b'{', b"request") => Some(Request),
            (Some(Object), b'[', b"items") | (Some(Request), b'[', b"objects") => Some(Items),
            _ => None,
        };
        if let Some(place) = next {
            self.way.push(place);
            self.is_key_next = byte == b'{';
            return;
        }
        self.off_way = 1;
        self.is_field = self.way.last() == Some(&Metadata) && self.key == b"managedFields";
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{DynamicObject, ObjectList};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn object(fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","metadata":{{"name":"a","managedFields":{fields},"uid":"u"}},"data":{{"managedFields":"x"}}}}"#
        )
    }

    fn parsed(json: &[u8]) -> Value {
        serde_json::from_slice(json).unwrap()
    }

    #[test]
    fn the_field_goes_wherever_an_object_may_stand_and_nothing_else_does() {
        let deep = format!(
            r#"[{{"time":"9999-12-31T00:00:00Z","x":"]}}\"","fieldsV1":{}{}}}]"#,
            "{\"f:a\":".repeat(300),
            "1".to_owned() + &"}".repeat(300)
        );
        let (one, none) = (object(&deep), parsed(object("null").as_bytes()));
        for (around, path) in [
            ("OBJECT", ""),
            (r#"{"kind":"List","metadata":{},"items":[{"metadata":{}},OBJECT]}"#, "/items/1"),
            (r#"{"type":"ADDED","object":OBJECT}"#, "/object"),
            (r#"{"kind":"ConversionReview","request":{"uid":"u","objects":[OBJECT]}}"#, "/request/objects/0"),
        ] {
            let json = around.replace("OBJECT", &one);
            assert!(serde_json::from_str::<Value>(&json).is_err(), "a parser takes it: {path}");
            let left = parsed(&removed(json.as_bytes()));
            assert_eq!(left.pointer(path), Some(&none), "{path}");
        }
        for content in [
            json!({"metadata": {"annotations": {"managedFields": "x"}, "name": "managedFields"}}),
            json!({"spec": {"metadata": {"managedFields": [1]}}, "data": {"metadata": "managedFields"}}),
            json!({"items": [{"spec": {"managedFields": [1]}}], "metadata": {"managedFields": null}}),
            json!([{"metadata": {"managedFields": [1]}}]),
            json!({"data": {"a": "\\\"}}, \"metadata\": {\"managedFields\": [", "b": "\\"}, "metadata": {"name": "a"}}),
        ] {
            let text = content.to_string();
            assert_eq!(removed(text.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn a_field_that_a_parser_takes_stays_where_it_is_read() {
        let fields = |time: &str, levels: usize| {
            let (open, close) = ("{\"f:a\":".repeat(levels), "}".repeat(levels));
            format!(r#"[{{"manager":"]\"","time":"{time}","fieldsV1":{open}{{}}{close}}}]"#)
        };
        let list =
            |objects: [&str; 2]| format!(r#"{{"items":[{},{}]}}"#, object(objects[0]), object(objects[1]));
        let time = "2026-01-01T00:00:00Z";
        let deepest = fields(time, 119);
        for (value, is_kept) in [
            (fields(time, 3), true),
            ("[]".to_owned(), true),
            (fields(time, 120), false),
            (fields("9999-12-31T00:00:00Z", 3), false),
            (r#"[{"manager":1}]"#.to_owned(), false),
        ] {
            let mut scanner = Scanner { kept: Some(Vec::new()), ..Scanner::default() };
            let left = scanner.pass(list([&value, &deepest]).as_bytes());
            let expected = if is_kept { value.as_str() } else { "null" };
            assert_eq!(String::from_utf8(left).unwrap(), list([expected, &deepest]), "{value}");
        }
        // As deep as what stays, it is parsed in the list.
        assert!(serde_json::from_str::<ObjectList<DynamicObject>>(&list([&deepest, "[]"])).is_ok());
    }

    #[test]
    fn each_event_of_a_watch_is_an_answer_of_its_own() {
        let event = |fields: &str| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object(fields));
        let lines = event("[1]") + &event("[{\"a\":[]}]");
        assert_eq!(removed(lines.as_bytes()), event("null").repeat(2).as_bytes());
    }

    proptest! {
        /// Cut anywhere it is the same; what is left of any bytes never panics.
        #[test]
        fn pieces_are_as_good_as_the_whole(cut in 0usize..200, bytes: Vec<u8>) {
            let json = object(r#"[{"manager":"weaver","fieldsV1":{"f:data":{"f:\"a":{}}}}]"#);
            let (first, second) = json.as_bytes().split_at(cut.min(json.len()));
            let mut scanner = Scanner::default();
            let left = [scanner.pass(first), scanner.pass(second)].concat();
            prop_assert_eq!(parsed(&left), parsed(object("null").as_bytes()));
            drop(removed(&bytes));
        }
    }
}
