//! Replacing the k3s of a node by another one: may it be, what is done, is it proven, and what was cut off.
//!
//! Anyone who acts collects what is so, asks here, and does what is answered.

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
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Server => "k3s.service",
            Self::Agent => "k3s-agent.service",
        }
    }
}

/// What a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Another k3s.
    Upgrade,
    RollBack,
}
