//! What `weaver crd install --service` does, for a Job in the cluster: `deploy/installer/`, which the chart's hooks are.
//!
//! It has an account of its own, whose rights last as long as the Job; the operator's are no more for it. With
//! `--certificate-only` it renews the webhook's certificate, for which its account may write one Secret. Each step
//! compares first and can be killed and run again. Failure: the step, and where a retry does not help a [`NeedsHuman`].

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use tracing::info;
use weaver_client::connection;
use weaver_installer::certificates::secret;
use weaver_installer::{InstallOptions, Prove, Service};

use crate::code;
use crate::user_agent;

/// For each step.
const PATIENCE: Duration = Duration::from_mins(1);

/// What was refused stays refused until someone changes it: running the Job again is of no use.
#[derive(Debug, thiserror::Error)]
#[error("refused; running it again does not help")]
pub struct NeedsHuman;

/// Options of `install`.
#[derive(Clone, Debug, Args)]
pub struct JobOptions {
    /// Kubeconfig (default: KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount)
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Service of the webhook; the Secret of the same name holds its CA and certificate
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", default_value = "config-weaver/weaver-webhook")]
    pub service: Service,

    /// Renew the certificate where that is due, and do nothing else
    #[arg(long)]
    pub certificate_only: bool,

    /// Certificate of cert-manager that the webhook has: cert-manager issues it and writes its CA into the CRDs
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "certificate_only", value_parser = certificate)]
    pub cert_manager: Option<String>,
}

/// As cert-manager reads it in an annotation.
fn certificate(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_one = parts.len() == 2 && parts.iter().all(|part| weaver_api::names::dns_label(part).is_ok());
    if is_one { Ok(text.to_owned()) } else { Err("use NAMESPACE/NAME of a Certificate".into()) }
}

/// Installs once.
///
/// # Errors
/// The step that failed; what was done before stays.
pub async fn run(options: JobOptions) -> anyhow::Result<()> {
    let agent = user_agent("install");
    let config = connection::config(options.kubeconfig.as_deref(), None, PATIENCE, &agent).await?;
    info!(code = code::STARTING, server = %config.cluster_url, version = env!("CARGO_PKG_VERSION"), "starting");
    let client = connection::client(&config)?;
    let mut ca_bundle = String::new();
    if options.cert_manager.is_none() {
        let certificates = secret::ensure(&client, &options.service, Timestamp::now()).await?;
        info!(
            code = code::INSTALLED, expires = %certificates.leaf_expires, renewed = certificates.changed,
            "the webhook's certificate is in the Secret {}", options.service
        );
        ca_bundle = certificates.ca_bundle;
    }
    if options.certificate_only {
        return Ok(());
    }
    let webhook = options.service.webhook(ca_bundle);
    // The webhook's pod waits for what is done here.
    let how = InstallOptions { prove: Prove::Never, ca_from: options.cert_manager, patience: PATIENCE };
    let done =
        weaver_installer::install(&client, &webhook, &how, |step| info!(code = code::INSTALLED, "{step}"))
            .await;
    match done {
        Ok(_) => Ok(()),
        Err(error) if error.is_refusal() => Err(error).context(NeedsHuman),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_a_namespace_and_a_name() {
        for (text, good) in [
            ("config-weaver/weaver-webhook", true),
            ("weaver-webhook", false),
            ("a/b/c", false),
            ("a/", false),
            ("/b", false),
            ("A/b", false),
            ("", false),
        ] {
            assert_eq!(certificate(text).is_ok(), good, "{text}");
        }
    }
}
