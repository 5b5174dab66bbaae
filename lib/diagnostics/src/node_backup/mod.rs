//! A backup of a node: what it holds, whether it may be restored on a card, which older ones go, when another
//! is due. Pure.

pub mod manifest;
pub mod name;
pub mod record;
pub mod restore;
pub mod schedule;
pub mod target;
