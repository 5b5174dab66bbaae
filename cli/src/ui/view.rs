//! What the pages show, made from objects of the API server. Pure.
//!
//! Guarantees: foreign text has no character that hides or reverses other text, and nothing here has the content of a
//! `ConfigMap` or a `Secret`.

pub mod account;
pub mod boot;
pub mod event;
pub mod health;
pub mod matrix;
pub mod node;
pub mod overview;
pub mod shared_texts;
pub mod snapshot;
pub mod sync;
pub mod time;
pub mod token;
