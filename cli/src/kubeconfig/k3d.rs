//! The administrator's kubeconfig of a cluster of k3d on this machine, read from a server's container.

use std::net::SocketAddr;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::k3d::cluster::K3dCluster;
use weaver_diagnostics::k3d::engine::EngineProgram;
use weaver_diagnostics::k3d::verdict;
use weaver_diagnostics::kubeconfig_export::SourceContext;
use weaver_host::docker::{Engine, EngineError};

use super::refusal::{KubeconfigRefusal, refusal};

/// What can be exported of the cluster, with the address at which this machine connects to its API server.
pub async fn source(cluster: &str) -> anyhow::Result<SourceContext> {
    let unread = |error: EngineError| refused_by(&verdict::unread(&error.socket, &error.why));
    let engine = Engine::of_user().map_err(unread)?;
    let engine = engine.ok_or_else(|| refused_by(&verdict::no_engine()))?;
    let all = engine.k3d_clusters().await.map_err(unread)?;
    let chosen =
        K3dCluster::choose(&all, Some(cluster)).map_err(|why| refused_by(&verdict::not_chosen(&why)))?;
    let Some((server, api)) = chosen.running().zip(chosen.api()) else {
        let found = verdict::judge(chosen, &all, |_| true);
        return Err(found.first().map_or_else(|| refusal(format!("{cluster} does not run")), refused_by));
    };
    let file = engine.kubeconfig(&server.name).await.map_err(unread)?;
    let file = file.ok_or_else(|| {
        refusal(format!("k3s in {} has not written its kubeconfig yet: try again in a moment", server.name))
    })?;
    let mut source = SourceContext::read(&file).map_err(refusal)?;
    source.server = api.into();
    Ok(source)
}

/// What is typed to see the containers of this machine's engine.
pub fn program() -> EngineProgram {
    Engine::of_user().ok().flatten().map(|engine| engine.program()).unwrap_or_default()
}

/// A client with the administrator's credential.
pub async fn client(source: &SourceContext) -> anyhow::Result<Client> {
    let api: SocketAddr =
        source.server.authority().parse().map_err(|_| refusal("the address of the API server"))?;
    let document = source.of_k3d(api).map_err(refusal)?;
    // A parser's own message would show the lines around a mistake.
    let parsed = Kubeconfig::from_yaml(&document.to_yaml()).map_err(|_| refusal("it is not a kubeconfig"))?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    weaver_client::connection::client(&config)
}

fn refused_by(finding: &Finding) -> anyhow::Error {
    let Some(remedy) = &finding.remedy else { return refusal(&finding.message) };
    let first = format!("{}: {}", finding.message, remedy.explain);
    KubeconfigRefusal(std::iter::once(first).chain(remedy.commands.iter().map(ToString::to_string)).collect())
        .into()
}
