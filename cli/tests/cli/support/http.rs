//! Small servers, with TLS or without, that answer as a test wants.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The head of a request, as it came.
pub type Heads = Arc<Mutex<Vec<String>>>;

/// Reads a request and writes what `answer` gives for its head.
pub fn serve(stream: impl Read + Write, heads: &Heads, answer: &impl Fn(&str) -> String) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        // A client that refuses the certificate, or queries a hanging server, is no fault here.
        if !matches!(stream.read_line(&mut head), Ok(1..)) {
            return;
        }
    }
    heads.lock().unwrap().push(head.clone());
    let _ = stream.get_mut().write_all(answer(&head).as_bytes());
    let _ = stream.get_mut().flush();
}

/// A server on a free port, with TLS where a configuration is given.
pub fn server(
    tls: Option<Arc<ServerConfig>>,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Heads::default();
    let (answer, all) = (Arc::new(answer), Arc::clone(&heads));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tls) = (stream.unwrap(), tls.clone());
            let (answer, heads) = (Arc::clone(&answer), Arc::clone(&all));
            thread::spawn(move || match tls {
                None => serve(stream, &heads, &*answer),
                Some(config) => {
                    let connection = ServerConnection::new(config).unwrap();
                    serve(StreamOwned::new(connection, stream), &heads, &*answer);
                }
            });
        }
    });
    (address, heads)
}

pub fn answered(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

pub fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}
