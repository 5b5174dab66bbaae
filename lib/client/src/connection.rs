//! How to connect to the API server, from a kubeconfig or from a pod's files.
//!
//! A kubeconfig that cannot be used is named and never repeated: a parser's own message shows the lines around
//! the mistake, keys and tokens included.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::util::MapResponseLayer;

use crate::managed_fields;

/// How to connect to the API server: with `kubeconfig`, else as kubectl would, else as a pod; with this `context` of
/// it, else its current one. `watch` is the length of the longest request. Requests carry the `user_agent`.
///
/// # Errors
/// If there is no usable kubeconfig; the message names the file and the line.
pub async fn config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    watch: Duration,
    user_agent: &str,
) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    // A parser's own message would show the lines around the mistake, keys included.
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => from_file(path, &options).await?,
        (None, Some(context)) => Config::from_kubeconfig(&options).await.map_err(|_| {
            anyhow!("no usable kubeconfig (KUBECONFIG, ~/.kube/config) with the context `{context}`: see `kubectl config get-contexts`")
        })?,
        (None, None) => Config::infer().await.map_err(|_| {
            anyhow!(
                "no usable kubeconfig (KUBECONFIG, ~/.kube/config) and not in a pod: pass --kubeconfig FILE"
            )
        })?,
    };
    // Every resource has its own back-off; retries inside one request would only hide failures for minutes.
    config.default_retry = false;
    // A server that accepts a request and never answers blocks no caller forever; a quiet watch is not cut before its
    // own length.
    config.read_timeout = Some(watch + Duration::from_secs(10));
    config.reset_reader_on_write = true;
    // The name of a host may contain anything.
    let user_agent = user_agent.replace(|char: char| !char.is_ascii_graphic() && char != ' ', "-");
    config.headers.push((USER_AGENT, HeaderValue::from_str(&user_agent).context("the user agent")?));
    Ok(config)
}

/// A client with the credentials of `config`. An object whose [`managed_fields`] no parser takes is read without them.
///
/// # Errors
/// If TLS cannot be set up with its certificates.
pub fn client(config: &Config) -> anyhow::Result<Client> {
    let builder = ClientBuilder::try_from(config.clone()).context("setting up TLS")?;
    Ok(builder.with_layer(&MapResponseLayer::new(managed_fields::readable_in)).build())
}

/// The same for what all tenants share: it cannot act as the operator.
#[must_use]
pub fn without_credentials(config: &Config) -> Config {
    let mut config = config.clone();
    config.auth_info = AuthInfo::default();
    config
}

async fn from_file(path: &Path, options: &KubeConfigOptions) -> anyhow::Result<Config> {
    let what = || format!("cannot use the kubeconfig {}", path.display());
    let parsed = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::Parse(error) => {
            let line = error.location().map_or(0, |place| place.line());
            anyhow!("line {line} is not valid in a kubeconfig")
        }
        KubeconfigError::ReadConfig(error, _) => error.into(),
        error => error.into(),
    });
    Config::from_custom_kubeconfig(parsed.with_context(what)?, options).await.with_context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("operator.kubeconfig");
        std::fs::write(&path, text).unwrap();
        let error = config(Some(&path), None, Duration::from_secs(5), "test").await.unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("operator.kubeconfig"), "{message}");
        message
    }

    #[tokio::test]
    async fn a_kubeconfig_without_the_context_is_reported() {
        assert!(
            refused("current-context: nope\ncontexts: []\n")
                .await
                .contains("failed to load current context: nope")
        );
    }

    #[tokio::test]
    async fn the_context_that_is_asked_for_is_taken_and_one_that_is_not_there_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("two.yaml");
        let entry = |name: &str| {
            format!(
                "- {{name: {name}, cluster: {{server: 'https://{name}:6443'}}, user: {{token: t}}, \
                 context: {{cluster: {name}, user: {name}, namespace: of-{name}}}}}\n"
            )
        };
        let both = entry("one") + &entry("two");
        let file = format!("current-context: one\nclusters:\n{both}users:\n{both}contexts:\n{both}");
        std::fs::write(&path, file).unwrap();
        let by = async |context| config(Some(&path), context, Duration::from_secs(5), "test").await;
        assert_eq!(by(None).await.unwrap().default_namespace, "of-one");
        let two = by(Some("two")).await.unwrap();
        assert_eq!((two.cluster_url.host(), &*two.default_namespace), (Some("two"), "of-two"));
        let refused = format!("{:#}", by(Some("three")).await.unwrap_err());
        assert!(refused.contains("failed to load current context: three"), "{refused}");
    }

    #[tokio::test]
    async fn a_broken_kubeconfig_is_named_and_not_repeated() {
        let message = refused("current-context: o\nusers:\n- user: {token: hunter2\n  bad\n").await;
        assert!(
            message.contains("line 3 is not valid in a kubeconfig") && !message.contains("hunter2"),
            "{message}"
        );
    }
}
