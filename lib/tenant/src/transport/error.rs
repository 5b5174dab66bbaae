//! Why there is no way to the API server.

use std::io;

/// A transport cannot be set up, or the server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The address has no host.
    #[error("the server's address in the kubeconfig names no host")]
    NoHost,
    /// TLS has to prove a name, and this is none.
    #[error("{0} is not a server name")]
    NotAName(String),
    /// The certificates or keys cannot be used.
    #[error("setting up TLS")]
    Tls(#[source] kube::Error),
    /// The additional headers cannot be used.
    #[error("the headers of the configuration")]
    Headers(#[source] kube::Error),
    /// The credentials cannot be used.
    #[error("the credentials of the kubeconfig")]
    Credentials(#[source] kube::Error),
    /// There is no connection.
    #[error("connecting to {server}")]
    Connect {
        /// `HOST:PORT` of the API server.
        server: String,
        /// What kept the connection from being made.
        #[source]
        source: io::Error,
    },
    /// The server accepts the connection, or not even that, and says nothing.
    #[error("connecting to {server}: no answer within {seconds} s")]
    NoAnswer {
        /// `HOST:PORT` of the API server.
        server: String,
        /// How long was waited.
        seconds: u64,
    },
}
