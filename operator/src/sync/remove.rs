//! Removes one stale copy, as the tenant.
//!
//! What is deleted is what was looked at: both carry their precondition, as in [`super::execute`].

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use weaver_api::ownership::Owner;
use weaver_client::call::{CallError, lookup};
use weaver_tenant::TenantClient;

use super::execute::{Mode, ROUNDS, delete, put, refusal};
use weaver_copies::metadata::{is_adopted, released};
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{StaleCopy, stale_copy};
use weaver_copies::sources::SpecSource;

/// Why a stale copy is still there.
#[derive(Clone, Debug, PartialEq)]
pub struct RemainingCopy {
    /// What was in the way.
    pub why: Hindrance,
    /// The tenant's identity saw our mark on it, just before.
    pub marked: bool,
}

/// What is in the way of a removal.
#[derive(Clone, Debug, PartialEq)]
pub enum Hindrance {
    /// The tenant lacks the right.
    Forbidden(Arc<str>),
    /// A policy or a webhook refused the removal.
    Rejected(Arc<str>),
    /// It was read, and its removal alone failed: by a webhook, or because someone changes it again and again.
    Obstructed(Arc<str>),
    Failed(Arc<str>),
    /// Others took so long that it had no turn.
    Untried,
}

impl RemainingCopy {
    /// The reason in words.
    pub fn text(&self) -> &str {
        match &self.why {
            Hindrance::Forbidden(text)
            | Hindrance::Rejected(text)
            | Hindrance::Obstructed(text)
            | Hindrance::Failed(text) => text,
            Hindrance::Untried => "others took too long, so it was not tried yet",
        }
    }
}

/// What became of the object at the key of a stale copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Removal {
    /// It was a copy of ours, and is gone; or would be, where it was only tried. One that was adopted is there
    /// still, and not ours any more.
    Removed,
    /// There was none of ours.
    Nothing,
    /// The upstream operator made it for this resource. It stays: nothing is deleted because of those ownership labels.
    UpstreamStays,
}

/// Removes the object at a key if it is a copy of `owner`; what is not ours, or is the source, stays. Stores
/// that only in [`Mode::Write`].
///
/// # Errors
/// Why a copy of ours may still be there.
pub async fn remove(
    tenant: &TenantClient,
    owner: &Owner,
    source: &SpecSource,
    ObjectKey { kind, namespace, name }: &ObjectKey,
    mode: Mode,
) -> Result<Removal, RemainingCopy> {
    let copies: Api<Object> = tenant.namespaced(kind, namespace);
    let metas: Api<PartialObjectMeta<Object>> = tenant.namespaced(kind, namespace);
    let mut marked = false;
    for _ in 0..ROUNDS {
        marked = false;
        let removed = match lookup(metas.get_metadata(name)).await {
            Ok(None) => return Ok(Removal::Nothing),
            Ok(Some(found)) => match stale_copy(owner, source, *kind, &found.metadata) {
                StaleCopy::Ours => {
                    marked = true;
                    if is_adopted(&found.metadata) {
                        release(&copies, &found.metadata, mode).await
                    } else {
                        delete(&copies, &found.metadata, mode).await
                    }
                }
                StaleCopy::Upstreams => return Ok(Removal::UpstreamStays),
                StaleCopy::Others => return Ok(Removal::Nothing),
            },
            Err(error) => Err(error),
        };
        let why = match removed {
            Ok(()) => return Ok(Removal::Removed),
            Err(CallError::Conflict(_)) => continue,
            Err(CallError::Forbidden(status)) => Hindrance::Forbidden(refusal(&status.message)),
            Err(CallError::Rejected(status)) => Hindrance::Rejected(refusal(&status.message)),
            // That of another's kind: it may stay so.
            Err(error) if error.is_failed_conversion() => Hindrance::Rejected(refusal(&error.to_string())),
            // The API server answered the read: it is a webhook of someone else's that hangs, fails, or refuses by a code
            // of its own.
            Err(error) if marked => Hindrance::Obstructed(refusal(&error.to_string())),
            Err(error) => Hindrance::Failed(refusal(&error.to_string())),
        };
        return Err(RemainingCopy { why, marked });
    }
    let text = format!("the object changed {ROUNDS} times while it was being removed");
    Err(RemainingCopy { why: Hindrance::Obstructed(text.into()), marked })
}

/// Removes our ownership labels and annotations from exactly the state `seen`; its content stays as it is.
async fn release(api: &Api<Object>, seen: &ObjectMeta, mode: Mode) -> Result<(), CallError> {
    let name = seen.name.as_deref().unwrap_or_default();
    let Some(mut object) = lookup(api.get(name)).await? else { return Ok(()) };
    // Written over is what was judged, and nothing newer.
    object.metadata = released(seen.clone());
    lookup(api.replace(name, &put(mode), &object)).await.map(drop)
}
