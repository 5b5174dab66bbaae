//! What an error that prints itself looks like.

use super::details::Details;

pub(super) struct Wording {
    /// Text that a line with it has, in whatever case.
    pub needle: &'static str,
    reader: Reader,
}

/// What to make of a line that has the needle.
enum Reader {
    /// The needle alone says it.
    AsItIs,
    /// The line has particulars.
    Tells(fn(&str) -> Details),
    /// It may be something else after all.
    Judges(fn(&str) -> Option<Details>),
}

impl Wording {
    /// What the line says in particular, if it is this error.
    pub fn read(&self, line: &str) -> Option<Details> {
        match self.reader {
            Reader::AsItIs => Some(Details::default()),
            Reader::Tells(read) => Some(read(line)),
            Reader::Judges(read) => read(line),
        }
    }
}

pub(super) const fn says(needle: &'static str) -> Wording {
    Wording { needle, reader: Reader::AsItIs }
}

pub(super) const fn tells(needle: &'static str, read: fn(&str) -> Details) -> Wording {
    Wording { needle, reader: Reader::Tells(read) }
}

pub(super) const fn judged(needle: &'static str, read: fn(&str) -> Option<Details>) -> Wording {
    Wording { needle, reader: Reader::Judges(read) }
}
