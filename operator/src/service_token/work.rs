//! One reconciliation of a `ServiceToken`: look at the accounts and the Secret, fill it, say what came of it.
//!
//! Level-triggered: a reconciliation never asks why it was called. Of the accounts the operator reads the
//! metadata alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use weaver_api::convert;
use weaver_api::marks::ALLOW_TOKENS_LABEL;
use weaver_api::v1beta1::{ServiceToken, SourceKind};
use weaver_api::validate::{ValidServiceToken, validate_token};
use weaver_tenant::review::missing;
use weaver_tenant::watch::{Selector, WatchState};
use weaver_tenant::{Account, TenantClient};

use super::Context;
use super::fill::{Done, Job};
use super::outcome::{End, Outcome, Work};
use super::plan;
use super::secret::Desired;
use super::state::TokenState;
use crate::controller::state::Entry;
use crate::watch::{Interest, WatchKey, seen};
use weaver_client::call::lookup;
use weaver_copies::copy::owner;
use weaver_copies::plan::SeenCopy;
use weaver_copies::rights::{Right, for_writer};

/// Works on `resource` once; `None` where it turns out to be on its way out.
pub async fn work(
    context: &Context,
    entry: &Entry<TokenState>,
    state: &mut TokenState,
    resource: &ServiceToken,
) -> Option<Outcome> {
    let lost = convert::lost(&resource.metadata).map(|fault| Err(vec![fault]));
    let asked = match lost.unwrap_or_else(|| validate_token(resource.desired())) {
        Ok(asked) => asked,
        Err(faults) => return Some(Outcome::InvalidSpec(faults)),
    };
    let owner = owner(resource);
    let writer = Account { namespace: owner.namespace.clone(), name: asked.writer.clone() };
    entry.uses(&writer);
    let tenant = match context.tenants.client(&writer).await {
        Ok(tenant) => tenant,
        Err(error) => return Some(Outcome::NoToken(error)),
    };
    let secret = asked.secret_name.clone().unwrap_or_else(|| owner.name.clone());
    let watch = join(context, entry, state, &tenant, &secret);
    let settled = async {
        match &watch {
            Some(watch) => Some(watch.settled().await),
            None => None,
        }
    };
    let (watched, accounts) = futures::join!(settled, accounts(&context.client, &writer.namespace, &asked));
    state.watch = watch;
    let shown = shown(state, &writer.namespace, &secret);
    let desired = Desired::new(owner, resource, &secret);
    let job = Job {
        operator: &context.client,
        tenant: &tenant,
        clock: &context.own,
        asked: &asked,
        desired: &desired,
        accounts,
        oldest: context.options.service_token_age,
    };
    let Done { end, keys, minted, known, next, sent } =
        job.run(shown.as_deref(), state.known.as_ref()).await?;
    if known.is_some() || end == End::Written {
        state.known = known;
    }
    let missing = missing_rights(&tenant, &secret, &end, watched).await;
    if let (Some(watch), Ok(missing)) = (&state.watch, &missing)
        && !missing.iter().any(Right::is_for_watching)
    {
        watch.try_again();
    }
    Some(Outcome::Worked(Box::new(Work {
        writer,
        secret,
        end,
        keys,
        minted,
        missing,
        sent,
        next: next.map(|due| (due, context.own.now())),
    })))
}

/// The watch on the Secret; the one that is open, if it is that.
fn join(
    context: &Context,
    entry: &Entry<TokenState>,
    state: &mut TokenState,
    tenant: &TenantClient,
    secret: &str,
) -> Option<Interest> {
    let key = WatchKey {
        account: tenant.account.clone(),
        uid: tenant.uid.clone(),
        kind: SourceKind::Secret,
        namespace: Some(tenant.account.namespace.clone()),
        selector: Selector::Name(secret.to_owned()),
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
        SeenCopy::Unknown | SeenCopy::Marks(_) => None,
    }
}

/// What is known of the accounts whose tokens are asked for, or why it is not.
async fn accounts(
    operator: &Client,
    namespace: &str,
    asked: &ValidServiceToken,
) -> BTreeMap<String, Result<plan::Account, String>> {
    let names: BTreeSet<&String> = asked.tokens.iter().map(|token| &token.account).collect();
    let looked_up: Vec<_> = names.into_iter().map(|name| account(operator, namespace, name)).collect();
    join_all(looked_up).await.into_iter().collect()
}

async fn account(operator: &Client, namespace: &str, name: &str) -> (String, Result<plan::Account, String>) {
    let accounts: Api<ServiceAccount> = Api::namespaced(operator.clone(), namespace);
    let agrees = |account: &PartialObjectMeta<ServiceAccount>| {
        account.labels().get(ALLOW_TOKENS_LABEL).is_some_and(|value| value == "true")
    };
    let account = match lookup(accounts.get_metadata(name)).await {
        Ok(None) => Ok(plan::Account::Missing),
        // On its way out, its tokens are refused already.
        Ok(Some(account)) if account.metadata.deletion_timestamp.is_some() => Ok(plan::Account::Missing),
        Ok(Some(account)) if agrees(&account) => {
            Ok(plan::Account::Willing { uid: account.uid().unwrap_or_default() })
        }
        Ok(Some(_)) => Ok(plan::Account::Unwilling),
        Err(error) => Err(error.to_string()),
    };
    (name.to_owned(), account)
}

/// What the writer lacks, where something was refused.
async fn missing_rights(
    tenant: &TenantClient,
    secret: &str,
    end: &End,
    watched: Option<WatchState>,
) -> Result<BTreeSet<Right>, String> {
    if !matches!(end, End::Forbidden(_)) && watched != Some(WatchState::Refused) {
        return Ok(BTreeSet::new());
    }
    let needed = for_writer(&tenant.account.namespace, secret);
    missing(&tenant.client(), needed).await.map_err(|error| error.to_string())
}
