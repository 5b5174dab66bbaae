//! Examples below the help of a command, from `examples.txt`: a comment, then a line that can be typed as it is.

use clap::Command;

const EXAMPLES: &str = include_str!("examples.txt");

/// Each example: what it does, and the line.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = EXAMPLES.lines();
    lines.clone().zip(lines.skip(1)).filter_map(|(comment, line)| Some((comment.strip_prefix("# ")?, line)))
}

/// The part of a line that calls `weaver`: not `sudo`, and nothing of a pipe or a redirection.
fn call(line: &str) -> &str {
    let parts = line.split(" | ").map(|part| part.strip_prefix("sudo ").unwrap_or(part));
    let call = parts.filter(|part| part.starts_with("weaver ")).last().unwrap_or_default();
    call.split_once(" > ").map_or(call, |(call, _)| call)
}

/// The command line with all examples, as they are typed when the program is called `program`.
pub fn added(command: Command, program: &str) -> Command {
    below(command, "weaver", program)
}

fn below(mut command: Command, path: &str, program: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    if names.is_empty() {
        return match help(path, program) {
            text if text.is_empty() => command,
            text => command.after_help(format!("Examples:{text}")),
        };
    }
    for name in names {
        let path = format!("{path} {name}");
        command = command.mut_subcommand(name, |verb| below(verb, &path, program));
    }
    command
}

/// The examples of one command, two lines each.
fn help(path: &str, program: &str) -> String {
    let mut text = String::new();
    for (what, line) in examples() {
        let call = call(line);
        let of_this = call.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if of_this {
            let typed = line.replace(call, &call.replacen("weaver", program, 1));
            text.extend(["\n  # ", what, "\n  ", &typed]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

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

    #[test]
    fn each_example_can_be_typed() {
        assert_eq!(examples().count(), EXAMPLES.lines().filter(|line| line.starts_with("# ")).count());
        for (_, line) in examples() {
            let parsed = crate::Args::command().try_get_matches_from(words(call(line)));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn each_command_has_an_example_and_a_summary_of_one_line() {
        fn look(command: &Command, path: &str) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && about.len() <= 110, "{path}: {about}");
            for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                look(verb, &format!("{path} {}", verb.get_name()));
            }
            assert!(command.has_subcommands() || !help(path, "weaver").is_empty(), "{path} has no example");
        }
        look(&crate::Args::command(), "weaver");
    }

    #[test]
    fn help_shows_them_by_the_name_the_program_was_called_by() {
        let mut command = added(crate::Args::command(), "kubectl weaver").bin_name("kubectl weaver");
        let said = command.try_get_matches_from_mut(["kubectl-weaver", "sync", "get", "--help"]).unwrap_err();
        let help = said.to_string();
        assert!(help.contains("Usage: kubectl weaver sync get "), "{help}");
        assert!(help.contains("  # As YAML\n  kubectl weaver sync get settings -n team-a -o yaml"), "{help}");
    }
}
