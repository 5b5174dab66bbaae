//! Flags of the operator. Every time that matters is one, so that tests use seconds where users have minutes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use weaver_host::examples::Examples;
use weaver_host::metrics_page::MetricsAddress;

use crate::scope::OperatorScope;

/// Copy objects between namespaces with the tenant's own rights and no others, and fill Secrets with tokens.
#[derive(Debug, Parser)]
#[command(version)]
pub struct OperatorArgs {
    #[command(subcommand)]
    pub verb: OperatorVerb,
}

#[derive(Debug, Subcommand)]
pub enum OperatorVerb {
    /// Run the controllers
    Run(RunOptions),
    /// Serve the conversion webhook for the API server
    Webhook(crate::webhook::WebhookOptions),
    /// Install the CRDs, the admission policies and the webhook's certificate, as a Job in the cluster
    Install(crate::install::JobOptions),
}

#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// Kubeconfig of the operator's ServiceAccount (default: KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount)
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespaces to watch, separated by commas (default: all); with the RBAC of deploy/namespaced
    #[arg(
        long,
        env = "WEAVER_NAMESPACES",
        value_name = "NAMES",
        default_value = "",
        hide_default_value = true
    )]
    pub namespaces: OperatorScope,

    /// Resync interval in seconds, instead of each resource's spec.resyncSeconds (60..86400)
    #[arg(long, value_name = "SECONDS", value_parser = seconds::<60, 86_400>)]
    pub resync: Option<Duration>,

    /// Lifetime in seconds of a watch and of a cached access review; bounds how long a revoked right can still read
    /// (5..300)
    #[arg(long, env = "WEAVER_WATCH", value_name = "SECONDS", default_value = "290", value_parser = seconds::<5, 300>)]
    pub watch: Duration,

    /// Maximum backoff after a failure, in seconds (1..3600)
    #[arg(long, env = "WEAVER_RETRY", value_name = "SECONDS", default_value = "60", value_parser = seconds::<1, 3_600>)]
    pub retry: Duration,

    /// Seconds (0..86400) that a deletion waits for what someone can correct, such as a missing account or a policy that
    /// refuses it, before it completes and leaves the copies as orphans; at most 10 for missing rights
    #[arg(long, env = "WEAVER_CLEANUP_PATIENCE", value_name = "SECONDS", default_value = "300",
          value_parser = seconds::<0, 86_400>)]
    pub cleanup_patience: Duration,

    /// Maximum age in seconds of a ServiceToken's token, instead of what its resource says (2..86400)
    #[arg(long, env = "WEAVER_SERVICE_TOKEN_AGE", value_name = "SECONDS", value_parser = seconds::<2, 86_400>)]
    pub service_token_age: Option<Duration>,

    /// Address and port of the metrics endpoint, without authentication, or `none`
    #[arg(long, env = "WEAVER_METRICS", value_name = "ADDR", default_value = METRICS)]
    pub metrics: MetricsAddress,

    /// Lease duration in seconds, after which another candidate takes over; renewed after two thirds (12..600)
    #[arg(long, env = "WEAVER_LEASE", value_name = "SECONDS", default_value = "60", value_parser = seconds::<12, 600>)]
    pub lease: Duration,

    /// Priority for the lease: a candidate with a higher priority takes over at the next renewal (-1000..1000)
    #[arg(long, env = "WEAVER_PRIORITY", value_name = "N", default_value = "0", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-1_000..=1_000))]
    pub priority: i32,

    /// Run without leader election: only if no other operator ever runs in this cluster
    #[arg(long, env = "WEAVER_STANDALONE")]
    pub standalone: bool,

    /// Requested lifetime of tenant tokens in seconds (600..86400)
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds::<600, 86_400>)]
    pub token_lifetime: Duration,
}

const EXAMPLES: Examples = Examples { program: "weaver-operator", text: include_str!("examples.txt") };

impl OperatorArgs {
    /// Those of this process; ends it where they are wrong, or ask for help.
    pub fn of_process() -> Self {
        let matches = EXAMPLES.added(Self::command(), EXAMPLES.program).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

const METRICS: &str = "127.0.0.1:9445";

fn seconds<const MIN: u64, const MAX: u64>(text: &str) -> Result<Duration, String> {
    let value: u64 = text.parse().map_err(|_| "not a whole number of seconds".to_owned())?;
    if (MIN..=MAX).contains(&value) {
        Ok(Duration::from_secs(value))
    } else {
        Err(format!("{value} is not within {MIN}..{MAX} seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_an_example_that_can_be_typed() {
        assert_eq!(EXAMPLES.faults(&OperatorArgs::command()), Vec::<String>::new());
    }

    #[test]
    fn the_webhook_listens_where_the_definitions_say() {
        let args = OperatorArgs::try_parse_from(["weaver-operator", "webhook"]).unwrap();
        let OperatorVerb::Webhook(options) = args.verb else { panic!("{:?}", args.verb) };
        assert_eq!(format!("https://{}/convert", options.listen), weaver_api::webhook::URL);
        assert!(OperatorArgs::try_parse_from(["weaver-operator", "webhook", "--listen", "9443"]).is_err());
    }

    #[test]
    fn each_resource_says_how_often_it_is_compared_unless_a_flag_does() {
        for (arguments, expected) in [
            (vec!["weaver-operator", "run"], None),
            (vec!["weaver-operator", "run", "--resync", "60"], Some(Duration::from_mins(1))),
        ] {
            let OperatorVerb::Run(options) = OperatorArgs::try_parse_from(arguments).unwrap().verb else {
                panic!("not run")
            };
            assert_eq!(options.resync, expected);
        }
    }

    #[test]
    fn metrics_are_on_the_loopback_interface_unless_set_otherwise() {
        let found = |arguments: &[&str]| {
            let all = ["weaver-operator", "run"].iter().chain(arguments);
            OperatorArgs::try_parse_from(all).map(|args| match args.verb {
                OperatorVerb::Run(options) => options.metrics.0.map(|address| address.to_string()),
                OperatorVerb::Webhook(_) | OperatorVerb::Install(_) => None,
            })
        };
        assert_eq!(found(&[]).unwrap().as_deref(), Some(METRICS));
        assert_eq!(found(&["--metrics", "[::1]:1"]).unwrap().as_deref(), Some("[::1]:1"));
        assert_eq!(found(&["--metrics", "none"]).unwrap(), None);
        let error = found(&["--metrics", "9445"]).unwrap_err().to_string();
        assert!(error.contains("use an address and a port, such as 127.0.0.1:9445, or none"), "{error}");
    }

    #[test]
    fn a_token_lifetime_the_api_server_would_refuse_is_refused_here() {
        let error =
            OperatorArgs::try_parse_from(["weaver-operator", "run", "--token-lifetime", "300"]).unwrap_err();
        assert!(error.to_string().contains("300 is not within 600..86400 seconds"), "{error}");
    }
}
