//! The command lines of `upgrade` and `rollback`.

use std::path::PathBuf;

use weaver_diagnostics::k3s_upgrade::release;

use crate::host_args::{DAY, HostArgs, STATE_DIR, absolute};

#[derive(Debug, Clone, clap::Args)]
pub struct UpgradeArgs {
    /// New k3s: a file, or a released version such as v1.36.4+k3s1.
    #[arg(long, value_name = "FILE|VERSION")]
    pub k3s: String,
    /// Expected SHA-256 [default: from the release's list, which comes from the same server as the program].
    #[arg(long, value_name = "HEX", value_parser = hash)]
    pub sha256: Option<String>,
    /// Do not save the state of k3s first.
    #[arg(long)]
    pub no_backup: bool,
    /// URL of the releases.
    #[arg(long, value_name = "URL", default_value = release::ADDRESS, hide = true)]
    pub releases: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

#[derive(Debug, Clone, clap::Args)]
pub struct RollbackArgs {
    #[command(flatten)]
    pub node: NodeArgs,
}

/// The node, and how to go about it.
#[derive(Debug, Clone, clap::Args)]
pub struct NodeArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// Show the steps without doing them.
    #[arg(long)]
    pub dry_run: bool,
    /// Time limit for k3s to be verified, and again for a rollback.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub wait: u64,
    /// How long all must hold: a k3s that ends right after its start is seen to be away before.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(..=DAY), hide = true)]
    pub settle: u64,
    /// Path of the installed k3s; under --root.
    #[arg(long, value_name = "PATH", default_value = "/usr/local/bin/k3s", value_parser = absolute, hide = true)]
    pub program: PathBuf,
    /// The systemctl program.
    #[arg(long, value_name = "PATH", default_value = "systemctl", hide = true)]
    pub systemctl: PathBuf,
}

fn hash(text: &str) -> Result<String, &'static str> {
    release::hash(text).ok_or("a SHA-256 has 64 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{AgentArgs, AgentCommand};

    #[test]
    fn a_hash_is_one_and_bounds_are_bounds() {
        let parse = |words: &str| AgentArgs::try_parse_from(words.split(' ')).and_then(AgentArgs::resolve);
        let hash = "AB".repeat(32);
        let AgentCommand::Upgrade(args) =
            parse(&format!("weaver-node-agent upgrade --k3s k3s --sha256 {hash}")).unwrap().command
        else {
            panic!()
        };
        assert_eq!((args.sha256, args.node.wait), (Some("ab".repeat(32)), 300));
        for wrong in
            ["upgrade", "upgrade --k3s k3s --sha256 ab", "rollback --wait 0", "rollback --program k3s"]
        {
            assert!(parse(&format!("weaver-node-agent {wrong}")).is_err(), "{wrong}");
        }
    }
}
