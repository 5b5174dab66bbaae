//! The development stack: API server, node agent and operator on one machine.
//!
//! `make up` is this crate's program; scenario tests use [`server`] to start
//! disposable API servers of their own.
//!
//! Guarantees: everything lives under one directory; only loopback is bound;
//! only processes that the stack started are ever ended, known by pid *and*
//! start time; files are replaced whole or not at all.
//! Failure: every error names the file, process or address and what to do.

pub mod agent;
pub mod candidates;
pub mod choice;
pub mod copies;
pub mod down;
pub mod download;
pub mod files;
pub mod kubectl;
pub mod launch;
pub mod layout;
pub mod logs;
pub mod notices;
pub mod ports;
pub mod process;
pub mod programs;
pub mod server;
pub mod server_files;
pub mod server_record;
pub mod service;
pub mod shell;
pub mod signals;
pub mod status;
pub mod steps;
pub mod up;
pub mod with_server;
