//! How to connect to the API server, from a kubeconfig or from a pod's files.
//!
//! A kubeconfig that cannot be used is named and never repeated: a parser's own message shows the lines around
//! the mistake, keys and tokens included.

use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::Limited;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::Service;
use tower::layer::layer_fn;
use tower::util::MapResponseLayer;

use crate::call::is_watch;
use crate::managed_fields;

/// Most bytes that are read of an answer which ends: who may write objects decides how long a list is, and a node how
/// long a log.
const LONGEST_ANSWER: usize = 64 << 20;

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

/// A client with the credentials of `config`. An object whose [`managed_fields`] no parser takes is read without them;
/// an answer of more than 64 MiB, other than that of a watch, is an error ([`crate::call::is_too_large`]).
///
/// # Errors
/// If TLS cannot be set up with its certificates.
pub fn client(config: &Config) -> anyhow::Result<Client> {
    let builder = ClientBuilder::try_from(config.clone()).context("setting up TLS")?;
    let bounded = builder.with_layer(&layer_fn(|inner| Bounded { inner, longest: LONGEST_ANSWER }));
    Ok(bounded.with_layer(&MapResponseLayer::new(managed_fields::readable_in)).build())
}

/// Reads no more than this of an answer that ends.
struct Bounded<S> {
    inner: S,
    longest: usize,
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (longest, ends) = (self.longest, !is_watch(request.uri()));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            let limited = |body: Box<DynBody>| Box::new(Limited::new(body, longest)) as Box<DynBody>;
            Ok(if ends { answer.map(limited) } else { answer })
        })
    }
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
    use http_body_util::BodyExt as _;
    use tower::BoxError;

    use super::*;
    use crate::call::CallError;

    /// A node answers for the logs of its pods, and who may write a few large objects makes a list long.
    #[tokio::test]
    async fn an_answer_without_end_is_not_read_to_it_and_a_watch_is_read_as_it_comes() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let body = Body::from(vec![b'x'; 101]).map_err(BoxError::from);
            Ok::<_, BoxError>(Response::new(Box::new(body) as Box<DynBody>))
        });
        let read = async |longest, path: &str| {
            let builder = ClientBuilder::new(service, "default");
            let client = builder.with_layer(&layer_fn(|inner| Bounded { inner, longest })).build();
            let request = Request::get(path).body(Vec::new()).unwrap();
            client.request_text(request).await.map(|text| text.len()).map_err(CallError::from)
        };
        let log = "/api/v1/namespaces/a/pods/b/log?tailLines=1";
        assert_eq!(read(101, log).await, Ok(101));
        assert_eq!(read(100, log).await, Err(CallError::TooLarge));
        assert_eq!(read(100, "/api/v1/pods?limit=1000").await, Err(CallError::TooLarge));
        assert_eq!(read(100, "/api/v1/pods?watch=true&limit=1").await, Ok(101));
    }

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
