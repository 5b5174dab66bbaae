//! What the kernel can tell of.

/// A trouble of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KernelProblem {
    /// The card did not answer in time.
    CardSilent,
    /// The card lost commands that were queued.
    CardQueue,
    /// Reading or writing a disk failed.
    Io,
    /// A file system found its data wrong.
    FileSystem,
    /// The kernel took a file system out of writing.
    ReadOnly,
    /// A USB disk did not answer and was reset.
    DiskReset,
    /// The USB controller of the board stopped.
    UsbStopped,
    /// A process got no further for minutes.
    Stuck,
    /// The memory of the board ran out.
    Memory,
    /// k3s, one of our units, or all pods together hit their memory limit.
    MemoryLimit,
    UnderVoltage,
    /// USB ports were turned off, because too much was drawn from them.
    OverCurrent,
    Heat,
}
