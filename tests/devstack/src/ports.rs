//! Which port to listen on, and which process has one that is taken.
//!
//! Guarantee: a port is called free only after it could be bound on loopback.
//! Failure: the process on a port is named if `/proc` shows it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, anyhow};

/// The port of `make up` unless it is taken or another one is asked for.
pub const PREFERRED: u16 = 16443;

/// The port of the conversion webhook of `make up` unless it is taken.
pub const WEBHOOK: u16 = 9443;

/// Disposable servers listen here: below the ports that Linux hands to outgoing
/// connections (32768 and up), so that a restart finds its own port still free.
const DISPOSABLE: std::ops::Range<u16> = 20_000..30_000;

/// Whether the port can be bound on 127.0.0.1 now.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The first free port from `first` upwards.
pub fn first_free(first: u16, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    (first..=u16::MAX).find(|port| is_free(*port))
}

/// A free port for a disposable server, and the next one, where the API server behind k3s' own listens. Different
/// processes begin at different ports, so that two at once rarely collide.
///
/// # Errors
/// When not one port of the range is free.
pub fn disposable() -> Result<u16> {
    let size = DISPOSABLE.end - DISPOSABLE.start;
    let first = u16::try_from(seed() % u64::from(size)).unwrap_or_default();
    (0..size)
        .map(|step| DISPOSABLE.start + (first + step) % size)
        .find(|port| is_free(*port) && is_free(*port + 1))
        .ok_or_else(|| anyhow!("no free port between {} and {}", DISPOSABLE.start, DISPOSABLE.end))
}

/// Differs between processes and between two calls in one.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Who listens on the port: `name (pid N)`, if `/proc` shows it.
pub fn holder(port: u16) -> Option<String> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    let pid = fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let holds = fs::read_dir(entry.path().join("fd")).ok()?.flatten().any(|fd| {
            fs::read_link(fd.path()).is_ok_and(|target| {
                inodes.iter().any(|i| target.as_os_str() == format!("socket:[{i}]").as_str())
            })
        });
        holds.then_some(pid)
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("{} (pid {pid})", name.trim()))
}

/// Inodes of the sockets that listen on `port`, from the text of `/proc/net/tcp`.
fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let wanted = format!("{port:04X}");
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
            let (_, local_port) = local.rsplit_once(':')?;
            (local_port == wanted && *state == LISTEN).then(|| inode.parse().ok())?
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn takes_the_first_that_is_free() {
        assert_eq!(first_free(PREFERRED, |_| true), Some(PREFERRED));
        assert_eq!(first_free(PREFERRED, |port| port > 16_450), Some(16_451));
        assert_eq!(first_free(u16::MAX, |_| false), None);
    }

    #[test]
    fn a_taken_port_is_named_with_its_holder() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port));
        let holder = holder(port).unwrap();
        assert!(holder.contains(&format!("(pid {})", std::process::id())), "{holder}");
        drop(listener);
    }

    #[test]
    fn disposable_ports_are_free_and_outside_the_ephemeral_range() {
        let port = disposable().unwrap();
        assert!(DISPOSABLE.contains(&port) && is_free(port));
    }

    #[test]
    fn reads_only_listening_sockets_of_the_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:403B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1\n\
             1: 0100007F:403B 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1\n\
             2: 0100007F:403C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1\n";
        assert_eq!(listening_inodes(table, 16443), [111]);
    }

    proptest! {
        #[test]
        fn any_table_is_read_without_a_panic(table in ".*", port: u16) {
            let _ = listening_inodes(&table, port);
        }
    }
}
