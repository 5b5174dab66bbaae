//! Keeps the gate: checks, opens it once, renews the operator's token.

use std::{fs, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    cluster, credentials,
    gate::{Gate, Verdict, open_reason, verdict},
    renewal::Renewal,
    status::Status,
};
use crate::{
    args::RunArgs,
    checks::{self, Check, Host},
};

/// Longest time for opening the gate or renewing, all requests together.
const OPENING: Duration = Duration::from_secs(90);
/// Longest pause between two attempts to open the gate once the names are
/// proven: each costs the API server a token.
const OPEN_AGAIN: Duration = Duration::from_secs(10);

struct Keeper {
    host: Host,
    args: RunArgs,
    status: Status,
    open: watch::Sender<bool>,
    /// Whether the API server serves what the operator works on.
    served: watch::Receiver<bool>,
    /// The operator's token; absent while the gate is shut.
    renewal: Option<Renewal>,
    /// Pause before the gate is tried again, after attempts that failed.
    open_pause: Duration,
}

/// Runs until `stop`.
pub async fn keep(
    args: RunArgs,
    status: Status,
    open: watch::Sender<bool>,
    served: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut keeper = Keeper {
        host: args.host.clone().into(),
        args,
        status,
        open,
        served,
        renewal: None,
        open_pause: Duration::ZERO,
    };
    let work = async {
        let mut known_bad = false;
        loop {
            // The first "no" is waited for, since a name appears a moment after
            // a start. Once known, one look per round is enough.
            let patience = if known_bad { Duration::ZERO } else { keeper.args.host.probe_patience() };
            let check = checks::check(&keeper.host, patience).await?;
            known_bad = check.failures().next().is_some();
            keeper.observe(&check).await;
            keeper.pause(&check).await;
        }
    };
    tokio::select! {
        ended = work => ended,
        () = stop.cancelled() => Ok(()),
    }
}

impl Keeper {
    async fn observe(&mut self, check: &Check) {
        self.status.set_findings(check.findings.clone());
        if let Some(renewal) = &self.renewal {
            if renewal.is_out_of_time(Instant::now(), Timestamp::now()) {
                info!("the clock was set: renewing the operator's token before its turn");
                self.renew_again(check).await;
            }
            self.show_open(check);
            return;
        }
        let reason = match verdict(check) {
            Verdict::Bad(why) | Verdict::Unproven(why) => why,
            Verdict::Good => match self.renew(check, true).await {
                Ok(()) => {
                    self.show_open(check);
                    self.open.send_replace(true);
                    self.open_pause = Duration::ZERO;
                    return;
                }
                Err(failure) => {
                    self.open_pause = (self.open_pause * 2).clamp(Duration::from_secs(1), OPEN_AGAIN);
                    format!("the names are proven, and the operator has no credentials: {failure:#}")
                }
            },
        };
        self.status.set_gate(Gate::Shut, reason);
    }

    /// Until the next check; renewals in between happen on time.
    async fn pause(&mut self, check: &Check) {
        let pause = if self.renewal.is_some() { self.args.recheck_seconds } else { self.args.retry_seconds };
        let next_check = Instant::now() + Duration::from_secs(pause).max(self.open_pause);
        while let Some(renew_at) =
            self.renewal.as_ref().map(|renewal| renewal.at).filter(|at| *at < next_check)
        {
            tokio::time::sleep_until(renew_at).await;
            self.renew_again(check).await;
            self.show_open(check);
        }
        tokio::time::sleep_until(next_check).await;
    }

    fn show_open(&self, check: &Check) {
        let failure = self.renewal.as_ref().and_then(|renewal| renewal.failure.as_deref());
        self.status.set_gate(Gate::Open, open_reason(verdict(check), failure));
    }

    async fn renew_again(&mut self, check: &Check) {
        let install = self.renewal.as_ref().is_some_and(Renewal::must_install);
        if let Err(failure) = self.renew(check, install).await
            && let Some(renewal) = &mut self.renewal
            && renewal.failed(format!("{failure:#}"), Instant::now())
        {
            warn!("the operator's token could not be renewed, trying again: {failure:#}");
        }
    }

    fn too_long(&self) -> String {
        let missing = if *self.served.borrow() {
            ""
        } else {
            ": the API server does not serve v1beta1 of ConfigMapSync"
        };
        format!("not done within {} s{missing}", OPENING.as_secs())
    }

    /// Mints a token and writes the operator's files; before the first one, and
    /// after a failure, the manifests are applied.
    async fn renew(&mut self, check: &Check, install: bool) -> anyhow::Result<()> {
        let work = async {
            let client = cluster::connect(&self.host.root, &self.host.admin_kubeconfig).await?;
            if install {
                cluster::apply_all(&client).await?;
                // An operator that starts before its kinds are served only fails.
                self.served
                    .wait_for(|installed| *installed)
                    .await
                    .context("nobody looks after the definitions")?;
            }
            cluster::mint(&client, self.args.token_seconds).await
        };
        let token = tokio::time::timeout(OPENING, work).await.with_context(|| self.too_long())??;
        let server_ca = self.host.root.real(&check.server_ca);
        let ca =
            fs::read(&server_ca).with_context(|| format!("cannot read {}", check.server_ca.display()))?;
        credentials::write(&self.args.runtime_dir, &token, check.api_address, &ca)?;
        let now = Instant::now();
        let renewal = Renewal::of(&token, Duration::from_secs(self.args.token_renew_seconds), now);
        info!(
            lifetime_seconds = token.lifetime.as_secs(),
            renewed_in_seconds = (renewal.at - now).as_secs(),
            "wrote a new token of the operator"
        );
        self.renewal = Some(renewal);
        Ok(())
    }
}
