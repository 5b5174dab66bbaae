//! Act as someone else's `ServiceAccount`, for controllers that serve many tenants.
//!
//! A controller that copies, builds or deploys for many teams usually has the sum of all their rights, and then has to
//! decide by itself who may do what. This crate turns that round: the controller has one right, to mint tokens for the
//! accounts that agree to it, and does everything else *as the account of the team that asks for it*. The API server
//! decides, audit logs name the team, and a team can only do through the controller what it can do without it.
//!
//! It works with any kind: `DynamicObject` with an `ApiResource`, or a type of your own that implements
//! [`kube::Resource`]. It chooses no version of Kubernetes: name a `v1_*` feature of `k8s-openapi` in your program.
//!
//! # Begin
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
//! use kube::{Api, Client, Config};
//! use weaver_tenant::token::KubeMinter;
//! use weaver_tenant::{Account, Tenants, transport};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::infer().await?;
//! // This program's own identity mints the tokens.
//! let minter = KubeMinter::new(Client::try_from(config.clone())?, Duration::from_mins(10));
//! // The tenants' requests go over connections that have no identity.
//! let tenants = Tenants::new(transport::shared(&config).await?, minter, Duration::from_mins(5));
//!
//! let account = Account { namespace: "team-a".into(), name: "robot".into() };
//! let tenant = tenants.client(&account).await?;
//! let policies = ApiResource::from_gvk(&GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy"));
//! let there: Api<DynamicObject> = tenant.namespaced(&policies, "team-b");
//! // As team-a/robot: 403 unless team-b has granted it.
//! println!("{} policies", there.list(&Default::default()).await?.items.len());
//! # Ok(()) }
//! ```
//!
//! Your program needs `create` on `serviceaccounts/token`, best for single accounts, in a Role of each team:
//!
//! ```yaml
//! rules:
//!   - apiGroups: [""]
//!     resources: [serviceaccounts/token]
//!     resourceNames: [robot]
//!     verbs: [create]
//! ```
//!
//! `examples/mirror.rs` is a whole controller: `cargo run -p weaver-tenant --example mirror -- team-a/robot team-b`.
//!
//! # Design
//!
//! | part | what it does | what a program adds |
//! |---|---|---|
//! | [`Account`] | names who acts | takes the namespace from the object that asks, never from its spec |
//! | [`token`] | a token per account, minted on demand, renewed at 70 to 80 % of its life | its own [`token::Mint`]: another way to mint, or one that counts |
//! | [`Tenants`], [`TenantClient`] | clients that act as an account; a 401 drops the token and mints once more | nothing: `kube::Api` of any kind, with all that kube offers |
//! | [`AccessCache`], [`review`] | asks, as the account, what it may do; remembers it for a while | what it needs, as [`review::Access`] or a type of its own |
//! | [`transport`] | all requests over few HTTP/2 connections, writes separate from watches | tower layers, and a [`transport::SendGate`] for writes that may become wrong while they wait |
//! | [`watch`] | metadata-only watches, shared, counted, bounded, backing off | a [`watch::Consumer`]: what is kept of an object, and who is woken |
//! | [`budget`] | memory that tenants share, with a part for each | what else it keeps of tenants |
//!
//! A program adds its metrics, leader election and labels at these extension points; no type here names them.
//!
//! ## What is guaranteed
//!
//! - A request of a tenant carries a token of that tenant, or is not sent. The shared transport has no credential.
//! - Tokens are in memory only, wiped when dropped, and in no `Debug`, error or log. An error never repeats
//!   what a parser stumbled over. Silence kube's own client in your log (`kube_client::client=off`): it warns
//!   with the answer that it cannot parse, and answers contain tokens.
//! - A recreated account is another identity: other token, other watches, nothing remembered of its rights.
//! - What a tenant can make a program keep is bounded: watches and bytes per namespace of accounts
//!   ([`watch::WatchLimits`]), 8 MiB of one answer, 8 MiB of what is remembered of rights
//!   ([`budget::MemoryBudget`]).
//! - A right that is taken away ends what it allowed: writes at once, a watch when it starts again, an access
//!   review when the cache's time is over.
//!
//! ## How it fails
//!
//! [`token::MintError`] says that an account is not there, or that this program may not act as it. A refused
//! request is an ordinary 403 of kube, `CallError::Forbidden` through [`weaver_client::call`];
//! [`review::missing`] says what is missing.
//! A watch that fails is in one of the [`watch::WatchState`]s, tries again by itself and wakes its users when
//! that changes;
//! [`watch::Interest::try_again`] shortens the pause once a right was granted.

#![warn(clippy::must_use_candidate, missing_docs)]

mod access_cache;
mod account;
mod answers;
pub mod budget;
pub mod claims;
mod client;
pub mod review;
pub mod token;
pub mod transport;
pub mod watch;

pub use access_cache::AccessCache;
pub use account::Account;
pub use client::{TenantClient, Tenants};
