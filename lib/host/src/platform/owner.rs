//! Who may use a file.

/// Who may use a file; `None` where the system has no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOwner {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Its permissions, set-uid and sticky bits included.
    pub mode: Option<u32>,
}
