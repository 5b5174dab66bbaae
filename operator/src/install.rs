//! What `weaver crd install --service` does, for a Job in the cluster: `deploy/installer/`, which the chart's
//! hooks are.
//!
//! It has an account of its own, whose rights last as long as the Job; the operator gets no additional right. With
//! `--certificate-only` it renews the webhook's certificate, for which its account may write one Secret. Each step
//! compares first and can be killed and run again. Failure: the step, and where a retry does not help a [`NeedsHuman`].

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use tracing::info;
use weaver_client::connection;
use weaver_installer::certificates::secret;
use weaver_installer::{InstallOptions, Prove, Service};

use crate::NeedsHuman;
use crate::log_code;
use crate::user_agent;

/// Time limit of each step.
const PATIENCE: Duration = Duration::from_mins(1);

const REFUSED: NeedsHuman = NeedsHuman("refused; running it again does not help");

#[derive(Clone, Debug, Args)]
pub struct JobOptions {
    /// Kubeconfig (default: KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount)
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Service of the webhook; the Secret of the same name holds its CA and certificate
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", default_value = "config-weaver/weaver-webhook")]
    pub service: Service,

    /// Only renew the certificate, if it is due
    #[arg(long)]
    pub certificate_only: bool,

    /// Certificate of cert-manager that the webhook has: cert-manager issues it and writes its CA into the CRDs
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "certificate_only", value_parser = certificate)]
    pub cert_manager: Option<String>,
}

/// As cert-manager reads it in an annotation: as a Service without its port.
fn certificate(text: &str) -> Result<String, &'static str> {
    let service = text.parse::<Service>().ok().map(|service| service.to_string());
    service.filter(|service| service == text).ok_or("use NAMESPACE/NAME of a Certificate")
}

/// Installs once.
///
/// # Errors
/// The step that failed; what was done before stays.
pub async fn run(options: JobOptions) -> anyhow::Result<()> {
    let agent = user_agent("install");
    let config = connection::config(options.kubeconfig.as_deref(), None, PATIENCE, &agent).await?;
    info!(code = log_code::STARTING, server = %config.cluster_url, version = env!("CARGO_PKG_VERSION"), "starting");
    let client = connection::client(&config)?;
    let mut ca_bundle = String::new();
    if options.cert_manager.is_none() {
        let now = Timestamp::now();
        let certificates = if options.certificate_only {
            secret::renew(&client, &options.service, now).await
        } else {
            secret::ensure(&client, &options.service, now).await
        };
        let certificates = certificates.map_err(|error| marked(error.is_refusal(), error))?;
        info!(
            code = log_code::INSTALLED, expires = %certificates.leaf_expires, renewed = certificates.changed,
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
    let done = weaver_installer::install(&client, &webhook, &how, |step| {
        info!(code = log_code::INSTALLED, "{step}");
    })
    .await;
    done.map(drop).map_err(|error| marked(error.is_refusal(), error))
}

/// The error, as [`REFUSED`] where trying again is of no use.
fn marked(is_refusal: bool, error: impl Into<anyhow::Error>) -> anyhow::Error {
    if is_refusal { error.into().context(REFUSED) } else { error.into() }
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
            ("a/b:443", false),
            ("a/", false),
            ("/b", false),
            ("A/b", false),
            ("", false),
        ] {
            assert_eq!(certificate(text).is_ok(), good, "{text}");
        }
    }
}
