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

/// Most resources that wait for the checks of one tenant, each once for each check: else a thousand of them and a
/// thousand namespaces that change would be a million. The next reconcile of the others finds what has changed.
const MOST: usize = 20_000;

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

/// Checks of one tenant that are due.
#[derive(Default)]
struct TenantChecks {
    due: BTreeMap<AccessCheck, Due>,
    /// How many resources wait for them.
    waiting: usize,
}

/// Checks that are due, by tenant namespace. Those of each are bounded.
pub struct AccessChecks {
    due: Mutex<BTreeMap<String, TenantChecks>>,
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
        let mut all = self.due.lock();
        let checks = all.entry(check.account.namespace.clone()).or_default();
        if checks.waiting >= MOST {
            if let Some(due) = checks.due.get_mut(&check) {
                due.is_gone = is_gone;
            }
            return;
        }
        let due = checks.due.entry(check).or_default();
        due.is_gone = is_gone;
        checks.waiting += usize::from(due.resources.insert(resource));
        self.added.notify_one();
    }

    /// The check that follows the `last` one, in a circle: no namespace that keeps changing comes always first.
    pub(super) fn next(&self, tenant: &str, last: Option<&AccessCheck>) -> Option<(AccessCheck, Due)> {
        let mut all = self.due.lock();
        let checks = all.get_mut(tenant)?;
        let after =
            last.and_then(|last| checks.due.range::<AccessCheck, _>((Excluded(last), Unbounded)).next());
        let check = after.or_else(|| checks.due.first_key_value()).map(|(check, _)| check.clone());
        let next = check.and_then(|check| checks.due.remove_entry(&check));
        if let Some((_, due)) = &next {
            checks.waiting -= due.resources.len();
        } else {
            all.remove(tenant);
        }
        next
    }

    /// What came meanwhile is newer.
    pub(super) fn put_back(&self, check: &AccessCheck, failed: Due) {
        let mut all = self.due.lock();
        let checks = all.entry(check.account.namespace.clone()).or_default();
        let empty = Due { is_gone: failed.is_gone, ..Due::default() };
        let due = checks.due.entry(check.clone()).or_insert(empty);
        let before = due.resources.len();
        due.resources.extend(failed.resources);
        checks.waiting += due.resources.len() - before;
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

    #[test]
    fn so_many_resources_of_a_tenant_wait_whatever_changes() {
        let checks = AccessChecks::default();
        for number in 0..MOST + 100 {
            let account = Account { namespace: "team-a".into(), name: "sync".into() };
            let namespace = (number % 7).to_string();
            let check = AccessCheck { account, kind: ObjectKind::CONFIG_MAP, namespace };
            let resource = ResourceRef { namespace: "team-a".into(), name: number.to_string() };
            checks.add(check, false, resource);
        }
        let (check, due) = checks.next("team-a", None).unwrap();
        checks.put_back(&check, due);
        let mut waited = 0;
        while let Some((_, due)) = checks.next("team-a", None) {
            waited += due.resources.len();
        }
        assert_eq!(waited, MOST);
        assert!(checks.due.lock().is_empty());
    }
}
