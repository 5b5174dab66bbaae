//! What `run` does in the cluster, as the administrator: connects, applies the manifests
//! and mints the operator's token. Every request has a deadline.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use tokio::time::timeout;
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};
use weaver_diagnostics::{
    kubeconfig,
    kubeconfig_export::{ExportError, SourceContext},
    text_file::TextFile,
    yaml_node::first_document,
};

use super::credentials::OperatorToken;
use crate::{host_root::HostRoot, k3d::K3d};

/// The owner of what the agent applies.
pub const MANAGER: &str = "weaver-node-agent";
const USER_AGENT: &str = concat!("weaver-node-agent/", env!("CARGO_PKG_VERSION"));
const REQUEST: Duration = Duration::from_secs(15);
const RBAC: &str = include_str!("../../../deploy/rbac/operator.yaml");

/// The kubeconfig with which the agent connects to the cluster.
#[derive(Debug, Clone)]
pub enum ClusterAccess {
    /// A file of the host.
    File(HostRoot, PathBuf),
    /// That of a server of k3d, whose API is at the address that the engine publishes.
    K3d(Arc<K3d>),
}

impl ClusterAccess {
    fn read(&self) -> anyhow::Result<(TextFile, String)> {
        match self {
            Self::File(root, path) => {
                let what = format!("cannot use the kubeconfig {}", path.display());
                let file = root.read(path).with_context(|| what.clone())?;
                let missing = || format!("{what}: it does not exist; k3s writes it when it has started");
                Ok((file.with_context(missing)?, what))
            }
            Self::K3d(k3d) => {
                let file = k3d.kubeconfig.clone().context("the cluster of k3d has no kubeconfig yet")?;
                let what = format!("cannot use the kubeconfig {}", file.path);
                Ok((file, what))
            }
        }
    }
}

/// A client by this kubeconfig as it is now: k3s may have written it again.
///
/// # Errors
/// The file cannot be used; the message names it and repeats none of it: a
/// parser's own message would show the lines around the mistake, keys included.
pub async fn connect(access: &ClusterAccess) -> anyhow::Result<Client> {
    let (file, what) = access.read()?;
    if let Some(unusable) = kubeconfig::unusable(&file, None) {
        bail!("{unusable}");
    }
    let text = match access {
        ClusterAccess::File(..) => first_document(&file.text).to_owned(),
        ClusterAccess::K3d(k3d) => {
            let api = k3d.api.context("the cluster of k3d publishes no port of its API server")?;
            of_container(&file, api).with_context(|| what.clone())?
        }
    };
    let parsed: Kubeconfig = serde_saphyr::from_str(&text).map_err(|error| {
        let line = error.location().map_or(0, |place| place.line());
        anyhow!("{what}: line {line} is not valid in a kubeconfig")
    })?;
    let mut config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .with_context(|| what.clone())?;
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
    weaver_client::connection::client(&config).context(what)
}

/// What is used of a kubeconfig out of a container: the container of a rootless engine is a user's, and this process is
/// root's.
fn of_container(file: &TextFile, api: SocketAddr) -> Result<String, ExportError> {
    Ok(SourceContext::read(file)?.of_k3d(api)?.to_yaml())
}

/// All objects that the agent applies next to the definitions, in their order. They are built in: what it installs is
/// what it was built with.
///
/// # Errors
/// A manifest does not parse; a test ensures that all do.
fn manifests() -> anyhow::Result<Vec<DynamicObject>> {
    serde_saphyr::from_multiple(RBAC).context("a built-in manifest")
}

/// Applies all manifests.
///
/// # Errors
/// The first object that the API server refuses, by kind and name.
pub async fn apply_all(client: &Client) -> anyhow::Result<()> {
    for object in &manifests()? {
        apply(client, object).await?;
    }
    Ok(())
}

/// Applies one object, and returns it as it is now.
///
/// # Errors
/// The API server refuses it, or gives no answer in time.
pub async fn apply(client: &Client, object: &DynamicObject) -> anyhow::Result<DynamicObject> {
    let (Some(types), Some(name)) = (&object.types, &object.metadata.name) else {
        bail!("a built-in manifest has no kind or no name");
    };
    let what = format!("applying {} {name}", types.kind);
    let kind = GroupVersionKind::try_from(types).with_context(|| what.clone())?;
    // Each is in the plural what kube makes of it.
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply(MANAGER).force();
    deadline(&what, api.patch(name, &params, &Patch::Apply(object))).await
}

/// Mints a token of the operator's account.
///
/// # Errors
/// The API server refuses, or answers without a token.
pub async fn mint(client: &Client, seconds: i64) -> anyhow::Result<OperatorToken> {
    let what = format!("minting a token of {OPERATOR_NAMESPACE}/{OPERATOR_ACCOUNT}");
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let call = api.create_token_request(OPERATOR_ACCOUNT, &params, &request);
    let status = deadline(&what, call).await?.status.unwrap_or_default();
    let (Some(token), Some(expires)) = (status.token, status.expiration_timestamp) else {
        bail!("{what}: the answer holds no token or no expiry");
    };
    // The length, for the monotonic clock; the expiry itself for the wall clock
    // that someone may set.
    let lifetime = Duration::try_from(expires.0.duration_since(jiff::Timestamp::now())).unwrap_or_default();
    Ok(OperatorToken { secret: token.into(), lifetime, expires: expires.0 })
}

/// What the call answers within its time.
///
/// # Errors
/// It was refused, or there was no answer; the message begins with `what`.
pub async fn deadline<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> anyhow::Result<T> {
    timeout(REQUEST, call)
        .await
        .with_context(|| format!("{what}: no answer within {} s", REQUEST.as_secs()))?
        .with_context(|| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_broken_kubeconfig_is_named_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        for text in [
            "users:\n- user: {token: hunter2}\n",
            "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n\
             clusters: [{name: c, cluster: {server: x}}]\n\
             users:\n- name: u\n  user:\n    token: [hunter2]\n",
            "current-context: a\ntoken: \"hunter2\n",
        ] {
            std::fs::write(dir.path().join("k.yaml"), text).unwrap();
            let error =
                connect(&ClusterAccess::File(root.clone(), "/k.yaml".into())).await.map(drop).unwrap_err();
            let shown = format!("{error:#} {error:?}");
            assert!(shown.contains("/k.yaml") && !shown.contains("hunter2"), "{shown}");
        }
    }
    #[tokio::test]
    async fn a_kubeconfig_out_of_a_container_runs_no_program_and_names_no_file_of_the_host() {
        // The base64 of PEM whose content is an empty SEQUENCE.
        const CA: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
        let sent = |cluster: &str, user: &str| {
            let text = format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\nclusters:\n- name: c\n  \
                 cluster: {{server: 'https://0.0.0.0:6443', certificate-authority-data: {CA}{cluster}}}\nusers:\n\
                 - name: u\n  user: {{{user}}}\n"
            );
            TextFile::new("k3d-edge-server-0:/output/kubeconfig.yaml", text)
        };
        let api = SocketAddr::from(([127, 0, 0, 1], 6445));
        for (cluster, user, key) in [
            ("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: /tmp/pwned}", "exec"),
            ("", "token: hunter2, exec: {command: /tmp/pwned}", "exec"),
            ("", "auth-provider: {name: gcp, config: {cmd-path: /tmp/pwned}}", "auth-provider"),
            ("", "tokenFile: /run/weaver/operator.token", "tokenFile"),
            ("", "client-certificate: /etc/a.crt, client-key: /etc/ssh/a_key", "client-key"),
            (", proxy-url: 'http://203.0.113.1'", "token: hunter2", "proxy-url"),
            (", certificate-authority: /etc/shadow", "token: hunter2", "certificate-authority"),
        ] {
            let mut k3d = K3d::default();
            k3d.api = Some(api);
            k3d.kubeconfig = Some(sent(cluster, user));
            let error = connect(&ClusterAccess::K3d(Arc::new(k3d))).await.map(drop).unwrap_err();
            let shown = format!("{error:#}");
            assert!(shown.contains(key) && shown.contains("kubeconfig.yaml"), "{user}: {shown}");
            assert!(!shown.contains("hunter2") && !shown.contains("line "), "{user}: {shown}");
        }
        let kept = of_container(&sent("", "token: hunter2"), api).unwrap();
        for part in
            ["server: https://127.0.0.1:6445\n", "tls-server-name: kubernetes\n", "token: hunter2\n", CA]
        {
            assert!(kept.contains(part), "{kept}");
        }
    }

    #[test]
    fn the_built_in_manifests_parse_and_hold_what_minting_needs() {
        let objects = manifests().unwrap();
        let kinds: Vec<_> = objects.iter().map(|o| o.types.as_ref().unwrap().kind.as_str()).collect();
        assert_eq!(kinds[0], "Namespace");
        assert_eq!(objects[0].metadata.name.as_deref(), Some(weaver_api::OPERATOR_NAMESPACE));
        let account = &objects[kinds.iter().position(|k| *k == "ServiceAccount").unwrap()];
        assert_eq!(account.metadata.name.as_deref(), Some(weaver_api::OPERATOR_ACCOUNT));
        assert_eq!(account.metadata.namespace.as_deref(), Some(weaver_api::OPERATOR_NAMESPACE));
        // Only the installer writes definitions.
        assert!(!kinds.contains(&"CustomResourceDefinition"));
    }
}
