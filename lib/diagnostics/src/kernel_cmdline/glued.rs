//! Parameters that a missing space has joined into one word, such as `rootwaitcgroup_enable=memory`. The kernel knows
//! neither of the two then.
//!
//! Only what cannot be meant otherwise: a parameter of the cgroup's directly behind a letter or digit of another one,
//! and a known parameter directly behind the cgroup's whole value. Not with quotes, and not `cgroup_disable=`: it has no
//! effect as it is, and would have one on its own.

use super::parameters;

/// Parameters that a guide has people add to the line.
const ADDED: [&str; 3] = ["cgroup_enable=", "cgroup_memory=", "systemd.unified_cgroup_hierarchy="];
/// Them with the values that such a guide has.
const WITH_VALUE: [&str; 5] = [
    "cgroup_enable=memory",
    "cgroup_enable=cpuset,memory",
    "cgroup_memory=1",
    "systemd.unified_cgroup_hierarchy=0",
    "systemd.unified_cgroup_hierarchy=1",
];
/// No longer command line has an effect on any Pi.
const LONGEST: usize = 4096;
/// Parameters without a value that systems write into `cmdline.txt`. Other words may be meant for init.
pub(crate) const BARE: [&str; 8] =
    ["rootwait", "quiet", "splash", "ro", "rw", "noswap", "fixrtc", "nosplash"];
/// Those with a value that do not have a dot in their name.
const VALUED: [&str; 10] =
    ["root", "rootfstype", "rootflags", "rootdelay", "console", "loglevel", "panic", "init", "ds", "net"];

/// A word of the line that is several parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glued<'a> {
    /// As written.
    pub text: &'a str,
    /// Column in bytes, from 1.
    pub column: u64,
    /// The parameters that it is.
    pub parts: Vec<&'a str>,
}

/// Those of one line. What is behind `--` is for init.
pub fn glued(line: &str) -> Vec<Glued<'_>> {
    let words = parameters(line, 1).into_iter().take_while(|word| word.text != "--");
    let words = words.map(|word| Glued { text: word.text, column: word.column, parts: parts(word.text) });
    words.filter(|word| word.parts.len() > 1).collect()
}

/// The line with the missing spaces, every other byte as it was.
pub fn separated(line: &str) -> String {
    let (mut new, mut copied) = (String::with_capacity(line.len() + 4), 0);
    for word in glued(line) {
        // Columns count from 1 and fit: they were made from a `usize`.
        let at = usize::try_from(word.column).map_or(copied, |column| column - 1);
        new.push_str(&line[copied..at]);
        new.push_str(&word.parts.join(" "));
        copied = at + word.text.len();
    }
    new.push_str(&line[copied..]);
    new
}

fn parts(word: &str) -> Vec<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_=,.:;/@%+-".contains(c);
    let (mut parts, mut rest) = (Vec::new(), word);
    if word.len() <= LONGEST && word.chars().all(is_plain) {
        while let Some(at) = end_of_first(rest) {
            parts.extend(self::parts(&rest[..at]));
            rest = &rest[at..];
        }
    }
    parts.push(rest);
    parts
}

/// Where the first parameter of a word ends and another one begins.
fn end_of_first(word: &str) -> Option<usize> {
    let behind = |at: &usize| {
        let (first, second) = word.split_at(*at);
        ADDED.iter().any(|added| second.starts_with(added)) && is_parameter(first)
    };
    let before = || {
        let mut ends = WITH_VALUE.iter().filter(|value| word.starts_with(*value)).map(|value| value.len());
        ends.find(|at| is_known(&word[*at..]))
    };
    (1..word.len()).find(behind).or_else(before)
}

/// Whether a parameter can end here: a letter or digit is its last, and it is no word for init.
fn is_parameter(text: &str) -> bool {
    let has_value = text.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && (has_value || BARE.contains(&text) || text.contains('.'))
}

fn is_known(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_dotted = name.contains('.') && name.starts_with(|c: char| c.is_ascii_lowercase());
        VALUED.contains(&name) || is_dotted && !name.starts_with("cgroup_")
    };
    BARE.contains(&text) || text.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_missing_space_is_found_and_put_in() {
        for (line, want) in [
            ("root=a rootwaitcgroup_enable=memory", "root=a rootwait cgroup_enable=memory"),
            ("rootwaitcgroup_memory=1 quiet", "rootwait cgroup_memory=1 quiet"),
            ("quietsystemd.unified_cgroup_hierarchy=0", "quiet systemd.unified_cgroup_hierarchy=0"),
            (
                "a  rootwaitcgroup_memory=1cgroup_enable=memory\tb",
                "a  rootwait cgroup_memory=1 cgroup_enable=memory\tb",
            ),
            ("cgroup_enable=memorycgroup_memory=1", "cgroup_enable=memory cgroup_memory=1"),
            ("cgroup_enable=cpusetcgroup_enable=memory", "cgroup_enable=cpuset cgroup_enable=memory"),
            ("cgroup_enable=memoryrootwait", "cgroup_enable=memory rootwait"),
            (
                "cgroup_enable=memoryquietcgroup_memory=1splash",
                "cgroup_enable=memory quiet cgroup_memory=1 splash",
            ),
            ("cgroup_memory=1root=/dev/sda2 x", "cgroup_memory=1 root=/dev/sda2 x"),
            ("cgroup_enable=memoryconsole=serial0,115200", "cgroup_enable=memory console=serial0,115200"),
            ("cgroup_enable=memoryfsck.repair=yes", "cgroup_enable=memory fsck.repair=yes"),
            ("quietcgroup_enable=cpuset,memorysplash", "quiet cgroup_enable=cpuset,memory splash"),
            (
                "root=PARTUUID=9f4c1a2e-02cgroup_enable=memory",
                "root=PARTUUID=9f4c1a2e-02 cgroup_enable=memory",
            ),
            ("logo.nologocgroup_enable=memory", "logo.nologo cgroup_enable=memory"),
            ("cgroup_disable=memorycgroup_enable=memory", "cgroup_disable=memory cgroup_enable=memory"),
        ] {
            assert_eq!(separated(line), want);
            assert_eq!(separated(want), want);
        }
        let found = glued("root=a rootwaitcgroup_enable=memory");
        let want = Glued {
            text: "rootwaitcgroup_enable=memory",
            column: 8,
            parts: vec!["rootwait", "cgroup_enable=memory"],
        };
        assert_eq!(found, [want]);
    }

    #[test]
    fn what_may_be_meant_as_it_is_stays() {
        for line in [
            "",
            "root=a rootwait cgroup_memory=1 cgroup_enable=memory",
            "cgroup_enable=cpuset,memory systemd.unified_cgroup_hierarchy=1",
            "note=\"rootwaitcgroup_enable=memory\"",
            "\"rootwaitcgroup_enable=memory\"",
            "note=\"a rootwaitcgroup_enable=memory b\"",
            "note=cgroup_enable=memory",
            "console=serial0,115200,cgroup_enable=memory",
            "#cgroup_enable=memory",
            "xcgroup_enable=memory",
            "1cgroup_enable=memory",
            "my_cgroup_enable=memory",
            "module.cgroup_enable=1",
            "rootwaitcgroup_disable=memory",
            "cgroup_disable=memoryrootwait",
            "cgroup_enable=memoryx",
            "cgroup_enable=memorycgroup_disable=memory",
            "cgroup_enable=memoryswap",
            "cgroup_memory=1024",
            "root=a -- rootwaitcgroup_enable=memory",
            "\u{feff}rootwaitcgroup_enable=memory",
        ] {
            assert_eq!(separated(line), line);
        }
    }

    proptest! {
        /// Spaces are all that is added, and nothing is left to do.
        #[test]
        fn adds_spaces_only_and_once(
            line in "\\PC*|(rootwait|quiet|root=a|a\\.b=c|[a-z]|cgroup_enable=|cgroup_disable=|memory|cpuset,|cgroup_memory=1|--| |\"|=|,){0,12}",
        ) {
            let new = separated(&line);
            prop_assert_eq!(separated(&new), new.clone());
            prop_assert_eq!(new.replace(' ', ""), line.replace(' ', ""));
        }
    }
}
