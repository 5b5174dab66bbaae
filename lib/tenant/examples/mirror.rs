//! A controller for a kind that this crate knows nothing of: copies network policies to other namespaces, as
//! the account of the team that owns them.
//!
//! `cargo run -p weaver-tenant --example mirror -- team-a/robot team-b team-c`, with the cluster of the kubeconfig that
//! kubectl would use. Policies of team-a with the label `mirror=true` are copied to team-b and team-c, kept the
//! same, and deleted there when they are gone. All of that with the rights of the ServiceAccount robot of
//! team-a; what it may not do is said, and tried again. An object that is no copy of team-a's is left alone.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::json;
use weaver_client::call::{CallError, call};
use weaver_tenant::review::{Access, GroupResource, missing};
use weaver_tenant::token::KubeMinter;
use weaver_tenant::watch::{
    Consumer, Interest, Triggers, WatchKey, WatchLimits, WatchSelector, WatchSet, WatchState,
};
use weaver_tenant::{Account, TenantClient, Tenants, transport};

/// On a copy: the namespace of its source, and the state of it that was copied.
const COPY_OF: &str = "mirror.example.com/copy-of";
const SELECTOR: &str = "mirror=true";
const RETRY: Duration = Duration::from_secs(2);

/// What is kept of a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
struct KeptPolicy {
    uid: String,
    version: String,
    /// The state that was copied, if it is a copy of this team's.
    copied: Option<String>,
}

/// The policies of a namespace, by name.
type Policies = BTreeMap<String, KeptPolicy>;

#[derive(Debug, Eq, PartialEq)]
enum Step<'a> {
    Create(&'a str),
    Replace(&'a str, &'a KeptPolicy),
    Delete(&'a str, &'a KeptPolicy),
}

/// The steps after which `there` has a copy of each of `sources`. Pure.
fn plan<'a>(sources: &'a Policies, there: &'a Policies) -> Vec<Step<'a>> {
    let wanted = sources.iter().filter_map(|(name, source)| match there.get(name) {
        None => Some(Step::Create(name)),
        Some(copy) if copy.copied.as_ref().is_some_and(|copied| *copied != source.version) => {
            Some(Step::Replace(name, copy))
        }
        Some(_) => None,
    });
    let stale = there.iter().filter(|(name, copy)| copy.copied.is_some() && !sources.contains_key(*name));
    wanted.chain(stale.map(|(name, copy)| Step::Delete(name, copy))).collect()
}

/// Keeps what [`plan`] needs; wakes a target by its name.
struct PolicyWatches(Triggers<String>);

impl Consumer for PolicyWatches {
    type Object = DynamicObject;
    type Kept = KeptPolicy;
    type User = String;

    fn keep(&self, watch: &WatchKey<ApiResource>, meta: ObjectMeta) -> KeptPolicy {
        let copy_of = meta.annotations.unwrap_or_default().remove(COPY_OF).unwrap_or_default();
        let copied = match copy_of.split_once('/') {
            Some((namespace, version)) if namespace == watch.account.namespace => Some(version.to_owned()),
            _ => None,
        };
        let [uid, version] = [meta.uid, meta.resource_version].map(Option::unwrap_or_default);
        KeptPolicy { uid, version, copied }
    }

    fn bytes(&self, kept: &KeptPolicy) -> usize {
        512 + kept.copied.as_ref().map_or(0, String::len)
    }

    fn wake(&self, target: String) {
        self.0.fire(target);
    }
}

struct Mirror {
    account: Account,
    kind: ApiResource,
    tenants: Tenants,
    watches: WatchSet<PolicyWatches>,
    /// By target: the watches on the sources, and on what is there.
    open: HashMap<String, [Interest<PolicyWatches>; 2]>,
}

impl Mirror {
    /// Makes the copies in `target` what they should be; returns how many it wrote.
    async fn reconcile(&mut self, target: &str) -> anyhow::Result<usize> {
        let tenant = self.tenants.client(&self.account).await?;
        let done = self.work(target, &tenant).await;
        if done.is_err() {
            let missing = missing(&tenant.client(), self.needed(target)).await?;
            if let Some(access) = missing.first() {
                anyhow::bail!("{} may not {access}", self.account);
            }
            // Nothing is missing any more: a watch that was refused need not wait for its own time.
            self.open.get(target).into_iter().flatten().for_each(Interest::try_again);
        }
        done
    }

    async fn work(&mut self, target: &str, tenant: &TenantClient) -> anyhow::Result<usize> {
        let key = |namespace: &str, selector| WatchKey {
            account: self.account.clone(),
            uid: tenant.uid.clone(),
            kind: self.kind.clone(),
            namespace: Some(namespace.to_owned()),
            selector,
        };
        let keys = [
            key(&self.account.namespace, WatchSelector::Labels(SELECTOR.into())),
            key(target, WatchSelector::All),
        ];
        // An account that was made again has another uid, and other watches.
        let is_open = |open: &[Interest<PolicyWatches>; 2]| open.iter().map(Interest::key).eq(&keys);
        if !self.open.get(target).is_some_and(is_open) {
            let [sources, there] = keys.map(|key| self.watches.join(key, tenant, &target.to_owned()));
            let too_many = "there are as many watches as there may be";
            self.open.insert(target.to_owned(), [sources.context(too_many)?, there.context(too_many)?]);
        }
        let mut shown = Vec::new();
        for watch in self.open.get(target).into_iter().flatten() {
            let state = watch.settled().await;
            ensure!(state == WatchState::Up, "the watch in {:?} is {state:?}", watch.key().namespace);
            let policies = watch.those(|_| true).into_iter().map(|((_, name), kept)| (name, kept));
            shown.push(policies.collect::<Policies>());
        }
        let [sources, there] = shown.as_slice() else { anyhow::bail!("a watch is not open") };
        let steps = plan(sources, there);
        for step in &steps {
            self.act(tenant, target, step).await?;
        }
        Ok(steps.len())
    }

    /// Every write has its precondition: what changed since it was seen is not written over.
    async fn act(&self, tenant: &TenantClient, target: &str, step: &Step<'_>) -> Result<(), CallError> {
        let copies: Api<DynamicObject> = tenant.namespaced(&self.kind, target);
        match step {
            Step::Create(name) => {
                let copy = self.copy(tenant, name).await?;
                call(copies.create(&PostParams::default(), &copy)).await.map(drop)
            }
            Step::Replace(name, seen) => {
                let mut copy = self.copy(tenant, name).await?;
                copy.metadata.uid = Some(seen.uid.clone());
                copy.metadata.resource_version = Some(seen.version.clone());
                call(copies.replace(name, &PostParams::default(), &copy)).await.map(drop)
            }
            Step::Delete(name, seen) => {
                let (uid, resource_version) = (Some(seen.uid.clone()), Some(seen.version.clone()));
                let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
                call(copies.delete(name, &params)).await.map(drop)
            }
        }
    }

    async fn copy(&self, tenant: &TenantClient, name: &str) -> Result<DynamicObject, CallError> {
        let sources: Api<DynamicObject> = tenant.namespaced(&self.kind, &self.account.namespace);
        let source = call(sources.get(name)).await?;
        let version = source.resource_version().unwrap_or_default();
        let mut copy = DynamicObject::new(name, &self.kind).data(json!({"spec": source.data["spec"]}));
        copy.metadata.annotations =
            Some([(COPY_OF.to_owned(), format!("{}/{version}", self.account.namespace))].into());
        Ok(copy)
    }

    fn needed(&self, target: &str) -> Vec<Access> {
        let access = |namespace: &str, verb: &'static str| Access {
            verb: verb.into(),
            resource: GroupResource::of::<DynamicObject>(&self.kind),
            namespace: Some(namespace.to_owned()),
            name: None,
        };
        let sources = ["get", "list", "watch"].map(|verb| access(&self.account.namespace, verb));
        let copies = ["list", "watch", "create", "update", "delete"].map(|verb| access(target, verb));
        sources.into_iter().chain(copies).collect()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let usage = "usage: mirror NAMESPACE/ACCOUNT TARGET…";
    let mut arguments = std::env::args().skip(1);
    let account = arguments.next().context(usage)?;
    let (namespace, name) = account.split_once('/').context(usage)?;
    let account = Account { namespace: namespace.to_owned(), name: name.to_owned() };
    // kube is built with ring only; where two providers are linked, one has to be named.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::infer().await.context("finding the cluster as kubectl would")?;
    let minter = KubeMinter::new(Client::try_from(config.clone())?, Duration::from_mins(10));
    let tenants = Tenants::new(transport::shared(&config).await?, minter, Duration::from_mins(1));
    let triggers = Triggers::default();
    arguments.for_each(|target| triggers.fire(target));
    let consumer = PolicyWatches(triggers.clone());
    let watches =
        WatchSet::new(consumer, Duration::from_mins(5), Duration::from_secs(30), WatchLimits::default());
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy"));
    let mut mirror = Mirror { account, kind, tenants, watches, open: HashMap::new() };
    let mut due = pin!(triggers.stream());
    while let Some(target) = due.next().await {
        match mirror.reconcile(&target).await {
            Ok(0) => {}
            Ok(written) => println!("{target}: {written} written"),
            Err(error) => {
                println!("{target}: {error:#}");
                let triggers = triggers.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY).await;
                    triggers.fire(target);
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(version: &str, copied: Option<&str>) -> KeptPolicy {
        KeptPolicy { uid: "u".into(), version: version.into(), copied: copied.map(Into::into) }
    }

    fn policies<const N: usize>(all: [(&str, KeptPolicy); N]) -> Policies {
        all.into_iter().map(|(name, kept)| (name.to_owned(), kept)).collect()
    }

    #[test]
    fn copies_follow_their_sources_and_nothing_else_is_touched() {
        let source = policies([("a", policy("7", None))]);
        let (fresh, stale, foreign) = (policy("1", Some("7")), policy("1", Some("6")), policy("1", None));
        for (sources, there, expected) in [
            (&source, policies([]), vec![Step::Create("a")]),
            (&source, policies([("a", fresh.clone())]), vec![]),
            (&source, policies([("a", stale.clone())]), vec![Step::Replace("a", &stale)]),
            (&source, policies([("a", foreign.clone())]), vec![]),
            (&policies([]), policies([("a", fresh.clone())]), vec![Step::Delete("a", &fresh)]),
            (&policies([]), policies([("a", foreign.clone())]), vec![]),
        ] {
            assert_eq!(plan(sources, &there), expected, "{there:?}");
        }
    }
}
