//! How large a `weaver.toml` may be, and which addresses no host has.

use std::net::IpAddr;

use super::fault::Mistake;

/// The largest file that is read, in bytes.
pub const FILE_LIMIT: usize = 64 * 1024;
/// The most entries that a list or the options may have.
pub const MOST_ENTRIES: usize = 64;
/// The longest text that becomes one of a file of k3s, in bytes.
const LONGEST: usize = 1024;

/// Refuses what has more entries, or `parts`, than anyone needs.
pub(super) fn not_more(what: &str, count: usize, parts: &str) -> Result<(), Mistake> {
    if count <= MOST_ENTRIES {
        return Ok(());
    }
    let message = format!("{what} has {count} {parts}, more than {MOST_ENTRIES}");
    Err(Mistake::new(message, "leave out what is not needed"))
}

/// A text on one line; `instead` is what to do about a longer one than is taken.
pub(super) fn one_line(what: &str, text: &str, instead: &str) -> Result<String, Mistake> {
    if text.len() > LONGEST {
        Err(Mistake::new(format!("{what} is longer than {LONGEST} bytes"), instead))
    } else if text.contains(char::is_control) {
        Err(Mistake::new(format!("{what} has control characters"), "write it on one line"))
    } else {
        Ok(text.to_owned())
    }
}

/// Has no host this address?
pub(super) fn is_of_no_host(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_multicast() || address == IpAddr::from([255; 4])
}
