//! Which accounts to check for rights in a namespace that changed ([`super::reactions`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use weaver_api::kind::ObjectKind;
use weaver_tenant::Account;

use crate::watch::ResourceRef;

/// Checks at once, each of another tenant.
const CONCURRENCY: usize = 16;

/// Has this account a right on objects of this kind in this namespace?
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct AccessCheck {
    pub account: Account,
    pub kind: ObjectKind,
    pub namespace: String,
}

/// Why a check is made.
#[derive(Default)]
pub(super) struct Due {
    /// The namespace does not exist any more, and neither do the Roles in it.
    pub is_gone: bool,
    /// To be reconciled if it has.
    pub resources: BTreeSet<ResourceRef>,
}

/// Checks that are due, by tenant namespace. Bounded by the accounts in use and the namespaces that change.
pub struct AccessChecks {
    due: Mutex<BTreeMap<String, BTreeMap<AccessCheck, Due>>>,
    pub(super) added: Notify,
    pub(super) permits: Semaphore,
}

impl Default for AccessChecks {
    fn default() -> Self {
        Self { due: Mutex::default(), added: Notify::new(), permits: Semaphore::new(CONCURRENCY) }
    }
}

impl AccessChecks {
    /// Has `resource` reconciled if the account has the right. `is_gone`: the namespace was deleted.
    pub fn add(&self, check: AccessCheck, is_gone: bool, resource: ResourceRef) {
        let mut due = self.due.lock();
        let due = due.entry(check.account.namespace.clone()).or_default().entry(check).or_default();
        due.is_gone = is_gone;
        due.resources.insert(resource);
        self.added.notify_one();
    }

    /// The check that follows the `last` one, in a circle: no namespace that keeps changing comes always first.
    pub(super) fn next(&self, tenant: &str, last: Option<&AccessCheck>) -> Option<(AccessCheck, Due)> {
        let mut all = self.due.lock();
        let due = all.get_mut(tenant)?;
        let after = last.and_then(|last| due.range::<AccessCheck, _>((Excluded(last), Unbounded)).next());
        let check = after.or_else(|| due.first_key_value()).map(|(check, _)| check.clone());
        let next = check.and_then(|check| due.remove_entry(&check));
        if next.is_none() {
            all.remove(tenant);
        }
        next
    }

    /// What came meanwhile is newer.
    pub(super) fn put_back(&self, check: &AccessCheck, failed: Due) {
        let mut all = self.due.lock();
        let due = all.entry(check.account.namespace.clone()).or_default();
        due.entry(check.clone())
            .or_insert(Due { is_gone: failed.is_gone, ..Due::default() })
            .resources
            .extend(failed.resources);
    }

    /// Tenants with a pending check.
    pub(super) fn tenants(&self) -> Vec<String> {
        self.due.lock().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_take_turns_and_what_is_added_again_is_one() {
        let checks = AccessChecks::default();
        let add = |namespace: &str| {
            let account = Account { namespace: "team-a".into(), name: "sync".into() };
            let check = AccessCheck { account, kind: ObjectKind::CONFIG_MAP, namespace: namespace.into() };
            let resource = ResourceRef { namespace: "team-a".into(), name: "sync".into() };
            checks.add(check, false, resource);
        };
        for namespace in ["a", "b", "b", "c"] {
            add(namespace);
        }
        let (mut last, mut order) = (None, Vec::new());
        while let Some((check, due)) = checks.next("team-a", last.as_ref()) {
            assert_eq!(due.resources.len(), 1);
            order.push(check.namespace.clone());
            // It changes all the time.
            if order.len() < 5 {
                add("a");
            }
            last = Some(check);
        }
        assert_eq!(order, ["a", "b", "c", "a", "a"]);
        assert!(checks.due.lock().is_empty());
    }
}
