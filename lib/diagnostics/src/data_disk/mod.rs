//! The data of k3s on a disk of its own, as `[storage] data` asks: which disk is meant, whether it is fit for them, and
//! what a node says of it.
//!
//! Guarantees: the data is moved once, and only onto a file system that is the only one of its name, holds none of
//! k3s' data, and has space. A node whose data was moved never starts k3s without that disk.

pub mod disk;
pub mod lsblk;
pub mod mount_unit;
pub mod name;
pub mod record;

/// What is moved, and where the disk is mounted then.
pub const MOUNT_POINT: &str = "/var/lib/rancher";
/// Where the data that was moved stays on the card.
pub const KEPT: &str = "/var/lib/rancher.on-card";
/// The copy on the disk, until it is whole.
pub const UNFINISHED: &str = ".weaver-data.part";
