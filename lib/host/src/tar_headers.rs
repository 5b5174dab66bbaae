//! The headers of a tar archive, with a limit: `tar` keeps the long names in front of a member in memory, however long
//! an archive of someone else says that they are.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};

use tar::{Entries, Entry};

/// Bytes of the headers of a member. Its name and what it leads to are paths, of 4,096 bytes at most.
const LIMIT: u64 = 64 << 10;

/// How much of an archive may be read at the moment.
#[derive(Debug, Default)]
pub struct HeadersLimit(Cell<u64>);

impl HeadersLimit {
    /// What the archive is to be read from.
    pub const fn over<R>(&self, inner: R) -> HeadersLimited<'_, R> {
        HeadersLimited { inner, left: &self.0 }
    }

    /// The next member, whose content has no limit. Its headers have.
    pub fn next_of<'a, R: Read>(&self, entries: &mut Entries<'a, R>) -> Option<io::Result<Entry<'a, R>>> {
        self.0.set(LIMIT);
        let entry = entries.next();
        self.0.set(u64::MAX);
        entry
    }
}

/// Reads no more than is left.
#[derive(Debug)]
pub struct HeadersLimited<'l, R> {
    inner: R,
    left: &'l Cell<u64>,
}

impl<R: Read> Read for HeadersLimited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other("the name of a member has no end"));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.inner.read(&mut buffer[..most])?;
        self.left.set(left.saturating_sub(count as u64));
        Ok(count)
    }
}

impl<R: Seek> Seek for HeadersLimited<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
