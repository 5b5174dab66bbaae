//! The wordings by which others' output is recognised: each code once, with all of its wordings, in order of
//! precedence.
//!
//! They are here and not in the rows of the catalogue, because between codes the order counts, which the rows do not
//! have, and because a wording may have a reader of the line, which is code; a row is nothing but data. A test
//! names the codes that are in no other program's output.

mod clients;
mod cluster;
mod host;
mod images;
mod node;

use super::wording::Wording;
use crate::finding::Code;

/// A code and how others say it.
type Signature = (Code, &'static [Wording]);

/// Who waits for an answer says little of why, so connections come last.
const IN_ORDER: &[&[Signature]] = &[
    clients::FIRST,
    images::ALL,
    host::FIRST,
    clients::CONNECTIONS,
    cluster::ALL,
    node::ALL,
    host::REST,
    clients::LAST,
];

/// Each code that others say, in order of precedence.
pub(super) fn signatures() -> impl Iterator<Item = &'static Signature> {
    IN_ORDER.iter().copied().flatten()
}

/// Each wording with its code, in order of precedence.
pub(super) fn wordings() -> impl Iterator<Item = (Code, &'static Wording)> {
    signatures().flat_map(|(code, wordings)| wordings.iter().map(|wording| (*code, wording)))
}
