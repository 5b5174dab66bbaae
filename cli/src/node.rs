//! `weaver node`: what is done on a node itself, as root. The node agent does it; here it is only asked.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::anyhow;
use clap::{Args, Subcommand};

/// The program that knows the node.
const AGENT: &str = "weaver-node-agent";

#[derive(Subcommand)]
pub enum Verb {
    /// Put another k3s in place, prove it, or go back by itself
    ///
    /// Checks hash, processor, version, room and the state of k3s before anything is touched. Then the old program is kept,
    /// the new one put in its place and k3s restarted; pods run on. Proven is it when the unit is active, the API server
    /// ready and of that version, and every name is served that was served before. If that is not so in time, the old
    /// program is put back and proven. What was cut off is finished by the next run.
    ///
    /// Of a VERSION, program and list of hashes come from one place, so TLS is all that proves them. To prove more, give with
    /// `--sha256` the hash that another source names.
    ///
    /// Exit status: 0 it runs, or did already; 1 it could not be begun; 2 wrong usage; 10 refused, nothing was changed;
    /// 12 it has gone back; 13 the old one is not proven either, and what to type is said.
    #[command(verbatim_doc_comment)]
    Upgrade(Upgrade),
    /// Put the k3s before the last upgrade in place again, by the same steps and with the same proof
    Rollback(How),
}

#[derive(Args)]
pub struct Upgrade {
    /// The new k3s: a file, or a version of the project's releases such as v1.36.4+k3s1
    #[arg(long, value_name = "FILE|VERSION")]
    k3s: OsString,
    /// Its SHA-256, of a file or a version [default: what the release's sha256sum-ARCH.txt says]
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
pub struct How {
    /// Show what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// How long k3s may take until all is proven, on the way there and on the way back
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
}

/// Becomes the agent, whose exit status and signals are then its own.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let error = Command::new(AGENT).args(words(verb)).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow!("{AGENT} is not on this machine: type this on the node, `ssh NODE sudo weaver node …`")
        }
        _ => anyhow!(error).context(format!("cannot run {AGENT}")),
    })
}

fn words(verb: Verb) -> Vec<OsString> {
    let (mut words, how): (Vec<OsString>, _) = match verb {
        Verb::Upgrade(Upgrade { k3s, sha256, how }) => {
            let hash = sha256.into_iter().flat_map(|hash| ["--sha256".into(), hash.into()]);
            (["upgrade".into(), "--k3s".into(), k3s].into_iter().chain(hash).collect(), how)
        }
        Verb::Rollback(how) => (vec!["rollback".into()], how),
    };
    let How { dry_run, wait } = how;
    words.extend(["--wait".into(), wait.to_string().into()]);
    if dry_run {
        words.push("--dry-run".into());
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{Args, Verb as Top};

    #[test]
    fn what_is_typed_is_what_the_agent_is_asked() {
        for (typed, asked) in [
            ("upgrade --k3s k3s-arm64", "upgrade --k3s k3s-arm64 --wait 300"),
            (
                "upgrade --k3s v1.36.4+k3s1 --sha256 ab --dry-run",
                "upgrade --k3s v1.36.4+k3s1 --sha256 ab --wait 300 --dry-run",
            ),
            ("rollback --wait 60", "rollback --wait 60"),
        ] {
            let args = Args::parse_from(["weaver", "node"].into_iter().chain(typed.split(' ')));
            let Top::Node { verb } = args.verb else { panic!("{typed}") };
            assert_eq!(words(verb).join(" ".as_ref()), asked);
        }
    }
}
