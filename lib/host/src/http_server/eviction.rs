//! Which connection ends where a new one needs its slot. Pure: plain values in, a verdict out.

use std::net::IpAddr;

use tokio::time::Instant;

use super::limits::ConnectionLimits;

/// What counts about one connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionState {
    pub peer: IpAddr,
    /// Has it shown that it is a client that the server is for?
    pub known: bool,
    /// Since when the client has to act: finish its handshake, send a head or a body, take an answer, ask the next
    /// question. `None` while the server works on an answer.
    pub waiting_since: Option<Instant>,
}

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectionAdmission<K> {
    /// There is a free slot.
    Admit,
    /// It gets the slot of this one, which ends.
    Replace(K),
    /// Its address has all the connections that one address may have, and each is being answered.
    Refuse,
    /// Each connection is being answered: the next that ends or becomes idle frees a slot.
    Wait,
}

/// What becomes of a new connection from `peer`, with these others there.
///
/// The limit per address is for a network. On the loopback interface all clients have one address, and only the order
/// of eviction distinguishes them.
pub fn admission<K: Copy>(
    others: &[(K, ConnectionState)],
    peer: IpAddr,
    limits: &ConnectionLimits,
) -> ConnectionAdmission<K> {
    let peer = peer.to_canonical();
    if !peer.is_loopback() {
        let same: Vec<_> =
            others.iter().filter(|(_, seen)| seen.peer.to_canonical() == peer).copied().collect();
        if same.len() >= limits.per_address {
            return first_to_go(&same).map_or(ConnectionAdmission::Refuse, ConnectionAdmission::Replace);
        }
    }
    if others.len() < limits.connections {
        return ConnectionAdmission::Admit;
    }
    first_to_go(others).map_or(ConnectionAdmission::Wait, ConnectionAdmission::Replace)
}

/// The connection whose client has been silent longest, unknown clients first; never one that is being
/// answered. Where more than half are known, that counts for none of them: any client can become known, and
/// those that did must not leave a newcomer, which may be the API server, only other newcomers to displace.
pub fn first_to_go<K: Copy>(connections: &[(K, ConnectionState)]) -> Option<K> {
    let known = connections.iter().filter(|(_, seen)| seen.known).count();
    let counts = known * 2 <= connections.len();
    let waiting =
        connections.iter().filter_map(|(key, seen)| Some((seen.known && counts, seen.waiting_since?, *key)));
    waiting.min_by_key(|(known, since, _)| (*known, *since)).map(|(.., key)| key)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LOCAL: &str = "127.0.0.1";
    const LIMITS: ConnectionLimits =
        ConnectionLimits { connections: 3, per_address: 2, ..ConnectionLimits::PAGES };

    /// `(peer, known, seconds of silence)`; without seconds it is being answered.
    type PeerRow = (&'static str, bool, Option<u64>);

    fn decide(rows: &[PeerRow], newcomer: &str) -> ConnectionAdmission<usize> {
        let now = Instant::now() + Duration::from_hours(1);
        let seen = |&(peer, known, silent): &PeerRow| ConnectionState {
            peer: peer.parse().unwrap(),
            known,
            waiting_since: silent.map(|seconds| now.checked_sub(Duration::from_secs(seconds)).unwrap()),
        };
        let others: Vec<_> = rows.iter().map(seen).enumerate().collect();
        admission(&others, newcomer.parse().unwrap(), &LIMITS)
    }

    #[test]
    fn the_longest_silence_goes_unknown_clients_first_and_never_one_that_is_being_answered() {
        use ConnectionAdmission::{Admit, Refuse, Replace, Wait};
        let (a, b, c, mapped) = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "::ffff:10.0.0.1");
        for (rows, newcomer, expected) in [
            (vec![], LOCAL, Admit),
            (vec![(LOCAL, false, Some(9)), (LOCAL, false, Some(8))], LOCAL, Admit),
            (
                vec![(LOCAL, false, Some(1)), (LOCAL, false, Some(9)), (LOCAL, false, Some(3))],
                LOCAL,
                Replace(1),
            ),
            (
                vec![(LOCAL, true, Some(99)), (LOCAL, false, Some(1)), (LOCAL, false, Some(0))],
                LOCAL,
                Replace(1),
            ),
            (vec![(LOCAL, true, Some(5)), (LOCAL, true, Some(6)), (LOCAL, true, Some(4))], LOCAL, Replace(1)),
            (
                vec![(LOCAL, true, Some(5)), (LOCAL, true, Some(6)), (LOCAL, false, Some(0))],
                LOCAL,
                Replace(1),
            ),
            (vec![(LOCAL, false, None), (LOCAL, true, Some(0)), (LOCAL, false, None)], LOCAL, Replace(1)),
            (vec![(LOCAL, false, None), (LOCAL, true, None), (LOCAL, false, None)], LOCAL, Wait),
            // One address does not push others out; it pushes itself out.
            (vec![(a, false, Some(1)), (a, false, Some(2)), (b, false, Some(99))], a, Replace(1)),
            (vec![(a, false, Some(1)), (a, false, Some(2))], a, Replace(1)),
            (vec![(a, true, Some(9)), (a, false, Some(2))], a, Replace(1)),
            (vec![(a, false, Some(1)), (a, false, Some(2))], mapped, Replace(1)),
            (vec![(a, false, None), (a, false, None)], a, Refuse),
            (vec![(a, false, None), (a, false, None)], c, Admit),
            (vec![(a, false, Some(1)), (a, false, Some(2)), (b, false, Some(3))], c, Replace(2)),
            // A limit of its own has the loopback interface not.
            (vec![(LOCAL, false, None), (LOCAL, false, None)], LOCAL, Admit),
        ] {
            assert_eq!(decide(&rows, newcomer), expected, "{newcomer} among {rows:?}");
        }
    }
}
