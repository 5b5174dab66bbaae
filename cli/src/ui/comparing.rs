//! The output of `weaver sync explain` for one sync, and what can be done about missing rights.

use axum::response::Response;
use tokio::time::timeout;
use weaver_diagnostics::finding_text::clean;

use super::app::{App, shown};
use super::command_log::CommandLog;
use super::page::grant::GrantOffer;
use super::page::plan::WriteBlock;
use super::page::sync::{SyncExplanation, compared};
use super::view::health::ResourceHealth;
use super::view::sync::{SyncKey, SyncView};
use super::{granting, queries};
use crate::sync;

pub async fn comparison_page(app: App, key: SyncKey) -> Response {
    let Some((found, patience)) = app.live.sync_with_limit(&key) else { return app.no_sync(key.kind) };
    let log = CommandLog::default();
    let done = timeout(patience, compare(&app, &key, &found, &log)).await;
    let (role, error, offer) = match done {
        Ok(Ok((role, offer))) => (role, None, offer),
        Ok(Err(error)) => (None, Some(clean(&format!("{error:#}"))), GrantOffer::Nothing),
        Err(_) => {
            let why = format!(
                "Not all was compared within {} s, and missing rights were not looked for: type weaver sync explain.",
                patience.as_secs()
            );
            (None, Some(why), GrantOffer::Nothing)
        }
    };
    let held = if found.is_dry_run {
        WriteBlock::DryRun
    } else if found.summary.health == ResourceHealth::Paused {
        WriteBlock::Paused
    } else {
        WriteBlock::No
    };
    let comparison = SyncExplanation { lines: log.lines(), copies: log.copies(), held, role, error, offer };
    shown(compared(&app.frame(), &key, &comparison))
}

/// As `weaver sync explain` does it; and what can be done about missing rights.
async fn compare(
    app: &App,
    key: &SyncKey,
    found: &SyncView,
    log: &CommandLog,
) -> anyhow::Result<(Option<String>, GrantOffer)> {
    let client = &app.live.client;
    let sync = queries::sync(client, key).await?;
    let Some(compared) = sync::compare(client, &sync, &|line| log.tell(line), &|copy| log.show(copy)).await
    else {
        return Ok((None, GrantOffer::Nothing));
    };
    let missing = sync::name_missing(client, &compared, &|line| log.tell(line)).await;
    // The status may be older than the lack of a right.
    let offer = if found.has_problem() || matches!(missing, Ok(Some(_))) {
        // Notes on the way were shown above.
        granting::offer(client, &compared, &CommandLog::default()).await
    } else {
        GrantOffer::Nothing
    };
    match missing {
        Ok(role) => Ok((role, offer)),
        // A user who may not ask about others' rights may still grant.
        Err(error) if matches!(offer, GrantOffer::Grant) => {
            log.tell(&format!("{error:#}"));
            Ok((None, offer))
        }
        Err(error) => Err(error),
    }
}
