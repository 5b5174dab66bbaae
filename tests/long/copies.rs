//! Copies that outlive whatever befalls the operator or the API server.

use weaver_tests::alone::OwnOperator;
use weaver_tests::world::World;

/// A tenant's copies, none of which may be deleted on the way.
pub struct Copies<'a> {
    world: &'a World,
    pub team: String,
    pub targets: Vec<String>,
    uids: Vec<Option<String>>,
}

impl<'a> Copies<'a> {
    /// In so many namespaces, each with a Role for the tenant.
    pub async fn in_granted(world: &'a World, count: usize) -> Self {
        let team = world.tenant().await;
        let mut targets = Vec::new();
        for number in 0..count {
            targets.push(world.target(&team, &format!("to-{number}")).await);
        }
        Self::first(world, team, targets).await
    }

    pub async fn first(world: &'a World, team: String, targets: Vec<String>) -> Self {
        let names: Vec<&str> = targets.iter().map(String::as_str).collect();
        world.sync(&team, "sync", world.spec(&team, &names)).await;
        let mut copies = Self { world, team, targets, uids: Vec::new() };
        copies.edit_arrives("first").await;
        copies.uids = copies.uids().await;
        copies
    }

    /// Someone edits the source.
    pub async fn edit(&self, value: &str) {
        self.world.config_map(&self.team, "settings", &[("a", value)]).await;
    }

    /// Each copy has it in the end.
    pub async fn have(&self, value: &str) {
        for target in &self.targets {
            self.world.holds(target, "settings", &[("a", value)]).await;
        }
    }

    pub async fn edit_arrives(&self, value: &str) {
        self.edit(value).await;
        self.have(value).await;
    }

    pub async fn ready(&self, status: &str, reason: &str) {
        self.world.condition(&self.team, "sync", "Ready", status, reason).await;
    }

    async fn uids(&self) -> Vec<Option<String>> {
        let mut uids = Vec::new();
        for target in &self.targets {
            uids.push(self.world.config_maps(target).get("settings").await.unwrap().metadata.uid);
        }
        uids
    }

    /// What must be true after each fault.
    pub async fn survive(&self, alone: &mut OwnOperator) {
        assert_eq!(self.uids().await, self.uids, "a copy was deleted on the way");
        assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
    }
}
