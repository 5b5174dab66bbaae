//! Named attackers on the real API server: each test is one attack, and says who tries it.
//! docs/explanation/threat-model.md has the promise that each one checks.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod curious_tenant;
mod editor_without_impersonate;
mod greedy_tenant;
mod hostile_card;
mod hostile_node;
mod hostile_pi;
mod neighbour;
mod other_page;
mod threat_model;
mod withstands;
