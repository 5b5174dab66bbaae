//! Readiness as systemd services tell it: `READY=1` to `NOTIFY_SOCKET`.
//!
//! A notice only wakes the one who waits; whether the API server serves is
//! still asked of itself, so a forged notice does no harm. Only where a test
//! has started our testbed is its word enough.
//! The socket has an abstract name: no file to clean up, no limit of length.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

pub struct Notices {
    socket: UnixDatagram,
    name: String,
}

impl Notices {
    /// Opens a socket of its own.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("config-weaver/{}/{count}", std::process::id());
        let bind = || UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?);
        Ok(Self { socket: bind().context("cannot open a socket for readiness notices")?, name })
    }

    /// The value of `NOTIFY_SOCKET`.
    pub fn address(&self) -> OsString {
        format!("@{}", self.name).into()
    }

    /// Forgets what an earlier process has sent, and no one has waited for.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn forget(&self) -> Result<()> {
        let blocks =
            |it_does: bool| self.socket.set_nonblocking(!it_does).context("cannot receive readiness notices");
        blocks(false)?;
        while self.socket.recv(&mut [0_u8; 4096]).is_ok() {}
        blocks(true)
    }

    /// Waits for the next notice, at most `patience`; whether it says ready.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn ready(&self, patience: Duration) -> Result<bool> {
        let mut buffer = [0; 4096];
        let received =
            self.socket.set_read_timeout(Some(patience)).and_then(|()| self.socket.recv(&mut buffer));
        match received {
            Ok(length) => Ok(buffer[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(error) => Err(error).context("cannot receive readiness notices"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ready_is_ready() {
        let notices = Notices::open().unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        let to = SocketAddr::from_abstract_name(notices.address().to_str().unwrap().trim_start_matches('@'))
            .unwrap();
        for (text, ready) in [("STATUS=READY=1", false), ("STATUS=x\nREADY=1\n", true), ("READY=10", false)] {
            sender.send_to_addr(text.as_bytes(), &to).unwrap();
            assert_eq!(notices.ready(Duration::from_secs(10)).unwrap(), ready, "{text}");
        }
        assert!(!notices.ready(Duration::from_millis(1)).unwrap());
        // Of a process that has ended before anyone waited for it.
        for _ in 0..2 {
            sender.send_to_addr(b"READY=1", &to).unwrap();
        }
        notices.forget().unwrap();
        assert!(!notices.ready(Duration::from_millis(1)).unwrap());
        sender.send_to_addr(b"READY=1", &to).unwrap();
        assert!(notices.ready(Duration::from_secs(10)).unwrap());
    }
}
