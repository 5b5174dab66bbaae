//! A backup of a node: its content, whether it may be restored on a card, which older ones are deleted, when the next
//! is due. Pure.

pub mod left_out;
pub mod manifest;
pub mod name;
pub mod record;
pub mod restore;
pub mod schedule;
pub mod target;
pub mod volumes;
