//! What the clients of one port may have.

use std::time::Duration;

/// What clients may have.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    pub connections: usize,
    /// Of these, from one address that is not of the loopback interface.
    pub per_address: usize,
    /// For a TLS handshake, and for the head of a request.
    pub head: Duration,
    /// Without a new request, that long, a connection takes no more of them. Longer than any request may take.
    pub idle: Duration,
    /// After that long a connection takes no more requests; clients open another.
    pub age: Duration,
    /// For requests under way when a connection's time ends: longer than any may take.
    pub last_request: Duration,
    /// For requests under way when the process ends.
    pub drain: Duration,
}

impl ConnectionLimits {
    /// For pages about a program, which a probe, a scraper and a user read.
    pub const PAGES: Self = Self {
        connections: 32,
        per_address: 16,
        head: Duration::from_secs(5),
        idle: Duration::from_secs(30),
        age: Duration::from_mins(10),
        last_request: Duration::from_secs(30),
        drain: Duration::from_secs(10),
    };
}
