//! The wire between the operator and an API server: bytes, TLS and all, which a test can slow down, freeze and cut.
//!
//! The API server's certificate is valid for the loopback address, so the operator needs no other trust than it has.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A running wire; ends when dropped.
pub struct Link {
    pub address: SocketAddr,
    state: Arc<WireState>,
    _task: JoinSet<()>,
}

/// Connections have numbers, so that what befalls those that there are spares those that come.
struct WireState {
    /// How many there were.
    connections: AtomicU64,
    /// Those with a lower number never move again.
    frozen: AtomicU64,
    /// Those with a lower number end.
    cut: watch::Sender<u64>,
    /// Of each piece of data, in milliseconds.
    delay: AtomicU64,
}

impl Link {
    /// To the API server on this port of the loopback address.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(WireState {
            connections: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            cut: watch::Sender::new(0),
            delay: AtomicU64::new(0),
        });
        let (shared, mut task) = (state.clone(), JoinSet::new());
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (state, number) = (shared.clone(), shared.connections.fetch_add(1, Ordering::SeqCst));
                connections.spawn(async move {
                    // Where the server does not listen, the client's connection ends.
                    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    let (mut from_client, mut to_client) = split(client);
                    let (mut from_server, mut to_server) = split(server);
                    let mut cut = state.cut.subscribe();
                    tokio::select! {
                        () = pump(&mut from_client, &mut to_server, &state, number) => {}
                        () = pump(&mut from_server, &mut to_client, &state, number) => {}
                        _ = cut.wait_for(|before| number < *before) => {}
                    }
                });
            }
        });
        Self { address, state, _task: task }
    }

    /// Ends all connections that there are.
    pub fn cut(&self) {
        self.state.cut.send_replace(self.state.connections.load(Ordering::SeqCst));
    }

    /// Existing connections stall, without notice to either end.
    pub fn freeze(&self) {
        self.state.frozen.store(self.state.connections.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Holds up each piece of data for so long.
    pub fn slow_down(&self, delay: Duration) {
        let milliseconds = u64::try_from(delay.as_millis()).unwrap();
        self.state.delay.store(milliseconds, Ordering::SeqCst);
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }
}

/// Hands on what comes, until one of the two ends is gone.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    state: &WireState,
    number: u64,
) {
    let mut piece = vec![0; 16 * 1_024];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if number < state.frozen.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        let delay = state.delay.load(Ordering::SeqCst);
        if delay > 0 {
            sleep(Duration::from_millis(delay)).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
