//! What an error that prints itself looks like.

use super::context::{DAY, HOUR, LogContext};
use super::details::{Details, has_any};
use crate::finding::Code;

pub(super) struct Wording {
    /// Text that a line with it has, in whatever case.
    pub needle: &'static str,
    /// The line has one of these as well, with these capitals, where there are any.
    also: &'static [&'static str],
    reader: Reader,
}

/// What to make of a line that has the needle.
enum Reader {
    /// The needle alone is enough.
    AsItIs,
    /// The line has particulars.
    Tells(fn(&str) -> Details),
    /// It may be something else after all.
    Judges(fn(&str) -> Option<Details>),
    /// Earlier lines tell what it is.
    Knows(fn(&str, &LogContext) -> Option<Details>),
    /// Once it is nothing, and so are several that are each so many seconds after the one before.
    Repeats(u32, u64, fn(&str) -> Option<Details>),
    /// Both: earlier lines tell what it is, and once it is nothing.
    KnowsRepeats(u32, fn(&str, &LogContext) -> Option<Details>),
}

impl Wording {
    const fn of(needle: &'static str, reader: Reader) -> Self {
        Self { needle, also: &[], reader }
    }

    /// The same in a line that has one of these as well.
    pub(super) const fn with(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    /// What the line says in particular, if it is this error.
    pub fn read(&self, line: &str, context: &mut LogContext) -> Option<Details> {
        if !self.also.is_empty() && !has_any(line, self.also) {
            return None;
        }
        match self.reader {
            Reader::AsItIs => Some(Details::default()),
            Reader::Tells(read) => Some(read(line)),
            Reader::Judges(read) => read(line),
            Reader::Knows(read) => read(line, context),
            Reader::Repeats(least, apart, read) => {
                let details = read(line)?;
                (context.count(self.needle, line, apart) >= least).then_some(details)
            }
            Reader::KnowsRepeats(least, read) => {
                let details = read(line, context)?;
                (context.count(self.needle, line, DAY) >= least).then_some(details)
            }
        }
    }
}

impl Code {
    /// With all wordings by which it is recognised.
    pub(super) const fn printed_as(self, wordings: &'static [Wording]) -> (Self, &'static [Wording]) {
        (self, wordings)
    }
}

pub(super) const fn says(needle: &'static str) -> Wording {
    Wording::of(needle, Reader::AsItIs)
}

pub(super) const fn tells(needle: &'static str, read: fn(&str) -> Details) -> Wording {
    Wording::of(needle, Reader::Tells(read))
}

pub(super) const fn judged(needle: &'static str, read: fn(&str) -> Option<Details>) -> Wording {
    Wording::of(needle, Reader::Judges(read))
}

pub(super) const fn known(needle: &'static str, read: fn(&str, &LogContext) -> Option<Details>) -> Wording {
    Wording::of(needle, Reader::Knows(read))
}

pub(super) const fn repeated(needle: &'static str, least: u32, read: fn(&str) -> Option<Details>) -> Wording {
    Wording::of(needle, Reader::Repeats(least, DAY, read))
}

/// What each start of a server brings a few times: those of several starts in a day are not added up.
pub(super) const fn insistent(
    needle: &'static str,
    least: u32,
    read: fn(&str) -> Option<Details>,
) -> Wording {
    Wording::of(needle, Reader::Repeats(least, HOUR, read))
}

pub(super) const fn known_repeated(
    needle: &'static str,
    least: u32,
    read: fn(&str, &LogContext) -> Option<Details>,
) -> Wording {
    Wording::of(needle, Reader::KnowsRepeats(least, read))
}
