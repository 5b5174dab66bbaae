//! The connection to the API server, with the rights of the person who types.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use kube::{Client, Config};

/// For an answer: longer than the API server's own limit.
const LONGEST: Duration = Duration::from_secs(70);

/// A client by `kubeconfig`, else as kubectl would connect.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(path) => weaver_operator::connection::config(Some(path), LONGEST).await?,
        // A parser's own message would show the lines around the mistake, keys included.
        None => Config::infer().await.map_err(|_| {
            anyhow!("no usable kubeconfig (KUBECONFIG, else ~/.kube/config): see `kubectl config view`")
        })?,
    };
    weaver_operator::connection::client(&config)
}
