//! The command line of `boot-config`.

use std::path::PathBuf;

use crate::host_args::absolute;

/// The state directory of boot-config, as the host names it.
pub const STATE_DIR: &str = "/var/lib/weaver/boot-config";

/// Where to read what is asked, and which host to change.
#[derive(Debug, Clone, clap::Args)]
pub struct BootConfigArgs {
    /// Root of the host's file system: prefix for every path.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// The weaver.toml to apply.
    #[arg(long, value_name = "FILE", default_value = "/boot/firmware/weaver.toml", value_parser = absolute)]
    pub file: PathBuf,
    /// State directory: the report, the last valid weaver.toml, the node's name.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// Program to run if files of netplan have changed, since systemd's generators have already run.
    #[arg(long, value_name = "PROGRAM")]
    pub netplan_generate: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{AgentArgs, AgentCommand};

    #[test]
    fn paths_start_at_the_root() {
        let parse = |words: &[&str]| {
            let words = ["weaver-node-agent", "boot-config"].iter().chain(words);
            AgentArgs::try_parse_from(words).and_then(AgentArgs::resolve)
        };
        let AgentCommand::BootConfig(args) = parse(&[]).unwrap().command else { panic!() };
        assert_eq!(args.file.to_str(), Some("/boot/firmware/weaver.toml"));
        assert_eq!(args.state_dir.to_str(), Some("/var/lib/weaver/boot-config"));
        assert_eq!(args.root.to_str(), Some("/"));
        for wrong in [&["--file", "weaver.toml"], &["--state-dir", "state"]] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("seen from the host's `/`"), "{error}");
        }
    }
}
