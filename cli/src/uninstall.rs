//! `weaver uninstall`: removes Config Weaver from a cluster, with the user's rights.
//!
//! Guarantees: nothing is written before everything was listed; each deletion names the uid that was listed;
//! the operator loses its rights before the policy that limits them is deleted; a CRD is deleted last, when
//! it has no objects. Objects of others are not touched. Failure: what was done stays done, the error names
//! the object, and the next run continues from there.

mod definitions;
mod found;
mod installed_object;
mod namespace;
mod resources;

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::time::Instant;

use crate::connection;
use crate::stdout::{agree, print, say};
use found::{CopyDisposal, FoundObjects};

#[derive(Args)]
pub struct Uninstall {
    /// Keep or delete the copies and the Secrets with tokens
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    copies: CopyDisposal,
    /// Show what would be removed without removing it
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Confirm that all node agents are stopped; a running one would reinstall everything
    #[arg(long)]
    agents_stopped: bool,
    /// Time limit for the operator's and the API server's own clean-up
    #[arg(long, value_name = "SECONDS", default_value_t = 420, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: u64,
}

pub async fn run(options: &Uninstall) -> anyhow::Result<()> {
    let client = connection::client().await?;
    let found = FoundObjects::look(&client).await?;
    print(&found.describe(options.copies))?;
    if found.is_nothing() {
        return Ok(());
    }
    let allowed = found.allows(options.agents_stopped);
    if options.dry_run {
        if let Err(refusal) = allowed {
            say(format_args!("without --dry-run this would be refused: {refusal:#}"));
        }
        say("a dry run: nothing was written");
        return Ok(());
    }
    allowed.context("nothing was done")?;
    agree(options.yes)?;

    let deadline = Instant::now() + Duration::from_secs(options.wait);
    resources::remove(&client, &found, options.copies, deadline).await?;
    resources::secrets_are_let_go(&client, deadline).await?;
    for part in found.rights.iter().chain(&found.policy).chain(&found.lease) {
        part.delete(&client).await?;
    }
    namespace::remove(&client, deadline).await?;
    definitions::remove(&client, &found.reports, &found.definitions, deadline).await?;
    say("Config Weaver is removed from this cluster; stop any operator or webhook that still runs");
    if let Some(copies) = found::copies_reported(found::copies(&client).await?) {
        say(copies);
    }
    Ok(())
}
