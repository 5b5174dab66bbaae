//! The change that mends a `cmdline.txt`, as commands and as a diff.
//!
//! A missing space between two parameters is put in, and notes above the line are taken out. One line stays one line,
//! every other parameter and their order stay, and a file that is already right gives no change. The commands are plain
//! `sed`; the tests run them and look at the result.

mod glued;

use std::borrow::Cow;

use crate::{
    finding::{Command, FileChange, Remedy},
    kernel_cmdline::{
        BARE, MemorySetting, disable_parameter, ignored_enable, lines, memory_setting, parameters, separated,
        without_memory,
    },
};

/// What the kernel needs to find on its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `cgroup_enable=memory` after any disable: a kernel that knows it.
    Enable,
    /// No `cgroup_disable=memory`: a kernel that knows only this one.
    NoDisable,
}

const BOM: char = '\u{feff}';

/// What mends one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// What to do, without the restart.
    pub remedy: Remedy,
    /// Whether it counts from the next boot only.
    pub needs_restart: bool,
}

impl Repair {
    /// The same where what runs now is right already.
    #[must_use]
    pub fn without_restart(self) -> Self {
        Self { needs_restart: false, ..self }
    }
}

/// The repairs, one after the other; the machine is restarted once, at the end. `None` where there are none.
pub fn in_order(repairs: impl IntoIterator<Item = Repair>) -> Option<Remedy> {
    let after = |first: Repair, next: Repair| {
        let (one, other) = (first.remedy, next.remedy);
        let remedy = Remedy {
            explain: format!("{}; {}", one.explain, other.explain),
            commands: [one.commands, other.commands].concat(),
            diff: one.diff.into_iter().chain(other.diff).reduce(|one, other| one + &other),
            changes: [one.changes, other.changes].concat(),
        };
        Repair { remedy, needs_restart: first.needs_restart || next.needs_restart }
    };
    let Repair { mut remedy, needs_restart } = repairs.into_iter().reduce(after)?;
    if needs_restart {
        remedy.explain.push_str("; then reboot");
        remedy.commands.push(Command::Reboot);
    }
    Some(remedy)
}

/// The remedy for a boot file, or `None` where it already says what is needed.
pub fn remedy(file: &str, text: &str, need: Need) -> Option<Remedy> {
    in_order(repair(file, text, need))
}

/// The repair of a boot file, or `None` where it already says what is needed.
pub fn repair(file: &str, text: &str, need: Need) -> Option<Repair> {
    let mut draft = Draft::new(file, text)?;
    if need == Need::Enable {
        draft.drop_notes();
    }
    let is_below = draft.replaced == 1 && (draft.is_blank_above() || ignored_enable(text).is_some());
    if need == Need::Enable && is_below && draft.can_be_joined() {
        if let Some(line) = draft.old.iter().position(|line| opens_quote(line)) {
            // Joined, the quote would include what follows.
            return Some(close_quote(file, line + 1));
        }
        draft.join_lines();
    }
    if need == Need::Enable {
        draft.separate();
    }
    draft.drop_disable(need);
    if need == Need::Enable && !matches!(memory_setting(&draft.new), MemorySetting::On(_)) {
        draft.add_enable();
    }
    // A parameter right behind the mark is none.
    let is_hidden = need == Need::Enable && !matches!(memory_setting(lines(text)[0]), MemorySetting::On(_));
    if text.starts_with(BOM) && (is_hidden || !draft.steps.is_empty()) {
        draft.drop_mark();
    }
    if draft.steps.is_empty() {
        return None;
    }
    if opens_quote(draft.old[draft.replaced - 1]) || opens_quote(&draft.new) {
        // No one can say what of it is a value and what a parameter.
        return Some(close_quote(file, draft.replaced));
    }
    Some(Repair { remedy: draft.remedy(), needs_restart: true })
}

/// A boot file that is being mended.
struct Draft<'a> {
    file: &'a str,
    text: &'a str,
    /// Its lines, one at least.
    old: Vec<&'a str>,
    /// What becomes its first line.
    new: String,
    /// How many of the old lines that replaces.
    replaced: usize,
    commands: Vec<Command>,
    /// What is done, in words.
    steps: Vec<Cow<'static, str>>,
}

impl<'a> Draft<'a> {
    fn new(file: &'a str, text: &'a str) -> Option<Self> {
        let old = lines(text.strip_prefix(BOM).unwrap_or(text));
        let new = (*old.first()?).to_owned();
        Some(Self { file, text, old, new, replaced: 1, commands: Vec::new(), steps: Vec::new() })
    }

    /// Whether nothing but parameters of ours is below the first line: else there may be an old line with another root,
    /// or a note.
    fn can_be_joined(&self) -> bool {
        let below: Vec<_> = self.old[1..].iter().map(|line| separated(line)).collect();
        let parameters = below.iter().flat_map(|line| parameters(line, 1));
        let above = parameters_of(self.old[0]);
        // Of an empty first line, all is below.
        let is_new = |text: &str| {
            let name = text.split('=').next().unwrap_or_default();
            let is_parameter = text.contains('=') && !text.starts_with('#') || BARE.contains(&text);
            let is_there = above.iter().any(|it| it.split('=').next() == Some(name));
            text.starts_with("cgroup_") || is_parameter && (name == "console" || !is_there)
        };
        let has_root = above.iter().any(|it| it.starts_with("root="));
        let is_blank = above.is_empty();
        parameters.into_iter().all(|parameter| {
            let text = parameter.text;
            text.starts_with("cgroup_") || (is_blank || has_root) && is_new(text)
        })
    }

    /// Whether the first line is empty, and what was meant for it is below.
    fn is_blank_above(&self) -> bool {
        let is_blank = |line: &str| line.trim_ascii().is_empty();
        is_blank(self.old[0]) && !self.old.iter().all(|line| is_blank(line))
    }

    /// Takes out the notes above the line with the root, which the kernel gets instead of it: it knows no comments.
    fn drop_notes(&mut self) {
        let is_note = |line: &str| line.trim_ascii_start().starts_with('#');
        let is_content = |line: &str| !is_note(line) && !line.trim_ascii().is_empty();
        let Some(at) = self.old.iter().position(|line| is_content(line)) else { return };
        let has_root = parameters_of(self.old[at]).iter().any(|it| it.starts_with("root="));
        if !has_root || !self.old[..at].iter().any(|line| is_note(line)) {
            return;
        }
        let command = "sudo sed -i -E '0,/^[[:space:]]*[^#[:space:]]/{/^[[:space:]]*(#|$)/d}'";
        self.commands.push(format!("{command} {}", self.file).into());
        self.steps.push("remove the notes above the parameters".into());
        self.new = self.old[at].to_owned();
        self.replaced = at + 1;
    }

    fn join_lines(&mut self) {
        let above = if self.is_blank_above() { r"s/^[[:space:]]+//; " } else { "" };
        let Self { file, old, .. } = self;
        self.commands.push(
            format!(r"sudo sed -i -z -E '{above}s/[[:space:]]*\n[[:space:]]*/ /g; s/ $/\n/' {file}").into(),
        );
        self.steps.push("join the lines into one".into());
        let parts = old.iter().map(|line| line.trim_ascii()).filter(|line| !line.is_empty());
        self.new = parts.collect::<Vec<_>>().join(" ");
        self.replaced = old.len() - usize::from(old.last().is_some_and(|line| line.is_empty()));
    }

    fn drop_mark(&mut self) {
        self.commands.insert(0, format!(r"sudo sed -i '1s/^\xEF\xBB\xBF//' {}", self.file).into());
        self.steps.insert(0, "remove the byte order mark".into());
    }

    fn drop_disable(&mut self, need: Need) {
        let must_drop =
            |line: &str| need == Need::NoDisable || matches!(memory_setting(line), MemorySetting::Off(_));
        let mut dropped = false;
        while must_drop(&self.new)
            && let Some(parameter) = disable_parameter(&self.new).map(|found| found.text.to_owned())
        {
            let rest = without_memory(&parameter).unwrap_or_default();
            if is_plain(&parameter) {
                let command = format!(
                    r"sudo sed -i -E ':a; 1s/(^|[[:space:]]){parameter}([[:space:]]|$)/\1{rest}\2/; ta' {}",
                    self.file
                );
                self.commands.push(command.into());
            }
            self.new = replace_parameter(&self.new, &parameter, &rest);
            dropped = true;
        }
        if dropped {
            self.steps.push("take cgroup_disable=memory out".into());
        }
    }

    fn add_enable(&mut self) {
        self.steps.push("add cgroup_enable=memory to the end of the first line".into());
        let init = parameters(&self.new, 1).into_iter().find(|it| it.text == "--").map(|it| it.column);
        if let Some(at) = init.and_then(|column| usize::try_from(column).ok()?.checked_sub(1)) {
            // What is behind it is for init.
            self.steps.pop();
            self.steps.push("add cgroup_enable=memory in front of `--`".into());
            self.commands.push(
                format!(
                    "sudo sed -i -E '1s/(^|[[:space:]])--([[:space:]]|$)/\\1cgroup_enable=memory --\\2/' {}",
                    self.file
                )
                .into(),
            );
            self.new.insert_str(at, "cgroup_enable=memory ");
            return;
        }
        // In an empty file there is no line for sed.
        if !self.text.is_empty() {
            let command = format!("sudo sed -i -E '1s/[[:space:]]*$/ cgroup_enable=memory/' {}", self.file);
            self.commands.push(command.into());
        }
        let blank = if self.new.trim_ascii().is_empty() { "" } else { " " };
        self.new = [self.new.trim_ascii_end(), "cgroup_enable=memory"].join(blank);
    }

    fn remedy(self) -> Remedy {
        let Self { file, text, old, new, replaced, commands, steps } = self;
        // A name of config.txt's, which a shell would read otherwise.
        let is_plain = file.chars().all(|c| c.is_ascii_alphanumeric() || "._/+-".contains(c));
        let commands = if is_plain { commands } else { vec!["sudo weaver-node-agent repair".into()] };
        let mended = std::iter::once(new.as_str()).chain(old[replaced..].iter().copied());
        let mut to = mended.collect::<Vec<_>>().join("\n");
        if old.len() == replaced {
            to.push('\n');
        }
        // A boot file without a root to mount is not mended by one parameter.
        let is_whole = !text.trim_ascii().is_empty();
        let change = FileChange { file: file.to_owned(), from: Some(text.to_owned()), to };
        Remedy {
            explain: format!("in {file}: {}", steps.join(", ")),
            commands,
            diff: Some(diff(file, &old[..replaced], &new)),
            changes: is_whole.then_some(change).into_iter().collect(),
        }
    }
}

fn parameters_of(line: &str) -> Vec<&str> {
    parameters(line, 1).into_iter().map(|parameter| parameter.text).collect()
}

fn opens_quote(line: &str) -> bool {
    line.matches('"').count() % 2 == 1
}

/// By hand; the check that follows says more.
fn close_quote(file: &str, line: usize) -> Repair {
    let explain =
        format!("line {line} of {file} opens a double quote and never closes it: close it, then check again");
    Repair { remedy: Remedy::new(explain), needs_restart: false }
}

/// Every parameter equal to `parameter` becomes `rest`; white space stays.
fn replace_parameter(line: &str, parameter: &str, rest: &str) -> String {
    let mut new = String::with_capacity(line.len());
    let mut copied = 0;
    for found in parameters(line, 1).iter().filter(|t| t.text == parameter) {
        // Columns count from 1 and fit: they were made from a `usize`.
        let at = usize::try_from(found.column).map_or(copied, |column| column - 1);
        new.push_str(&line[copied..at]);
        new.push_str(rest);
        copied = at + parameter.len();
    }
    new.push_str(&line[copied..]);
    if rest.is_empty() {
        parameters(&new, 1).iter().map(|parameter| parameter.text).collect::<Vec<_>>().join(" ")
    } else {
        new
    }
}

/// Whether a parameter can be in a `sed` expression in single quotes as it is.
fn is_plain(parameter: &str) -> bool {
    parameter.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '=' | ',' | '"'))
}

fn diff(file: &str, old: &[&str], new: &str) -> String {
    let count = if old.len() == 1 { String::new() } else { format!(",{}", old.len()) };
    let mut text = format!("--- {file}\n+++ {file}\n@@ -1{count} +1 @@\n");
    for line in old {
        text.extend(["-", line, "\n"]);
    }
    text.extend(["+", new, "\n"]);
    text
}

#[cfg(test)]
mod tests;
