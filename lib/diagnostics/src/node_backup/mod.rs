//! A backup of a node: what it holds, whether it may be restored on a card, which older ones go. Pure.

pub mod manifest;
pub mod name;
pub mod record;
pub mod restore;
pub mod target;
