//! `update`: replace the Debian packages of Config Weaver by newer ones and prove them, or restore the old ones.
//!
//! `weaver_diagnostics::package_update` decides what prevents an update and what proves it; this module calls apt and
//! dpkg, and acts. Guarantees: nothing is installed before all checks have passed and the rollback is prepared; each
//! step is recorded before it is taken, so that the next run completes an interrupted one; what the owner changed in
//! files of `/etc` stays; a version that is not proven in time is replaced by the old one again. Failure: apt's
//! message, its meaning and what to type; which version is installed.

pub mod args;
mod carry_out;
mod host;
mod kernel;
pub mod last_update;
mod packages;
mod programs;
mod run;
mod schedule;

use anyhow::ensure;
use weaver_diagnostics::finding::Code;
use weaver_diagnostics::package_update::record::UpdateRecord;

use args::UpdateArgs;
use host::UpdateHost;
use packages::Packages;
use run::UpdateRun;

use crate::upgrade::journal::Recorded;

impl Recorded for UpdateRecord {
    const NAME: &str = "update.json";
    const WHAT: &str = "an update of Config Weaver";
    const INTERRUPTED: Code = Code::UpdateInterrupted;

    fn has_ended(&self) -> bool {
        self.phase.is_end()
    }
}

/// Runs `update`; returns the exit code of the process.
///
/// # Errors
/// It could not be begun; any other result is in the exit code.
pub async fn update(args: UpdateArgs) -> anyhow::Result<u8> {
    let host = UpdateHost::of(&args);
    ensure!(host.root.host().is_some() || args.programs.is_some(), "an update is for this host: omit --root");
    let packages = Packages::below(&host.state_dir);
    let update = UpdateRun { args, host, packages };
    if let Some(code) = kernel::finish(&update).await? {
        return Ok(code);
    }
    if update.args.kernel {
        return kernel::run(&update).await;
    }
    if let Some(when) = update.args.when {
        return schedule::made(&update, when).await;
    }
    let outcome = update.run().await?;
    schedule::note_resumed(&update, &outcome)?;
    Ok(outcome.code())
}
