//! The connection to the API server, with the rights of the user: by `--kubeconfig` and
//! `--context`, else as kubectl would connect, else, on a node of k3s where the user has no kubeconfig, by
//! k3s' own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Command};
use kube::config::Kubeconfig;
use kube::{Client, Config};
use weaver_diagnostics::kubeconfig::usable;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::shell::quoted;
use weaver_host::platform::{self, CAN_BE_NODE};

use crate::kubeconfig::file::{default_kubeconfig, default_kubeconfigs};
use crate::stdout::note;

/// For the longest request, a watch without events.
const LONGEST: Duration = Duration::from_secs(285);

/// Sent with every request, so that an audit log distinguishes a user's requests from an operator's.
pub const USER_AGENT: &str = concat!("weaver/", env!("CARGO_PKG_VERSION"));

/// Commands that send no request to an API server.
pub const WITHOUT_CLUSTER: [&str; 14] = [
    "completion",
    "config",
    "crd explain",
    "crd lint",
    "crd show",
    "docs",
    "explain",
    "find",
    "ingress",
    "k3d",
    "man",
    "node",
    "registry",
    "verify",
];

/// Flags of every verb, as kubectl has them.
#[derive(Args, Clone, Debug, Default)]
pub struct ConnectionFlags {
    /// Kubeconfig [default: KUBECONFIG, else ~/.kube/config; on a node without one, that of k3s]
    #[arg(long, global = true, value_name = "FILE", display_order = 900)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, global = true, value_name = "NAME", display_order = 900)]
    context: Option<String>,
}

/// The command line without these flags in the help of the command at `path`, and of those below it.
pub fn hidden_in(command: Command, path: &[&str]) -> Command {
    let flags = ConnectionFlags::augment_args(Command::new("flags"));
    match path {
        // A global flag is not passed on to a command that has one of its name.
        [] => command.args(flags.get_arguments().map(|flag| flag.clone().hide(true))),
        [name, rest @ ..] => command.mut_subcommand(name, |verb| hidden_in(verb, rest)),
    }
}

/// The flags of the command line, for the whole process.
static FLAGS: OnceLock<ConnectionFlags> = OnceLock::new();

/// The context that was current when [`keep_context`] was called.
static KEPT: OnceLock<String> = OnceLock::new();

/// Whether the use of k3s' own kubeconfig was reported.
static SAID: Once = Once::new();

/// Must be called before the first connection.
pub fn set(flags: ConnectionFlags) {
    // Only `main` calls it.
    let _ = FLAGS.set(flags);
}

/// The flags with which a command connects to the same cluster: none, or those of this command and the context that it
/// keeps.
pub fn flags() -> String {
    let kubeconfig = FLAGS.get().and_then(|flags| flags.kubeconfig.as_ref());
    let kubeconfig = kubeconfig.map(|path| ("--kubeconfig", path.display().to_string()));
    let context = context().map(|name| ("--context", name.to_owned()));
    let flags = kubeconfig.into_iter().chain(context);
    flags.map(|(flag, value)| format!(" {flag} {}", quoted(&value))).collect::<Vec<_>>().concat()
}

/// The command with the [`flags`], where it connects to a cluster and needs them.
pub fn typed(command: &str) -> Option<String> {
    with(command, &flags())
}

fn with(command: &str, flags: &str) -> Option<String> {
    let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
    let begins =
        |path: &str| rest.strip_prefix(path).is_some_and(|end| end.is_empty() || end.starts_with(' '));
    let connects = match program {
        "kubectl" => true,
        // Those of a kubeconfig have such flags of their own.
        "weaver" => !WITHOUT_CLUSTER.into_iter().chain(["kubeconfig"]).any(begins),
        _ => false,
    };
    let is_open = !["--kubeconfig", "--context"].iter().any(|flag| rest.contains(flag));
    // In front, since another program may follow.
    (connects && is_open && !flags.is_empty()).then(|| format!("{program}{flags} {rest}"))
}

/// The context that was requested, or that is kept.
pub fn context() -> Option<&'static str> {
    let named = FLAGS.get().and_then(|flags| flags.context.as_deref());
    named.or_else(|| KEPT.get().map(String::as_str))
}

/// Keeps the context that is current now, for a command that runs for hours: the current context may change meanwhile,
/// and later connections must go to the same cluster.
pub fn keep_context() {
    let read = kubeconfig().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    // What is wrong with the kubeconfig is reported where it is used.
    let current = read.ok().and_then(|kubeconfig| kubeconfig.current_context);
    if let Some(current) = current.filter(|current| !current.is_empty() && context().is_none()) {
        let _ = KEPT.set(current);
    }
}

/// The requested kubeconfig, or that of k3s where the user has none, which is reported once. `None` means what kubectl
/// would use.
pub fn kubeconfig() -> Option<PathBuf> {
    if let Some(named) = FLAGS.get().and_then(|flags| flags.kubeconfig.clone()) {
        return Some(named);
    }
    let (variable, own) = (env::var_os("KUBECONFIG"), default_kubeconfig());
    // Windows has several home directories; kubectl and kube-rs do not choose the same one.
    if variable.as_deref().is_none_or(OsStr::is_empty)
        && platform::home() != env::home_dir()
        && own.as_deref().is_some_and(Path::exists)
    {
        return own;
    }
    if !CAN_BE_NODE || !is_by_k3s(variable.as_deref(), own.as_deref(), Path::exists) {
        return None;
    }
    SAID.call_once(|| note!("using {K3S_KUBECONFIG}: there is no ~/.kube/config here"));
    Some(PathBuf::from(K3S_KUBECONFIG))
}

/// The same as files to read, where a user has some without saying so: kubectl reads them as one.
pub fn kubeconfig_files() -> Vec<PathBuf> {
    kubeconfig().map_or_else(default_kubeconfigs, |path| vec![path])
}

fn is_by_k3s(variable: Option<&OsStr>, own: Option<&Path>, exists: impl Fn(&Path) -> bool) -> bool {
    variable.is_none_or(OsStr::is_empty) && !own.is_some_and(&exists) && exists(Path::new(K3S_KUBECONFIG))
}

/// A client with the rights of the user.
pub async fn client() -> anyhow::Result<Client> {
    client_by(config().await?)
}

/// The same for a watch, which retries by itself and reports it: retries within one request stay silent for minutes.
pub async fn watching() -> anyhow::Result<Client> {
    weaver_client::connection::client(&config().await?)
}

/// How the user connects to the API server.
pub async fn config() -> anyhow::Result<Config> {
    let path = kubeconfig();
    let config = config_by(path.as_deref(), context()).await;
    let of_k3s = path.is_some_and(|path| path == Path::new(K3S_KUBECONFIG));
    if of_k3s { config.context("only root can read it: use sudo, or pass --kubeconfig") } else { config }
}

pub async fn client_of(kubeconfig: &Path) -> anyhow::Result<Client> {
    client_by(config_by(Some(kubeconfig), None).await?)
}

async fn config_by(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Config> {
    if let Some(path) = kubeconfig {
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("cannot read the kubeconfig {shown}"))?;
        usable(&shown.to_string(), &bytes, context)?;
    }
    weaver_client::connection::config(kubeconfig, context, LONGEST, USER_AGENT).await
}

pub fn client_by(mut config: Config) -> anyhow::Result<Client> {
    // A user tries once; an overloaded or stopping API server answers the next time.
    config.default_retry = true;
    weaver_client::connection::client(&config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_for_the_cluster_of_the_flags_where_it_connects_to_one() {
        let flags = " --kubeconfig 'my file' --context edge";
        for (command, want) in [
            ("weaver crd diff", Some("weaver --kubeconfig 'my file' --context edge crd diff")),
            (
                "kubectl get crds | grep x",
                Some("kubectl --kubeconfig 'my file' --context edge get crds | grep x"),
            ),
            ("kubectl --kubeconfig other get crds", None),
            ("weaver doctor --kubeconfig FILE", None),
            ("weaver docs install-in-a-cluster", None),
            ("weaver crd explain configmapsyncs.spec", None),
            ("weaver kubeconfig fetch USER@NAME", None),
            ("weaver k3d config edge --name pi > k3d.yaml", None),
            ("sudo systemctl restart k3s", None),
            ("uptime", None),
        ] {
            assert_eq!(with(command, flags).as_deref(), want, "{command}");
            assert_eq!(with(command, ""), None, "{command}");
        }
    }

    #[test]
    fn k3s_own_kubeconfig_is_for_who_has_none_on_a_node() {
        for (variable, own, is_node, expected) in [
            (None, false, true, true),
            (Some(""), false, true, true),
            (None, true, true, false),
            (Some("/mine"), false, true, false),
            (None, false, false, false),
        ] {
            let exists = |path: &Path| if path == Path::new(K3S_KUBECONFIG) { is_node } else { own };
            let home = Path::new("/root/.kube/config");
            let by_k3s = is_by_k3s(variable.map(OsStr::new), Some(home), exists);
            assert_eq!(by_k3s, expected, "{variable:?} {own} {is_node}");
        }
    }
}
