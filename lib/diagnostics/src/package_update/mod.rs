//! Replacing the Debian packages of Config Weaver on a host: what apt knows, whether it is allowed, what
//! proves it, how to resume. Pure.
//!
//! The caller queries dpkg and apt, shows the plan, and executes it. What their answers do not show refuses nothing.

pub mod apt;
pub mod apt_error;
pub mod definitions;
pub mod dpkg;
pub mod plan;
pub mod proof;
pub mod record;
pub mod schedule;
pub mod scheduled_reboot;
pub mod version;

/// The packages, the one that the others' version is measured by first.
pub const PACKAGES: [&str; 3] = ["config-weaver", "weaver", "config-weaver-card"];
