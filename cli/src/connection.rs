//! The connection to the API server, with the rights of the person who types.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use http::HeaderValue;
use kube::{Client, Config};

/// For an answer: longer than the API server's own limit.
const LONGEST: Duration = Duration::from_secs(70);

/// Sent with every request, so that an audit log tells a person's from an operator's.
pub const USER_AGENT: &str = concat!("weaver/", env!("CARGO_PKG_VERSION"));

/// A client by `kubeconfig`, else as kubectl would connect.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = if let Some(path) = kubeconfig {
        weaver_client::connection::config(Some(path), LONGEST, USER_AGENT).await?
    } else {
        // A parser's own message would show the lines around the mistake, keys included.
        let mut config = Config::infer().await.map_err(|_| {
            anyhow!("no usable kubeconfig (KUBECONFIG, else ~/.kube/config): see `kubectl config view`")
        })?;
        config.headers.push((http::header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
        config
    };
    weaver_client::connection::client(&config)
}
