//! Keeps the definitions of our kinds installed and their conversion working.
//!
//! Nothing here waits for the gate: stored objects must stay readable while a
//! name is not proven. The webhook's CA and certificate are made first, so that
//! the webhook can start; the rest is the installer's order (design 4.7). A
//! definition that somebody changes is looked at within a second, and whatever
//! happens every [`RECHECK`].

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt as _, watcher},
};
use nix::unistd::Group;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;
use weaver_operator::installer::{self, Options, Outcome, Prove, Webhook, certificates};

use super::{cluster, status::Status};
use crate::{args::RunArgs, checks::Host};

/// Pause between two looks where nothing seems to have changed.
const RECHECK: Duration = Duration::from_secs(30);
/// Pauses after a failure: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// How long each step of the installer may take: the webhook has only just been started.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time for one round, all requests together.
const ROUND: Duration = Duration::from_mins(3);
/// Group of the operator and the webhook on an appliance.
const GROUP: &str = "weaver";

/// Runs until `stop`; sends `true` once everything has been installed.
pub async fn keep(
    args: RunArgs,
    status: Status,
    installed: watch::Sender<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let host = Host::from(args.host.clone());
    let work = async move {
        let mut pause = AGAIN.0;
        loop {
            match timeout(ROUND, round(&host, &args)).await {
                Ok(Ok(client)) => {
                    pause = AGAIN.0;
                    status.set_definitions(Ok(()));
                    installed.send_replace(true);
                    tokio::select! {
                        () = changed(client) => {}
                        () = tokio::time::sleep(RECHECK) => {}
                    }
                    continue;
                }
                Ok(Err(failure)) => status.set_definitions(Err(format!("{failure:#}"))),
                Err(_) => {
                    status.set_definitions(Err(format!("not done within {} s", ROUND.as_secs())));
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        }
    };
    tokio::select! {
        never = work => never,
        () = stop.cancelled() => Ok(()),
    }
}

async fn round(host: &Host, args: &RunArgs) -> anyhow::Result<Client> {
    let certificates = prepare(&args.certificates)?;
    let client = cluster::connect(&host.root, &host.admin_kubeconfig).await?;
    let webhook = Webhook {
        url: format!("https://{}/convert", args.webhook_address),
        ca_bundle: certificates.ca_bundle,
    };
    // Proved each time: a webhook that has stopped answering since is a fault to report.
    let options = Options { prove: Prove::Always, patience: PATIENCE };
    let report = installer::install(&client, &webhook, &options, |_| ())
        .await
        .context("installing the definitions")?;
    for installed in report.definitions.iter().filter(|one| one.outcome != Outcome::Unchanged) {
        info!("{installed}");
    }
    let migrated = installer::migrate(&client, |progress| info!("{progress}"))
        .await
        .context("rewriting what is stored at an older version")?;
    for one in migrated.iter().filter(|one| !one.dropped.is_empty()) {
        info!("{one}");
    }
    Ok(client)
}

/// Makes or renews the webhook's certificate.
///
/// # Errors
/// As the installer says; and where the group cannot be looked up.
pub fn prepare(directory: &Path) -> anyhow::Result<certificates::Certificates> {
    let group = Group::from_name(GROUP).context("looking up the group weaver")?;
    let options = certificates::Options {
        group: group.map(|group| group.gid.as_raw()),
        ..certificates::Options::default()
    };
    Ok(certificates::ensure(directory, &options, Timestamp::now())?)
}

/// Returns when somebody has changed or deleted one of our definitions, or the
/// watch has ended: then it is time to look.
async fn changed(client: Client) {
    let ours: Vec<String> = weaver_api::crds::all().into_iter().filter_map(|crd| crd.metadata.name).collect();
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = false;
    while let Ok(Some(event)) = events.try_next().await {
        let name = match event {
            watcher::Event::InitDone => {
                listed = true;
                continue;
            }
            watcher::Event::Apply(meta) | watcher::Event::Delete(meta) if listed => meta.metadata.name,
            _ => continue,
        };
        if name.is_some_and(|name| ours.contains(&name)) {
            return;
        }
    }
}
