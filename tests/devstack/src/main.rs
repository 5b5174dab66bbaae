//! `weaver-devstack`: the development stack from the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use weaver_devstack::programs::BuiltPrograms;
use weaver_devstack::{candidates, down, ports, service, status, up, with_server};
use weaver_host::examples::Examples;

/// Run API server, node agent and operator on this machine, for development and tests.
#[derive(Parser)]
struct Arguments {
    /// Directory of the stack: its data, logs and process ids.
    #[arg(long, env = "WEAVER_RUN_DIR", default_value = ".run", global = true)]
    run_dir: PathBuf,
    /// Checkout that the stack is started from.
    #[arg(long, env = "WEAVER_SOURCE_DIR", default_value = ".", global = true)]
    source: PathBuf,
    /// Directory of weaver-node-agent and weaver-operator [default: that of this program].
    #[arg(long, env = "WEAVER_BIN_DIR", global = true)]
    bin_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start what does not run yet, apply the sample, show the copies.
    Up {
        /// A new API server's port on 127.0.0.1; where it is taken, the next free one.
        #[arg(long, env = "WEAVER_PORT", default_value_t = ports::PREFERRED,
            value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
        /// Operators: one leads, the others wait.
        #[arg(long, env = "WEAVER_REPLICAS", default_value_t = 1,
            value_parser = clap::value_parser!(u8).range(1..=candidates::MOST))]
        replicas: u8,
    },
    /// End what `up` started; the data stays.
    Down,
    /// Show what runs and which copies there are.
    Status,
    /// Act as this stack's `systemctl`.
    #[command(hide = true)]
    Service {
        /// What to do with the service.
        verb: service::ServiceVerb,
        /// Name of the unit.
        name: String,
    },
    /// Run a command inside a fresh, disposable stack.
    WithServer {
        /// Directory below which the stack is made.
        #[arg(long, default_value = "target/scenario")]
        scenarios: PathBuf,
        /// The command and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { run_dir, source, bin_dir, command } = arguments;
    let programs = || BuiltPrograms::find(bin_dir.as_deref(), &source);
    match command {
        Task::Up { port, replicas } => up::up(&run_dir, &programs()?, port, replicas.into()),
        Task::Down => down::down(&run_dir).map(|()| ExitCode::SUCCESS),
        Task::Service { verb, name } => service::service(&run_dir, &programs()?, verb, &name),
        Task::Status => status::status(&run_dir),
        Task::WithServer { scenarios, command } => {
            with_server::with_server(&scenarios, &programs()?, &command)
        }
    }
}

const EXAMPLES: Examples = Examples { program: "weaver-devstack", text: include_str!("examples.txt") };

fn main() -> ExitCode {
    let matches = EXAMPLES.added(Arguments::command(), EXAMPLES.program).get_matches();
    run(Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
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
