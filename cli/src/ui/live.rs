//! The state of the cluster, kept up to date by watches with the rights of the user, and by `weaver doctor` while a
//! page is open. It writes nothing.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use weaver_api::v1beta1::NodeReport;
use weaver_diagnostics::finding_text::clean;
use weaver_host::backoff::Backoff;

use super::command_log::patience;
use super::view::node::NodeView;
use super::view::overview::{FirstSeen, remember};
use super::view::shared_texts::SharedTexts;
use super::view::snapshot::KindSnapshot;
use super::view::sync::{SyncKey, SyncKind, SyncView};
use super::view::token::TokenView;
use crate::doctor;
use crate::doctor::seen::LocatedFinding;

/// The least pause between two runs of doctor: each sends the API server a few dozen requests, and on a node also
/// checks its agent. A run that took long is repeated less often.
const PAUSE: Duration = Duration::from_secs(20);
/// The same, as a multiple of a run's duration.
const SHARE: u32 = 10;

/// Objects in one page of a list. The whole page is in memory until it was read, and the API server takes objects of 3
/// MiB: so many of them are not longer than what is read of one answer.
const PAGE: u32 = 20;

/// Between two tries of a watch, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that lasted as long has succeeded.
const SETTLED: Duration = Duration::from_mins(1);

/// The result of a run of doctor.
#[derive(Debug, Default)]
pub struct Looked {
    pub seen: Vec<LocatedFinding>,
    pub first_seen: FirstSeen,
    /// When; `None` before the first is done.
    pub at: Option<Timestamp>,
}

/// All that pages are made from.
pub struct Live {
    pub client: Client,
    /// `None` means all.
    pub namespace: Option<String>,
    pub syncs: watch::Sender<KindSnapshot<SyncView>>,
    pub resource_syncs: watch::Sender<KindSnapshot<SyncView>>,
    pub tokens: watch::Sender<KindSnapshot<TokenView>>,
    pub nodes: watch::Sender<KindSnapshot<NodeView>>,
    pub looked: watch::Sender<Looked>,
    asked: Notify,
}

impl Live {
    /// Begins to watch, until the process ends.
    pub fn start(client: Client, namespace: Option<String>) -> Arc<Self> {
        let live = Arc::new(Self {
            client: client.clone(),
            namespace,
            syncs: watch::Sender::default(),
            resource_syncs: watch::Sender::default(),
            tokens: watch::Sender::default(),
            nodes: watch::Sender::default(),
            looked: watch::Sender::default(),
            asked: Notify::new(),
        });
        let namespace = live.namespace.as_deref();
        let texts = Arc::new(SharedTexts::default());
        let shared = Arc::clone(&texts);
        tokio::spawn(follow(within(&client, namespace), live.syncs.clone(), move |guard| {
            SyncView::of_config_maps(guard).brief(&shared)
        }));
        tokio::spawn(follow(within(&client, namespace), live.resource_syncs.clone(), move |guard| {
            SyncView::of_resources(guard).brief(&texts)
        }));
        tokio::spawn(follow(within(&client, namespace), live.tokens.clone(), TokenView::of));
        let nodes: Api<DeserializeGuard<NodeReport>> = Api::all(client);
        tokio::spawn(follow(nodes, live.nodes.clone(), NodeView::of));
        tokio::spawn(look_again(Arc::clone(&live)));
        live
    }

    pub fn of(&self, kind: SyncKind) -> &watch::Sender<KindSnapshot<SyncView>> {
        match kind {
            SyncKind::ConfigMap => &self.syncs,
            SyncKind::Resource => &self.resource_syncs,
        }
    }

    pub fn sync(&self, SyncKey { kind, namespace, name }: &SyncKey) -> Option<Arc<SyncView>> {
        self.of(*kind).borrow().get(namespace, name)
    }

    /// A sync, and how long requests about each of its targets may take. Only names that the API server has reported
    /// are used in requests.
    pub fn sync_with_limit(&self, key: &SyncKey) -> Option<(Arc<SyncView>, Duration)> {
        let found = self.sync(key)?;
        let limit = patience(usize::try_from(found.counts.desired).unwrap_or_default());
        Some((found, limit))
    }

    /// Those of both kinds as far as they are known, in order of their names; `None` where neither is.
    pub fn known_syncs(&self) -> Option<Vec<Arc<SyncView>>> {
        let (config_maps, resources) = (self.syncs.borrow().known(), self.resource_syncs.borrow().known());
        if config_maps.is_none() && resources.is_none() {
            return None;
        }
        let mut all: Vec<_> = [config_maps, resources].into_iter().flatten().flatten().collect();
        all.sort_by(|one, other| one.key().cmp(&other.key()));
        Some(all)
    }

    /// A page is open: doctor runs again soon.
    pub fn ask(&self) {
        self.asked.notify_one();
    }
}

fn within<K>(client: &Client, namespace: Option<&str>) -> Api<DeserializeGuard<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Keeps a snapshot up to date. A watch that fails is begun again, with backoff: resumed, it would report nothing until
/// an object changes, and one that may not list would send a request each second.
async fn follow<K, T>(api: Api<K>, into: watch::Sender<KindSnapshot<T>>, view: impl Fn(&K) -> T)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut pauses = Backoff::new(Duration::from_secs(1));
    loop {
        let begun = Instant::now();
        let mut events = std::pin::pin!(watcher(api.clone(), watcher::Config::default().page_size(PAGE)));
        while let Some(event) = events.next().await {
            let has_failed = event.is_err();
            into.send_if_modified(|snapshot| match event {
                Ok(event) => snapshot.take(event, &view),
                Err(error) => snapshot.fail(said(&error)),
            });
            if has_failed {
                break;
            }
        }
        if begun.elapsed() > SETTLED {
            pauses.reset();
        }
        sleep(pauses.next(LONGEST_PAUSE)).await;
    }
}

/// The API server's own message where it refuses.
fn said(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => clean(&status.message),
        error => clean(&error.to_string()),
    }
}

async fn look_again(live: Arc<Live>) {
    loop {
        live.asked.notified().await;
        let begun = Instant::now();
        let seen = doctor::look(doctor::named_report().as_deref(), live.namespace.as_deref()).await;
        let now = Timestamp::now();
        live.looked.send_modify(|looked| {
            let first_seen = remember(&looked.first_seen, &seen, now);
            *looked = Looked { seen, first_seen, at: Some(now) };
        });
        sleep(PAUSE.max(begun.elapsed() * SHARE)).await;
    }
}
