//! Tries every way to connect to a registry, at most until the deadline.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use rustls::pki_types::ServerName;
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout_at};
use weaver_diagnostics::k3d::registry::RegistryContainer;
use weaver_diagnostics::registry::api::{ImageReference, Platform, repository_name};
use weaver_diagnostics::registry::check::{Https, RegistryFacts, Reply, Sent, WantedImage, split};
use weaver_diagnostics::registry::configured::{Configured, Credentials};
use weaver_diagnostics::serving::{HandshakeOutcome, Silence};
use weaver_host::docker::Engine;

use super::client::Client;
use super::contents::{self, NoList, Repository};
use super::trust::{Judged, RegistryTrust};

/// How the registry is checked.
pub struct LookOptions {
    pub registry: String,
    pub trust: RegistryTrust,
    /// The file of CAs, besides those of this machine.
    pub ca: Option<String>,
    pub configured: Option<(String, Configured)>,
    pub timeout: Duration,
}

/// What else is requested.
pub enum Question {
    /// The repositories, and the tags of the first so many.
    All {
        with_tags: usize,
    },
    Repository(String),
    Image(ImageReference, Platform),
}

#[derive(Default)]
pub struct RegistryContents {
    pub repositories: Vec<Repository>,
    /// Those whose tags were not requested.
    pub unlisted: Vec<String>,
    /// There are more repositories than these.
    pub are_more: bool,
    /// Why there is no list.
    pub error: Option<String>,
}

const IN_TIME: &str = "no answer in time";

/// The facts, and the contents of the registry, if requested.
///
/// # Errors
/// This machine cannot verify anything.
pub async fn look(
    how: LookOptions,
    question: &Question,
) -> anyhow::Result<(RegistryFacts, Option<RegistryContents>)> {
    let deadline = Instant::now() + how.timeout;
    let (host, port) = split(&how.registry);
    let found = |default: u16| timeout_at(deadline, addresses(host, port.unwrap_or(default)));
    let ((secure, plain), containers) =
        tokio::join!(async { (found(443).await, found(80).await) }, containers());
    let in_time = || Err(IN_TIME.to_owned());
    let (secure, plain) = (secure.unwrap_or_else(|_| in_time()), plain.unwrap_or_else(|_| in_time()));
    let is_here = match &secure {
        Ok(addresses) => Ok(addresses.iter().all(|address| address.ip().is_loopback())),
        Err(why) => Err(why.clone()),
    };
    let name: ServerName<'static> = match host.parse::<IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => ServerName::try_from(host.to_owned())
            .with_context(|| format!("{host} cannot be a host's name"))?,
    };
    let ((https, secure), (http, plain)) = tokio::try_join!(by_https(&how, secure, name, deadline), async {
        Ok(by_http(&how, plain, deadline).await)
    })?;
    let mut facts = RegistryFacts {
        registry: how.registry,
        is_here,
        https,
        http,
        ca: how.ca,
        configured: how.configured,
        containers,
        missing: None,
        image: None,
    };
    let client = match facts.reply() {
        Some(("https", _)) => secure,
        Some(_) => plain,
        None => None,
    };
    let Some(client) = client else { return Ok((facts, None)) };
    let contents = match question {
        Question::All { with_tags } => all(&client, *with_tags).await,
        Question::Repository(name) => match contents::repository(&client, name, true).await {
            Ok(repository) => {
                RegistryContents { repositories: vec![repository], ..RegistryContents::default() }
            }
            Err(NoList::Missing) => {
                facts.missing = Some(name.clone());
                return Ok((facts, None));
            }
            Err(NoList::Other(why)) => RegistryContents { error: Some(why), ..RegistryContents::default() },
        },
        Question::Image(image, platform) => {
            let found = contents::build(&client, image).await;
            facts.image = Some(WantedImage { image: image.clone(), platform: platform.clone(), found });
            return Ok((facts, None));
        }
    };
    Ok((facts, Some(contents)))
}

async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found: Vec<_> = lookup_host((host, port)).await.map_err(|error| error.to_string())?.collect();
    if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(found) }
}

async fn by_https(
    how: &LookOptions,
    addresses: Result<Vec<SocketAddr>, String>,
    name: ServerName<'static>,
    deadline: Instant,
) -> anyhow::Result<(Https, Option<Client>)> {
    let silent = |why: String| {
        let outcome = HandshakeOutcome::Unreachable(Silence::Unanswered(why.clone()));
        Https { outcome, served: Vec::new(), reply: Err(why) }
    };
    let addresses = match addresses {
        Ok(addresses) => addresses,
        Err(why) => return Ok((silent(why), None)),
    };
    let Ok(judged) = timeout_at(deadline, how.trust.judge(&addresses, name.clone())).await else {
        return Ok((silent(IN_TIME.to_owned()), None));
    };
    let Judged { outcome, served, connector } = judged?;
    let Some(connector) = connector else {
        let why = match &outcome {
            HandshakeOutcome::Unreachable(why) => why.to_string(),
            _ => "the handshake was not repeated".to_owned(),
        };
        return Ok((Https { outcome, served, reply: Err(why) }, None));
    };
    let client = Client {
        addresses,
        tls: Some((connector, name)),
        registry: how.registry.clone(),
        credentials: credentials(how, outcome == HandshakeOutcome::Proven),
        deadline,
    };
    let reply = ping(&client).await;
    Ok((Https { outcome, served, reply }, Some(client)))
}

async fn by_http(
    how: &LookOptions,
    addresses: Result<Vec<SocketAddr>, String>,
    deadline: Instant,
) -> (Result<Reply, String>, Option<Client>) {
    let addresses = match addresses {
        Ok(addresses) => addresses,
        Err(why) => return (Err(why), None),
    };
    // What k3s does by that file.
    let is_plain = how.configured.as_ref().is_some_and(|(_, configured)| configured.is_plain(&how.registry));
    let client = Client {
        addresses,
        tls: None,
        registry: how.registry.clone(),
        credentials: credentials(how, is_plain),
        deadline,
    };
    (ping(&client).await, Some(client))
}

async fn ping(client: &Client) -> Result<Reply, String> {
    client.get("/v2/", "application/json").await.map(|answer| answer.reply())
}

/// What may be sent over a connection that is safe, or that the user chose.
fn credentials(how: &LookOptions, is_safe: bool) -> Result<Credentials, Sent> {
    let credentials = how.configured.as_ref().and_then(|(_, configured)| configured.credentials.clone());
    let credentials = credentials.ok_or(Sent::None)?;
    if is_safe { Ok(credentials) } else { Err(Sent::Unverified) }
}

/// The repositories, with the tags of some.
async fn all(client: &Client, with_tags: usize) -> RegistryContents {
    let found = match contents::catalogue(client).await {
        Ok(found) => found,
        Err(NoList::Missing) => {
            return RegistryContents {
                error: Some("the registry has no catalogue".to_owned()),
                ..RegistryContents::default()
            };
        }
        Err(NoList::Other(why)) => {
            return RegistryContents { error: Some(why), ..RegistryContents::default() };
        }
    };
    let mut contents = RegistryContents { are_more: !found.is_all, ..RegistryContents::default() };
    let mut names = found.names.into_iter();
    for name in names.by_ref().take(with_tags) {
        let without = |error: &str| Repository {
            name: name.clone(),
            tags: Vec::new(),
            complete: true,
            error: Some(error.to_owned()),
        };
        let repository = match repository_name(&name) {
            Err(_) => without("not a name that can be asked for"),
            Ok(_) => match contents::repository(client, &name, false).await {
                Ok(repository) => repository,
                Err(NoList::Missing) => without("no tags"),
                Err(NoList::Other(why)) => without(&why),
            },
        };
        contents.repositories.push(repository);
    }
    contents.unlisted = names.collect();
    contents
}

/// Registries in containers of this machine; else the reason why they are not known.
async fn containers() -> Result<Vec<RegistryContainer>, String> {
    let failed = |error: weaver_host::docker::EngineError| format!("{}: {}", error.socket, error.why);
    match Engine::of_user().map_err(failed)? {
        Some(engine) => engine.registries().await.map_err(failed),
        None => Err("no container engine listens on this machine".to_owned()),
    }
}
