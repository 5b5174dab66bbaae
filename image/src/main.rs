//! `weaver-image`: the card image, from the command line.

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use weaver_host::examples::Examples;
use weaver_image::k3s::NotFetched;
use weaver_image::{boot, booted, budgets, build, fault_table, oci, programs, release};

/// Build the card image and boot it in QEMU.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the image into `out/`; exit 3 where k3s cannot be fetched
    Build(build::BuildOptions),
    /// Build only the root file system from Debian packages, for later builds
    Root(build::RootOptions),
    /// Build only the programs for the card
    Programs(programs::ProgramOptions),
    /// Build the operator as a container image, an OCI layout for amd64 and arm64, into `out/`
    Oci(oci::OciOptions),
    /// Write what accompanies the files of a release: lists, notes, manifests, provenance
    Release(release::ReleaseOptions),
    /// Boot an image in QEMU, as a Pi's firmware would
    Boot(boot::BootOptions),
    /// Boot an image once, snapshot it, and run a command whose tests start from the snapshot
    WithBooted(booted::BootedOptions),
    /// Write the results of the fault matrix to docs/tutorials/faults.md
    FaultTable(fault_table::FaultTableOptions),
    /// Write the measured costs of the card, with pictures, to docs/explanation/performance.md
    Budgets(budgets::BudgetOptions),
}

const EXAMPLES: Examples = Examples { program: "weaver-image", text: include_str!("examples.txt") };

fn main() -> ExitCode {
    let matches = EXAMPLES.added(Arguments::command(), EXAMPLES.program).get_matches();
    let done = match Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).task {
        Task::Build(options) => build::build(&options).map(|_| ExitCode::SUCCESS),
        Task::Root(options) => build::root(&options).map(|()| ExitCode::SUCCESS),
        Task::Programs(options) => programs::run(&options),
        Task::Oci(options) => oci::run(&options),
        Task::Release(options) => release::run(&options),
        Task::Boot(options) => boot::run(&options),
        Task::WithBooted(options) => booted::run(&options),
        Task::FaultTable(options) => fault_table::run(&options),
        Task::Budgets(options) => budgets::run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        if error.is::<NotFetched>() { ExitCode::from(NotFetched::EXIT_CODE) } else { ExitCode::FAILURE }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_an_example_that_can_be_typed() {
        assert_eq!(EXAMPLES.faults(&Arguments::command()), Vec::<String>::new());
    }
}
