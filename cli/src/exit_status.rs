//! Exit statuses in the help of each command: its own, else those that `main` and clap give to every command.

use clap::Command;

/// What they begin with: a command's own in its description, those of every command below its examples.
pub const HEADING: &str = "Exit status: ";

const OF_EVERY_COMMAND: &str = "0 done; 1 failed, the message says why; 2 wrong usage.";

/// The command line, after its examples were added, with exit statuses where a command has none of its own; a group of
/// commands has none.
pub fn added(command: Command) -> Command {
    if command.has_subcommands() {
        return command.mut_subcommands(added);
    }
    let is_own = command.get_long_about().is_some_and(|about| about.to_string().contains(HEADING));
    if is_own {
        return command;
    }
    let examples = command.get_after_help().map_or_else(String::new, |examples| format!("{examples}\n\n"));
    command.after_help(format!("{examples}{HEADING}{OF_EVERY_COMMAND}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that do not have them once, with those of success and of wrong usage.
    fn faults(command: &Command, path: &str) -> Vec<String> {
        if command.has_subcommands() {
            let below = command.get_subcommands();
            return below.flat_map(|verb| faults(verb, &format!("{path} {}", verb.get_name()))).collect();
        }
        let texts = [command.get_long_about(), command.get_after_help()].into_iter().flatten();
        let text = texts.map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let statuses: Vec<_> = text.split(HEADING).skip(1).collect();
        let is_right = matches!(statuses[..], [only] if only.starts_with("0 ") && only.contains("; 2 "));
        if is_right { Vec::new() } else { vec![format!("{path}: {statuses:?}")] }
    }

    #[test]
    fn each_command_has_its_exit_statuses() {
        let command = crate::command("weaver");
        assert_eq!(faults(&command, "weaver"), Vec::<String>::new());
        let said = command.try_get_matches_from(["weaver", "sync", "get", "--help"]).unwrap_err().to_string();
        assert!(said.ends_with(&format!(" -o yaml\n\n{HEADING}{OF_EVERY_COMMAND}\n")), "{said}");
    }
}
