//! Keeps the definitions of our kinds installed and their conversion working.
//!
//! Nothing here waits for the gate: stored objects must stay readable while a name is not proven. The webhook's CA and
//! certificate are made first, so that the webhook can start; the rest is the installer's order. A definition that
//! someone changes is checked within seconds, and all of them every [`RunArgs::recheck_seconds`] in any case. Failures
//! are in the report.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResourceExt as _,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        wait::{Condition as _, conditions::is_crd_established},
        watcher,
    },
};
use nix::unistd::Group;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weaver_api::{crds::STORED, schema::ROUND_TRIP_FIELD, v1beta1::ConfigMapSync};
use weaver_host::backoff::{Backoff, jittered};
use weaver_installer::{
    self as installer, InstallError, InstallOptions, InstallOutcome, MigrateError, Prove, Webhook, accounts,
    certificates::{self, Readers},
    guard::PolicyState,
};

use super::{cluster, status::AgentStatus};
use crate::{args::RunArgs, host::Host, node_report::Unseen, slowness};

/// Group of the webhook on a card, which may read its certificate and key.
const WEBHOOK_GROUP: &str = "weaver-webhook";
/// What is logged where it is missing.
const NO_GROUP: &str = "the group weaver-webhook does not exist, so only the owner of the webhook's key can \
read it, and weaver-webhook.service cannot: type `sudo systemd-sysusers /usr/lib/sysusers.d/weaver.conf`, \
which creates the group; the agent gives it the key within a minute";
/// Backoff after a failure that may pass by itself: the first pause, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The longest pause after a failure that a user must fix. Each try to rewrite stored objects requests every object
/// from the API server.
const CURED_BY_HAND: Duration = Duration::from_mins(5);
/// The shortest pause after a round that wrote something; it grows while rounds
/// continue writing, because then someone else writes too.
const SETTLE: Duration = Duration::from_secs(1);
/// How long each step of the installer may take: the webhook has only just been started.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time for one round, all requests together.
const ROUND: Duration = Duration::from_mins(3);

/// Runs until `stop`; sends `true` once the operator's kind is served, and the policy on accounts in force or turned
/// off by its owner: without it any account could be named in what the operator then works on.
///
/// Nothing else is waited for: an operator that works on objects stored at v1beta1 must not be blocked by a webhook
/// that does not answer, by an object that cannot be rewritten or by a definition that another program manages. And
/// only a running operator removes its finalizer from the objects of a definition that is being deleted.
pub async fn keep(
    host: Host,
    args: RunArgs,
    status: AgentStatus,
    served: watch::Sender<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let recheck = Duration::from_secs(args.recheck_seconds);
    let work = async move {
        let (mut again, mut settle) = (Backoff::new(AGAIN.0), Backoff::new(SETTLE));
        let (mut before, mut silent_since) = (None, None);
        loop {
            let readers =
                readers(Group::from_name(WEBHOOK_GROUP).map(|group| group.map(|group| group.gid.as_raw())));
            if let (Readers::OwnerOnly, true) = (readers, before.replace(readers) != Some(readers)) {
                warn!("{NO_GROUP}");
            }
            let ended = timeout(ROUND, round(&host, &args, readers)).await;
            let too_long = || format!("timed out after {} s", ROUND.as_secs());
            let ended = ended.unwrap_or_else(|elapsed| Err(anyhow::Error::new(elapsed).context(too_long())));
            if !*served.borrow() && serves(&host).await {
                served.send_replace(true);
            }
            match ended {
                Ok((client, wrote)) => {
                    silent_since = None;
                    status.set_definitions(Ok(()));
                    again.reset();
                    if !wrote {
                        settle.reset();
                    }
                    sleep(settle.next(recheck)).await;
                    tokio::select! {
                        () = changed(client) => {}
                        () = sleep(jittered(recheck)) => {}
                    }
                }
                Err(failure) => {
                    silent_since = is_late(&failure).then(|| silent_since.unwrap_or_else(Instant::now));
                    let is_slow = match silent_since {
                        None => false,
                        Some(since) => slowness::load(&host.root).await.excuses(since.elapsed()),
                    };
                    let message = format!("{failure:#}");
                    let unseen = if is_slow { Unseen::Late(message) } else { Unseen::Failed(message) };
                    status.set_definitions(Err(unseen));
                    let longest = if is_cured_by_hand(&failure) { CURED_BY_HAND } else { AGAIN.1 };
                    sleep(again.next(longest)).await;
                }
            }
        }
    };
    tokio::select! {
        never = work => never,
        () = stop.cancelled() => Ok(()),
    }
}

fn is_cured_by_hand(failure: &anyhow::Error) -> bool {
    failure.downcast_ref::<InstallError>().is_some_and(InstallError::is_refusal)
        || matches!(
            failure.downcast_ref(),
            Some(MigrateError::Objects { .. } | MigrateError::OtherStorage { .. })
        )
}

/// Whether the API server only took too long.
fn is_late(failure: &anyhow::Error) -> bool {
    slowness::is_late(failure)
        || failure.downcast_ref::<InstallError>().is_some_and(InstallError::is_late)
        || failure.downcast_ref::<MigrateError>().is_some_and(MigrateError::is_late)
}

/// One check of everything, and its consequences; returns whether a definition was written.
async fn round(host: &Host, args: &RunArgs, readers: Readers) -> anyhow::Result<(Client, bool)> {
    let address = host.webhook_address(args.webhook_address);
    let certificates = prepare(args, address, readers).await?;
    let client = cluster::connect(&host.admin()).await?;
    let webhook = Webhook {
        service: None,
        url: format!("https://{address}/convert"),
        ca_bundle: certificates.ca_bundle,
    };
    // Proved each time: a webhook that has stopped answering since is a fault to report.
    let options = InstallOptions { prove: Prove::Always, ca_from: None, patience: PATIENCE };
    let report = installer::install(&client, &webhook, &options, |_| ())
        .await
        .context("installing the definitions")?;
    for installed in report.all().filter(|one| one.outcome != InstallOutcome::Unchanged) {
        info!("{installed}");
    }
    let migrated = installer::migrate(&client, |progress| info!("{progress}"))
        .await
        .context("rewriting what is stored at an older version")?;
    for one in migrated.iter().filter(|one| !one.dropped.is_empty()) {
        info!("{one}");
    }
    Ok((client, report.changed()))
}

/// Makes or renews the webhook's certificate, where no other task waits for it.
async fn prepare(
    args: &RunArgs,
    address: SocketAddr,
    readers: Readers,
) -> anyhow::Result<certificates::Certificates> {
    let directory = args.certificates.clone();
    let options = certificates::CertificateOptions {
        names: vec![address.ip().to_string()],
        readers,
        ..certificates::CertificateOptions::default()
    };
    let made = spawn_blocking(move || certificates::ensure(&directory, &options, Timestamp::now()));
    Ok(made.await.context("making the webhook's certificate")??)
}

/// Who may read the webhook's key, from the lookup of its group. Where that is missing or cannot be looked up, only the
/// owner: the directory may belong to any group.
fn readers(group: nix::Result<Option<u32>>) -> Readers {
    match group {
        Ok(Some(group)) => Readers::Group(group),
        Ok(None) | Err(_) => Readers::OwnerOnly,
    }
}

/// Whether the API server serves what the operator works on, and guards it.
async fn serves(host: &Host) -> bool {
    let asked = async {
        let client = cluster::connect(&host.admin()).await.ok()?;
        let policy_state = accounts::built_in().ok()?.asked(&client).await.ok()?;
        let api: Api<CustomResourceDefinition> = Api::all(client);
        Some((api.get_opt(ConfigMapSync::crd_name()).await.ok()??, policy_state))
    };
    timeout(PATIENCE, asked)
        .await
        .ok()
        .flatten()
        .is_some_and(|(crd, policy_state)| is_safe(&crd, &policy_state))
}

fn is_safe(crd: &CustomResourceDefinition, policy_state: &PolicyState) -> bool {
    let has_version = crd.spec.versions.iter().any(|version| version.name == STORED && version.served);
    // With a definition of an older release the API server drops the round-trip field of this release's conversion.
    let loses = json!(crd).pointer("/spec/versions").and_then(Value::as_array).is_some_and(|versions| {
        let field = format!("/schema/openAPIV3Schema/properties/spec/properties/{ROUND_TRIP_FIELD}");
        let is_old = |version: &&Value| version["name"] != STORED && version["served"] == true;
        versions.iter().filter(is_old).any(|version| version.pointer(&field).is_none())
    });
    has_version
        && !loses
        && is_crd_established().matches_object(Some(crd))
        && matches!(policy_state, PolicyState::InForce | PolicyState::Off(_))
}

/// Returns when someone has changed or deleted one of our definitions, or the watch has ended: then a check is due.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_its_group_the_webhooks_key_is_for_its_owner_only() {
        for (group, expected) in [
            (Ok(Some(990)), Readers::Group(990)),
            (Ok(None), Readers::OwnerOnly),
            (Err(nix::Error::EIO), Readers::OwnerOnly),
        ] {
            assert_eq!(readers(group), expected, "{group:?}");
        }
        assert!(NO_GROUP.contains("sudo systemd-sysusers"), "it names the remedy");
    }

    #[test]
    fn what_took_too_long_is_distinguished_from_what_is_wrong() {
        let elapsed = || async { timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let elapsed = runtime.block_on(elapsed());
        let patience = Duration::from_secs(20);
        for (failure, want) in [
            (
                anyhow::Error::new(InstallError::NotEstablished { name: "n".into(), patience })
                    .context("installing"),
                true,
            ),
            (anyhow::Error::new(elapsed).context("timed out after 180 s"), true),
            (MigrateError::NotInstalled("n".into()).into(), false),
            (InstallError::Contested("n".into()).into(), false),
            (anyhow::anyhow!("no answer"), false),
        ] {
            assert_eq!(is_late(&failure), want, "{failure:#}");
        }
    }

    #[test]
    fn the_gate_stays_shut_while_any_account_could_be_named() {
        let crd = |established: &str| {
            let mut crd = json!(ConfigMapSync::crd());
            let condition = json!({"type": "Established", "status": established, "lastTransitionTime": null});
            crd["status"] = json!({"conditions": [condition]});
            serde_json::from_value::<CustomResourceDefinition>(crd).unwrap()
        };
        for (established, policy_state, expected) in [
            ("True", PolicyState::InForce, true),
            ("True", PolicyState::Off("its owner's binding says so".into()), true),
            ("True", PolicyState::Absent("ValidatingAdmissionPolicy"), false),
            ("True", PolicyState::Absent("ValidatingAdmissionPolicyBinding"), false),
            ("True", PolicyState::OtherRules, false),
            ("False", PolicyState::InForce, false),
        ] {
            assert_eq!(is_safe(&crd(established), &policy_state), expected, "{established} {policy_state:?}");
        }
        let mut old: Value = json!(crd("True"));
        let mut version = old["spec"]["versions"][0].clone();
        version["name"] = json!("v1alpha1");
        version["storage"] = json!(false);
        old["spec"]["versions"].as_array_mut().unwrap().push(version);
        let is_safe =
            |crd: &Value| is_safe(&serde_json::from_value(crd.clone()).unwrap(), &PolicyState::InForce);
        assert!(!is_safe(&old), "a definition of an older release");
        let spec = &mut old["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"]["roundTrip"] = json!({"type": "string"});
        assert!(is_safe(&old));
    }
}
