//! What the tests of the real binary share: a host in a temporary directory and
//! a TLS server that can show any certificate.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

pub mod host;
pub mod tls_server;
