//! The connections that are open, and for each of them whose turn it is: the client's, or the server's.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::eviction::{ConnectionAdmission, ConnectionState, admission, first_to_go};
use super::limits::ConnectionLimits;

#[derive(Debug, Default)]
pub struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    changed: Arc<Notify>,
}

/// One connection, from the moment it is accepted.
#[derive(Debug)]
pub struct Connection {
    peer: IpAddr,
    turn: Mutex<Turn>,
    changed: Arc<Notify>,
    /// Cancelled when its slot is given to another.
    pub leave: CancellationToken,
    /// Notified at each request that begins; true from the first one.
    pub begun: watch::Sender<bool>,
}

#[derive(Debug)]
struct Turn {
    /// Requests that have arrived whole and are not answered.
    at_work: usize,
    waiting_since: Instant,
    known: bool,
}

/// The slot of a connection; free again when dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    key: u64,
    all: Arc<Connections>,
    pub connection: Arc<Connection>,
}

impl Connections {
    /// A slot for a new client, if there is one; the connection that is evicted for it is closed.
    pub fn admit(
        self: &Arc<Self>,
        key: u64,
        peer: IpAddr,
        limits: &ConnectionLimits,
    ) -> Result<ConnectionSlot, ConnectionAdmission<u64>> {
        let mut open = self.open.lock();
        match admission(&seen(&open), peer, limits) {
            ConnectionAdmission::Admit => {}
            ConnectionAdmission::Replace(oldest) => leave(&mut open, oldest),
            verdict @ (ConnectionAdmission::Refuse | ConnectionAdmission::Wait) => return Err(verdict),
        }
        let turn = Turn { at_work: 0, waiting_since: Instant::now(), known: false };
        let connection = Arc::new(Connection {
            peer,
            turn: Mutex::new(turn),
            changed: Arc::clone(&self.changed),
            leave: CancellationToken::new(),
            begun: watch::channel(false).0,
        });
        open.insert(key, Arc::clone(&connection));
        Ok(ConnectionSlot { key, all: Arc::clone(self), connection })
    }

    /// Ends the connection that would be the first to go.
    pub fn shed(&self) {
        let mut open = self.open.lock();
        if let Some(oldest) = first_to_go(&seen(&open)) {
            leave(&mut open, oldest);
        }
    }

    /// Returns when a slot may have become free.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn seen(open: &HashMap<u64, Arc<Connection>>) -> Vec<(u64, ConnectionState)> {
    open.iter().map(|(key, connection)| (*key, connection.seen())).collect()
}

fn leave(open: &mut HashMap<u64, Arc<Connection>>, key: u64) {
    if let Some(connection) = open.remove(&key) {
        connection.leave.cancel();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.all.open.lock().remove(&self.key);
        self.all.changed.notify_one();
    }
}

impl Connection {
    fn seen(&self) -> ConnectionState {
        let turn = self.turn.lock();
        let waiting_since = (turn.at_work == 0).then_some(turn.waiting_since);
        ConnectionState { peer: self.peer, known: turn.known, waiting_since }
    }

    /// Would a client miss something that ends without a farewell?
    pub fn deserves_farewell(&self) -> bool {
        let turn = self.turn.lock();
        turn.known || turn.at_work > 0
    }

    /// Is an answer being made?
    pub fn is_at_work(&self) -> bool {
        self.turn.lock().at_work > 0
    }
}

/// The connection that a request came by, among the request's extensions.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Connection>);

impl Caller {
    pub fn of(connection: &Arc<Connection>) -> Self {
        Self(Arc::clone(connection))
    }

    /// Its client has shown that it is one that the server is for: its connection is the last to go.
    pub fn mark_known(&self) {
        self.0.turn.lock().known = true;
    }
}

/// One request on its way through the server.
#[derive(Debug)]
pub struct Exchange {
    connection: Arc<Connection>,
    work: OnceLock<RequestInProgress>,
}

impl Exchange {
    /// Its head has arrived.
    pub fn begin(connection: &Arc<Connection>) -> Arc<Self> {
        connection.begun.send_replace(true);
        Arc::new(Self { connection: Arc::clone(connection), work: OnceLock::new() })
    }

    fn has_arrived(&self) {
        self.work.get_or_init(|| {
            self.connection.turn.lock().at_work += 1;
            RequestInProgress(Arc::clone(&self.connection))
        });
    }
}

/// From the end of a request to its answer.
#[derive(Debug)]
struct RequestInProgress(Arc<Connection>);

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut turn = self.0.turn.lock();
        turn.at_work = turn.at_work.saturating_sub(1);
        turn.waiting_since = Instant::now();
        drop(turn);
        self.0.changed.notify_one();
    }
}

/// A request's body, which says when it has arrived. Until then it is the client's turn: who sends slowly may
/// be evicted.
#[derive(Debug)]
pub struct Arriving {
    body: Incoming,
    exchange: Weak<Exchange>,
}

impl Arriving {
    pub fn new(body: Incoming, exchange: &Arc<Exchange>) -> Self {
        if body.is_end_stream() {
            exchange.has_arrived();
        }
        Self { body, exchange: Arc::downgrade(exchange) }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let has_ended = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        if let Some(exchange) = self.exchange.upgrade().filter(|_| has_ended) {
            exchange.has_arrived();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
