//! Who looks on: a watch of the administrator's that notes when each copy arrives, the operator's as the floor's.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use weaver_api::ownership::SYNC_UID_LABEL;

use crate::floor::{self, NamespacedName};
use crate::operator::PATIENCE;

/// The watch; ends when dropped.
pub struct Observer {
    seen: UnboundedReceiver<(NamespacedName, Instant)>,
    task: AbortHandle,
}

impl Observer {
    pub fn start(client: &Client) -> Self {
        let (tell, seen) = unbounded_channel();
        let watches = [SYNC_UID_LABEL, floor::LABEL].map(|label| {
            let objects: Api<PartialObjectMeta<ConfigMap>> = Api::all(client.clone());
            watcher(objects, watcher::Config::default().labels(label)).boxed()
        });
        let task = tokio::spawn(async move {
            let mut events = stream::select_all(watches);
            while let Some(event) = events.next().await {
                let Ok(Event::Apply(object)) = event else { continue };
                let PartialObjectMeta { metadata, .. } = object;
                let key = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
                // No one listens any more: the measuring is over.
                let _ = tell.send((key, Instant::now()));
            }
        });
        Self { seen, task: task.abort_handle() }
    }

    /// Forgets what it has seen until now.
    pub fn forget(&mut self) {
        while self.seen.try_recv().is_ok() {}
    }

    /// Waits until each of these objects was written `times` since [`Observer::forget`]; when each was, the
    /// first first.
    pub async fn written(
        &mut self,
        keys: impl IntoIterator<Item = NamespacedName>,
        times: u32,
    ) -> Result<Vec<Instant>> {
        let mut missing: BTreeMap<NamespacedName, u32> = keys.into_iter().map(|key| (key, times)).collect();
        let mut arrived = Vec::with_capacity(missing.len());
        let deadline = Instant::now() + PATIENCE;
        while !missing.is_empty() {
            let next = timeout_at(deadline, self.seen.recv()).await;
            let next =
                next.with_context(|| format!("{} copies have not come within {PATIENCE:?}", missing.len()))?;
            let (key, at) = next.context("the observer's watch has ended")?;
            if let Some(left) = missing.get_mut(&key) {
                *left -= 1;
                if *left == 0 {
                    missing.remove(&key);
                    arrived.push(at);
                }
            }
        }
        Ok(arrived)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
