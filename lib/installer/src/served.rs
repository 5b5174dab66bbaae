//! Waits for the API server, with a bound: until it is ready, until it serves a definition, until it converts.
//! Failure: its own words of the last time.

use std::time::Duration;

use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Status};
use serde_json::json;
use tokio::time::{Instant, sleep};
use weaver_api::GROUP;
use weaver_api::crds::STORED;
use weaver_client::call::{CallError, call, conversion_failed};

use super::report::{InstallError, failed};
use super::write::MANAGER;

const PAUSE: Duration = Duration::from_millis(200);

/// Until it says so itself.
pub(super) async fn ready(client: &Client, patience: Duration) -> Result<(), InstallError> {
    let until = Instant::now() + patience;
    loop {
        let request = Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError);
        let answer = match request {
            Ok(request) => call(client.request_text(request)).await,
            Err(error) => Err(error.into()),
        };
        match answer {
            // An account that may not ask gets the error from its first real request.
            Ok(_) | Err(CallError::Forbidden(_)) => return Ok(()),
            Err(cause) if Instant::now() >= until => {
                let what = format!("the API server was not ready within {} s", patience.as_secs());
                return Err(InstallError::Api { what, cause });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// What the API server says about a definition that was written.
#[derive(Debug, Eq, PartialEq)]
enum Acceptance {
    Served,
    NamesRefused(String),
    NotYet,
}

fn acceptance(definition: &CustomResourceDefinition) -> Acceptance {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let condition = |type_: &str| conditions.clone().find(|condition| condition.type_ == type_);
    match (condition("NamesAccepted"), condition("Established")) {
        (Some(names), _) if names.status == "False" => {
            Acceptance::NamesRefused(names.message.clone().unwrap_or_default())
        }
        (Some(names), Some(established)) if names.status == "True" && established.status == "True" => {
            Acceptance::Served
        }
        _ => Acceptance::NotYet,
    }
}

/// Until a definition that was written is served under its own names.
pub(super) async fn accepted(client: &Client, name: &str, patience: Duration) -> Result<(), InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let until = Instant::now() + patience;
    loop {
        let definition = call(api.get(name)).await.map_err(failed(format!("reading {name}")))?;
        let name = name.to_owned();
        match acceptance(&definition) {
            Acceptance::Served => return Ok(()),
            // Names become free when another definition is deleted; then there is nothing left to do.
            Acceptance::NamesRefused(message) if Instant::now() >= until => {
                return Err(InstallError::NamesRefused { name, message });
            }
            Acceptance::NotYet if Instant::now() >= until => {
                return Err(InstallError::NotEstablished { name, patience });
            }
            _ => sleep(PAUSE).await,
        }
    }
}

/// What became of the proof.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum ConversionProof {
    /// The API server converts.
    Converts,
    /// It refuses the object before or after that, in these words: nothing is known about conversion.
    NotProvable(String),
}

/// Is it refused for what it is, by a policy, a quota or a missing right, rather than not converted?
fn is_refusal(status: &Status) -> bool {
    (400..500).contains(&status.code) && status.code != 408 && !conversion_failed(status)
}

/// Makes the API server convert.
///
/// It creates an object at the older version without keeping it: validates it there, converts it to the stored
/// version and back, by the webhook. Before that it must serve the stored version; until it has taken notice of
/// the definition it continues with the one before, in which the older version may have been the only one. That
/// may be why it refuses the object, so a refusal counts when it stays; but no definition is the reason of a 403.
pub(super) async fn proved(client: &Client, patience: Duration) -> Result<ConversionProof, InstallError> {
    let resource = |version| {
        let kind = GroupVersionKind::gvk(GROUP, version, "ConfigMapSync");
        ApiResource::from_gvk_with_plural(&kind, "configmapsyncs")
    };
    let (old, new) = (resource("v1alpha1"), resource(STORED));
    let stored: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &new);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &old);
    let params = PostParams { dry_run: true, field_manager: Some(MANAGER.into()) };
    // Without an account, so that the right to name one is not needed.
    let spec = json!({"serviceAccount": {}, "syncToNamespaces": ["weaver-conversion-check"]});
    let mut object = DynamicObject::new("", &old).data(json!({"spec": spec}));
    object.metadata.name = None;
    object.metadata.generate_name = Some("weaver-conversion-check-".into());
    let until = Instant::now() + patience;
    loop {
        let listed = call(refusable(stored.list_metadata(&ListParams::default().limit(1)))).await;
        let created = match listed {
            Ok(Ok(_)) => call(refusable(api.create(&params, &object))).await,
            Ok(Err(refusal)) => Ok(Err(refusal)),
            Err(error) => Err(error),
        };
        let last = Instant::now() >= until;
        let message = match created {
            Ok(Ok(answer)) if is_same(&answer, &object) => return Ok(ConversionProof::Converts),
            Ok(Ok(_)) => "it answered with another object than it was sent".to_owned(),
            Ok(Err(refusal)) if last || refusal.code == 403 => {
                return Ok(ConversionProof::NotProvable(refusal.message));
            }
            Ok(Err(refusal)) => refusal.message,
            Err(error) => error.to_string(),
        };
        if last {
            return Err(InstallError::Unproved { message });
        }
        sleep(PAUSE).await;
    }
}

/// Takes a refusal out of the errors.
async fn refusable<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> kube::Result<Result<T, Box<Status>>> {
    match request.await {
        Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(status)),
        answer => answer.map(Ok),
    }
}

fn is_same(answer: &DynamicObject, sent: &DynamicObject) -> bool {
    let targets = |object: &DynamicObject| object.data["spec"]["syncToNamespaces"].clone();
    answer.types == sent.types && targets(answer) == targets(sent)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fake_api::condition;

    #[test]
    fn only_failures_of_the_server_and_of_its_webhook_speak_against_conversion() {
        let webhook = "conversion webhook for weaver.example.com/v1alpha1, Kind=ConfigMapSync failed: no";
        for (code, message, expected) in [
            (403, "exceeded quota: none", true),
            (422, "ValidatingAdmissionPolicy 'a' denied the request", true),
            (400, "admission webhook \"a\" does not support dry run", true),
            (404, "namespaces \"default\" not found", true),
            (429, "too many requests", true),
            (403, webhook, false),
            (422, webhook, false),
            (500, webhook, false),
            (500, "no", false),
            (504, "timeout", false),
            (408, "timeout", false),
            (0, "an answer without a code", false),
        ] {
            let status = Status::failure(message, "Made").with_code(code);
            assert_eq!(is_refusal(&status), expected, "{code} {message}");
        }
    }

    #[test]
    fn served_is_what_has_its_names_and_is_established() {
        let judged = |conditions: &[(&str, &str)]| {
            let conditions: Vec<Value> =
                conditions.iter().map(|(type_, status)| condition(type_, status)).collect();
            let mut definition = serde_json::to_value(weaver_api::crds::all().remove(0)).unwrap();
            definition["status"] = json!({"conditions": conditions});
            acceptance(&serde_json::from_value(definition).unwrap())
        };
        let refused = || Acceptance::NamesRefused("NamesAccepted is False".into());
        for (conditions, expected) in [
            (&[][..], Acceptance::NotYet),
            (&[("NamesAccepted", "True")], Acceptance::NotYet),
            (&[("Established", "True")], Acceptance::NotYet),
            (&[("NamesAccepted", "True"), ("Established", "False")], Acceptance::NotYet),
            (&[("NamesAccepted", "Unknown"), ("Established", "True")], Acceptance::NotYet),
            (&[("NamesAccepted", "True"), ("Established", "True")], Acceptance::Served),
            // Still served under its old names.
            (&[("NamesAccepted", "False"), ("Established", "True")], refused()),
            (&[("NamesAccepted", "False")], refused()),
        ] {
            assert_eq!(judged(conditions), expected, "{conditions:?}");
        }
    }
}
