//! Brings one target to its desired state, as the tenant.
//!
//! Every write carries its own precondition, so what changes between a look and a write is never lost: create
//! is POST (409 if anything is there), update is PUT with the uid and resourceVersion that were seen, delete
//! has both as preconditions. On a 409 the object is read and judged again, a few times at most.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, GetParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::Status;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tracing::info;
use weaver_api::conditions::bounded;
use weaver_api::kind::ObjectKind;
use weaver_client::call::{CallError, call, is_terminating, lookup};
use weaver_tenant::TenantClient;

use super::write::{create, replace};
use crate::log_code;
use weaver_copies::copy::DesiredCopy;
use weaver_copies::kinds::staying_on;
use weaver_copies::metadata::adopted;
use weaver_copies::object::Object;
use weaver_copies::plan::{
    CopyStep, Foreign, PreviousOwner, Takes, Verified, by_object, keeps_from_replacing,
};

/// Name under which our writes are in `managedFields`.
const FIELD_MANAGER: &str = "weaver-operator";

/// What is added where a copy could be made again, and not be updated.
const REPLACE: &str = "spec.immutablePolicy: Replace deletes such a copy and makes it again";

/// Longest time until the copies of one pass are written, and again for what it removes. There may be ten thousand
/// requests, each of which is given up within seconds; and what does not end in half an hour is taken for a
/// reconciliation that hangs, and ends the operator ([`crate::health`]).
pub(super) const LONGEST_PASS: Duration = Duration::from_mins(8);
/// Longest time for each look at what there may be thousands of, such as namespaces to review rights in.
const LONGEST_LOOK: Duration = Duration::from_mins(4);

/// How often one reconciliation judges a target that keeps changing under its hands.
pub(super) const ROUNDS: usize = 4;

/// Whether a reconciliation writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Read only: the resource does not have our finalizer yet.
    Look,
    /// It has the API server judge each write, and store none (`spec.dryRun`).
    Try,
    Write,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CopyChange {
    Create,
    /// It differs, and was whose this says.
    Update(PreviousOwner),
    /// It differs, and is immutable or a Secret of another type.
    Replace,
}

/// How a target ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetState {
    /// It has the copy, after this change if one was needed.
    Synced(Verified, Option<CopyChange>),
    /// It would be written, but the resource does not have our finalizer yet.
    WithoutFinalizer,
    /// It would be written so; the API server had nothing against it.
    Planned(CopyChange),
    /// The namespace does not exist, says the API server to the tenant.
    NamespaceMissing,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// This operator serves other namespaces only.
    NotServed,
    /// Those who answer for the namespace let in no copies from the tenant's.
    NotAccepted,
    /// Those who answer for the source's namespace let no copies of it out to this one.
    NotOffered,
    /// Something else is there, untouched.
    Conflict(Foreign),
    /// The API server refused the tenant: for want of rights, or by a quota, a policy or a webhook that says
    /// so with 403.
    Forbidden(Arc<str>),
    /// Refused for what it is: by the API server, or by a policy or a webhook.
    Rejected(Arc<str>),
    Failed(Arc<str>),
}

/// What the API server says is kept of each of ten thousand targets, and may repeat what a tenant wrote.
const LONGEST_REFUSAL: usize = 512;

/// As it is kept of a target.
pub(super) fn refusal(text: &str) -> Arc<str> {
    bounded(text, LONGEST_REFUSAL).into()
}

impl TargetState {
    /// Does it have the copy?
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced(..))
    }

    /// Will a watch event report when there is something else to do? A namespace's creation and its consent are
    /// watched; one that is being deleted has no remedy, and one that is not served stays so until a restart.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Synced(..)
            | Self::Planned(_)
            | Self::NamespaceMissing
            | Self::NamespaceTerminating
            | Self::NotServed
            | Self::NotAccepted
            | Self::NotOffered => true,
            Self::WithoutFinalizer
            | Self::Conflict(_)
            | Self::Forbidden(_)
            | Self::Rejected(_)
            | Self::Failed(_) => false,
        }
    }

    /// Is there nothing that could still be taken over from the upstream operator? It has our copy, or cannot have one
    /// of upstream's, or has an object that is not ours to take.
    pub fn ends_upgrade(&self) -> bool {
        match self {
            // Upstream's copy may be there, and be ours to take once it is let in.
            Self::Planned(_) | Self::NotAccepted | Self::NotOffered => false,
            Self::Conflict(_) => true,
            state => state.is_settled(),
        }
    }

    /// What the API server said, where it said something.
    pub fn words(&self) -> &str {
        match self {
            Self::Forbidden(words) | Self::Rejected(words) | Self::Failed(words) => words,
            Self::Conflict(Foreign::Other { holder: words, .. } | Foreign::Tokens(words)) => words,
            _ => "",
        }
    }

    /// Is it left alone for a while before it is tried again? When another's copy is deleted, a watch reports it.
    pub fn backs_off(&self) -> bool {
        match self {
            Self::Conflict(Foreign::Other { .. }) => false,
            Self::Conflict(_) | Self::Failed(_) | Self::Forbidden(_) | Self::Rejected(_) => true,
            _ => false,
        }
    }
}

/// Executes `step` on the target in `namespace`, and what follows from it, as far as `mode` allows. What it reads first
/// is [at least as new](look) as the state that a watch has `shown`.
pub async fn target(
    tenant: &TenantClient,
    desired: &DesiredCopy,
    takes: Takes<'_>,
    namespace: &str,
    (mut step, mut shown): (CopyStep, Option<String>),
    mode: Mode,
) -> TargetState {
    let copies: Api<Object> = tenant.namespaced(&desired.kind, namespace);
    // Why the last update was refused, while it may still be because the copy is immutable.
    let mut refused: Option<Arc<str>> = None;
    // What an update has to leave as it is.
    let mut staying = Vec::new();
    for _ in 0..ROUNDS {
        let done = match &step {
            CopyStep::Inspect => {
                inspect(&copies, desired, takes, namespace, (shown.as_deref(), refused.take())).await
            }
            step => carry_out(&copies, desired, namespace, step, &staying, mode).await,
        };
        // What comes next is due to another state.
        shown = None;
        match done.map_err(|error| follow_up(error, &step)) {
            Ok(Next::Ended(state)) | Err(Next::Ended(state)) => return state,
            Ok(Next::Step(next, kept)) | Err(Next::Step(next, kept)) => (step, staying) = (next, kept),
            Ok(Next::Inspect { why }) | Err(Next::Inspect { why }) => {
                refused = why;
                step = CopyStep::Inspect;
            }
        }
    }
    TargetState::Failed(format!("the object changed {ROUNDS} times while it was being written").into())
}

/// Fields of an object that an update has to leave as they are.
type Staying = Vec<(&'static [&'static str], Value)>;

/// What follows from a step on a target.
enum Next {
    Ended(TargetState),
    /// Do this, where an update has to leave that as it is.
    Step(CopyStep, Staying),
    /// Look at it again. `why` the API server refused the update, if it did.
    Inspect {
        why: Option<Arc<str>>,
    },
}

/// Reads the object, and judges it. `refused` is why an update of it was refused just before.
async fn inspect(
    copies: &Api<Object>,
    desired: &DesiredCopy,
    takes: Takes<'_>,
    namespace: &str,
    (shown, refused): (Option<&str>, Option<Arc<str>>),
) -> Result<Next, CallError> {
    let _whole = whole(desired.kind).await;
    let found = lookup(look(copies, &desired.name, shown)).await?;
    Ok(match (by_object(desired, takes, found.as_ref()), refused) {
        (CopyStep::Keep, _) => Next::Ended(synced(found.map(|found| found.metadata), desired, None, None)),
        (CopyStep::Update(PreviousOwner::Ours, seen), Some(words))
            if !desired.kind.is_of_config_map_sync() =>
        {
            let is_in_the_way = would_be_made(copies, desired, namespace).await?;
            match (is_in_the_way, keeps_from_replacing(desired, &seen), takes.immutable) {
                (false, ..) => Next::Ended(TargetState::Rejected(words)),
                (true, Some(why), _) => Next::Ended(TargetState::Rejected(format!("{words}; {why}").into())),
                (true, None, true) => Next::Step(CopyStep::Replace(seen), Staying::new()),
                (true, None, false) => {
                    Next::Ended(TargetState::Rejected(format!("{words}; {REPLACE}").into()))
                }
            }
        }
        // It is not immutability that refuses the update: the refusal is meant.
        (CopyStep::Update(..), Some(words)) => Next::Ended(TargetState::Rejected(words)),
        (next, _) => Next::Step(next, found.as_ref().map(staying_on).unwrap_or_default()),
    })
}

/// Limit on whole objects of any kind in memory at once, in all reconciliations: one takes many times its JSON.
static WHOLE: Semaphore = Semaphore::const_new(32);
/// The same for ConfigMaps and Secrets, which take three times their megabyte. No webhook of another's kind delays them.
static CONFIGURATION: Semaphore = Semaphore::const_new(16);

/// Waits until an object of `kind` may be read whole.
pub async fn whole(kind: ObjectKind) -> Option<SemaphorePermit<'static>> {
    let limit = if kind.is_of_config_map_sync() { &CONFIGURATION } else { &WHOLE };
    // It is never closed.
    limit.acquire().await.ok()
}

/// Waits until a list of ConfigMaps or Secrets may be read whole, which may have as much as eight of the largest.
pub(super) async fn whole_list() -> Option<SemaphorePermit<'static>> {
    CONFIGURATION.acquire_many(8).await.ok()
}

/// Reads an object. Where a watch has `shown` a state of it, what is read is that or a newer one: an API server has it
/// in memory, and the newest of all in its database alone.
pub(super) async fn look(objects: &Api<Object>, name: &str, shown: Option<&str>) -> kube::Result<Object> {
    /// What an API server answers that has not seen the state that another one has shown.
    const GATEWAY_TIMEOUT: u16 = 504;
    let Some(shown) = shown else { return objects.get(name).await };
    match objects.get_with(name, &GetParams::at(shown)).await {
        Err(kube::Error::Api(status)) if status.code == GATEWAY_TIMEOUT => objects.get(name).await,
        answer => answer,
    }
}

/// Gives up `look`, which writes nothing, after [`LONGEST_LOOK`]; `what` it is, for the error.
pub(super) async fn in_time<T>(
    what: &str,
    look: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let late = || CallError::Late(format!("{what} took more than {} min", LONGEST_LOOK.as_secs() / 60));
    timeout(LONGEST_LOOK, look).await.unwrap_or_else(|_| Err(late()))
}

/// Would the API server take the copy, were nothing there? Then it is what is there that it does not let be updated. It
/// judges an object before it looks whether there is one of its name.
async fn would_be_made(
    copies: &Api<Object>,
    desired: &DesiredCopy,
    namespace: &str,
) -> Result<bool, CallError> {
    match call(create(copies, &put(Mode::Try), desired.create_json(namespace))).await {
        Ok(_) | Err(CallError::Conflict(_)) => Ok(true),
        Err(CallError::Rejected(_) | CallError::Forbidden(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes what `step` asks for.
async fn carry_out(
    copies: &Api<Object>,
    desired: &DesiredCopy,
    namespace: &str,
    step: &CopyStep,
    staying: &Staying,
    mode: Mode,
) -> Result<Next, CallError> {
    let params = put(mode);
    let (written, change) = match step {
        CopyStep::Inspect => return Ok(Next::Inspect { why: None }),
        CopyStep::Refuse(foreign) => return Ok(Next::Ended(TargetState::Conflict(foreign.clone()))),
        // Only a verified copy is kept unread, and the caller has that verification.
        CopyStep::Keep => {
            return Ok(Next::Ended(TargetState::Failed(
                "internal error: a copy was kept without a check".into(),
            )));
        }
        CopyStep::Create | CopyStep::Update(..) | CopyStep::Replace(_) if mode == Mode::Look => {
            return Ok(Next::Ended(TargetState::WithoutFinalizer));
        }
        CopyStep::Create => {
            (call(create(copies, &params, desired.create_json(namespace))).await?, CopyChange::Create)
        }
        CopyStep::Update(before, seen) => {
            let mut metadata = desired.update_metadata(seen);
            if *before == PreviousOwner::Theirs {
                metadata = adopted(metadata);
            }
            let json = desired.json(&metadata, staying);
            (call(replace(copies, &desired.name, &params, json)).await?, CopyChange::Update(*before))
        }
        CopyStep::Replace(seen) => {
            delete(copies, seen, mode).await?;
            if mode == Mode::Try {
                // What is there still is in the way of trying more.
                return Ok(Next::Ended(TargetState::Planned(CopyChange::Replace)));
            }
            (call(create(copies, &params, desired.create_json(namespace))).await?, CopyChange::Replace)
        }
    };
    if mode != Mode::Write {
        return Ok(Next::Ended(TargetState::Planned(change)));
    }
    if let CopyChange::Update(before @ (PreviousOwner::Upstreams | PreviousOwner::Theirs)) = change {
        info!(
            code = log_code::TAKEN_OVER, owner = %desired.owner, copy = %desired.object_key(namespace), ?before,
            "took over an object"
        );
    }
    let replaced = match step {
        CopyStep::Update(_, seen) => seen.resource_version.clone(),
        _ => None,
    };
    Ok(Next::Ended(synced(Some(written), desired, Some(change), replaced)))
}

/// What a failed `step` shows of the target. Pure.
fn follow_up(error: CallError, step: &CopyStep) -> Next {
    Next::Ended(match error {
        // Something is there that was not, or is not what it was: look at it.
        CallError::Conflict(_) => return Next::Inspect { why: None },
        // It vanished between look and write; where we were creating, the namespace is what is missing.
        CallError::NotFound(_) if *step != CopyStep::Create => return Next::Inspect { why: None },
        // What the copy refers to, such as the Role of a RoleBinding: it may come.
        CallError::NotFound(status) if is_of_another(&status) => {
            TargetState::Failed(refusal(&status.message))
        }
        CallError::NotFound(_) => TargetState::NamespaceMissing,
        CallError::Rejected(status) if matches!(step, CopyStep::Update(..)) => {
            return Next::Inspect { why: Some(refusal(&status.message)) };
        }
        CallError::Forbidden(status) if is_terminating(&status) => TargetState::NamespaceTerminating,
        CallError::Forbidden(status) => TargetState::Forbidden(refusal(&status.message)),
        CallError::Rejected(status) => TargetState::Rejected(refusal(&status.message)),
        error @ (CallError::TooLarge | CallError::Late(_) | CallError::Transient(_)) => {
            TargetState::Failed(refusal(&error.to_string()))
        }
    })
}

/// Does a 404 of a create name something else than its namespace?
fn is_of_another(status: &Status) -> bool {
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    kind.is_some_and(|kind| !kind.is_empty() && kind != "namespaces")
}

/// How an object is written in `mode`.
pub(super) fn put(mode: Mode) -> PostParams {
    PostParams { dry_run: mode != Mode::Write, field_manager: Some(FIELD_MANAGER.into()) }
}

/// Deletes exactly the state `seen`; "not there" is done.
pub(super) async fn delete(api: &Api<Object>, seen: &ObjectMeta, mode: Mode) -> Result<(), CallError> {
    let preconditions =
        Preconditions { uid: seen.uid.clone(), resource_version: seen.resource_version.clone() };
    let dry_run = mode != Mode::Write;
    // Some old kinds would leave what they own, such as a ReplicationController its Pods.
    let propagation_policy = Some(PropagationPolicy::Background);
    let params = DeleteParams {
        dry_run,
        preconditions: Some(preconditions),
        propagation_policy,
        ..DeleteParams::default()
    };
    lookup(api.delete(seen.name.as_deref().unwrap_or_default(), &params)).await.map(drop)
}

fn synced(
    meta: Option<ObjectMeta>,
    desired: &DesiredCopy,
    change: Option<CopyChange>,
    replaced: Option<String>,
) -> TargetState {
    match meta.and_then(|meta| Verified::new(&meta, desired, replaced)) {
        Some(verified) => TargetState::Synced(verified, change),
        None => TargetState::Failed("the API server answered with an object without uid".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    use super::*;

    /// An API server with state 5 in its memory, and state 7 in its database.
    fn answer(request: &Request<Body>) -> Result<Response<Body>, BoxError> {
        let object = |version: &str| {
            let metadata = json!({"name": "settings", "namespace": "foo", "resourceVersion": version});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        };
        let query = request.uri().query().unwrap_or_default();
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let (code, answer): (u16, Value) = match version {
            None => (200, object("7")),
            Some("5") => (200, object("5")),
            Some(_) => (
                504,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Timeout", "code": 504,
                       "message": "Too large resource version: 6, current: 5"}),
            ),
        };
        Ok(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?)
    }

    #[tokio::test]
    async fn what_a_watch_has_shown_is_read_from_memory_and_what_is_not_there_yet_from_the_database() {
        let server = tower::service_fn(|request: Request<Body>| ready(answer(&request)));
        let client = Client::new(server, "default");
        let objects: Api<Object> = Api::namespaced_with(client, "foo", &ObjectKind::CONFIG_MAP);
        for (shown, read) in [(Some("5"), "5"), (None, "7"), (Some("6"), "7")] {
            let found = look(&objects, "settings", shown).await.unwrap();
            assert_eq!(found.metadata.resource_version.as_deref(), Some(read), "{shown:?}");
        }
    }
}
