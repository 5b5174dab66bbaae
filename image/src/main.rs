//! `weaver-image`: the card image, from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weaver_image::k3s::NotFetched;
use weaver_image::{boot, booted, budgets, build, fault_table, oci, programs};

/// Builds the card image and boots it in QEMU.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the image into `out/`; exit 3 where k3s cannot be fetched
    Build(build::Options),
    /// Make the root file system of Debian's packages, and only it, for builds to come
    Root(build::RootOptions),
    /// Build our own programs for the card, and only them
    Programs(programs::Options),
    /// Build the operator as a container image, an OCI layout for amd64 and arm64, into `out/`
    Oci(oci::Options),
    /// Boot an image in QEMU, as a Pi's firmware would
    Boot(boot::Options),
    /// Boot an image once, and run a command next to the machine, which tests continue from
    WithBooted(booted::Options),
    /// Put what the fault matrix saw into docs/tutorials/faults.md
    FaultTable(fault_table::Options),
    /// Put what the card costs into docs/explanation/performance.md, with its pictures
    Budgets(budgets::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Build(options) => build::build(&options).map(|_| ExitCode::SUCCESS),
        Task::Root(options) => build::root(&options).map(|()| ExitCode::SUCCESS),
        Task::Programs(options) => programs::run(&options),
        Task::Oci(options) => oci::run(&options),
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
