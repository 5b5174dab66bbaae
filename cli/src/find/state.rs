//! Requests the state from the cards' pages: one GET each, without any credential.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use http::header::{CONNECTION, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use weaver_diagnostics::announcement::{NodeState, STATE_PATH};

use super::card::FoundCard;
use crate::connection;

/// For one address, and for all cards together.
const PATIENCE: Duration = Duration::from_secs(2);
const ALL: Duration = Duration::from_secs(6);
/// Cards that are queried at once, and addresses of each.
const AT_ONCE: usize = 32;
const ADDRESSES: usize = 3;
/// The most bytes of an answer, which is one word.
const LARGEST: usize = 64;

/// Fills in the states, and puts the address first that has answered.
pub async fn ask(cards: &mut [FoundCard]) {
    let until = Instant::now() + ALL;
    let asked = cards.iter_mut().filter(|card| card.announced.has_page).map(async |card| {
        for at in 0..card.addresses.len().min(ADDRESSES) {
            let mut address = card.addresses[at].at;
            address.set_port(card.port);
            let asking = timeout(PATIENCE, state(address));
            if let Ok(Ok(Some(state))) = timeout_at(until, asking).await {
                card.state = Some(state);
                card.addresses.swap(0, at);
                break;
            }
        }
    });
    futures::stream::iter(asked).for_each_concurrent(AT_ONCE, |asking| asking).await;
}

async fn state(address: SocketAddr) -> Option<NodeState> {
    let stream = TcpStream::connect(address).await.ok()?;
    let request = Request::get(STATE_PATH)
        .header(HOST, address.to_string())
        .header(USER_AGENT, connection::USER_AGENT)
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .ok()?;
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(16 * 1024).handshake(TokioIo::new(stream)).await.ok()?;
    // It ends with `sender`.
    tokio::spawn(async move { drop(connection.await) });
    let answer =
        sender.send_request(request).await.ok().filter(|answer| answer.status() == StatusCode::OK)?;
    let body = Limited::new(answer.into_body(), LARGEST).collect().await.ok()?;
    NodeState::read(&body.to_bytes())
}
