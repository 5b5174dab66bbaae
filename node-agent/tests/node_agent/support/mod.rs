//! Shared by the tests of the real binary: a host in a temporary directory, a TLS server that can show any certificate,
//! an API server that opens the gate, and a `systemctl`.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

pub mod fake_api;
pub mod host;
pub mod systemctl;
pub mod tls_server;
