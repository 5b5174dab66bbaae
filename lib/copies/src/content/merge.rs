//! Several sources as the content of one copy. Pure.
//!
//! A key that two sources have is decided by its name alone, whatever its values are: an edit of a value never changes
//! whether there is a copy. Sources are added in the order of [`reading_order`], the one that counts first; so memory
//! is bounded by the size of one copy and one source.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::{ClashPolicy, Merge};

use super::Content;

/// What the API server stores of a `ConfigMap` or `Secret` at most, in bytes of its values.
const MAX_BYTES: usize = 1 << 20;

/// And in bytes of its keys and values: its datastore takes no more in one request.
const MAX_WHOLE: usize = 3 << 19;

/// Type of each Secret that is made of several.
const MERGED_TYPE: &str = "Opaque";

/// Clashes and sources that an error names.
const NAMED: usize = 5;

/// The sources in the order to read and add them, each with its index.
pub fn reading_order<'a>(merge: &Merge, names: &'a [String]) -> Vec<(usize, &'a String)> {
    let mut order: Vec<_> = names.iter().enumerate().collect();
    if merge.clash_policy == ClashPolicy::Last {
        order.reverse();
    }
    order
}

/// Why sources make no copy together. Names keys, sources and sizes, and no content of a source.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unmergeable {
    /// Two sources have one key.
    #[error(
        "sources have the same key: {}; name it in spec.merge.join, set spec.merge.clashPolicy to First or Last, or leave \
         it out by spec.keys.exclude", clashes(.first, *.more)
    )]
    Clash { first: Vec<KeyClash>, more: usize },
    /// A key to join is not text.
    #[error(
        "key {key} of {source_name} is in binaryData, which is not joined: take it out of spec.merge.join"
    )]
    Binary { key: String, source_name: String },
    /// It would be too large; these sources were added, with the bytes of each.
    #[error("the copy would have {bytes} bytes or more, and at most {most} are allowed: {}", sizes(.sources))]
    TooLarge { bytes: usize, most: usize, sources: Vec<(String, usize)> },
}

/// A key, and the two sources that have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyClash {
    pub key: String,
    pub sources: [String; 2],
}

fn clashes(first: &[KeyClash], more: usize) -> String {
    let of = |KeyClash { key, sources: [one, other] }: &KeyClash| format!("{key} in {one} and {other}");
    few(first.iter().map(of), more)
}

fn sizes(all: &[(String, usize)]) -> String {
    let mut all = all.to_vec();
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let more = all.len().saturating_sub(NAMED);
    few(all.into_iter().take(NAMED).map(|(name, bytes)| format!("{name} has {bytes}")), more)
}

fn few(first: impl Iterator<Item = String>, more: usize) -> String {
    let mut text = first.collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// In bytes.
#[derive(Clone, Copy, Default)]
struct ContentSize {
    keys: usize,
    values: usize,
}

impl ContentSize {
    fn whole(self) -> usize {
        self.keys.saturating_add(self.values)
    }
}

/// The content of one copy while sources are added to it.
pub struct ContentMerger<'a> {
    merge: &'a Merge,
    kind: ObjectKind,
    content: Content,
    /// Values of the joined keys, by the index of their source.
    joined: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    /// Which source gave each key, as an index into `sizes`.
    givers: BTreeMap<String, usize>,
    /// The first clashes, and how many more there are.
    clashes: (Vec<KeyClash>, usize),
    /// What each source added.
    sizes: Vec<(String, ContentSize)>,
    size: ContentSize,
    fault: Option<Unmergeable>,
}

impl<'a> ContentMerger<'a> {
    pub fn new(merge: &'a Merge, kind: ObjectKind) -> Self {
        let type_ = kind.is_same(ObjectKind::SECRET).then(|| MERGED_TYPE.to_owned());
        Self {
            merge,
            kind,
            content: Content { type_, ..Content::default() },
            joined: BTreeMap::new(),
            givers: BTreeMap::new(),
            clashes: (Vec::new(), 0),
            sizes: Vec::new(),
            size: ContentSize::default(),
            fault: None,
        }
    }

    /// Adds the copied content of the source `name`, the one at `index` among the sources.
    pub fn add(&mut self, index: usize, name: &str, source: Content) {
        if self.fault.is_some() {
            return;
        }
        let before = self.size;
        self.sizes.push((name.to_owned(), ContentSize::default()));
        for (key, value) in source.data {
            if self.merge.join.contains(&key) {
                self.join(index, key, &value);
            } else if self.gives(&key) {
                self.size.values = self.size.values.saturating_add(self.length(&value));
                self.content.data.insert(key, value);
            }
        }
        for (key, value) in source.binary_data {
            if self.merge.join.contains(&key) {
                return self.refuse(Unmergeable::Binary { key, source_name: name.to_owned() });
            }
            if self.gives(&key) {
                self.size.values = self.size.values.saturating_add(decoded_length(&value));
                self.content.binary_data.insert(key, value);
            }
        }
        if let Some((_, size)) = self.sizes.last_mut() {
            *size =
                ContentSize { keys: self.size.keys - before.keys, values: self.size.values - before.values };
        }
        if let Some(fault) = self.too_large() {
            self.refuse(fault);
        }
    }

    fn too_large(&self) -> Option<Unmergeable> {
        type Measure = fn(ContentSize) -> usize;
        let (measure, most): (Measure, usize) = if self.size.values > MAX_BYTES {
            (|size| size.values, MAX_BYTES)
        } else {
            (ContentSize::whole, MAX_WHOLE)
        };
        let sources = || self.sizes.iter().map(|(name, size)| (name.clone(), measure(*size))).collect();
        let bytes = measure(self.size);
        (bytes > most).then(|| Unmergeable::TooLarge { bytes, most, sources: sources() })
    }

    /// There is no copy, whatever is added; so its content is dropped.
    fn refuse(&mut self, fault: Unmergeable) {
        self.content = Content::default();
        self.joined.clear();
        self.givers.clear();
        self.fault = Some(fault);
    }

    /// Content of the copy.
    ///
    /// # Errors
    /// The sources make no copy together.
    pub fn finish(mut self) -> Result<Content, Unmergeable> {
        let (first, more) = std::mem::take(&mut self.clashes);
        if !first.is_empty() {
            return Err(Unmergeable::Clash { first, more });
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for (key, values) in std::mem::take(&mut self.joined) {
            let (value, added) = joined(values.into_values());
            self.size.values = self.size.values.saturating_add(added);
            let text = if self.kind.is_same(ObjectKind::SECRET) {
                STANDARD.encode(value)
            } else {
                // Of texts, with newlines between them.
                String::from_utf8_lossy(&value).into_owned()
            };
            self.content.data.insert(key, text);
        }
        match self.too_large() {
            Some(fault) => Err(fault),
            None => Ok(self.content),
        }
    }

    fn join(&mut self, index: usize, key: String, value: &str) {
        let value = if self.kind.is_same(ObjectKind::SECRET) {
            // The API server stores nothing else.
            STANDARD.decode(value).unwrap_or_default()
        } else {
            value.as_bytes().to_vec()
        };
        self.size.values = self.size.values.saturating_add(value.len());
        self.joined.entry(key).or_default().insert(index, value);
    }

    /// Is the value of this key that of the source that is being added? What was added first counts.
    fn gives(&mut self, key: &str) -> bool {
        let source = self.sizes.len().saturating_sub(1);
        let Some(&giver) = self.givers.get(key) else {
            self.givers.insert(key.to_owned(), source);
            self.size.keys = self.size.keys.saturating_add(key.len());
            return true;
        };
        if self.merge.clash_policy == ClashPolicy::Refuse {
            let (first, more) = &mut self.clashes;
            if first.len() < NAMED {
                let sources = [giver, source].map(|index| self.sizes[index].0.clone());
                first.push(KeyClash { key: key.to_owned(), sources });
            } else {
                *more += 1;
            }
        }
        false
    }

    fn length(&self, value: &str) -> usize {
        if self.kind.is_same(ObjectKind::SECRET) { decoded_length(value) } else { value.len() }
    }
}

/// The values in a row, each on lines of its own; and how many newlines that took.
fn joined(values: impl Iterator<Item = Vec<u8>>) -> (Vec<u8>, usize) {
    let (mut all, mut added) = (Vec::new(), 0);
    for value in values.filter(|value| !value.is_empty()) {
        if all.last().is_some_and(|last| *last != b'\n') {
            all.push(b'\n');
            added += 1;
        }
        all.extend(value);
    }
    (all, added)
}

/// Decoded length of a base64 value, in bytes.
fn decoded_length(value: &str) -> usize {
    let padding = value.bytes().rev().take_while(|byte| *byte == b'=').count();
    (value.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests;
