//! The kernel command line, as a file on the boot partition and as the kernel
//! reports it.
//!
//! The firmware reads the first line of `cmdline.txt` only; everything after
//! the first newline is ignored, which is the most frequent mistake of all.
//! The kernel splits at white space outside double quotes; of `cgroup_enable=`
//! and `cgroup_disable=` the last one that names a controller wins.

mod glued;

pub(crate) use self::glued::BARE;
pub use self::glued::{Glued, glued, separated};

/// One parameter and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// The parameter as written, quotes included.
    pub text: &'a str,
    /// Line, from 1.
    pub line: u64,
    /// Column in bytes, from 1.
    pub column: u64,
}

impl Parameter<'_> {
    /// Whether this is `KEY=…memory…`, the value being a comma list that may
    /// be quoted as a whole or after the `=`.
    fn names_memory(&self, key: &str) -> bool {
        list(self.text).is_some_and(|(name, value)| name == key && value.split(',').any(is_memory))
    }

    /// Whether this is `cgroup_enable=` with `memory` in its list.
    pub fn enables_memory(&self) -> bool {
        self.names_memory("cgroup_enable")
    }

    /// Whether this is `cgroup_disable=` with `memory` in its list.
    fn disables_memory(&self) -> bool {
        self.names_memory("cgroup_disable")
    }
}

/// What a command line says about the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemorySetting<'a> {
    /// The last word is `cgroup_enable=memory`.
    On(Parameter<'a>),
    /// The last word is `cgroup_disable=memory`.
    Off(Parameter<'a>),
    /// It is not mentioned.
    Unset,
}

/// The lines of a boot file without carriage returns. At least one, possibly empty. A byte order mark is a part of the
/// first parameter to the kernel, and stays.
pub fn lines(text: &str) -> Vec<&str> {
    text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect()
}

pub fn parameters(line: &str, number: u64) -> Vec<Parameter<'_>> {
    let mut found = Vec::new();
    let mut start = None;
    let mut quoted = false;
    let ends = line.char_indices().chain(std::iter::once((line.len(), ' ')));
    for (at, c) in ends {
        let blank = c.is_ascii_whitespace() && (!quoted || at == line.len());
        match (start, blank) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                let text = &line[from..at];
                found.push(Parameter { text, line: number, column: from as u64 + 1 });
                start = None;
            }
            _ => {}
        }
        if c == '"' {
            quoted = !quoted;
        }
    }
    found
}

/// What one line says about the memory controller.
pub fn memory_setting(line: &str) -> MemorySetting<'_> {
    let mut parameters = parameters(line, 1);
    // What is behind it is for init, and not for the kernel.
    parameters.truncate(parameters.iter().position(|it| it.text == "--").unwrap_or(parameters.len()));
    parameters
        .into_iter()
        .rev()
        .find_map(|parameter| {
            if parameter.enables_memory() {
                Some(MemorySetting::On(parameter))
            } else if parameter.disables_memory() {
                Some(MemorySetting::Off(parameter))
            } else {
                None
            }
        })
        .unwrap_or(MemorySetting::Unset)
}

/// The first `cgroup_enable=memory` on a line that the firmware ignores.
pub fn ignored_enable(text: &str) -> Option<Parameter<'_>> {
    lines(text)
        .into_iter()
        .zip(1..)
        .skip(1)
        .flat_map(|(line, number)| parameters(line, number))
        .find(Parameter::enables_memory)
}

/// The first `cgroup_disable=memory` of a line.
pub fn disable_parameter(line: &str) -> Option<Parameter<'_>> {
    parameters(line, 1).into_iter().find(Parameter::disables_memory)
}

/// A disable parameter without `memory`, every other byte as it was: a quote that lost its other one would
/// include what follows. `None` where nothing is left of its list.
pub fn without_memory(parameter: &str) -> Option<String> {
    let (_, value) = list(parameter)?;
    let rest: Vec<_> = value.split(',').filter(|item| !is_memory(item)).collect();
    let at = value.as_ptr().addr() - parameter.as_ptr().addr();
    (!rest.is_empty()).then(|| [&parameter[..at], &rest.join(","), &parameter[at + value.len()..]].concat())
}

/// Name and value of a parameter, as the kernel's `next_arg` takes quotes away: those around it all, and those around
/// the value.
fn list(parameter: &str) -> Option<(&str, &str)> {
    let (name, value) = unquoted(parameter).split_once('=')?;
    Some((name, unquoted(value)))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').map_or(text, |rest| rest.strip_suffix('"').unwrap_or(rest))
}

fn is_memory(item: &str) -> bool {
    item.trim() == "memory"
}

/// Whether `/boot/cmdline.txt` is the note that the file has moved.
pub fn is_moved_stub(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("do not edit this file") || text.contains("moved to /boot/firmware")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pi OS' own line, from a working installation.
    const GOOD: &str = "console=serial0,115200 console=tty1 root=PARTUUID=9a8b-02 rootfstype=ext4 \
                        fsck.repair=yes rootwait cgroup_enable=memory\n";

    fn setting(line: &str) -> &'static str {
        match memory_setting(line) {
            MemorySetting::On(_) => "on",
            MemorySetting::Off(_) => "off",
            MemorySetting::Unset => "unset",
        }
    }

    #[test]
    fn the_last_occurrence_wins() {
        for (line, want) in [
            ("", "unset"),
            ("quiet", "unset"),
            ("cgroup_enable=memory", "on"),
            ("cgroup_disable=memory", "off"),
            ("cgroup_disable=memory cgroup_enable=memory", "on"),
            ("cgroup_enable=memory cgroup_disable=memory", "off"),
            ("cgroup_enable=cpuset,memory", "on"),
            ("cgroup_enable=cpuset", "unset"),
            ("a\tcgroup_enable=memory\tb", "on"),
            ("\"cgroup_enable=memory\"", "on"),
            ("cgroup_enable=\"cpuset,memory\"", "on"),
            ("x=\"a cgroup_enable=memory b\"", "unset"),
            ("cgroup_memory=1", "unset"),
            ("cgroup_enable=memoryx", "unset"),
            ("xcgroup_enable=memory", "unset"),
        ] {
            assert_eq!(setting(line), want, "{line:?}");
        }
    }

    #[test]
    fn marks_and_carriage_returns_are_no_part_of_a_line() {
        assert_eq!(lines("\u{feff}a b\r\nc\r\n"), ["\u{feff}a b", "c", ""]);
        assert_eq!(setting(lines("\u{feff}cgroup_enable=memory\r\n")[0]), "unset");
        assert_eq!(setting(lines(GOOD)[0]), "on");
    }

    #[test]
    fn a_token_on_a_later_line_is_found_with_its_place() {
        let text = "root=/dev/mmcblk0p2 rootwait\n\n  cgroup_enable=memory\n";
        let parameter = ignored_enable(text).unwrap();
        assert_eq!((parameter.line, parameter.column), (3, 3));
        assert_eq!(ignored_enable(GOOD), None);
    }

    #[test]
    fn memory_is_taken_out_of_a_list() {
        assert_eq!(without_memory("cgroup_disable=memory"), None);
        assert_eq!(without_memory("cgroup_disable=cpu,memory").as_deref(), Some("cgroup_disable=cpu"));
        assert_eq!(
            without_memory("cgroup_disable=\"memory, cpu\"").as_deref(),
            Some("cgroup_disable=\" cpu\"")
        );
        assert_eq!(
            without_memory("\"cgroup_disable=memory,a b\"").as_deref(),
            Some("\"cgroup_disable=a b\"")
        );
        // Found by the fuzzer: without its quote, the rest of the line was one parameter.
        assert_eq!(
            without_memory("cgroup_disable=memory,e=\"a b\"").as_deref(),
            Some("cgroup_disable=e=\"a b\"")
        );
        assert_eq!(without_memory("cgroup_disable=\"memory\""), None);
    }

    #[test]
    fn the_stub_is_recognised() {
        let stub =
            "DO NOT EDIT THIS FILE\n\nThe file you are looking for has moved to /boot/firmware/cmdline.txt\n";
        assert!(is_moved_stub(stub));
        assert!(!is_moved_stub(GOOD));
    }

    proptest! {
        /// Any text at all: no panic, and every parameter is where it says.
        #[test]
        fn tokens_are_where_they_say(text in "\\PC*|[a-z=,\" \t\r\n_]*") {
            for (number, line) in (1..).zip(lines(&text)) {
                for parameter in parameters(line, number) {
                    let from = usize::try_from(parameter.column).unwrap() - 1;
                    prop_assert!(line[from..].starts_with(parameter.text));
                    prop_assert_eq!(parameter.line, number);
                }
            }
            let _ = (ignored_enable(&text), is_moved_stub(&text));
        }

        /// Without quotes, parameters are what splitting at white space gives, and
        /// the verdict is that of the last mention.
        #[test]
        fn agrees_with_a_naive_model(words in prop::collection::vec(
            prop::sample::select(vec!["quiet", "cgroup_enable=memory", "cgroup_disable=memory", "cgroup_enable=cpu,memory"]),
            0..8,
        )) {
            let line = words.join(" ");
            let found: Vec<_> = parameters(&line, 1).into_iter().map(|t| t.text).collect();
            prop_assert_eq!(&found, &words);
            let want = words.iter().rev().find(|w| w.contains("memory")).map_or("unset", |w| {
                if w.starts_with("cgroup_enable") { "on" } else { "off" }
            });
            prop_assert_eq!(setting(&line), want);
        }
    }
}
