//! What every reconciliation of a `ServiceToken` has, and what is remembered between them.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::{Client, ResourceExt as _};
use weaver_api::v1beta1::{ServiceToken, ServiceTokenStatus};

use super::fill::Known;
use crate::args::Options;
use crate::controller::events::Events;
use crate::controller::lanes::Lanes;
use crate::controller::pace::Pace;
use crate::controller::report::Reported;
use crate::controller::state::States;
use crate::metrics::Metrics;
use crate::tenant::Tenants;
use crate::transport::ServerClock;
use crate::watch::{Interest, Namespaces, WatchSet};

/// A `ServiceToken` as its watch takes it.
pub type Guarded = DeserializeGuard<ServiceToken>;

/// Visits that write or mint, at once and then each ten seconds: enough for any change of a spec, and no storm where
/// somebody rewrites a Secret as often as it is written.
const BURST: f64 = 6.0;
const PER_SECOND: f64 = 0.1;

/// All that a visit needs; built in one place ([`crate::run`]).
pub struct Context {
    /// The operator's own identity.
    pub client: Client,
    /// Everybody else's.
    pub tenants: Arc<Tenants>,
    /// Watches on the Secrets.
    pub watches: WatchSet,
    /// What is paused.
    pub namespaces: Arc<Namespaces>,
    /// Which resources there are.
    pub store: Store<Guarded>,
    /// What others are told.
    pub events: Events,
    /// What is remembered between visits.
    pub states: Arc<States<TokenState>>,
    /// Room for them.
    pub lanes: Arc<Lanes>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The API server's.
    pub clock: ServerClock,
    /// Flags.
    pub options: Options,
}

impl Context {
    /// Uids of all resources that there are.
    #[must_use]
    pub fn living(&self) -> BTreeSet<String> {
        self.store.state().iter().filter_map(|resource| resource.uid()).collect()
    }
}

/// What is remembered of a `ServiceToken` between visits.
pub struct TokenState {
    /// The watch on its Secret.
    pub watch: Option<Interest>,
    /// What its Secret was seen to hold.
    pub known: Option<Known>,
    /// How often it may be minted for.
    pub(super) pace: Pace,
    /// Generation of the last visit.
    pub(super) generation: Option<i64>,
    /// The status last written.
    pub(super) reported: Reported<ServiceTokenStatus>,
}

impl Default for TokenState {
    fn default() -> Self {
        let pace = Pace::new(BURST, PER_SECOND);
        Self { watch: None, known: None, pace, generation: None, reported: Reported::default() }
    }
}
