//! What the units of Config Weaver do not see of the host.

/// Directories of users, by `ProtectHome=`.
pub const OF_USERS: [&str; 3] = ["/home", "/root", "/run/user"];
/// Directories that all may write to, by `PrivateTmp=`.
pub const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
