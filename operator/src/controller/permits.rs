//! Concurrency limits of reconciliations: one for each tenant, and one for all together.
//!
//! A tenant whose thousand targets wait for a webhook that never answers delays only its own resources. Where half of
//! all permits are free it may have more of them: the other half is for tenants that have fewer than two. What may not
//! begin yet waits here and not as a future of kube's controller, which polls each of them whenever one moves: ten
//! thousand that wait took a whole processor. When its turn comes the resource is woken, and its permit is kept for it.
//! Tenants take turns.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::health::Reconciliations;
use crate::watch::ResourceRef;

/// Reconciliations at once for the resources of one namespace, whatever others do.
const PER_TENANT: usize = 2;
/// The same while half of all permits are free.
const MOST_OF_ONE: usize = 8;
/// Reconciliations at once for all.
const OVERALL: usize = 32;
/// How long a permit is kept for a resource that was woken; one that is gone does not come.
const KEPT: Duration = Duration::from_secs(30);

/// The noun of its kind, and which resource.
pub type PermitKey = (&'static str, ResourceRef);
type Wake = Box<dyn FnOnce() + Send>;

/// The permits of all controllers; a clone is the same.
#[derive(Clone, Default)]
pub struct Permits(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Permits in use, and those that are kept.
    given: usize,
    /// By namespace; those that have a permit, or wait for one.
    tenants: HashMap<String, TenantPermits>,
    /// Namespaces of which resources wait, the next first.
    turns: VecDeque<String>,
    /// For whom a permit is kept, and since when.
    called: HashMap<PermitKey, Instant>,
    /// Since when each that was entered runs, by the order in which they came.
    since: BTreeMap<u64, Instant>,
    came: u64,
    left: Option<Instant>,
}

#[derive(Default)]
struct TenantPermits {
    given: usize,
    /// By the noun of their kind. Each reconcile asks how many there are of its own, and a tenant may have thousands.
    waiting: BTreeMap<&'static str, HashMap<ResourceRef, Wake>>,
    /// With some that do not wait any more.
    order: VecDeque<PermitKey>,
}

/// Lets one reconciliation run; dropping it lets another one.
pub struct Permit {
    permits: Permits,
    namespace: String,
    came: u64,
}

impl Permits {
    /// How many reconciliations wait for a permit.
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting()
    }

    /// How many resources of this kind and namespace wait for a permit.
    pub fn waiting_of(&self, noun: &str, namespace: &str) -> usize {
        let inner = self.0.lock();
        inner.tenants.get(namespace).and_then(|tenant| tenant.waiting.get(noun)).map_or(0, HashMap::len)
    }

    /// A permit, if the limits allow it. Else the resource is woken by `wake` when one is kept for it.
    pub fn enter(&self, key: PermitKey, wake: impl FnOnce() + Send + 'static) -> Option<Permit> {
        self.reclaim();
        let mut inner = self.0.lock();
        let namespace = key.1.namespace.clone();
        if inner.called.remove(&key).is_none() && !inner.take(&namespace) {
            inner.wait(namespace, key, Box::new(wake));
            return None;
        }
        inner.came += 1;
        let came = inner.came;
        inner.since.insert(came, Instant::now());
        Some(Permit { permits: self.clone(), namespace, came })
    }

    /// The resource is gone: it waits no more, and what was kept for it is free.
    pub fn forget(&self, key: &PermitKey) {
        self.change(|inner| {
            if let Some(tenant) = inner.tenants.get_mut(&key.1.namespace) {
                tenant.forget(key);
            }
            if inner.called.remove(key).is_some() {
                inner.give_back(&key.1.namespace);
            }
        });
    }

    /// Takes back what was kept for too long.
    pub fn reclaim(&self) {
        let now = Instant::now();
        self.change(|inner| {
            let kept_too_long = |(_, since): &(&PermitKey, &Instant)| now.duration_since(**since) > KEPT;
            let late: Vec<_> =
                inner.called.iter().filter(kept_too_long).map(|(key, _)| key.clone()).collect();
            for key in late {
                inner.called.remove(&key);
                inner.give_back(&key.1.namespace);
            }
        });
    }

    /// The reconciliations in numbers.
    pub fn reconciliations(&self) -> Reconciliations {
        let inner = self.0.lock();
        let first = inner.since.values().next();
        Reconciliations {
            waiting: inner.waiting(),
            running: inner.since.len(),
            longest_seconds: first.map(|since| since.elapsed().as_secs()),
            ended_seconds_ago: inner.left.map(|left| left.elapsed().as_secs()),
        }
    }

    /// Changes who has permits, and wakes those whose turn it is then.
    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let woken = {
            let mut inner = self.0.lock();
            change(&mut inner);
            inner.call()
        };
        for wake in woken {
            wake();
        }
    }
}

impl Inner {
    fn waiting(&self) -> usize {
        self.called.len() + self.tenants.values().map(TenantPermits::waiting).sum::<usize>()
    }

    /// No one waits for what is free: those who could take it were woken when it became free.
    fn take(&mut self, namespace: &str) -> bool {
        let tenant = self.tenants.entry(namespace.to_owned()).or_default();
        let allowed = may_have_another(self.given, tenant.given);
        if allowed {
            tenant.given += 1;
            self.given += 1;
        }
        allowed
    }

    fn wait(&mut self, namespace: String, key: PermitKey, wake: Wake) {
        let tenant = self.tenants.entry(namespace.clone()).or_default();
        if tenant.waiting() == 0 && !self.turns.contains(&namespace) {
            self.turns.push_back(namespace);
        }
        if tenant.waiting.entry(key.0).or_default().insert(key.1.clone(), wake).is_none() {
            tenant.order.push_back(key);
        }
    }

    fn give_back(&mut self, namespace: &str) {
        self.given -= 1;
        if let Some(tenant) = self.tenants.get_mut(namespace) {
            tenant.given -= 1;
            if tenant.given == 0 && tenant.waiting() == 0 {
                self.tenants.remove(namespace);
            }
        }
    }

    /// Keeps what is free for those that wait, and returns how to wake them.
    fn call(&mut self) -> Vec<Wake> {
        let (mut woken, now) = (Vec::new(), Instant::now());
        let mut at_their_limit = 0;
        while self.given < OVERALL && at_their_limit < self.turns.len() {
            let Some(namespace) = self.turns.pop_front() else { break };
            let Some(tenant) = self.tenants.get_mut(&namespace) else { continue };
            if !may_have_another(self.given, tenant.given) {
                at_their_limit += 1;
                self.turns.push_back(namespace);
                continue;
            }
            if let Some((key, wake)) = tenant.next() {
                tenant.given += 1;
                self.given += 1;
                self.called.insert(key, now);
                woken.push(wake);
                self.turns.push_back(namespace);
                // From here on, each of those at their limit is counted once.
                at_their_limit = 0;
            } else if tenant.given == 0 {
                self.tenants.remove(&namespace);
            }
        }
        woken
    }
}

/// May a tenant that has `of_one` of all `given` permits have another?
const fn may_have_another(given: usize, of_one: usize) -> bool {
    given < OVERALL && (of_one < PER_TENANT || of_one < MOST_OF_ONE && given < OVERALL / 2)
}

impl TenantPermits {
    fn waiting(&self) -> usize {
        self.waiting.values().map(HashMap::len).sum()
    }

    fn take(&mut self, (noun, resource): &PermitKey) -> Option<Wake> {
        self.waiting.get_mut(noun)?.remove(resource)
    }

    /// Of those that do not wait any more the order has never many more than of the others: while all permits are in
    /// use, who makes and deletes resources would decide how many.
    fn forget(&mut self, key: &PermitKey) {
        drop(self.take(key));
        if self.order.len() > self.waiting() * 2 + 64 {
            let waiting = &self.waiting;
            let waits =
                |(noun, resource): &PermitKey| waiting.get(noun).is_some_and(|of| of.contains_key(resource));
            self.order.retain(waits);
        }
    }

    fn next(&mut self) -> Option<(PermitKey, Wake)> {
        loop {
            let key = self.order.pop_front()?;
            if let Some(wake) = self.take(&key) {
                return Some((key, wake));
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.change(|inner| {
            inner.since.remove(&self.came);
            inner.left = Some(Instant::now());
            inner.give_back(&self.namespace);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Permits, and who was woken.
    #[derive(Default)]
    struct Queue {
        permits: Permits,
        woken: Arc<Mutex<VecDeque<String>>>,
    }

    fn key(tenant: &str, name: usize) -> PermitKey {
        ("sync", ResourceRef { namespace: tenant.to_owned(), name: name.to_string() })
    }

    impl Queue {
        fn enter(&self, tenant: &str, name: usize) -> Option<Permit> {
            let (woken, said) = (self.woken.clone(), format!("{tenant}/{name}"));
            self.permits.enter(key(tenant, name), move || woken.lock().push_back(said))
        }

        fn woken(&self) -> Vec<String> {
            self.woken.lock().drain(..).collect()
        }
    }

    #[tokio::test]
    async fn a_tenant_at_its_limit_leaves_permits_for_others_and_its_own_come_in_order() {
        let queue = Queue::default();
        let mut held: Vec<_> = (0..MOST_OF_ONE).filter_map(|name| queue.enter("slow", name)).collect();
        assert_eq!(held.len(), MOST_OF_ONE);
        for _ in 0..2 {
            assert!((10..1_010).all(|name| queue.enter("slow", name).is_none()));
        }
        let other = queue.enter("other", 0);
        assert!(other.is_some(), "no one else waits");
        assert_eq!(queue.permits.waiting(), 1_000, "each waits once");
        let token = ("token", key("slow", 10).1);
        assert!(queue.permits.enter(token.clone(), || ()).is_none(), "one of another kind with that name");
        let of = |noun, tenant| queue.permits.waiting_of(noun, tenant);
        assert_eq!([of("sync", "slow"), of("token", "slow")], [1_000, 1]);
        assert_eq!([of("sync", "other"), of("sync", "none")], [0, 0]);
        queue.permits.forget(&token);
        assert_eq!([of("sync", "slow"), of("token", "slow")], [1_000, 0]);
        assert_eq!(queue.permits.reconciliations().running, MOST_OF_ONE + 1);
        held.pop();
        assert_eq!(queue.woken(), ["slow/10"]);
        assert!(queue.enter("slow", 5_000).is_none(), "it is kept for the one that was woken");
        held.extend(queue.enter("slow", 10));
        assert_eq!((held.len(), queue.permits.waiting()), (MOST_OF_ONE, 1_000));
        held.truncate(MOST_OF_ONE - 2);
        assert_eq!(queue.woken(), ["slow/11", "slow/12"]);
        drop(other);
    }

    #[tokio::test]
    async fn tenants_that_hang_leave_half_of_all_permits_to_those_that_have_few() {
        let queue = Queue::default();
        let mut hanging = Vec::new();
        for tenant in ["a", "b", "c"] {
            hanging.extend((0..100).filter_map(|name| queue.enter(tenant, name)));
        }
        // Two with eight, and the third with its two.
        assert_eq!(hanging.len(), 2 * MOST_OF_ONE + PER_TENANT);
        let others: Vec<_> = (0..7).flat_map(|tenant| [0, 1, 2].map(|name| (tenant, name))).collect();
        let entered = others.iter().filter_map(|(tenant, name)| queue.enter(&format!("t{tenant}"), *name));
        assert_eq!(entered.collect::<Vec<_>>().len(), 7 * PER_TENANT);
    }

    #[tokio::test]
    async fn all_together_are_bounded_and_tenants_take_turns() {
        let queue = Queue::default();
        let names: Vec<String> = (0..OVERALL).map(|tenant| format!("t{tenant}")).collect();
        let mut held: Vec<_> = names.iter().filter_map(|tenant| queue.enter(tenant, 0)).collect();
        assert_eq!(held.len(), OVERALL);
        for (tenant, name) in [("a", 1), ("a", 2), ("a", 3), ("b", 1)] {
            assert!(queue.enter(tenant, name).is_none());
        }
        held.truncate(OVERALL - 3);
        assert_eq!(queue.woken(), ["a/1", "b/1", "a/2"]);
        let kept = [("a", 1), ("a", 2), ("b", 1)].map(|(tenant, name)| queue.enter(tenant, name).unwrap());
        held.truncate(OVERALL / 2 - 3);
        assert_eq!(queue.woken(), Vec::<String>::new(), "the tenant has two");
        held.pop();
        assert_eq!(queue.woken(), ["a/3"]);
        drop((kept, held, queue.enter("a", 3)));
        let inner = queue.permits.0.lock();
        assert_eq!((inner.given, inner.tenants.len(), inner.waiting()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_that_is_gone_keeps_no_permit() {
        let queue = Queue::default();
        let mut held: Vec<_> = (0..MOST_OF_ONE).map(|name| queue.enter("a", name)).collect();
        assert!((12..16).all(|name| queue.enter("a", name).is_none()));
        queue.permits.forget(&key("a", 12));
        held.truncate(MOST_OF_ONE - 2);
        assert_eq!(queue.woken(), ["a/13", "a/14"]);
        queue.permits.forget(&key("a", 13));
        assert_eq!(queue.woken(), ["a/15"]);
        // No one says that these two do not come.
        tokio::time::advance(KEPT + Duration::from_secs(1)).await;
        assert!([16, 17].map(|name| queue.enter("a", name).is_some()).iter().all(|entered| *entered));
        assert_eq!(queue.permits.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_that_waits_at_its_limit_keeps_no_permit_free_that_another_one_may_have() {
        let queue = Queue::default();
        let slow: Vec<_> = (0..PER_TENANT).filter_map(|name| queue.enter("slow", name)).collect();
        let others = (0..OVERALL - PER_TENANT).map(|tenant| format!("t{tenant}"));
        let mut held: Vec<_> = others.filter_map(|tenant| queue.enter(&tenant, 0)).collect();
        assert!(["gone", "lost"].iter().all(|tenant| queue.enter(tenant, 0).is_none()));
        held.truncate(OVERALL - PER_TENANT - 2);
        assert_eq!(queue.woken(), ["gone/0", "lost/0"]);
        for (tenant, name) in [("slow", 2), ("a", 0), ("a", 1)] {
            assert!(queue.enter(tenant, name).is_none());
        }
        // Both permits come back at once.
        tokio::time::advance(KEPT + Duration::from_secs(1)).await;
        queue.permits.reclaim();
        assert_eq!(queue.woken(), ["a/0", "a/1"]);
        drop((slow, held));
    }

    #[tokio::test]
    async fn what_is_made_and_deleted_while_its_tenant_is_at_the_limit_does_not_stay_in_the_order() {
        let queue = Queue::default();
        let held: Vec<_> = (0..MOST_OF_ONE).map(|name| queue.enter("a", name)).collect();
        assert!(queue.enter("a", 10).is_none());
        for name in 100..1_100 {
            assert!(queue.enter("a", name).is_none());
            queue.permits.forget(&key("a", name));
        }
        let order = queue.permits.0.lock().tenants["a"].order.len();
        assert!(order < 100, "{order}");
        drop(held);
        assert_eq!(queue.woken(), ["a/10"]);
    }
}
