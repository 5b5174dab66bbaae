//! Work with objects of any kind on a Kubernetes API server: create, read, list, update, apply, delete, wait,
//! watch, and undo what was written.
//!
//! The types are those of [`kube`]: an [`Objects`] is made from a [`kube::Api`] and leaves to it what it does
//! well. Added is what a program needs around it:
//!
//! | | |
//! |---|---|
//! | [`Objects`] | a deadline on each request; writes that refuse unknown fields; a list in pages, smaller ones where the objects are large; an update that repeats a pure change on a newer object; server-side apply and dry run; a delete of exactly the object that was seen |
//! | [`Objects::wait`], [`Objects::gone`] | a deadline, and what was missing at it: "not there" and "not ready" are two answers |
//! | [`Objects::watch`] | each change once, across lost connections and `410 Gone` |
//! | [`rollback`] | writes that are undone together, in reverse order, unless they are kept; what others changed in between stays |
//! | [`Error`] | names the object, says what was attempted, what to do, and whether a write may have been done |
//! | [`conditions`] | a condition in the status of any object, judged at its current generation |
//! | [`merge_patch`] | a change as a value that can be compared and repeated |
//! | [`pages`] | metadata of any number of objects, of any size, a page at a time |
//! | [`managed_fields`] | lists that one object would make unreadable are read all the same |
//! | [`call`], [`connection`] | one call with a deadline, and a client from a kubeconfig or a pod's files |
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, Client};
//! use weaver_client::{Conflicts, Error, Objects, WaitProgress, WriteMode};
//!
//! # async fn run(client: Client, settings: ConfigMap) -> Result<(), Error> {
//! let maps: Objects<ConfigMap> = Objects::new(Api::namespaced(client, "team-a"), "my-program");
//! maps.apply("settings", &settings, WriteMode::Persist, Conflicts::Refuse).await?;
//! let is_filled = |found: Option<&ConfigMap>| match found {
//!     Some(map) if map.data.is_some() => WaitProgress::Reached,
//!     Some(_) => WaitProgress::NotYet("it has no data yet".into()),
//!     None => WaitProgress::Never("someone deleted it".into()),
//! };
//! let map = maps.wait("settings", Duration::from_secs(10), is_filled).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # For other programs
//!
//! The crate is not published: depend on it by path or by git, next to `kube` 5 and `k8s-openapi` 0.29, of
//! which your program chooses the version of Kubernetes; this crate chooses none.
//!
//! ```toml
//! [dependencies]
//! weaver-client = { path = "config-weaver/lib/client" }
//! kube = { version = "5", features = ["client", "runtime"] }
//! k8s-openapi = { version = "0.29", features = ["v1_36"] }
//! ```
//!
//! `lib/client/examples/client.rs` takes an object of each kind of Config Weaver through its life:
//! `cargo run -p weaver-client --example client -- NAMESPACE`.
//!
//! Nothing here logs. Nothing acts after the call that asked for it has returned, with one exception that
//! [`rollback::scope`] describes.

#![warn(clippy::must_use_candidate, missing_docs)]

pub mod call;
pub mod conditions;
pub mod connection;
mod error;
mod list;
pub mod managed_fields;
pub mod merge_patch;
mod objects;
pub mod pages;
mod requests;
pub mod rollback;
mod wait;
mod watch;

pub use error::{Error, Refusal, Why};
pub use list::{PAGE, Page, Pages};
pub use objects::{Conflicts, Objects, Updated, WriteMode};
pub use wait::{WaitProgress, held_by};
pub use watch::{Change, Changes};
