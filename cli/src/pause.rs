//! `weaver pause` and `weaver resume`: stop and continue the operator's writes, of one resource or of all.
//!
//! They set an annotation on the resource, or on the operator's own namespace for all, so every operator sees it at
//! once and after a restart. Anyone who may change that object may pause and resume.

use anyhow::{anyhow, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::ownership::PAUSED_ANNOTATION;
use weaver_client::WriteMode;
use weaver_diagnostics::finding_text::clean;

use crate::connection;
use crate::resource::kind::Kind;
use crate::resource::store::Store;
use crate::stdout::say;

/// Longest reason, in characters: it is in the status of every resource.
const LONGEST: usize = 200;

#[derive(Args)]
pub struct PauseArgs {
    /// Reason, shown in the status of each paused resource
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    target: PauseTarget,
}

/// One resource, or all.
#[derive(Args)]
pub struct PauseTarget {
    /// Only this resource: `sync/NAME`, `resource/NAME` or `token/NAME` (default: all in the cluster)
    #[arg(value_name = "KIND/NAME", value_parser = resource)]
    resource: Option<(Kind, String)>,
    /// Namespace of the resource (default: that of the kubeconfig's context)
    #[arg(short, long, requires = "resource")]
    namespace: Option<String>,
}

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("give a reason: it is shown in the status of each paused resource".to_owned());
    }
    if text.chars().any(char::is_control) || text.chars().count() > LONGEST {
        return Err(format!("a line of at most {LONGEST} characters"));
    }
    Ok(text.to_owned())
}

fn resource(text: &str) -> Result<(Kind, String), String> {
    let (noun, name) = text.split_once('/').unwrap_or_default();
    let kind = Kind::ALL.into_iter().find(|kind| kind.noun() == noun);
    let kind = kind.filter(|_| !name.is_empty());
    kind.map(|kind| (kind, name.to_owned()))
        .ok_or_else(|| "write sync/NAME, resource/NAME or token/NAME".to_owned())
}

pub async fn pause(options: &PauseArgs) -> anyhow::Result<()> {
    let what = set(&options.target, json!(options.reason)).await?;
    if options.target.resource.is_some() {
        say(format_args!("{what} is paused: {}", options.reason));
    } else {
        say(format_args!("all resources are paused: {}", options.reason));
        say(format_args!(
            "running reconciliations finish within seconds; deletions of syncs wait; to continue: `weaver resume{}`",
            connection::flags()
        ));
    }
    Ok(())
}

pub async fn resume(target: &PauseTarget) -> anyhow::Result<()> {
    let what = set(target, Value::Null).await?;
    if target.resource.is_some() {
        say(format_args!("{what} is no longer paused"));
        if let Some(reason) = paused_everywhere().await {
            let flags = connection::flags();
            say(format_args!("all resources are paused too ({reason}): weaver resume{flags}"));
        }
    } else {
        let flags = connection::flags();
        say(format_args!(
            "all resources are reconciled again, except those paused individually: see weaver status{flags}"
        ));
    }
    Ok(())
}

/// Sets the annotation; which resource it is.
async fn set(target: &PauseTarget, value: Value) -> anyhow::Result<String> {
    let change = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}});
    let Some((kind, name)) = &target.resource else {
        everywhere(change).await?;
        return Ok(String::new());
    };
    let store = Store::connect(*kind, target.namespace.as_deref()).await?;
    let key = store.object_key(name);
    // The error lists the existing names where this one does not exist.
    store.existing(name).await?;
    let merged = store.objects.merge(name, &change, WriteMode::Persist).await;
    merged.map_err(|error| store.said(error.why).context(key.clone()))?;
    Ok(key)
}

async fn everywhere(change: Value) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(connection::client().await?);
    let params = PatchParams { field_manager: Some("weaver".into()), ..PatchParams::default() };
    let found = namespaces.get_metadata_opt(OPERATOR_NAMESPACE).await.map_err(said)?;
    ensure!(
        found.is_some(),
        "there is no namespace {OPERATOR_NAMESPACE}, so the operator is not installed in this cluster"
    );
    let change = Patch::Merge(change);
    namespaces.patch_metadata(OPERATOR_NAMESPACE, &params, &change).await.map_err(said)?;
    Ok(())
}

/// Why everything is paused. Without the right to read it, nothing is shown.
async fn paused_everywhere() -> Option<String> {
    let namespaces: Api<Namespace> = Api::all(connection::client().await.ok()?);
    let found = namespaces.get_metadata_opt(OPERATOR_NAMESPACE).await.ok()??;
    found.metadata.annotations?.remove(PAUSED_ANNOTATION)
}

fn said(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.is_forbidden() => anyhow!(
            "{}; pausing all needs the right to change the namespace {OPERATOR_NAMESPACE}; to pause one: weaver pause sync/NAME{}",
            clean(&status.message),
            connection::flags()
        ),
        kube::Error::Api(status) => anyhow!("{}", clean(&status.message)),
        other => anyhow::Error::from(other)
            .context(format!("`weaver doctor{}` finds the cause", connection::flags())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paused_and_why_is_checked_before_anything_is_sent() {
        assert_eq!(resource("sync/settings"), Ok((Kind::ConfigMapSync, "settings".into())));
        assert_eq!(resource("token/ci"), Ok((Kind::ServiceToken, "ci".into())));
        for odd in ["", "sync", "sync/", "settings", "configmap/a"] {
            assert_eq!(resource(odd), Err("write sync/NAME, resource/NAME or token/NAME".into()), "{odd}");
        }
        assert_eq!(reason(" a backup "), Ok("a backup".into()));
        for odd in [String::new(), "  ".into(), "a\nb".into(), "x".repeat(201)] {
            assert!(reason(&odd).is_err(), "{odd}");
        }
    }
}
