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
    /// Install another k3s version, verify it, and roll back automatically if it fails
    ///
    /// First checks hash, architecture, version, disk space and the state of k3s. Then keeps the old program,
    /// installs the new one and restarts k3s; pods keep running. The upgrade is verified if the unit is active,
    /// the API server is ready and reports that version, and every name served before is served again. If not
    /// in time, restores and verifies the old program. An interrupted upgrade is finished by the next run.
    ///
    /// For a VERSION, the program and its list of hashes come from the same server, so only TLS protects them.
    /// To check more, pass `--sha256` with a hash from another source.
    ///
    /// Exit status: 0 the version runs; 1 not started; 2 wrong usage; 10 refused, nothing changed; 12 rolled back;
    /// 13 rolled back, but the old version could not be verified; the message says what to type.
    #[command(verbatim_doc_comment)]
    Upgrade(Upgrade),
    /// Reinstall the k3s version that ran before the last upgrade, with the same checks
    Rollback(How),
}

#[derive(Args)]
pub struct Upgrade {
    /// New k3s: a file, or a released version such as v1.36.4+k3s1
    #[arg(long, value_name = "FILE|VERSION")]
    k3s: OsString,
    /// Expected SHA-256 [default: from the release's sha256sum-ARCH.txt]
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
pub struct How {
    /// Show the steps without doing them
    #[arg(long)]
    dry_run: bool,
    /// Time limit for k3s to be verified, for the upgrade and again for the rollback
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
}

/// Becomes the agent, whose exit status and signals are then its own.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let error = Command::new(AGENT).args(words(verb)).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow!("{AGENT} is not on this machine: run this on the node, `ssh NODE sudo weaver node …`")
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
