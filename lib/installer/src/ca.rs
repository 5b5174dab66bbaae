//! Whose CA definitions trust for the webhook's certificate: ours, or cert-manager's, which writes it itself. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube::ResourceExt as _;

/// Read by cert-manager: the Certificate whose CA it writes into a definition.
pub const INJECT_CA: &str = "cert-manager.io/inject-ca-from";

/// How long a certificate of cert-manager is valid where, as in our chart, no other `duration` is asked for.
const LIFETIME: Duration = Duration::from_hours(24 * 90);

/// Stands between our CA and cert-manager's in a bundle, with a time and a line break after it. PEM allows text there.
const NOTE: &str = "\n# of cert-manager, trusted until ";

/// The Certificate, `NAMESPACE/NAME`, whose CA cert-manager writes into an installed definition.
pub fn ca_left_to(installed: &CustomResourceDefinition) -> Option<&str> {
    installed.annotations().get(INJECT_CA).map(String::as_str)
}

/// Has cert-manager write the CA of this Certificate, `NAMESPACE/NAME`, into the definition; the one that it
/// has already stays. Until there is one, conversion fails closed.
pub fn leave_ca_to(
    certificate: &str,
    desired: &mut CustomResourceDefinition,
    installed: Option<&CustomResourceDefinition>,
) {
    desired.annotations_mut().insert(INJECT_CA.into(), certificate.into());
    if let Some(client) = client_config(desired) {
        client.ca_bundle = installed.and_then(ca_bundle);
    }
}

/// Where cert-manager wrote its CA and is to do so no longer, trusts that one next to ours until all certificates that
/// it issued before have expired: each pod of the webhook shows one until it is replaced, and the Job, whose network
/// policy keeps it from the pods, cannot see whether all are.
///
/// Until when is in the bundle itself, so that the next round, a retry and the next installation know it.
pub fn take_ca_over(
    desired: &mut CustomResourceDefinition,
    installed: &CustomResourceDefinition,
    now: Timestamp,
) {
    let Some(ByteString(bundle)) = ca_bundle(installed) else { return };
    let bundle = String::from_utf8_lossy(&bundle);
    let (until, theirs) = match (noted(&bundle), ca_left_to(installed)) {
        (Some(noted), _) => noted,
        (None, Some(_)) => (now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX), bundle.as_ref()),
        (None, None) => return,
    };
    if now < until
        && let Some(client) = client_config(desired)
        && let Some(ByteString(ours)) = &mut client.ca_bundle
    {
        ours.extend(format!("{NOTE}{until:.0}\n{theirs}").into_bytes());
    }
}

/// Cert-manager's CA in a bundle of both, and until when it is trusted.
fn noted(bundle: &str) -> Option<(Timestamp, &str)> {
    let (_, noted) = bundle.split_once(NOTE)?;
    let (until, theirs) = noted.split_once('\n')?;
    Some((until.parse().ok()?, theirs))
}

fn ca_bundle(definition: &CustomResourceDefinition) -> Option<ByteString> {
    definition.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?.ca_bundle.clone()
}

fn client_config(definition: &mut CustomResourceDefinition) -> Option<&mut WebhookClientConfig> {
    definition.spec.conversion.as_mut()?.webhook.as_mut()?.client_config.as_mut()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::fake_api::{FakeApi, RequestFate};
    use crate::plan::{DefinitionPlan, complete, plan};
    use crate::{InstallOptions, Prove, Service};

    /// As it should be, with our CA.
    fn with_ours(ca: &str) -> CustomResourceDefinition {
        let service: Service = "config-weaver/weaver-webhook".parse().unwrap();
        complete(weaver_api::crds::all().remove(0), &service.webhook(ca.into()))
    }

    /// As cert-manager leaves it.
    fn with_theirs() -> CustomResourceDefinition {
        let mut definition = with_ours("the CA");
        leave_ca_to("a/b", &mut definition, None);
        client_config(&mut definition).unwrap().ca_bundle = Some(ByteString(b"theirs".to_vec()));
        definition
    }

    fn ca(definition: &CustomResourceDefinition) -> Option<String> {
        ca_bundle(definition).map(|bundle| String::from_utf8(bundle.0).unwrap())
    }

    #[test]
    fn the_ca_of_cert_manager_stays_while_it_writes_it() {
        let ours = with_ours("the CA");
        let mut theirs = ours.clone();
        leave_ca_to("a/b", &mut theirs, None);
        assert_eq!((ca(&theirs), ca_left_to(&theirs), ca_left_to(&ours)), (None, Some("a/b"), None));

        // From ours to theirs: ours stays until it has written its own, which then stays.
        let mut desired = ours.clone();
        leave_ca_to("a/b", &mut desired, Some(&ours));
        assert_eq!(ca(&desired), ca(&ours));
        let DefinitionPlan::Replace { reasons, .. } = plan(Some(&ours), &desired) else {
            panic!("not replaced")
        };
        assert_eq!(reasons, ["labels"]);
        let mut again = ours.clone();
        leave_ca_to("a/b", &mut again, Some(&with_theirs()));
        assert_eq!(plan(Some(&with_theirs()), &again), DefinitionPlan::Keep);
    }

    #[test]
    fn a_ca_of_cert_manager_is_trusted_as_long_as_its_last_certificate_is_valid() {
        let planned = |ours: &str, installed: &CustomResourceDefinition, day: u64| {
            let mut desired = with_ours(ours);
            take_ca_over(&mut desired, installed, Timestamp::UNIX_EPOCH + Duration::from_hours(24 * day));
            match plan(Some(installed), &desired) {
                DefinitionPlan::Replace { with, .. } => *with,
                other => panic!("not replaced: {other:?}"),
            }
        };
        let kept = |installed: &CustomResourceDefinition, day: u64| {
            let mut desired = with_ours("the CA");
            take_ca_over(&mut desired, installed, Timestamp::UNIX_EPOCH + Duration::from_hours(24 * day));
            plan(Some(installed), &desired) == DefinitionPlan::Keep
        };
        let both = planned("the CA", &with_theirs(), 0);
        assert_eq!(ca_left_to(&both), None);
        let text = |ours: &str| {
            Some(format!("{ours}\n# of cert-manager, trusted until 1970-04-01T00:00:00Z\ntheirs"))
        };
        assert_eq!(ca(&both), text("the CA"));
        assert!(kept(&both, 0) && kept(&both, 89));
        assert_eq!(ca(&planned("a new CA", &both, 1)), text("a new CA"));
        let alone = planned("the CA", &both, 90);
        assert_eq!(ca(&alone).as_deref(), Some("the CA"));
        assert!(kept(&alone, 0));
    }

    #[tokio::test]
    async fn a_conflict_a_retry_and_a_further_installation_keep_the_ca_of_cert_manager() {
        let service: Service = "config-weaver/weaver-webhook".parse().unwrap();
        let webhook = service.webhook("the CA\n".into());
        let options = |ca_from: Option<&str>| InstallOptions {
            prove: Prove::Never,
            ca_from: ca_from.map(str::to_owned),
            patience: Duration::from_secs(10),
        };
        for code in [409, 500] {
            let api = FakeApi::new();
            let client = api.client();
            crate::install(&client, &webhook, &options(Some("a/b")), |_| ()).await.unwrap();
            api.with(|stored| {
                for definition in stored.definitions.values_mut() {
                    if let Some(client) = definition.pointer_mut("/spec/conversion/webhook/clientConfig") {
                        client["caBundle"] = json!(ByteString(b"theirs".to_vec()));
                    }
                }
            });
            let mut puts = 0;
            api.hook(move |_, method, _| {
                puts += usize::from(*method == Method::PUT);
                if *method == Method::PUT && puts == 2 {
                    RequestFate::Refused(code, "made")
                } else {
                    RequestFate::Answered
                }
            });
            // A conflict is read and written again, in a second round; after another failure the Job runs again.
            let first = crate::install(&client, &webhook, &options(None), |_| ()).await;
            assert_eq!(first.is_ok(), code == 409);
            crate::install(&client, &webhook, &options(None), |_| ()).await.unwrap();
            let last = crate::install(&client, &webhook, &options(None), |_| ()).await.unwrap();
            assert!(!last.changed());
            let bundles: Vec<String> = api.with(|stored| {
                let definitions = stored.definitions.values().cloned();
                definitions
                    .filter_map(|definition| ca(&serde_json::from_value(definition).unwrap()))
                    .collect()
            });
            let of_both =
                |bundle: &String| bundle.starts_with("the CA\n\n# of") && bundle.ends_with("\ntheirs");
            assert!(bundles.len() > 1 && bundles.iter().all(of_both), "{code}: {bundles:?}");
        }
    }
}
