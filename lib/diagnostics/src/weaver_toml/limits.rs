//! How large a `weaver.toml` may be, and which addresses no host has.

use std::net::IpAddr;

/// The largest file that is read, in bytes.
pub const FILE_LIMIT: usize = 64 * 1024;
/// The most entries that a list or the options may have.
pub const MOST_ENTRIES: usize = 64;

/// Has no host this address?
pub(super) fn is_of_no_host(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_multicast() || address == IpAddr::from([255; 4])
}
