//! `config.txt` as the firmware of a Raspberry Pi reads it: the lines that apply to one board.
//!
//! The rules are those of Raspberry Pi's documentation,
//! <https://www.raspberrypi.com/documentation/computers/config_txt.html> (its source:
//! `documentation/asciidoc/computers/config_txt/` in raspberrypi/documentation):
//!
//! - one `property=value` a line; a line that starts with `#` is a comment, and there are no others (File Format);
//! - characters after the 98th of a line are ignored (File Format);
//! - `include FILE` inserts that file's lines at this line (Advanced features);
//! - filters of the same type replace each other, filters of different types combine, `[all]` resets them, and after
//!   `[none]` nothing applies until then (Conditional filters);
//! - blanks next to `=` belong to the property or the value, so `cmdline = x` sets no `cmdline`. Raspberry
//!   Pi's text only shows the form without; Ubuntu's page on `config.txt` says it.
//!
//! Guarantees: a condition that a program on the running system cannot evaluate, such as the level of a pin at
//! power-on, is never guessed. Its lines are kept together with the condition, and [`ConfigTxt::value`] fails
//! where they matter.

pub mod cmdline_file;
mod filter;

pub use filter::Hardware;
use filter::{Applies, Filters, blank_trimmed};

/// The file's name on the boot partition.
pub const FILE: &str = "config.txt";
/// The directory where the boot partition is mounted.
pub const BOOT_DIR: &str = "/boot/firmware";
/// Where it was mounted before Debian 12.
pub const OLD_BOOT_DIR: &str = "/boot";
/// The command line in [`OLD_BOOT_DIR`]; since Debian 12 a stub.
pub const OLD_CMDLINE: &str = "/boot/cmdline.txt";

/// "Any characters past this limit will be ignored"; the firmware counts bytes.
const LINE_LIMIT: usize = 98;
/// Files that are included at most, nested or not. The documentation names no limit; without one a file that includes
/// itself would never end.
const INCLUDE_LIMIT: usize = 32;
/// What editors of Windows put in front of a text.
const MARK: char = '\u{feff}';

/// What an `include` finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Included {
    Text(String),
    /// There is no such file.
    Missing,
    /// The file exists, and its text is not known; the reason.
    Unreadable(String),
}

/// A line that applies, or may apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The file, as `include` names it.
    pub file: String,
    /// Its number there, from 1.
    pub number: u64,
    /// The line as the firmware sees it: cut, without blanks around it.
    pub text: String,
    /// Why it is not known whether the line applies; `None` if it does.
    pub condition: Option<String>,
}

impl Line {
    /// The property and its value.
    pub fn setting(&self) -> Option<(&str, &str)> {
        self.text.split_once('=')
    }

    /// Whether this `include` could not be followed, so that it may stand for any lines.
    fn may_set_anything(&self) -> bool {
        self.condition.is_some() && include(&self.text).is_some()
    }
}

/// The lines that apply, or may apply, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigTxt {
    lines: Vec<Line>,
}

impl ConfigTxt {
    /// The lines. Comments, filters and followed includes are not among them.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The value of a property: the last one wins, and an empty one counts as none.
    ///
    /// # Errors
    /// The line that decides, where it is not known whether that line applies.
    pub fn value(&self, key: &str) -> Result<Option<&str>, &Line> {
        let mut unsure: Vec<(&Line, Option<&str>)> = Vec::new();
        let mut certain = None;
        for line in self.lines.iter().rev() {
            if line.may_set_anything() {
                return Err(line);
            }
            let Some((_, value)) = line.setting().filter(|(found, _)| *found == key) else { continue };
            let value = Some(value).filter(|value| !value.is_empty());
            if line.condition.is_none() {
                certain = value;
                break;
            }
            unsure.push((line, value));
        }
        match unsure.into_iter().find(|(_, value)| *value != certain) {
            Some((line, _)) => Err(line),
            None => Ok(certain),
        }
    }

    /// The last line that certainly sets a property.
    pub fn line(&self, key: &str) -> Option<&Line> {
        let sets =
            |line: &&Line| line.condition.is_none() && line.setting().is_some_and(|(found, _)| found == key);
        self.lines.iter().rev().find(sets)
    }
}

/// Reads the text of [`FILE`] as the firmware of this board does.
///
/// `include` returns the file of that name, which is relative to the boot partition.
pub fn read(text: &str, hardware: &Hardware, include: impl FnMut(&str) -> Included) -> ConfigTxt {
    read_file(FILE, text, hardware, include)
}

/// The same for another file of that format.
pub fn read_file(
    file: &str,
    text: &str,
    hardware: &Hardware,
    include: impl FnMut(&str) -> Included,
) -> ConfigTxt {
    let mut reader = Reader { lines: Vec::new(), filters: Filters::new(hardware), include, included: 0 };
    reader.read(file, text, None);
    ConfigTxt { lines: reader.lines }
}

struct Reader<'a, F> {
    lines: Vec<Line>,
    filters: Filters<'a>,
    include: F,
    included: usize,
}

impl<F: FnMut(&str) -> Included> Reader<'_, F> {
    /// `outer` is the condition under which this file is included at all.
    fn read(&mut self, file: &str, text: &str, outer: Option<&str>) {
        for (number, line) in (1..).zip(text.split('\n')) {
            let line = blank_trimmed(cut(line));
            // The documentation knows no mark; a firmware that takes it for text sees another first line.
            if let Some(rest) = line.strip_prefix(MARK) {
                self.marked(file, number, blank_trimmed(rest));
                continue;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with('[') {
                self.filters.enter(line);
                continue;
            }
            let condition = match self.filters.verdict() {
                Applies::Yes => None,
                Applies::No => continue,
                Applies::Unknown(why) => Some(why),
            };
            let condition = outer.map(str::to_owned).or(condition);
            let line =
                Line { file: file.to_owned(), number, text: line.to_owned(), condition: condition.clone() };
            let Some(name) = include(&line.text) else {
                self.lines.push(line);
                continue;
            };
            match self.included(name) {
                Included::Missing => {}
                Included::Text(text) => {
                    self.read(name, &text, condition.as_deref());
                    if let Some(condition) = condition {
                        // Its filters remain, if it was inserted.
                        self.filters.doubt(&condition);
                    }
                }
                Included::Unreadable(why) => {
                    let condition = format!("{name}, which it includes, cannot be read: {why}");
                    self.filters.doubt(&condition);
                    self.lines.push(Line { condition: Some(condition), ..line.clone() });
                }
            }
        }
    }

    /// A first line behind a byte order mark.
    fn marked(&mut self, file: &str, number: u64, line: &str) {
        let why = format!("{file} begins with a byte order mark");
        if line == "[all]" && self.filters.verdict() == Applies::Yes {
            // Read or not, it changes nothing.
            return;
        }
        if line.starts_with('[') {
            self.filters.enter(line);
        }
        if line.starts_with('[') || include(line).is_some() {
            self.filters.doubt(&why);
        }
        if !line.is_empty() && !line.starts_with(['#', '[']) {
            let (file, text) = (file.to_owned(), line.to_owned());
            self.lines.push(Line { file, number, text, condition: Some(why) });
        }
    }

    fn included(&mut self, name: &str) -> Included {
        self.included += 1;
        if self.included > INCLUDE_LIMIT {
            return Included::Unreadable(format!("more than {INCLUDE_LIMIT} files are included"));
        }
        (self.include)(name)
    }
}

/// The file that a line includes.
fn include(line: &str) -> Option<&str> {
    let name = line.strip_prefix("include")?;
    name.starts_with([' ', '\t']).then(|| blank_trimmed(name)).filter(|name| !name.is_empty())
}

fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_LIMIT)]
}

/// Whether a number that switches something does so.
pub fn is_on(value: &str) -> bool {
    value.parse() != Ok(0)
}

#[cfg(test)]
mod tests;
