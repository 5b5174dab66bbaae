//! One reconciliation of a `ServiceToken`: look at the accounts and the Secret, fill it, say what came of it.
//!
//! Level-triggered: a reconciliation never asks why it was called. Of the accounts the operator reads the
//! metadata alone, and nothing of those that the writer makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{OptionFuture, join_all};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use weaver_api::convert;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{ALLOW_TOKENS_LABEL, Owner};
use weaver_api::v1beta1::{GeneratedStatus, ServiceToken};
use weaver_api::validate::{SpecFault, ValidAccount, ValidServiceToken, validate_token};
use weaver_tenant::review::missing;
use weaver_tenant::watch::{WatchSelector, WatchState};
use weaver_tenant::{Account, TenantClient};

use super::Context;
use super::fill::{FillOutcome, KnownSecret, SecretJob};
use super::generate::{Accounts, MadeAccounts, Removed};
use super::outcome::{GeneratedAccounts, RequestedToken, SecretWrite, TokenOutcome, TokenProblem, TokenWork};
use super::plan;
use super::secret::DesiredSecret;
use super::size::{self, Measure};
use super::state::TokenState;
use crate::controller::state::StateEntry;
use crate::watch::{Interest, WatchKey, seen};
use weaver_client::call::{CallError, lookup};
use weaver_copies::account_rights::{AccountRight, for_accounts};
use weaver_copies::copy::owner;
use weaver_copies::plan::SeenCopy;
use weaver_copies::rights::{Right, for_writer};

/// What a `ServiceToken` asks for, and who writes it.
struct ServiceTokenRequest {
    asked: ValidServiceToken,
    wanted: Vec<ValidAccount>,
    writer: Account,
    tenant: TenantClient,
    secret: String,
}

async fn request(
    context: &Context,
    entry: &StateEntry<TokenState>,
    resource: &ServiceToken,
    owner: &Owner,
) -> Result<ServiceTokenRequest, TokenOutcome> {
    let (asked, wanted) = valid(resource, owner).map_err(TokenOutcome::InvalidSpec)?;
    let writer = Account { namespace: owner.namespace.clone(), name: asked.writer.clone() };
    entry.uses(&writer);
    let tenant = context.tenants.client(&writer).await.map_err(TokenOutcome::NoToken)?;
    let secret = asked.secret_name.clone().unwrap_or_else(|| owner.name.clone());
    if asked.generate.is_some()
        && let Some(measure) = Measure::of(&tenant)
    {
        size::check(&asked, &measure, &secret).map_err(|fault| TokenOutcome::InvalidSpec(vec![fault]))?;
    }
    Ok(ServiceTokenRequest { asked, wanted, writer, tenant, secret })
}

/// Works on `resource` once; `None` where it turns out to be on its way out.
pub async fn work(
    context: &Context,
    entry: &StateEntry<TokenState>,
    state: &mut TokenState,
    resource: &ServiceToken,
) -> Option<TokenOutcome> {
    let owner = owner(resource);
    let ServiceTokenRequest { asked, wanted, writer, tenant, secret } =
        match request(context, entry, resource, &owner).await {
            Ok(request) => request,
            Err(outcome) => return Some(outcome),
        };
    let watch = join(context, entry, state, &tenant, &secret);
    let settled = OptionFuture::from(watch.as_ref().map(Interest::settled));
    let (watched, mut accounts) =
        futures::join!(settled, accounts(&context.client, &writer.namespace, &asked));
    state.watch = watch;
    let shown = shown(state, &writer.namespace, &secret);
    let desired = DesiredSecret::new(owner, resource, &secret);
    let listed = asked.tokens.iter().filter(|token| token.generated.is_none()).map(|token| &token.account);
    let used = listed.chain([&asked.writer]).cloned().collect();
    let generated =
        Accounts { tenant: &tenant, owner: &desired.owner, reference: &desired.reference, used: &used };
    // Those of an earlier spec are still there where the status says so.
    let before = resource.status.as_ref().and_then(|status| status.generated.as_ref());
    let is_or_was = asked.generate.is_some() || before.is_some();
    let mut made = if is_or_was { generated.make(&wanted).await } else { MadeAccounts::default() };
    accounts.append(&mut made.accounts);
    let job = SecretJob {
        operator: &context.client,
        tenant: &tenant,
        clock: &context.own,
        asked: &asked,
        desired: &desired,
        accounts,
        oldest: context.options.service_token_age,
    };
    let FillOutcome { end, keys, minted, known, next, sent } =
        job.run(shown.as_deref(), state.known.as_ref()).await?;
    if known.is_some() || end == SecretWrite::Written {
        state.known = known;
    }
    let surplus = if end == SecretWrite::Written {
        generated.remove(&made.surplus, &held(state.known.as_ref())).await
    } else {
        Removed::default()
    };
    let missing_of_accounts = missing_rights_on_accounts(&tenant, &made, &surplus, &keys).await;
    let missing = missing_rights(&tenant, &secret, &end, watched).await;
    if let (Some(watch), Ok(missing)) = (&state.watch, &missing)
        && !missing.iter().any(Right::is_for_watching)
    {
        watch.try_again();
    }
    Some(TokenOutcome::Worked(Box::new(TokenWork {
        writer,
        secret,
        end,
        keys,
        minted,
        missing,
        missing_of_accounts,
        generated: is_or_was.then(|| became(&desired.owner, &made, &surplus, before)),
        sent: sent || made.sent || surplus.count > 0,
        next: next.map(|due| (due, context.own.now())),
    })))
}

/// The spec with the tokens of generated accounts, and these accounts.
fn valid(
    resource: &ServiceToken,
    owner: &Owner,
) -> Result<(ValidServiceToken, Vec<ValidAccount>), Vec<SpecFault>> {
    if let Some(fault) = convert::lost(&resource.metadata) {
        return Err(vec![fault]);
    }
    validate_token(resource.desired())?.with_generated(&format!("{}/{}", owner.namespace, owner.name))
}

/// What became of generated accounts. Where they could not be listed, there are as many as `before`.
fn became(
    owner: &Owner,
    made: &MadeAccounts,
    surplus: &Removed,
    before: Option<&GeneratedStatus>,
) -> GeneratedAccounts {
    let before = || before.and_then(|before| usize::try_from(before.accounts).ok()).unwrap_or_default();
    let failed =
        surplus.not_removed.iter().map(|(name, error)| format!("{name} could not be removed: {error}"));
    GeneratedAccounts {
        owner: owner.name.clone(),
        there: made.there.map_or_else(before, |there| there.saturating_sub(surplus.count)),
        not_removed: made.troubles.iter().chain(&surplus.kept).cloned().chain(failed).collect(),
    }
}

/// The accounts whose tokens are in the Secret: each token is removed before its account.
fn held(known: Option<&KnownSecret>) -> BTreeSet<&str> {
    let claims = known.into_iter().flat_map(|known| known.seen.keys.values().flatten());
    claims.map(|claims| claims.account.name.as_str()).collect()
}

/// The watch on the Secret; the one that is open, if it is that.
fn join(
    context: &Context,
    entry: &StateEntry<TokenState>,
    state: &mut TokenState,
    tenant: &TenantClient,
    secret: &str,
) -> Option<Interest> {
    let key = WatchKey {
        account: tenant.account.clone(),
        uid: tenant.uid.clone(),
        kind: ObjectKind::SECRET,
        namespace: Some(tenant.account.namespace.clone()),
        selector: WatchSelector::Name(secret.to_owned()),
    };
    let open = state.watch.take().filter(|open| *open.key() == key);
    open.or_else(|| {
        // What is known is of another Secret, or was seen as another account.
        state.known = None;
        context.watches.join(key, tenant, &entry.resource)
    })
}

/// The Secret's metadata, where the watch shows all of it.
fn shown(state: &mut TokenState, namespace: &str, secret: &str) -> Option<Arc<ObjectMeta>> {
    match seen(&state.watch.as_ref()?.see(namespace, secret)) {
        SeenCopy::Object(meta) => Some(meta),
        SeenCopy::Nothing => {
            // It is gone, and its tokens with it.
            state.known = None;
            None
        }
        // Before anything is written it is read.
        SeenCopy::Unknown | SeenCopy::Metadata(_) => None,
    }
}

/// What is known of the accounts whose tokens are asked for, or why it is not.
async fn accounts(
    operator: &Client,
    namespace: &str,
    asked: &ValidServiceToken,
) -> BTreeMap<String, Result<plan::AccountState, String>> {
    let listed = asked.tokens.iter().filter(|token| token.generated.is_none());
    let names: BTreeSet<&String> = listed.map(|token| &token.account).collect();
    let looked_up: Vec<_> = names.into_iter().map(|name| account(operator, namespace, name)).collect();
    join_all(looked_up).await.into_iter().collect()
}

async fn account(
    operator: &Client,
    namespace: &str,
    name: &str,
) -> (String, Result<plan::AccountState, String>) {
    let accounts: Api<ServiceAccount> = Api::namespaced(operator.clone(), namespace);
    let agrees = |account: &PartialObjectMeta<ServiceAccount>| {
        account.labels().get(ALLOW_TOKENS_LABEL).is_some_and(|value| value == "true")
    };
    let account = match lookup(accounts.get_metadata(name)).await {
        Ok(None) => Ok(plan::AccountState::Missing),
        // On its way out, its tokens are refused already.
        Ok(Some(account)) if account.metadata.deletion_timestamp.is_some() => Ok(plan::AccountState::Missing),
        Ok(Some(account)) if agrees(&account) => {
            Ok(plan::AccountState::Allowed { uid: account.uid().unwrap_or_default() })
        }
        Ok(Some(_)) => Ok(plan::AccountState::NotAllowed),
        Err(error) => Err(error.to_string()),
    };
    (name.to_owned(), account)
}

/// What the writer lacks to make accounts and to mint for them, where something was refused.
async fn missing_rights_on_accounts(
    tenant: &TenantClient,
    made: &MadeAccounts,
    surplus: &Removed,
    keys: &[RequestedToken],
) -> Result<BTreeSet<AccountRight>, String> {
    let mut names = made.refused.clone();
    let is_forbidden = |error: &CallError| matches!(error, CallError::Forbidden(_));
    names.extend(
        surplus.not_removed.iter().filter(|(_, error)| is_forbidden(error)).map(|(name, _)| name.clone()),
    );
    let not_minted = keys.iter().filter(|key| key.trouble == Some(TokenProblem::WriterMayNotMint));
    names.extend(not_minted.map(|key| key.account.name.clone()));
    if !made.unlisted && names.is_empty() {
        return Ok(BTreeSet::new());
    }
    if names.is_empty() {
        names.extend(keys.iter().find(|key| key.is_generated).map(|key| key.account.name.clone()));
    }
    let needed = for_accounts(&tenant.account.namespace, names.iter().map(String::as_str));
    missing(&tenant.client(), needed).await.map_err(|error| error.to_string())
}

/// What the writer lacks, where something was refused.
async fn missing_rights(
    tenant: &TenantClient,
    secret: &str,
    end: &SecretWrite,
    watched: Option<WatchState>,
) -> Result<BTreeSet<Right>, String> {
    if !matches!(end, SecretWrite::Forbidden(_)) && watched != Some(WatchState::Refused) {
        return Ok(BTreeSet::new());
    }
    let needed = for_writer(&tenant.account.namespace, secret);
    missing(&tenant.client(), needed).await.map_err(|error| error.to_string())
}
