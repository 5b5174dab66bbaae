//! Examples below the help of a program's commands: of a text, a comment, then a line that can be typed as it is.
//!
//! Each program has such a text next to its command line, and a test with [`Examples::faults`].

use std::collections::BTreeSet;

use clap::Command;

/// The examples of one program.
#[derive(Debug, Clone, Copy)]
pub struct Examples {
    /// What the lines call it.
    pub program: &'static str,
    /// Comments, lines to type, and empty lines.
    pub text: &'static str,
}

/// Examples that the help of a group of commands shows.
const MOST_OF_A_GROUP: usize = 4;

impl Examples {
    /// Each example: what it does, and the line.
    fn each(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let lines = self.text.lines();
        lines
            .clone()
            .zip(lines.skip(1))
            .filter_map(|(comment, line)| Some((comment.strip_prefix("# ")?, line)))
    }

    /// The part of a line that calls the program: not `sudo`, and nothing of a pipe or a redirection.
    fn call(self, line: &str) -> &str {
        let parts = line.split(" | ").map(|part| part.strip_prefix("sudo ").unwrap_or(part));
        let is_call = |part: &&str| part.strip_prefix(self.program).is_some_and(|rest| rest.starts_with(' '));
        let call = parts.filter(is_call).last().unwrap_or_default();
        call.split_once(" > ").map_or(call, |(call, _)| call)
    }

    /// The command line with all examples, as they are typed when the program is called `called`.
    pub fn added(self, command: Command, called: &str) -> Command {
        self.below(command, self.program, called)
    }

    fn below(self, mut command: Command, path: &str, called: &str) -> Command {
        let help = self.help(&command, path, called);
        if !help.is_empty() {
            command = command.after_help(format!("Examples:{help}"));
        }
        let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        for name in names {
            let path = format!("{path} {name}");
            command = command.mut_subcommand(name, |verb| self.below(verb, &path, called));
        }
        command
    }

    /// The examples of this command, or of a group of commands the first ones, one of each; two lines each.
    fn help(self, command: &Command, path: &str, called: &str) -> String {
        let own = self.each().filter_map(|(what, line)| self.shown(command, path, called, what, line));
        let own: String = own.collect();
        if !own.is_empty() || !command.is_subcommand_required_set() {
            return own;
        }
        let mut seen = BTreeSet::new();
        let of_each = self.each().filter(|(_, line)| {
            let next = self.call(line).strip_prefix(path).and_then(|rest| rest.split_whitespace().next());
            next.is_some_and(|next| command.find_subcommand(next).is_some() && seen.insert(next))
        });
        of_each.take(MOST_OF_A_GROUP).map(|(what, line)| self.lines(called, what, line)).collect()
    }

    /// An example as the help of `command` shows it, if it is of that command and of none below.
    fn shown(self, command: &Command, path: &str, called: &str, what: &str, line: &str) -> Option<String> {
        let call = self.call(line);
        let rest = call.strip_prefix(path)?;
        let next = rest.split_whitespace().next().unwrap_or_default();
        let is_below = command.get_subcommands().any(|verb| verb.get_name() == next);
        if is_below || !(rest.is_empty() || rest.starts_with(' ')) {
            return None;
        }
        Some(self.lines(called, what, line))
    }

    fn lines(self, called: &str, what: &str, line: &str) -> String {
        let call = self.call(line);
        format!("\n  # {what}\n  {}", line.replace(call, &call.replacen(self.program, called, 1)))
    }

    /// What a test is to find nothing of: examples that the program refuses, commands without an example,
    /// summaries of more than a line.
    pub fn faults(self, command: &Command) -> Vec<String> {
        let mut faults = Vec::new();
        if self.each().count() != self.text.lines().filter(|line| line.starts_with("# ")).count() {
            faults.push("a comment without a line to type".to_owned());
        }
        for (_, line) in self.each() {
            if let Err(error) = command.clone().try_get_matches_from(words(self.call(line))) {
                faults.push(format!("{line}: {error}"));
            }
        }
        self.look(command, self.program, &mut faults);
        faults
    }

    fn look(self, command: &Command, path: &str, faults: &mut Vec<String>) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        if about.is_empty() || about.len() > 110 {
            faults.push(format!("{path}: {} letters of a summary: {about}", about.len()));
        }
        if self.help(command, path, self.program).is_empty() {
            faults.push(format!("{path} has no example"));
        }
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            self.look(verb, &format!("{path} {}", verb.get_name()), faults);
        }
    }
}

/// Words as a shell has them, as far as the examples need it.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    /// `pan fry FOOD`, `pan wash`, and `pan wash all`.
    fn pan() -> Command {
        let fry = Command::new("fry").about("Fry something").arg(Arg::new("food").required(true));
        let wash =
            Command::new("wash").about("Wash the pan").subcommand(Command::new("all").about("Wash it all"));
        Command::new("pan").about("A pan").subcommand_required(true).subcommands([fry, wash])
    }

    const TEXT: &str =
        "# An egg\nsudo pan fry 'an egg' > plate\n\n# At once\npan wash\n# All\npan wash all\n";

    #[test]
    fn each_command_shows_its_own_by_the_name_the_program_was_called_by() {
        let examples = Examples { program: "pan", text: TEXT };
        assert_eq!(examples.faults(&pan()), Vec::<String>::new());
        let help = |words: &[&str]| {
            examples.added(pan(), "my pan").try_get_matches_from(words).unwrap_err().to_string()
        };
        let shown = help(&["pan", "fry", "--help"]);
        assert!(shown.ends_with("Examples:\n  # An egg\n  sudo my pan fry 'an egg' > plate\n"), "{shown}");
        let shown = help(&["pan", "wash", "--help"]);
        assert!(shown.ends_with("Examples:\n  # At once\n  my pan wash\n"), "{shown}");
        let shown = help(&["pan", "--help"]);
        let both = "Examples:\n  # An egg\n  sudo my pan fry 'an egg' > plate\n  # At once\n  my pan wash\n";
        assert!(shown.ends_with(both), "{shown}");
    }

    #[test]
    fn what_cannot_be_typed_and_what_has_none_is_found() {
        let faults =
            |text: &'static str, command: &Command| Examples { program: "pan", text }.faults(command);
        let refused = faults(
            "# No\npan boil\n# An egg\npan fry egg\n# At once\npan wash\n# All\npan wash all\n",
            &pan(),
        );
        assert!(refused.len() == 1 && refused[0].starts_with("pan boil: "), "{refused:?}");
        assert_eq!(
            faults("# An egg\npan fry egg\n# All\npan wash all\n", &pan()),
            ["pan wash has no example"]
        );
        let long = pan().mut_subcommand("fry", |fry| fry.about("x".repeat(111)));
        assert!(faults(TEXT, &long)[0].starts_with("pan fry: 111 letters"));
        assert_eq!(faults(&TEXT[..TEXT.len() - 13], &pan()).len(), 2);
    }
}
