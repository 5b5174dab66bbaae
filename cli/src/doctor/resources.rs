//! What tenants requested, and its state: resources of both kinds that need attention.

use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::ListParams;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use weaver_api::v1beta1::{ConfigMapSync, ResourceSync, ServiceToken};
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};
use weaver_diagnostics::finding_text::quoted;

use super::ask::each_page;
use crate::connection;

/// The operator has seen a change long before.
const SEEN_BY: SignedDuration = SignedDuration::from_mins(1);
/// Resources in one part of a list: each may have 3 MiB, and of an answer 64 MiB are read.
const PAGE: u32 = 20;
/// Resources that are named individually; beyond that there is a count.
const NAMED: usize = 10;
/// The most characters of a resource's own message.
const LONGEST: usize = 300;

/// A kind that tenants create.
trait TenantKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned
{
    /// Short name, for kubectl.
    const SHORT: &'static str;
    /// The command that shows more about a resource that is not ready.
    const MORE: &'static str;

    /// The generation that its status is about, and its conditions; `None` without a status.
    fn observed(&self) -> Option<(Option<i64>, &[Condition])>;
}

macro_rules! tenant_kinds {
    ($($kind:ident $short:literal $more:literal;)*) => {
        $(impl TenantKind for $kind {
            const SHORT: &'static str = $short;
            const MORE: &'static str = $more;

            fn observed(&self) -> Option<(Option<i64>, &[Condition])> {
                self.status.as_ref().map(|status| (status.observed_generation, status.conditions.as_slice()))
            }
        })*
    };
}

tenant_kinds! {
    ConfigMapSync "cms" "weaver sync explain";
    ResourceSync "rsync" "weaver sync explain";
    ServiceToken "svctok" "kubectl describe servicetoken";
}

/// Those that need attention, in all namespaces or in one.
pub async fn look(client: &Client, namespace: Option<&str>) -> Vec<Finding> {
    let mut findings = of_kind::<ConfigMapSync>(client, namespace).await;
    findings.extend(of_kind::<ResourceSync>(client, namespace).await);
    findings.extend(of_kind::<ServiceToken>(client, namespace).await);
    findings
}

async fn of_kind<K: TenantKind>(client: &Client, namespace: Option<&str>) -> Vec<Finding> {
    // One that does not parse is reported, and hides no other.
    let api: Api<DeserializeGuard<K>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let within = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    let what = format!("listing {}s{within}", K::kind(&()));
    let now = Timestamp::now();
    let (mut bad, mut more) = (Vec::new(), 0);
    let listed = each_page(&what, api, ListParams::default().limit(PAGE), |page| {
        if page.is_first {
            (bad, more) = (Vec::new(), 0);
        }
        for finding in page.items.iter().filter_map(|guard| judged(guard, now)) {
            if bad.len() < NAMED { bad.push(finding) } else { more += 1 }
        }
    });
    if let Err(finding) = listed.await {
        bad.push(*finding);
    }
    if more > 0 {
        let (kind, short) = (K::kind(&()), K::SHORT);
        let of = namespace.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
        let flags = connection::flags();
        let message = format!("{more} more {kind}s have problems: `kubectl get {short} {of}{flags}`");
        // Where it was seen leads a page to all of them.
        bad.push(Finding::new(Code::SyncNotReady, message).saw(Place::file(kind), format!("{more} more")));
    }
    bad
}

fn judged<K: TenantKind>(guard: &DeserializeGuard<K>, now: Timestamp) -> Option<Finding> {
    match &guard.0 {
        Ok(resource) => judge(resource, now),
        Err(error) => Some(parse_failed::<K>(&error.metadata, &error.error)),
    }
}

fn parse_failed<K: TenantKind>(metadata: &ObjectMeta, why: &str) -> Finding {
    let name =
        [&metadata.namespace, &metadata.name].map(|part| part.as_deref().unwrap_or_default()).join("/");
    let message = format!("{name} cannot be parsed by this version: {why}");
    Finding::new(Code::SyncNotReady, message)
        .saw(Place::file(format!("{} {name}", K::kind(&()))), "not understood")
}

fn judge<K: TenantKind>(resource: &K, now: Timestamp) -> Option<Finding> {
    let (namespace, name) = (resource.namespace().unwrap_or_default(), resource.name_any());
    let place = Place::file(format!("{} {namespace}/{name}", K::kind(&())));
    // While it is being deleted it has one more generation, which no status will ever show.
    if resource.meta().deletion_timestamp.is_some() {
        return None;
    }
    let status = resource.observed();
    let observed = status.and_then(|(observed, _)| observed);
    let changed = changed_at(resource.meta())?;
    if observed < resource.meta().generation && now.duration_since(changed) > SEEN_BY {
        let message =
            format!("{namespace}/{name} was changed at {changed:.0}, and has not been reconciled since");
        return Some(
            Finding::new(Code::NoOperator, message)
                .saw(place, format!("observed generation {}", observed.unwrap_or(0))),
        );
    }
    let (_, conditions) = status?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let paused = conditions.iter().any(|condition| condition.type_ == "Paused" && condition.status == "True");
    if ready.status == "True" || paused {
        return None;
    }
    // Anyone who may write the status controls this text.
    let said = format!("({}) {}", ready.reason, ready.message.lines().next().unwrap_or_default());
    let message = format!("{namespace}/{name} is not ready");
    let remedy = Remedy::new("read its conditions and follow their remedy")
        .command(format!("{} {name} -n {namespace}", K::MORE));
    Some(
        Finding::new(Code::SyncNotReady, message)
            .saw(place, format!("Ready={}, message {}", ready.status, quoted(&said, LONGEST)))
            .remedy(remedy),
    )
}

/// When its spec was last written, according to its managed fields.
fn changed_at(meta: &ObjectMeta) -> Option<Timestamp> {
    let managed = meta.managed_fields.iter().flatten();
    let of_spec = managed.filter(|entry| entry.subresource.is_none()).filter_map(|entry| entry.time.as_ref());
    of_spec.chain(&meta.creation_timestamp).map(|time| time.0).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            (2, ready("True"), late, Some(Code::NoOperator)),
            (2, ready("True"), soon, None),
            (1, json!(null), late, Some(Code::NoOperator)),
            (1, json!(null), soon, None),
        ] {
            let found = judge(&sync(generation, &status), now);
            assert_eq!(found.as_ref().map(|finding| finding.code), want, "{generation} {status}");
            if let Some(finding) = found.filter(|finding| finding.code == Code::SyncNotReady) {
                assert!(finding.evidence[0].saw.ends_with("\"(Why) because\""), "{finding:?}");
                assert_eq!(finding.remedy.unwrap().commands, ["weaver sync explain a -n t"]);
            }
        }
    }

    #[test]
    fn a_service_token_is_judged_alike_and_explained_by_kubectl() {
        let token: ServiceToken = serde_json::from_value(json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken",
            "metadata": {"name": "a", "namespace": "t", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"observedGeneration": 1, "conditions": [condition("Ready", "False")]},
        }))
        .unwrap();
        let finding = judge(&token, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(finding.code, Code::SyncNotReady);
        assert_eq!(finding.remedy.unwrap().commands, ["kubectl describe servicetoken a -n t"]);
    }
}
