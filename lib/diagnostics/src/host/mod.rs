//! The host: what k3s needs of it before it starts. Each struct is what a reader found; its `judge` is the verdict.
//!
//! Guarantee: what could not be read is not judged.

pub mod board;
pub mod kernel;
pub mod kernel_log;
pub mod load;
pub mod names;
pub mod network;
pub mod security;
pub mod storage;
