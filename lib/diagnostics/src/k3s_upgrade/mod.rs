//! Replacing the k3s of a node: whether it is allowed, in which steps, what proves it, how to resume. Pure.
//!
//! The caller collects the facts, asks for a plan, and carries it out.

pub mod plan;
pub mod program;
pub mod proof;
pub mod record;
pub mod release;
pub mod version;

/// What a node is to its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It runs the API server.
    Server,
    /// It has joined another's cluster.
    Agent,
}

impl Role {
    /// The unit that runs k3s in this role.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Server => "k3s.service",
            Self::Agent => "k3s-agent.service",
        }
    }
}

/// What a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeRequest {
    Upgrade,
    RollBack,
}
