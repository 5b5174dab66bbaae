//! Examples below the help of a command, from `examples.txt`.

use weaver_host::examples::Examples;

pub const EXAMPLES: Examples = Examples { program: "weaver", text: include_str!("examples.txt") };

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn each_command_has_an_example_that_can_be_typed() {
        assert_eq!(EXAMPLES.faults(&crate::Args::command()), Vec::<String>::new());
    }

    #[test]
    fn help_shows_them_by_the_name_the_program_was_called_by() {
        let command = crate::Args::command();
        let mut command = EXAMPLES.added(command, "kubectl weaver").bin_name("kubectl weaver");
        let said = command.try_get_matches_from_mut(["kubectl-weaver", "sync", "get", "--help"]).unwrap_err();
        let help = said.to_string();
        assert!(help.contains("Usage: kubectl weaver sync get "), "{help}");
        assert!(
            help.contains("  # Print one as YAML\n  kubectl weaver sync get settings -n team-a -o yaml"),
            "{help}"
        );
    }
}
