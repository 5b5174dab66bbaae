//! How many events one tenant may cause in namespaces that are not its own. Pure.
//!
//! Each is an object of the API server's, written with the operator's rights and shown to others: without an end to
//! it, a loop over creations and deletions would fill both.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long a count lasts.
const WINDOW: Duration = Duration::from_hours(1);

/// Events by tenant namespace, within the hour.
pub struct Allowance {
    limit: u32,
    spent: HashMap<String, (Instant, u32)>,
}

impl Allowance {
    /// As many as `limit` within an hour, for each.
    pub fn new(limit: u32) -> Self {
        Self { limit, spent: HashMap::new() }
    }

    /// May `tenant` cause one more `now`? It is counted.
    pub fn take(&mut self, tenant: &str, now: Instant) -> bool {
        self.spent.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        let (_, count) = self.spent.entry(tenant.to_owned()).or_insert((now, 0));
        let allowed = *count < self.limit;
        *count = count.saturating_add(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_causes_a_bounded_number_of_events_an_hour_and_takes_none_of_anothers() {
        let (mut allowance, begun) = (Allowance::new(3), Instant::now());
        let taken = |allowance: &mut Allowance, tenant: &str, minutes: u64| {
            let now = begun + Duration::from_mins(minutes);
            (0..10).filter(|_| allowance.take(tenant, now)).count()
        };
        for (tenant, minutes, expected) in
            [("a", 0, 3), ("a", 30, 0), ("b", 30, 3), ("a", 60, 3), ("b", 61, 0), ("b", 90, 3)]
        {
            assert_eq!(taken(&mut allowance, tenant, minutes), expected, "{tenant} after {minutes} min");
        }
    }

    #[test]
    fn no_one_is_remembered_for_longer_than_an_hour() {
        let (mut allowance, begun) = (Allowance::new(3), Instant::now());
        for tenant in 0..100 {
            allowance.take(&tenant.to_string(), begun);
        }
        allowance.take("later", begun + WINDOW);
        assert_eq!(allowance.spent.len(), 1);
    }
}
