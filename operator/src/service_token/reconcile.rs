//! What a `ServiceToken` brings to the frame of a reconcile ([`crate::controller::frame`]).
//!
//! The operator's own identity looks up accounts and mints; the Secret is the writer's business. There is no
//! finalizer: the Secret is owned by its resource, and the API server's own garbage collection removes it.
//! While a resource is being deleted nothing is written for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::runtime::events::EventType;
use serde_json::Value;
use weaver_api::convert::token_round_trip_faults;
use weaver_api::v1beta1::{ServiceToken, ServiceTokenStatus};

use super::outcome::{TokenOutcome, TokenWork};
use super::state::TokenState;
use super::status::{patch, status};
use super::why::MintReason;
use super::work::work;
use crate::controller::events::{MINTED, event, reference, turned};
use crate::controller::kept::is_read_of_token;
use crate::controller::kind::{Common, Context, Failure, Reconcile, ReconcileMemory, ReconcileStep};
use crate::controller::pause::Pause;
use crate::controller::report::ReportedStatus;
use crate::controller::state::StateEntry;
use crate::controller::verdicts::listed;
use weaver_tenant::transport::ServerClock;

impl Reconcile for ServiceToken {
    type Memory = TokenState;
    /// The API server's clock.
    type Own = ServerClock;
    type Work = TokenWork;

    const NOUN: &'static str = "token";

    fn is_read(key: &str) -> bool {
        is_read_of_token(key)
    }

    async fn act(
        context: &Context<Self>,
        entry: &StateEntry<TokenState>,
        state: &mut TokenState,
        resource: &Self,
    ) -> Result<ReconcileStep<TokenOutcome>, Failure> {
        // The deletion of one that is on its way out is an event of its own.
        Ok(work(context, entry, state, resource)
            .await
            .map_or(ReconcileStep::AwaitChange, ReconcileStep::Done))
    }

    async fn conclude(
        context: &Context<Self>,
        state: &mut TokenState,
        _: &ObjectMeta,
        _: Option<&Pause>,
        outcome: TokenOutcome,
    ) -> Result<ReconcileStep<TokenOutcome>, Failure> {
        if let Some(work) = outcome.work() {
            context.metrics.issued(&work.minted);
            if work.sent {
                state.common.rate_limit.spend();
            }
        }
        Ok(ReconcileStep::Done(outcome))
    }

    fn status(
        context: &Context<Self>,
        before: &ServiceTokenStatus,
        outcome: &TokenOutcome,
        meta: &ObjectMeta,
    ) -> ServiceTokenStatus {
        let now = Time(context.own.now());
        status(before, outcome, &token_round_trip_faults(meta), meta.generation, &now)
    }

    async fn announce(
        context: &Context<Self>,
        meta: &ObjectMeta,
        outcome: &TokenOutcome,
        before: &ServiceTokenStatus,
        now: &ServiceTokenStatus,
    ) {
        let about = reference::<ServiceToken>(meta);
        let reported = turned(&before.conditions, &now.conditions, "Mint");
        let worked = outcome.work().and_then(minted_again);
        for event in reported.into_iter().chain(worked) {
            context.events.tell(&event, &about).await;
        }
    }
}

/// Tokens were minted though none was due: clients that use the old ones may want to know.
fn minted_again(work: &TokenWork) -> Option<kube::runtime::events::Event> {
    let of_note = work.minted.iter().filter(|(_, why)| *why != MintReason::Due);
    let said: Vec<String> = of_note.map(|(key, why)| format!("{key}: {why}")).collect();
    (!said.is_empty()).then(|| event(EventType::Normal, MINTED, "Mint", &listed(&said)))
}

impl ReconcileMemory<ServiceTokenStatus> for TokenState {
    fn common(&mut self) -> &mut Common<ServiceTokenStatus> {
        &mut self.common
    }
}

impl ReportedStatus for ServiceTokenStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn without_messages(&self) -> Self {
        let mut bare = self.clone();
        bare.conditions.iter_mut().for_each(|condition| condition.message.clear());
        bare.tokens.iter_mut().for_each(|token| token.message.clear());
        let problems = bare.generated.iter_mut().flat_map(|generated| &mut generated.problems);
        problems.for_each(|problem| problem.message.clear());
        bare
    }

    fn patch(&self) -> Value {
        patch(self)
    }
}
