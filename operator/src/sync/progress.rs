//! What the status says while a long fan-out runs: the condition `Progressing`, with how far it is.
//!
//! A fan-out that ends soon writes nothing of it. The write is the status that was there with this one
//! condition changed, by the operator's own identity; one that fails is no fault of the work, and the next is
//! due soon.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use weaver_api::conditions::{ORDER, PROGRESSING, Truth, Verdict, fold};
use weaver_api::v1beta1::ConfigMapSyncStatus;
use weaver_client::call::call;

use super::Context;
use super::declared::Declares;
use super::execute::TargetState;
use super::status::patch;
use crate::controller::kind::Common;

/// After which time it is reported that a fan-out runs, and how often from then on.
const EVERY: Duration = Duration::from_secs(5);

/// A fan-out that is reported while it runs.
pub struct FanOutProgress<'a, K: Declares> {
    context: &'a Context<K>,
    common: &'a mut Common<ConfigMapSyncStatus>,
    sync: &'a K,
    /// Number of its targets.
    all: usize,
}

impl<'a, K: Declares> FanOutProgress<'a, K> {
    pub fn of(
        context: &'a Context<K>,
        common: &'a mut Common<ConfigMapSyncStatus>,
        sync: &'a K,
        all: usize,
    ) -> Self {
        Self { context, common, sync, all }
    }

    /// What became of all targets that were tried, in the order in which they ended.
    pub async fn collect(
        mut self,
        tries: impl Stream<Item = (String, Option<TargetState>)>,
    ) -> Vec<(String, Option<TargetState>)> {
        let mut tries = pin!(tries);
        let mut done = Vec::new();
        let mut due = interval_at(Instant::now() + EVERY, EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = tries.next() => match ended {
                    Some(ended) => done.push(ended),
                    None => return done,
                },
                _ = due.tick() => {
                    let states = done.iter().filter_map(|(_, state)| state.as_ref());
                    let synced = states.filter(|state| state.is_synced()).count();
                    self.report(progressing(self.all, done.len(), synced)).await;
                }
            }
        }
    }

    async fn report(&mut self, verdict: Verdict) {
        let meta = self.sync.meta();
        let read = self.sync.status().cloned().unwrap_or_default();
        let mut status = self.common.reported.before(meta.resource_version.as_deref(), read);
        let now = Time(Timestamp::now());
        status.conditions = fold(&ORDER, &status.conditions, &[verdict], meta.generation, &now);
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let api: Api<K> = Api::namespaced(self.context.client.clone(), namespace);
        let name = meta.name.as_deref().unwrap_or_default();
        self.context.writes(meta, &status);
        let patch = Patch::Merge(patch(&status));
        if call(api.patch_status(name, &PatchParams::default(), &patch)).await.is_ok() {
            self.common.reported.wrote(meta.resource_version.clone(), status);
        }
    }
}

fn progressing(all: usize, ended: usize, synced: usize) -> Verdict {
    let message = format!("{ended} of {all} targets are done, {synced} of them hold the copy");
    Verdict::new(PROGRESSING, Truth::True, "FanOut", message)
}
