//! `weaver crd`: the definitions of our kinds, as this program was built with them, and those of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use weaver_api::webhook;
use weaver_host::platform::CAN_BE_NODE;
use weaver_host::progress::Progress;
use weaver_installer::certificates::{self, ensure, secret};
use weaver_installer::{
    self as installer, InstallOptions, MigrateError, Migrated, Prove, Service, Webhook, ca, conversion,
};

use crate::stdout::{failed, refused, say, show};
use crate::{connection, crd_diff, crd_explain, crd_lint};

/// For each step of an installation.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where a pod may be waiting for the certificate: the kubelet retries after two minutes at most.
const PATIENCE_FOR_PODS: Duration = Duration::from_mins(3);

#[derive(Subcommand)]
pub enum CrdVerb {
    /// Print the built-in CustomResourceDefinitions as YAML; needs no cluster
    Show {
        /// Print only this one, by its plural name, such as `configmapsyncs`
        name: Option<String>,
    },
    /// Describe a field: meaning, limits, default; needs no cluster
    Explain {
        /// Path of the field, with the kind in front if several have it: `spec.targets.selector`,
        /// `servicetokens.spec.tokens`
        #[arg(value_name = "[KIND.]FIELD")]
        path: String,
        /// API version (default: the stored one)
        #[arg(long, value_name = "VERSION")]
        api_version: Option<String>,
        /// List all fields below it, at every level
        #[arg(long)]
        recursive: bool,
    },
    /// Install or update the CRDs, the conversion webhook's CA and the admission policies
    ///
    /// Issues the webhook's certificates if they are missing or due, tests the webhook, writes the CRDs that
    /// differ, the admission policies and the rights of nodes on their own reports, and lets the API server
    /// prove that conversion works. Keeps existing policy bindings as they are. Refuses what would lose data;
    /// never deletes anything. Run it as root on the host of the webhook, or anywhere with --service if the
    /// webhook runs in the cluster.
    ///
    /// Exit status: 0 all in place; 1 a step failed, try again; 2 wrong usage; 10 refused, the message says what to do.
    #[command(verbatim_doc_comment)]
    Install {
        /// Directory of the webhook's CA and certificate
        #[arg(long, value_name = "DIR", default_value = webhook::DIRECTORY, conflicts_with = "service")]
        certificates: PathBuf,
        #[command(flatten)]
        cluster: WebhookAddress,
    },
    /// Compare the CRDs in the cluster with the built-in ones
    ///
    /// Prints a unified diff. Ignores fields that the API server fills in and metadata set by others; shows only the
    /// length of the CA.
    ///
    /// Exit status: 0 equal; 1 different or not installed; 2 the cluster could not be reached.
    #[command(verbatim_doc_comment)]
    Diff(WebhookAddress),
    /// List incompatible changes between two releases of any CRDs; needs no cluster
    ///
    /// Prints one line for each incompatible change: CRD, version, field, old and new value, what to do.
    /// Files are YAML or JSON. CRDs are matched by name; other objects are ignored, and a CRD that only NEW
    /// has is compatible. A CEL rule may be dropped, or gain an alternative, as in `RULE || MORE`; a
    /// new one may begin with `has(self.a) ||` where `a` was required, or `!has(self.a) ||` where `a` is new. A change
    /// that cannot be judged, such as another pattern or any other CEL rule, counts as incompatible.
    ///
    /// Exit status: 0 compatible; 1 incompatible; 2 the files could not be compared.
    #[command(verbatim_doc_comment)]
    Lint {
        /// CRDs in use: a file, or - for standard input
        old: PathBuf,
        /// CRDs of the new release: a file, or - for standard input
        new: PathBuf,
    },
    /// Rewrite all stored objects in the current version and drop older ones from `status.storedVersions`
    ///
    /// Run it once before a release that removes an older version. Can be interrupted and run again.
    Migrate,
}

#[derive(Args)]
pub struct WebhookAddress {
    /// URL at which the API server reaches the conversion webhook
    #[arg(long, value_name = "URL", default_value = webhook::URL, conflicts_with = "service")]
    webhook: String,
    /// Service of a webhook that runs in the cluster; a Secret of the same name holds its certificates
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]")]
    service: Option<Service>,
}

impl WebhookAddress {
    /// The webhook, which shows a certificate that one of these CAs has signed.
    fn webhook(&self, ca_bundle: String) -> Webhook {
        match &self.service {
            Some(service) => service.clone().webhook(ca_bundle),
            None => Webhook { url: self.webhook.clone(), service: None, ca_bundle },
        }
    }
}

pub async fn run(verb: CrdVerb) -> anyhow::Result<ExitCode> {
    match verb {
        CrdVerb::Show { name } => {
            show(manifests(name.as_deref())?);
            Ok(ExitCode::SUCCESS)
        }
        CrdVerb::Explain { path, api_version, recursive } => {
            let all = weaver_api::crds::all();
            let text = crd_explain::explained(&all, &path, api_version.as_deref(), recursive);
            show(&text.map_err(|why| anyhow!("{why}"))?);
            Ok(ExitCode::SUCCESS)
        }
        CrdVerb::Install { certificates, cluster } => install(certificates, cluster).await,
        CrdVerb::Diff(cluster) => Ok(compared(diff(cluster).await)),
        CrdVerb::Lint { old, new } => Ok(compared(crd_lint::run(&old, &new))),
        CrdVerb::Migrate => {
            let client = connection::client().await?;
            for migrated in migrate(&client).await? {
                say(migrated);
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Rewrites all objects; each page of them is a line of output.
async fn migrate(client: &Client) -> Result<Vec<Migrated>, MigrateError> {
    let mut line = None;
    let reported = |progress: installer::MigrationProgress<'_>| {
        say(progress);
        let done = progress.done as u64;
        let all = done + progress.remaining.and_then(|left| u64::try_from(left).ok()).unwrap_or(0);
        let line = line.get_or_insert_with(|| Progress::of_items("", all));
        line.text(progress.name);
        line.at(done, all);
    };
    installer::migrate(client, reported).await
}

/// The exit status where 1 says that there is a difference.
fn compared(is_same: anyhow::Result<bool>) -> ExitCode {
    match is_same {
        Ok(is_same) => ExitCode::from(u8::from(!is_same)),
        Err(error) => {
            failed("error", &error);
            ExitCode::from(2)
        }
    }
}

fn manifests(name: Option<&str>) -> anyhow::Result<String> {
    let all = weaver_api::crds::all();
    let known: Vec<&str> = all.iter().map(|crd| crd.spec.names.plural.as_str()).collect();
    if let Some(name) = name.filter(|name| !known.contains(name)) {
        bail!("there is no CRD {name:?}, only {}", known.join(", "));
    }
    let shown = all.iter().filter(|crd| name.is_none_or(|name| crd.spec.names.plural == name));
    let manifests: Result<Vec<String>, _> = shown.map(weaver_api::crds::manifest).collect();
    Ok(manifests.context("writing a definition as YAML")?.join("---\n"))
}

async fn install(directory: PathBuf, cluster: WebhookAddress) -> anyhow::Result<ExitCode> {
    if !CAN_BE_NODE && cluster.service.is_none() {
        bail!(
            "a webhook on this machine would need Linux: pass --service NAMESPACE/NAME for one in the cluster, \
             or run this on its host"
        );
    }
    // First, so that a wrong kubeconfig leaves no certificates behind.
    let client = connection::client().await?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut installed = Vec::new();
    for built_in in weaver_api::crds::all() {
        let name = built_in.name_any();
        installed.extend(api.get_opt(&name).await.with_context(|| format!("reading {name}"))?);
    }
    if let Some(refusal) = left_to_cert_manager(&installed) {
        return Ok(refused(&refusal));
    }
    let now = Timestamp::now();
    let (holder, made) = if let Some(service) = &cluster.service {
        let made = secret::ensure(&client, service, now).await;
        let made = made.map_err(|error| (error.is_refusal(), anyhow::Error::from(error)));
        (format!("the Secret {service}"), made)
    } else {
        let names = vec![conversion::host(&cluster.webhook)?];
        let options =
            certificates::CertificateOptions { names, ..certificates::CertificateOptions::default() };
        let made = ensure(&directory, &options, now);
        (directory.display().to_string(), made.map_err(|error| (error.is_refusal(), error.into())))
    };
    let certificates = match made {
        Ok(certificates) => certificates,
        Err((true, refusal)) => return Ok(refused(&refusal)),
        Err((false, error)) if cluster.service.is_some() => return Err(error),
        Err((false, error)) => {
            return Err(error.context(
                "cannot write the certificates of the webhook: run this as root, or pass --certificates DIR",
            ));
        }
    };
    let state = if certificates.changed { "is new" } else { "can stay" };
    say(format_args!(
        "the webhook's certificate in {holder} {state}, good until {:.0}",
        certificates.leaf_expires
    ));
    if cluster.service.is_some() {
        // On a card the agent does.
        say(format_args!(
            "if no CronJob weaver-certificate renews it, run this again after {:.0}",
            certificates.renew_at
        ));
    }
    let patience = if cluster.service.is_some() { PATIENCE_FOR_PODS } else { PATIENCE };
    let webhook = cluster.webhook(certificates.ca_bundle);
    let options = InstallOptions { prove: Prove::Always, ca_from: None, patience };
    match installer::install(&client, &webhook, &options, |step| say(step)).await {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is_refusal() => Ok(refused(&error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Our own CA in a definition, where the webhook shows cert-manager's certificate, would break conversion.
fn left_to_cert_manager(installed: &[CustomResourceDefinition]) -> Option<anyhow::Error> {
    let left = installed.iter().filter_map(|crd| Some((crd.name_any(), ca::ca_left_to(crd)?)));
    let (names, certificates): (Vec<String>, Vec<&str>) = left.unzip();
    let certificate = certificates.first()?;
    let names = names.join(" ");
    Some(anyhow!(
        "cert-manager writes the CA of its Certificate {certificate} into the CRDs {names}, and this command would \
         replace it by another, which the webhook's certificate is not signed by; nothing was changed. Upgrade by \
         `helm upgrade`, whose Job leaves the CA to cert-manager. If cert-manager does not issue the webhook's \
         certificate any more: `kubectl annotate crd {names} {}-{}`, then run this again",
        ca::INJECT_CA,
        connection::flags()
    ))
}

/// Is the cluster's the same as what is built in?
async fn diff(cluster: WebhookAddress) -> anyhow::Result<bool> {
    let client = connection::client().await?;
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let mut same = true;
    for built_in in weaver_api::crds::all() {
        let name = built_in.name_any();
        let installed = api.get_opt(&name).await.with_context(|| format!("reading {name}"))?;
        let text = crd_diff::between(installed.as_ref(), built_in, cluster.webhook(String::new()))?;
        show(&text);
        same &= text.is_empty();
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_definition_is_shown_by_its_plural_name() {
        let all = manifests(None).unwrap();
        let one = manifests(Some("configmapsyncs")).unwrap();
        assert!(all.contains(&one) && all.len() > one.len());
        assert_eq!(one.matches("kind: CustomResourceDefinition").count(), 1);
        let message = manifests(Some("cms")).unwrap_err().to_string();
        assert!(message.contains("\"cms\", only configmapsyncs"), "{message}");
    }

    #[test]
    fn a_ca_of_cert_manager_is_refused_with_what_to_type() {
        let mut installed = weaver_api::crds::all();
        assert!(left_to_cert_manager(&[]).is_none() && left_to_cert_manager(&installed).is_none());
        for crd in installed.iter_mut().skip(1) {
            crd.annotations_mut().insert(ca::INJECT_CA.into(), "config-weaver/weaver-webhook".into());
        }
        let message = left_to_cert_manager(&installed).unwrap().to_string();
        let names: Vec<String> = installed.iter().skip(1).map(kube::ResourceExt::name_any).collect();
        let names = names.join(" ");
        for part in [
            format!("Certificate config-weaver/weaver-webhook into the CRDs {names},"),
            "`helm upgrade`".to_owned(),
            format!("`kubectl annotate crd {names} cert-manager.io/inject-ca-from-`"),
        ] {
            assert!(message.contains(&part), "{message}");
        }
    }
}
