//! `repair names`: has k3s serve every configured name, or no longer serve one.
//!
//! `weaver_diagnostics::name_repair` decides the next step; here it is done, and verified by handshakes after each
//! step. Guarantees: nothing is stopped that would not start again as far as the host can tell, and whatever fails in
//! between, k3s is started again; the CA is never touched, so every kubeconfig continues working; a file is written as
//! `repair` writes it, and `repair --undo` restores it. Failure: it reports how far it came; once k3s answers, the same
//! command continues.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future;
use kube::Client;
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
    sync::Mutex,
    time::{Instant, sleep, timeout},
};
use weaver_diagnostics::{
    exit_code,
    finding::{Code, FileChange, Severity},
    finding_text,
    k3s_config::Effective,
    name_repair::{self, RepairProgress, RepairStep},
    serving::HandshakeOutcome,
};

use self::outcome::{NameFacts, end, nothing_to_prove, show};
use super::{UndoRecord, repair, say, serving_secret};
use crate::{
    args::RepairNamesArgs, backup::journal::ensure_whole, checks, host::Host, run::cluster,
    systemctl::Systemctl,
};

mod outcome;

const K3S: &str = "k3s.service";
/// Longest time for `k3s certificate rotate`, which unpacks k3s where that was not done yet.
const ROTATING: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(500);
/// How often the wait for k3s is reported; it takes minutes on a busy board.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// For one answer to whether the API is ready.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest time for taking names from the list before a renewal.
const FORGETTING: Duration = Duration::from_secs(15);
/// How often a name is removed that is back after the start.
const ATTEMPTS: usize = 3;

/// Runs the verb; returns the exit code of the process.
pub async fn run(args: RepairNamesArgs) -> anyhow::Result<u8> {
    let names = NamesRepair { host: args.host.clone().into(), args, k3s_is_down: Mutex::default() };
    names.host.look_at_k3d().await;
    if let Some(k3d) = names.host.k3d() {
        let cluster = k3d.cluster.as_deref().unwrap_or("of k3d");
        bail!(
            "the API server runs in the cluster {cluster} of k3d, which gets its names when it is created: \
             `weaver-node-agent check` prints the commands"
        );
    }
    let work = async { if names.args.remove.is_empty() { names.add().await } else { names.remove().await } };
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let interrupted = async {
        let arrivals: Vec<_> = signals.iter_mut().flatten().map(|signal| Box::pin(signal.recv())).collect();
        if arrivals.is_empty() {
            future::pending::<()>().await;
        }
        future::select_all(arrivals).await;
        // A closed terminal must not leave k3s stopped.
        names.k3s_is_down.lock().await
    };
    tokio::select! {
        done = work => done,
        _ = interrupted => bail!("interrupted; k3s was started again"),
    }
}

/// Prints what is being done, for a user who waits; the result is on standard output.
fn progress(doing: &str) {
    // The output may be closed.
    let _ = writeln!(io::stderr(), "{doing}");
}

struct NamesRepair {
    host: Host,
    args: RepairNamesArgs,
    /// Locked between the stop of k3s and its start.
    k3s_is_down: Mutex<()>,
}

impl NamesRepair {
    async fn add(&self) -> anyhow::Result<u8> {
        let mut progress = RepairProgress::Ground;
        let locked = self.lock_to_change();
        let mut look = self.look(1).await?;
        if look.check.seen.is_empty() && look.effective.shadowed.is_empty() {
            return nothing_to_prove(&look);
        }
        let Some(locked) = locked else { return show(&look) };
        let step = look.next(progress);
        if matches!(step, RepairStep::Done | RepairStep::GiveUp(_)) {
            return end(&step, progress, &look);
        }
        let record = locked?;
        let mut is_confirmed = false;
        loop {
            let step = look.next(progress);
            match &step {
                // A certificate of before the restart, from the Secret, may replace the new one for a moment.
                RepairStep::Done if progress > RepairProgress::Configured && !is_confirmed => {
                    sleep(serving_secret::STEADY).await;
                }
                RepairStep::Done | RepairStep::GiveUp(_) => return end(&step, progress, &look),
                RepairStep::Configure(change) => self.configure(&record, change)?,
                RepairStep::Restart => self.restart(&look.effective, false).await?,
                RepairStep::Rotate => {
                    self.forget_missing(&look).await;
                    self.restart(&look.effective, true).await?;
                }
            }
            is_confirmed = matches!(step, RepairStep::Done);
            progress = step.progress().unwrap_or(progress);
            let tries = if progress > RepairProgress::Configured {
                self::progress("waiting until it serves every name");
                // A busy k3s that has just started shows its older certificate for a while.
                3
            } else {
                // Nothing was started that could serve more than before.
                0
            };
            look = self.look(tries).await?;
        }
    }

    /// Probes until every name is proven or the time is over, which is `tries` times the usual.
    async fn look(&self, tries: u32) -> anyhow::Result<NameFacts> {
        let host = self.host.clone();
        let (preflight, drop_in) = tokio::task::spawn_blocking(move || {
            let preflight = checks::preflight(&host);
            let drop_in = host.root.read_if_possible(name_repair::drop_in(&preflight.effective));
            (preflight, drop_in.map(|file| file.text))
        })
        .await
        .context("judging the host")?;
        let check = checks::check(&self.host, self.args.host.probe_patience() * tries).await?;
        // What cannot be answered is asked again after the next step.
        let frozen = match self.client().await {
            Ok(client) => serving_secret::is_frozen(&client).await,
            Err(error) => Err(error),
        };
        let frozen = frozen.map_err(|error| format!("{error:#}"));
        let checks::Preflight { findings, effective } = preflight;
        Ok(NameFacts { preflight: findings, effective, drop_in, check, frozen })
    }

    /// The list next to the old certificate must not have the names that it lacks: of two certificates with the same
    /// list k3s serves the one that it saw last, and that can be the old one, from the Secret.
    async fn forget_missing(&self, look: &NameFacts) {
        let missing = look.check.seen.iter().filter(|(_, seen)| seen.outcome == HandshakeOutcome::NotServed);
        let missing: Vec<_> = missing.map(|(wanted, _)| wanted.name.to_string()).collect();
        let data_dir = self.real(&self.host.data_dir(&look.effective));
        progress("removing from its list the names that its certificate lacks");
        let Ok(client) = self.client().await else { return };
        // The certificate is renewed all the same: k3s adds each name again that a client asks for meanwhile.
        if let Ok(Err(error)) =
            timeout(FORGETTING, serving_secret::forget(&client, &data_dir, &missing)).await
        {
            progress(&format!("{error:#}"));
        }
    }

    async fn client(&self) -> anyhow::Result<Client> {
        cluster::connect(&self.host.admin()).await
    }

    /// Before the first look and until the end: nothing else may stop k3s, or replace what it reads, meanwhile. Where
    /// nothing has to be changed, it is not needed, nor root; `None` for a dry run.
    fn lock_to_change(&self) -> Option<anyhow::Result<UndoRecord>> {
        let state_dir = self.real(&self.args.state_dir);
        (!self.args.dry_run).then(|| {
            let record = UndoRecord::lock(&state_dir)?;
            ensure_whole(&state_dir)?;
            Ok(record)
        })
    }

    fn configure(&self, record: &UndoRecord, change: &FileChange) -> anyhow::Result<()> {
        if let Some(directory) = self.host.root.real(&change.file).parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        repair(&self.host.root, record, Code::NamesShadowed.id(), &[change])?;
        say(&format!("{} was written.\n", change.file))
    }

    /// Stops k3s, has its certificate made again on request, starts it, and waits until it answers.
    async fn restart(&self, effective: &Effective, rotate: bool) -> anyhow::Result<()> {
        let systemctl = Systemctl::new(self.args.systemctl.clone());
        let data_dir = self.real(&self.host.data_dir(effective));
        let down = self.k3s_is_down.lock().await;
        progress("stopping k3s; its pods keep running");
        let stopped = systemctl.stop(K3S).await;
        let rotated = if rotate && stopped.is_ok() {
            progress("renewing its certificate");
            self.rotate(&data_dir).await
        } else {
            Ok(())
        };
        progress("starting it");
        if systemctl.start(K3S).await.is_err() {
            systemctl.start(K3S).await.context("k3s is stopped now: `sudo systemctl start k3s`")?;
        }
        drop(down);
        stopped?;
        rotated?;
        let since = Instant::now();
        let patience = Duration::from_secs(self.args.start_timeout);
        let mut is_ready = self.is_ready().await;
        let mut reported = Duration::ZERO;
        while !is_ready && since.elapsed() < patience {
            if since.elapsed() >= reported + REPORT_EVERY {
                reported = since.elapsed();
                let (seconds, most) = (reported.as_secs(), patience.as_secs());
                progress(&format!("waiting for its API server: {seconds} of at most {most} s"));
            }
            sleep(POLL).await;
            is_ready = self.is_ready().await;
        }
        say(match (rotate, is_ready) {
            (_, false) => "k3s was started and does not answer yet.\n",
            (false, true) => "k3s was restarted.\n",
            (true, true) => "k3s has renewed its certificate.\n",
        })
    }

    /// Its port answers long before its API does, and with the old certificate until then. Without access to the API,
    /// an answering port is enough.
    async fn is_ready(&self) -> bool {
        let Ok(client) = self.client().await else {
            let check = checks::check(&self.host, Duration::ZERO).await;
            return check.is_ok_and(|check| !check.served.is_empty());
        };
        let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
        matches!(timeout(ANSWER, client.request_text(request)).await, Ok(Ok(_)))
    }

    async fn rotate(&self, data_dir: &Path) -> anyhow::Result<()> {
        let what = format!("`{} certificate rotate`", self.args.k3s.display());
        // It reads no configuration file.
        let ran = Command::new(&self.args.k3s)
            .args(["certificate", "rotate", "--service", "k3s-server", "--data-dir"])
            .arg(data_dir)
            .stdin(Stdio::null())
            // Ctrl-C stops the wait, and not the work in progress.
            .process_group(0)
            .kill_on_drop(true)
            .output();
        let ran = timeout(ROTATING, ran).await.with_context(|| format!("{what} does not end"))?;
        let ran = ran.with_context(|| format!("cannot run {what}; name k3s with --k3s"))?;
        if !ran.status.success() {
            let message = finding_text::cut(String::from_utf8_lossy(&ran.stderr).trim(), 500);
            bail!("{what} failed ({}): {message}", ran.status);
        }
        Ok(())
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.host.root.real(path)
    }

    /// Removes names from the certificate.
    async fn remove(&self) -> anyhow::Result<u8> {
        let locked = self.lock_to_change();
        let mut look = self.look(1).await?;
        if let Some(bad) = look.preflight.iter().find(|f| f.severity() == Severity::Fail) {
            say(&finding_text::text(bad))?;
            say("Nothing was changed: once stopped, k3s would not start again.\n")?;
            return Ok(exit_code::KNOWN_BAD);
        }
        let own = self.host.own_names(&look.effective);
        for name in &self.args.remove {
            if let Err(why) = name_repair::may_be_removed(name, &look.effective, &own) {
                say(&format!("{why}\n"))?;
                return Ok(exit_code::USAGE);
            }
        }
        let is_served = !self.still_served(&look, &[]).is_empty();
        let _record = locked.filter(|_| is_served).transpose()?;
        let mut back = Vec::new();
        for attempt in 0.. {
            if look.check.served.is_empty() {
                say("k3s sends no certificate: `systemctl status k3s` shows whether it runs.\n")?;
                return Ok(exit_code::KNOWN_BAD);
            }
            let served = self.still_served(&look, &back);
            let names = served.join(", ");
            if served.is_empty() {
                let any_more = if attempt > 0 { " any more" } else { "" };
                say(&format!("{} is not in the certificate{any_more}.\n", self.args.remove.join(", ")))?;
                return Ok(exit_code::FINE);
            }
            if self.args.dry_run {
                say(&format!(
                    "would remove {names} from the list in Secret kube-system/{}, stop k3s, renew its \
                     certificate and start it\nNothing was changed.\n",
                    name_repair::SECRET
                ))?;
                break;
            }
            if attempt == ATTEMPTS {
                say(&format!(
                    "{names} is served again: right after its start k3s adds any name that a client asks \
                     for. Find the client that still uses it, then repeat this.\n"
                ))?;
                break;
            }
            let client = self.client().await?;
            if serving_secret::is_frozen(&client).await? {
                bail!("the certificate is frozen: see the annotation {}", name_repair::FROZEN);
            }
            let data_dir = self.host.data_dir(&look.effective);
            let before = serving_secret::forget(&client, &self.real(&data_dir), &served).await?;
            self.restart(&look.effective, true).await?;
            // Where the API does not answer, the next check reports it.
            let listed =
                serving_secret::come_back(&client, &self.real(&data_dir), &served, before.as_ref()).await;
            back = listed.unwrap_or_default();
            look = self.look(1).await?;
        }
        Ok(exit_code::KNOWN_BAD)
    }

    /// Those of the names to be removed that are served, or will be, since they are `back` on the list.
    fn still_served(&self, look: &NameFacts, back: &[String]) -> Vec<String> {
        let is_served = |name: &&String| {
            look.check.served.iter().chain(back).any(|served| served.eq_ignore_ascii_case(name))
        };
        self.args.remove.iter().filter(is_served).cloned().collect()
    }
}
