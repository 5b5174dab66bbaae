//! What runs in the cluster: our kinds, their conversion, the operator, what tenants asked for.
//!
//! With the rights of the person who types; what these do not show is said to be unknown.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DeserializeGuard, DynamicObject, Status};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;
use weaver_api::v1beta1::ConfigMapSync;
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, v1alpha1};
use weaver_diagnostics::catalogue;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_operator::tenant::Account;

use super::{Seen, Side};
use crate::{crd_diff, review};

/// For one request.
const PATIENCE: Duration = Duration::from_secs(15);
/// For one that a webhook answers: the API server itself waits 30 s for it.
const CONVERTING: Duration = Duration::from_secs(40);
/// The operator has seen a change long before.
const SEEN_BY: SignedDuration = SignedDuration::from_mins(1);
/// Resources that are named each; of more there is a count.
const NAMED: usize = 10;
/// Resources that are looked at.
pub const MOST: u32 = 1000;

/// Looks at everything.
pub async fn look(client: &Client) -> Vec<Seen> {
    let mut findings = definitions(client).await;
    if findings.is_empty() {
        findings.push(conversion(client).await);
    }
    if findings.iter().all(|finding| finding.severity != Severity::Fail) {
        findings.extend(resources(client).await);
    }
    findings.extend(minting(client).await);
    findings.into_iter().map(|finding| Seen { side: Side::Cluster, finding }).collect()
}

/// The answer in time, or what is to be said of there being none.
pub async fn asked<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, Box<Finding>> {
    asked_for(PATIENCE, what, call).await
}

async fn asked_for<T>(
    patience: Duration,
    what: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Box<Finding>> {
    let bad = |code, why: String| Box::new(catalogue::finding(code, format!("{what}: {why}")));
    match timeout(patience, call).await {
        Err(_) => Err(bad(Code::K3sNotAnswering, format!("no answer within {} s", patience.as_secs()))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(error))) => Err(bad(code_of(&error), error.message.clone())),
        Ok(Err(error)) => Err(bad(Code::K3sNotAnswering, error.to_string())),
    }
}

fn code_of(error: &Status) -> Code {
    match error.code {
        403 => Code::MayNotLook,
        404 => Code::DefinitionDiffers,
        _ if error.message.contains("conversion webhook") => Code::ConversionWebhookFailed,
        _ => Code::K3sNotAnswering,
    }
}

/// What is wrong with the definitions of our kinds.
async fn definitions(client: &Client) -> Vec<Finding> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut findings = Vec::new();
    for built_in in weaver_api::crds::all() {
        let name = built_in.name_any();
        let installed = match asked(&format!("looking for {name}"), api.get_opt(&name)).await {
            Ok(installed) => installed,
            Err(finding) => return vec![*finding],
        };
        let url = installed.as_ref().and_then(webhook_url).unwrap_or_default();
        let place = Place::file(name.clone());
        match crd_diff::between(installed.as_ref(), built_in, &url) {
            Ok(diff) if diff.is_empty() => {}
            Ok(_) if installed.is_none() => {
                let message = format!("{name} is not installed: nothing of ours works in this cluster");
                findings.push(catalogue::finding(Code::DefinitionDiffers, message).saw(place, "missing"));
            }
            Ok(diff) => {
                let message = format!("{name} is not as this version of weaver has it");
                let lines = diff.lines().filter(|line| line.starts_with(['+', '-'])).count();
                let mut finding = catalogue::finding(Code::DefinitionDiffers, message)
                    .saw(place, format!("{lines} lines differ"));
                // It may be the older one of the two, and still be right.
                finding.severity = Severity::Warn;
                findings.push(finding);
            }
            Err(error) => {
                findings.push(catalogue::finding(Code::DefinitionDiffers, format!("{name}: {error:#}")));
            }
        }
    }
    findings
}

fn webhook_url(installed: &CustomResourceDefinition) -> Option<String> {
    installed.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?.url.clone()
}

/// Has one object converted, which is not kept.
async fn conversion(client: &Client) -> Finding {
    let old = ApiResource::erase::<v1alpha1::ConfigMapSync>(&());
    // The context's own may not be there.
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &old);
    let object = DynamicObject::new("weaver-doctor", &old).data(json!({"spec": {"testNum": 1}}));
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let what = "having an object converted (dry run)";
    match asked_for(CONVERTING, what, api.create(&params, &object)).await {
        Ok(_) => {
            let message = "our kinds are installed, and an object was converted";
            Finding::new(Severity::Ok, Code::KindsOk, message)
        }
        Err(finding) => *finding,
    }
}

/// What tenants asked for.
async fn resources(client: &Client) -> Vec<Finding> {
    // One that does not parse is told, and hides no other.
    let api: Api<DeserializeGuard<ConfigMapSync>> = Api::all(client.clone());
    let list = match asked("listing ConfigMapSyncs", api.list(&ListParams::default().limit(MOST))).await {
        Ok(list) => list,
        Err(finding) => return vec![*finding],
    };
    let now = Timestamp::now();
    let judged = list.iter().filter_map(|guard| match &guard.0 {
        Ok(sync) => judge(sync, now),
        Err(error) => Some(not_understood(&error.metadata, &error.error)),
    });
    let mut bad: Vec<Finding> = judged.collect();
    let more = bad.len().saturating_sub(NAMED);
    bad.truncate(NAMED);
    if more > 0 {
        let message = format!("{more} more ConfigMapSyncs are not as they should be: `kubectl get cms -A`");
        bad.push(Finding::new(Severity::Warn, Code::SyncNotReady, message));
    }
    bad
}

fn not_understood(metadata: &ObjectMeta, why: &str) -> Finding {
    let name =
        [&metadata.namespace, &metadata.name].map(|part| part.as_deref().unwrap_or_default()).join("/");
    let message = format!("{name} is not understood by this version: {why}");
    catalogue::finding(Code::SyncNotReady, message)
        .saw(Place::file(format!("ConfigMapSync {name}")), "not understood")
}

fn judge(sync: &ConfigMapSync, now: Timestamp) -> Option<Finding> {
    let (namespace, name) = (sync.namespace().unwrap_or_default(), sync.name_any());
    let place = Place::file(format!("ConfigMapSync {namespace}/{name}"));
    // On its way out it has a generation more, which no status will ever show.
    if sync.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = sync.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    let changed = changed_at(sync)?;
    if observed < sync.metadata.generation && now.duration_since(changed) > SEEN_BY {
        let message =
            format!("{namespace}/{name} was changed at {changed:.0}, and nobody has looked at it since");
        return Some(
            catalogue::finding(Code::NobodyActs, message)
                .saw(place, format!("observed generation {}", observed.unwrap_or(0))),
        );
    }
    let ready = status?.conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let paused =
        status?.conditions.iter().any(|condition| condition.type_ == "Paused" && condition.status == "True");
    if ready.status == "True" || paused {
        return None;
    }
    let first = ready.message.lines().next().unwrap_or_default();
    let message = format!("{namespace}/{name} is not ready ({}): {first}", ready.reason);
    let remedy = Remedy::new("see what it says, and follow that")
        .command(format!("weaver sync explain {name} -n {namespace}"));
    Some(
        Finding::new(Severity::Warn, Code::SyncNotReady, message)
            .saw(place, format!("Ready={}", ready.status))
            .remedy(remedy),
    )
}

/// When its spec was last written, as far as its managers tell.
fn changed_at(sync: &ConfigMapSync) -> Option<Timestamp> {
    let managed = sync.metadata.managed_fields.iter().flatten();
    let of_spec = managed.filter(|entry| entry.subresource.is_none()).filter_map(|entry| entry.time.as_ref());
    of_spec.chain(&sync.metadata.creation_timestamp).map(|time| time.0).max()
}

/// Whether the operator may act as everybody.
async fn minting(client: &Client) -> Option<Finding> {
    let operator = Account { namespace: OPERATOR_NAMESPACE.into(), name: OPERATOR_ACCOUNT.into() };
    let what = ResourceAttributes {
        verb: Some("create".into()),
        resource: Some("serviceaccounts".into()),
        subresource: Some("token".into()),
        ..ResourceAttributes::default()
    };
    match timeout(PATIENCE, review::allowed(client, &operator, what)).await {
        Ok(Ok(true)) => Some(catalogue::finding(
            Code::MintingTooWide,
            "the operator may mint tokens of every account of the cluster, not only of those that tenants allowed",
        )),
        // Who may not ask about others has nothing to mend here either.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(generation: i64, status: &serde_json::Value) -> ConfigMapSync {
        serde_json::from_value(json!({
            "apiVersion": "weaver.example.com/v1beta1",
            "kind": "ConfigMapSync",
            "metadata": {"name": "a", "namespace": "t", "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"serviceAccountName": "s", "source": {"name": "x"}, "targets": {"namespaces": ["n"]}},
            "status": status,
        }))
        .unwrap()
    }

    fn condition(type_: &str, status: &str) -> serde_json::Value {
        json!({"type": type_, "status": status, "reason": "Why", "message": "because\nof", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn which_resources_are_worth_a_word() {
        let ready =
            |status: &str| json!({"observedGeneration": 1, "conditions": [condition("Ready", status)]});
        let paused = json!({"observedGeneration": 1, "conditions": [condition("Ready", "False"), condition("Paused", "True")]});
        let late: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        let soon: Timestamp = "2026-01-01T00:00:30Z".parse().unwrap();
        for (generation, status, now, want) in [
            (1, ready("True"), late, None),
            (1, ready("False"), late, Some(Code::SyncNotReady)),
            (1, ready("Unknown"), late, Some(Code::SyncNotReady)),
            (1, paused, late, None),
            (2, ready("True"), late, Some(Code::NobodyActs)),
            (2, ready("True"), soon, None),
            (1, json!(null), late, Some(Code::NobodyActs)),
            (1, json!(null), soon, None),
        ] {
            let found = judge(&sync(generation, &status), now);
            assert_eq!(found.as_ref().map(|finding| finding.code), want, "{generation} {status}");
            if let Some(finding) = found.filter(|finding| finding.code == Code::SyncNotReady) {
                assert!(finding.message.ends_with("(Why): because"), "{}", finding.message);
                assert_eq!(finding.remedy.unwrap().commands, ["weaver sync explain a -n t"]);
            }
        }
    }
}
