//! Grants what an account lacks: offered, shown, confirmed, and then created by the code of `--grant`.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::http::StatusCode;
use axum::response::Response;
use kube::Client;
use maud::html;
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use weaver_diagnostics::finding_text::clean;

use super::app::{App, html as answer, shown};
use super::command_log::{CommandLog, patience};
use super::confirm::{Agreed, VALID};
use super::page::Tab;
use super::page::grant::{self as page, GrantOffer, Granted, Proposal};
use super::view::sync::SyncKey;
use super::{own_rights, queries};
use crate::grant::{self, GrantObject};
use crate::sync::{self, Compared};

/// What the user can do about the rights of this account.
pub async fn offer(client: &Client, compared: &Compared, log: &CommandLog) -> GrantOffer {
    let parts = match sync::lacking(client, compared, &|line| log.tell(line)).await {
        Ok(parts) if parts.is_empty() => return GrantOffer::Nothing,
        Ok(parts) => parts,
        Err(error) => return GrantOffer::Unknown(clean(&format!("{error:#}"))),
    };
    match own_rights::lacking(client, &parts).await {
        Ok(lacking) if lacking.is_empty() => GrantOffer::Grant,
        Ok(lacking) => GrantOffer::NotAllowed(lacking.iter().map(|right| clean(right)).collect()),
        Err(error) => GrantOffer::Unknown(clean(&format!("{error:#}"))),
    }
}

/// Shows what would be created, and asks for confirmation.
pub async fn confirmation_page(app: App, key: SyncKey) -> Response {
    let Some((_, limit)) = app.live.sync_with_limit(&key) else { return app.no_sync(key.kind) };
    let log = CommandLog::default();
    let proposal = match timeout(limit, propose(&app, &key, &log)).await {
        Ok(Ok(proposal)) => proposal,
        Ok(Err(error)) => Proposal::Failed(clean(&format!("{error:#}"))),
        Err(_) => Proposal::Failed(format!("the API server gave no answer within {} s", limit.as_secs())),
    };
    shown(page::confirmation(&app.frame(), &key, &proposal, &log.lines()))
}

/// As `weaver sync explain --grant` finds it.
async fn propose(app: &App, key: &SyncKey, log: &CommandLog) -> anyhow::Result<Proposal> {
    let client = &app.live.client;
    let sync = queries::sync(client, key).await?;
    let Some(read) = sync::read(client, &sync, &|line| log.tell(line)).await else {
        return Ok(Proposal::Failed("the spec breaks the rules that are listed below".to_owned()));
    };
    let parts = sync::lacking(client, &read, &|line| log.tell(line)).await?;
    let account = read.account.to_string();
    if parts.is_empty() {
        return Ok(Proposal::Nothing(account));
    }
    let lacking = own_rights::lacking(client, &parts).await?;
    if !lacking.is_empty() {
        return Ok(Proposal::NotAllowed(lacking.iter().map(|right| clean(right)).collect()));
    }
    let lines = parts.iter().map(|part| clean(&part.line())).collect();
    let manifest = parts.iter().map(GrantObject::manifest).collect::<Vec<_>>().join("---\n");
    let token = app.confirmations.ask(key.clone(), parts, Instant::now())?;
    Ok(Proposal::Grant { account, lines, manifest, token })
}

/// What the form of the confirmation sends.
#[derive(Deserialize)]
pub struct Confirmed {
    confirmation: String,
}

pub type ConfirmedForm = Result<Form<Confirmed>, FormRejection>;

/// Creates what was shown and confirmed, and nothing else.
pub async fn granted_page(app: App, key: SyncKey, confirmed: ConfirmedForm) -> Response {
    let taken = confirmed.map_or(Agreed::ToNothing, |Form(Confirmed { confirmation })| {
        app.confirmations.take(&key, &confirmation, Instant::now())
    });
    let path = app.frame().sync_path(&key);
    let parts = match taken {
        Agreed::Now(parts) => parts,
        Agreed::Before => {
            let why = html! {
                p { "This was confirmed before, as by a second click, and is granted once. The page of the sync says what is still missing." }
                (page::now(&path))
            };
            return app.failed(StatusCode::CONFLICT, Tab::Syncs, "Confirmed already", &why);
        }
        Agreed::ToNothing => {
            let why = html! {
                p {
                    "Nothing was granted by this: a confirmation works once, and for " (VALID.as_secs() / 60) " minutes. "
                    a href={ (path) "/grant" } { "Look again at what would be granted" }
                }
            };
            return app.failed(StatusCode::FORBIDDEN, Tab::Syncs, "Not confirmed", &why);
        }
    };
    let lines: Vec<String> = parts.iter().map(|part| clean(&part.line())).collect();
    // A browser that leaves, as after a second click, ends this answer, and must not leave half of it behind.
    let (client, of) = (app.live.client.clone(), key.clone());
    let making = tokio::spawn(async move { granted(&client, &of, &parts).await });
    let granted = making.await.unwrap_or_else(|error| Granted::InPart(clean(&error.to_string())));
    let status = if matches!(granted, Granted::InPart(_)) { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
    answer(status, page::granted(&app.frame(), &key, &lines, &granted))
}

async fn granted(client: &Client, key: &SyncKey, parts: &[GrantObject]) -> Granted {
    let limit = patience(parts.len());
    match timeout(limit, grant::make(client, parts)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Granted::InPart(clean(&format!("{error:#}"))),
        Err(_) => {
            return Granted::InPart(format!("the API server gave no answer within {} s", limit.as_secs()));
        }
    }
    let SyncKey { kind, namespace, name } = key;
    let retry = sync::retry(client, (*kind).into(), namespace, name);
    queries::in_time(patience(1), retry).await.map_or_else(Granted::NotRetried, |()| Granted::Retried)
}
