//! The command line of `update`.

use std::path::PathBuf;

use weaver_diagnostics::when::When;

use crate::host_args::DAY;
use crate::upgrade::args::NodeArgs;

#[derive(Debug, Clone, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct UpdateArgs {
    /// Version to install, which may be older [default: the newest that apt has].
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub to: Option<String>,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Allow a version that stores objects in a form that the installed version cannot read: no way back.
    #[arg(long)]
    pub one_way: bool,
    /// Start the newer kernel that apt has once on trial, and install it if it is verified.
    #[arg(long, conflicts_with_all = ["to", "one_way", "resume", "no_backup", "when"])]
    pub kernel: bool,
    /// Only complete an update that was interrupted.
    #[arg(long, conflicts_with_all = ["to", "one_way", "no_backup", "when"])]
    pub resume: bool,
    /// Run only if the last run with this option is older; record the result for the node's report, and skip a version
    /// that failed here before.
    #[arg(long, value_name = "daily|weekly", value_parser = interval, requires = "yes", conflicts_with = "to")]
    pub when: Option<When>,
    /// Do not save the state of k3s first.
    #[arg(long)]
    pub no_backup: bool,
    /// Wait for up to this long while something else changes this node, as the units do.
    #[arg(
        long, value_name = "SECONDS", default_value_t = 0, hide = true,
        value_parser = clap::value_parser!(u64).range(..=DAY)
    )]
    pub lock_timeout: u64,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Directory of apt-get, apt-cache, dpkg, dpkg-query, dpkg-deb, md5sum and tar, and for a kernel of depmod,
    /// mkinitramfs and unshare [default: the PATH].
    #[arg(long, value_name = "DIR", hide = true)]
    pub programs: Option<PathBuf>,
}

fn interval(text: &str) -> Result<When, &'static str> {
    When::of(text).filter(|when| *when != When::Hourly).ok_or("must be daily or weekly")
}

/// Accepts only what is a single word, and no option, on apt's command line. A pre-release as the programs print it
/// becomes what its packages have: `0.2.0~rc.1`.
fn version(text: &str) -> Result<String, &'static str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".+~:-".contains(c);
    if !text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(is_part) {
        return Err("a version of a package begins with a digit, such as 0.2.0");
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let pre_release = text.split_once('-').filter(|(number, name)| {
        number.chars().all(is_number) && name.starts_with(|c: char| c.is_ascii_alphabetic())
    });
    Ok(pre_release.map_or_else(|| text.to_owned(), |(number, name)| format!("{number}~{name}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{AgentArgs, AgentCommand};

    #[test]
    fn a_version_is_no_option_and_no_other_package() {
        let parse = |words: &str| AgentArgs::try_parse_from(words.split(' ')).and_then(AgentArgs::resolve);
        let AgentCommand::Update(args) =
            parse("weaver-node-agent update --to 1:0.2.0~rc1-1+b2").unwrap().command
        else {
            panic!()
        };
        assert_eq!((args.to.as_deref(), args.yes, args.node.wait), (Some("1:0.2.0~rc1-1+b2"), false, 300));
        for (said, package) in [("0.2.0-rc.1", "0.2.0~rc.1"), ("0.2.0-1", "0.2.0-1"), ("0.2.0", "0.2.0")] {
            assert_eq!(super::version(said).as_deref(), Ok(package));
        }
        for wrong in ["-o=Dir=/", "0.1 x", "0.1=2", "stable", "v0.2.0", "0.1/stable", "", "0.1;reboot"] {
            let words = ["weaver-node-agent", "update", "--to", wrong];
            assert!(AgentArgs::try_parse_from(words).is_err(), "{wrong}");
        }
    }
}
