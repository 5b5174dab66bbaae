//! What an installation would change in one definition, as a unified diff. Pure.

use std::fmt::Write as _;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use similar::TextDiff;
use weaver_installer::plan::{DefinitionPlan, complete, merged, normal, plan};
use weaver_installer::{Service, Webhook};

/// The difference from what is installed to what is built in, with this webhook; empty if there is none.
/// The CA is the installation's to know: where one is installed, it counts as the right one.
pub fn between(
    installed: Option<&CustomResourceDefinition>,
    built_in: CustomResourceDefinition,
    webhook: Webhook,
) -> anyhow::Result<String> {
    let name = built_in.name_any();
    let Some(installed) = installed else { return Ok(format!("{name} is not installed\n")) };
    let conversion = installed.spec.conversion.clone().unwrap_or_default().webhook.unwrap_or_default();
    let ca = conversion.client_config.unwrap_or_default().ca_bundle.map(|ca| ca.0).unwrap_or_default();
    let webhook = Webhook { ca_bundle: String::from_utf8_lossy(&ca).into_owned(), ..webhook };
    let desired = complete(built_in, &webhook);
    let (was, is) = (text(installed)?, text(&merged(installed, &desired))?);
    let from_to = (format!("installed/{name}"), format!("built-in/{name}"));
    let diff = TextDiff::from_lines(&was, &is);
    let mut shown = diff.unified_diff().context_radius(3).header(&from_to.0, &from_to.1).to_string();
    if let DefinitionPlan::Refuse(refusals) = plan(Some(installed), &desired) {
        for refusal in refusals {
            writeln!(shown, "{name} would be refused: {refusal}").context("writing a diff")?;
        }
    }
    Ok(shown)
}

/// The webhook of an installed definition, for a comparison in which its address counts as right.
pub fn own_webhook(installed: Option<&CustomResourceDefinition>) -> Webhook {
    let client = installed.and_then(|found| found.spec.conversion.clone()?.webhook?.client_config);
    let client = client.unwrap_or_default();
    match client.service {
        Some(service) => Service::from(service).webhook(String::new()),
        None => Webhook { url: client.url.unwrap_or_default(), service: None, ca_bundle: String::new() },
    }
}

/// What an installation is about: a definition without what belongs to the API server.
fn text(definition: &CustomResourceDefinition) -> anyhow::Result<String> {
    let mut spec = serde_json::to_value(normal(&definition.spec)).context("writing a definition")?;
    let ca = spec.pointer_mut("/conversion/webhook/clientConfig/caBundle");
    if let Some(ca) = ca {
        // Base64, of which every four characters are three bytes.
        let encoded = ca.as_str().unwrap_or_default();
        let bytes = encoded.trim_end_matches('=').len() * 3 / 4;
        *ca = if bytes == 0 { json!("<the webhook's CA>") } else { json!(format!("<{bytes} bytes>")) };
    }
    let mut metadata = json!({"name": definition.name_any()});
    for (field, held) in [("labels", definition.labels()), ("annotations", definition.annotations())] {
        if !held.is_empty() {
            metadata[field] = json!(held);
        }
    }
    let whole: Value = json!({"metadata": metadata, "spec": spec});
    serde_saphyr::to_string(&whole).context("writing a definition as YAML")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use weaver_api::webhook::URL;

    use super::*;

    fn built_in() -> CustomResourceDefinition {
        weaver_api::crds::all().remove(0)
    }

    fn at(url: &str, ca: &str) -> Webhook {
        Webhook { url: url.into(), service: None, ca_bundle: ca.into() }
    }

    fn installed() -> CustomResourceDefinition {
        let mut definition = complete(built_in(), &at(URL, "0123456789"));
        definition.spec = normal(&definition.spec);
        definition.metadata.resource_version = Some("17".into());
        definition.metadata.labels = Some([("of".into(), "someone".into())].into());
        definition
    }

    fn ca(definition: &mut CustomResourceDefinition) -> &mut Option<ByteString> {
        let conversion = definition.spec.conversion.as_mut().unwrap().webhook.as_mut().unwrap();
        &mut conversion.client_config.as_mut().unwrap().ca_bundle
    }

    fn difference(change: impl FnOnce(&mut CustomResourceDefinition)) -> String {
        let mut installed = installed();
        change(&mut installed);
        between(Some(&installed), built_in(), at(URL, "")).unwrap()
    }

    #[test]
    fn what_is_installed_by_us_does_not_differ() {
        assert_eq!(difference(|_| {}), "");
    }

    #[test]
    fn what_is_not_there_is_said_to_be_so() {
        let text = between(None, built_in(), at(URL, "")).unwrap();
        assert_eq!(text, "configmapsyncs.weaver.example.com is not installed\n");
    }

    #[test]
    fn a_missing_ca_and_another_url_are_shown_and_a_ca_is_not() {
        let text = difference(|installed| *ca(installed) = None);
        assert!(text.contains("+        caBundle: <the webhook's CA>"), "{text}");
        let text = between(Some(&installed()), built_in(), at("https://elsewhere/convert", "")).unwrap();
        assert!(text.contains("caBundle: <10 bytes>"), "{text}");
        assert!(text.contains(&format!("-        url: {URL}")), "{text}");
        assert!(text.contains("+        url: https://elsewhere/convert"), "{text}");
        assert!(text.starts_with("--- installed/configmapsyncs"), "{text}");
        let service = "config-weaver/weaver-webhook".parse::<Service>().unwrap().webhook(String::new());
        let text = between(Some(&installed()), built_in(), service).unwrap();
        for line in [&format!("-        url: {URL}"), "+          name: weaver-webhook"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn what_an_installation_would_refuse_is_said() {
        let text = difference(|installed| installed.spec.scope = "Cluster".into());
        assert!(text.contains("-  scope: Cluster") && text.contains("would be refused: its scope"), "{text}");
    }
}
