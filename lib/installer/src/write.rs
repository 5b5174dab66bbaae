//! How an object that is ours is written: compared first, and with the version that was read as the precondition.

use std::fmt;

use k8s_openapi::ClusterResourceScope;
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_client::call::{CallError, call, lookup};

use super::report::{InstallError, InstallOutcome, Installed, failed};

/// Sent with every write, so that `--show-managed-fields` shows who wrote a definition.
pub(super) const MANAGER: &str = "weaver-crd-installer";

/// How often someone else may write between our reading and our writing.
pub(super) const ROUNDS: usize = 5;

/// Makes the object where it is not there, and replaces it by what `other` makes of it, if anything, which also says
/// what of it that changes. Returns what was done, and the object as it is now.
pub(super) async fn ensure<K>(
    client: &Client,
    wanted: &K,
    other: impl Fn(&K) -> Option<(K, &'static str)>,
) -> Result<(Installed, K), InstallError>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.into()) };
    let id = wanted.name_any();
    let name = format!("{}/{id}", K::kind(&()).to_lowercase());
    let done = |outcome| Installed { name: name.clone(), outcome, warnings: Vec::new() };
    for _ in 0..ROUNDS {
        let found = lookup(api.get(&id)).await.map_err(failed(format!("reading {name}")))?;
        let (outcome, written) = match found {
            None => (InstallOutcome::Created, call(api.create(&params, wanted)).await),
            Some(found) => match other(&found) {
                None => return Ok((done(InstallOutcome::Unchanged), found)),
                Some((with, what)) => {
                    let written = call(api.replace(&id, &params, &with)).await;
                    (InstallOutcome::Replaced(vec![what.into()]), written)
                }
            },
        };
        match written {
            Ok(now) => return Ok((done(outcome), now)),
            // Made, changed or deleted since it was read.
            Err(CallError::Conflict(_) | CallError::NotFound(_)) => {}
            Err(error) => return Err(failed(format!("writing {name}"))(error)),
        }
    }
    Err(InstallError::Contested(name))
}
