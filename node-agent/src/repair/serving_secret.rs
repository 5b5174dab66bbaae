//! The list of names that k3s keeps next to its serving certificate: in a Secret of the cluster, and in a file.
//!
//! Only annotations are requested and read, never the key next to them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use weaver_diagnostics::name_repair::{FINGERPRINT, FROZEN, LISTED, SECRET};

const REQUEST: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(250);
/// How long the list must stay without the names: a k3s that has just started writes its own over it.
pub const STEADY: Duration = Duration::from_secs(3);
/// How long that may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Of the certificate in the Secret, as k3s writes it next to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fingerprint(String);

/// The parts of the certificate's file that are read.
#[derive(Deserialize)]
struct StoredSecret {
    metadata: SecretMetadata,
}

#[derive(Deserialize)]
struct SecretMetadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Whether k3s is configured not to change its certificate.
pub async fn is_frozen(client: &Client) -> anyhow::Result<bool> {
    Ok(annotations(client).await?.get(FROZEN).is_some_and(|value| value == "true"))
}

async fn annotations(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let what = format!("reading the annotations of the Secret kube-system/{SECRET}");
    let api: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let secret = timeout(REQUEST, api.get_metadata_opt(SECRET)).await.with_context(|| what.clone())?;
    // Before k3s has made it, it has no annotations.
    Ok(secret.context(what)?.and_then(|secret| secret.metadata.annotations).unwrap_or_default())
}

/// Removes the names from the list, in the Secret and through it in the file, and waits until they stay away. Returns
/// which certificate the Secret has.
///
/// # Errors
/// The API server refuses, or they come back again and again.
pub async fn forget(
    client: &Client,
    data_dir: &Path,
    names: &[String],
) -> anyhow::Result<Option<Fingerprint>> {
    let file = data_dir.join("server/tls/dynamic-cert.json");
    let api: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let begun = Instant::now();
    let mut seen = begun;
    loop {
        let annotations = annotations(client).await?;
        let keys = listed(&annotations, names);
        if !keys.is_empty() {
            let gone: BTreeMap<_, _> = keys.iter().map(|key| (key, json!(null))).collect();
            let patch = Patch::Merge(json!({"metadata": {"annotations": gone}}));
            let params = PatchParams::default();
            timeout(REQUEST, api.patch_metadata(SECRET, &params, &patch))
                .await
                .context("no answer in time")
                .and_then(|answer| Ok(answer?))
                .with_context(|| format!("removing {} from the list in Secret {SECRET}", names.join(", ")))?;
        }
        if !keys.is_empty() || !listed(&stored(&file)?, names).is_empty() {
            seen = Instant::now();
        }
        if seen.elapsed() >= STEADY {
            return Ok(fingerprint(&annotations));
        }
        if begun.elapsed() > PATIENCE {
            bail!(
                "{} is added to the list of names after each removal; does a client connect by it?",
                names.join(", ")
            );
        }
        sleep(POLL).await;
    }
}

/// Which of the names come back to the list within a while after a start, by reads that were answered. One read is not
/// enough: on a machine under load, the first read after a restart of k3s once missed a name that was then served for
/// good. And the while begins when the Secret has another certificate than `before`: until then k3s may take that one
/// for the newer, as its `saveInK8s` merges whichever comes last, and serve its names again.
pub async fn come_back(
    client: &Client,
    data_dir: &Path,
    names: &[String],
    before: Option<&Fingerprint>,
) -> anyhow::Result<Vec<String>> {
    let file = data_dir.join("server/tls/dynamic-cert.json");
    let begun = Instant::now();
    let mut steady_since = None;
    loop {
        match annotations(client).await {
            Ok(in_secret) => {
                let in_file = stored(&file).unwrap_or_default();
                let is_back = |name: &&String| {
                    [&in_secret, &in_file]
                        .iter()
                        .any(|all| !listed(all, std::slice::from_ref(*name)).is_empty())
                };
                let back: Vec<String> = names.iter().filter(is_back).cloned().collect();
                let is_renewed = fingerprint(&in_secret).as_ref() != before;
                if is_renewed || begun.elapsed() > PATIENCE {
                    steady_since.get_or_insert_with(Instant::now);
                }
                if !back.is_empty() || steady_since.is_some_and(|since| since.elapsed() >= STEADY) {
                    return Ok(back);
                }
            }
            // It has just started.
            Err(error) if begun.elapsed() > PATIENCE => return Err(error),
            Err(_) => {}
        }
        sleep(POLL).await;
    }
}

fn stored(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let what = || format!("cannot read {}", file.display());
    let text = std::fs::read(file).with_context(what)?;
    // The parser's own message is left out: it repeats the content of the file, a key among it.
    let stored = serde_json::from_slice::<StoredSecret>(&text).ok();
    Ok(stored.with_context(|| format!("{}: it is damaged", what()))?.metadata.annotations)
}

fn fingerprint(annotations: &BTreeMap<String, String>) -> Option<Fingerprint> {
    annotations.get(FINGERPRINT).cloned().map(Fingerprint)
}

/// The annotations for these names.
fn listed(annotations: &BTreeMap<String, String>, names: &[String]) -> Vec<String> {
    let is_one = |value: &str| names.iter().any(|name| name.eq_ignore_ascii_case(value));
    let listed = annotations.iter().filter(|(key, value)| key.starts_with(LISTED) && is_one(value));
    listed.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_its_value_since_long_keys_are_hashed() {
        let annotations = [
            ("listener.cattle.io/cn-old.lan", "old.lan"),
            ("listener.cattle.io/cn-fd00__2-031fc1", "fd00::2"),
            ("listener.cattle.io/fingerprint", "old.lan"),
            ("listener.cattle.io/cn-pi.lan", "pi.lan"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let names = ["OLD.lan".to_owned(), "fd00::2".to_owned()];
        assert_eq!(
            listed(&annotations, &names),
            ["listener.cattle.io/cn-fd00__2-031fc1", "listener.cattle.io/cn-old.lan"]
        );
    }

    #[test]
    fn a_damaged_file_is_named_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dynamic-cert.json");
        std::fs::write(&file, "{\"metadata\": hunter2").unwrap();
        let error = format!("{:#}", stored(&file).unwrap_err());
        assert!(error.contains("dynamic-cert.json: it is damaged") && !error.contains("hunter2"), "{error}");
    }
}
