//! Requests to the API server, within a time.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::Status;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use weaver_client::call::{CallError, conversion_failed};
use weaver_client::{Objects, Page, Why};
use weaver_diagnostics::finding::{Code, Finding};

pub const PATIENCE: Duration = Duration::from_secs(15);
/// The most resources that are checked.
const MOST: usize = 1000;

/// The answer in time, or a finding that says why there is none.
pub async fn asked<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, Box<Finding>> {
    asked_for(PATIENCE, what, call).await
}

/// The same, within `patience`.
pub async fn asked_for<T>(
    patience: Duration,
    what: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Box<Finding>> {
    let Ok(answer) = timeout(patience, call).await else {
        let late = CallError::Late(format!("no answer within {} s", patience.as_secs()));
        return Err(found(what, &Why::Unanswered(late)));
    };
    answer.map_err(|error| found(what, &Why::from(error)))
}

/// Hands over what the parameters select, page by page, until there is no more or `MOST` were seen; or a finding that
/// says why a page is missing. Each page has its own time.
pub async fn each_page<K>(
    what: &str,
    api: Api<K>,
    params: ListParams,
    mut take: impl FnMut(Page<K>),
) -> Result<(), Box<Finding>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let objects = Objects::new(api, "weaver").deadline(PATIENCE);
    let mut pages = objects.pages(params);
    let mut seen = 0;
    while let Some(page) = pages.next_page().await.map_err(|error| found(what, &error.why))? {
        seen = page.items.len() + if page.is_first { 0 } else { seen };
        take(page);
        if seen >= MOST {
            break;
        }
    }
    Ok(())
}

fn found(what: &str, why: &Why) -> Box<Finding> {
    let (code, text) = match why {
        Why::Refused(status) => (code_of(status), status.message.clone()),
        // It answered a moment ago: an API server that takes long is slow, and not broken.
        Why::Unanswered(late @ CallError::Late(_)) => (Code::ApiServerSlow, late.to_string()),
        // It answers: large objects, which a tenant may write, are no reason to call it down.
        Why::Unanswered(CallError::TooLarge) => {
            (Code::ApiServerSlow, "the answer is longer than what is read of one".to_owned())
        }
        other => (Code::K3sNotAnswering, other.to_string()),
    };
    Box::new(Finding::new(code, format!("{what}: {text}")))
}

fn code_of(error: &Status) -> Code {
    match error.code {
        403 => Code::RightsMissingForCheck,
        404 => Code::DefinitionDiffers,
        _ if conversion_failed(error) => Code::ConversionWebhookFailed,
        // Too many requests, and a time of its own that was over.
        429 | 504 => Code::ApiServerSlow,
        _ => Code::K3sNotAnswering,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Limited};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use weaver_diagnostics::finding::Severity;

    use super::*;

    #[tokio::test]
    async fn what_takes_long_is_slow_and_what_is_refused_is_not() {
        let status = |code, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            Err::<(), _>(kube::Error::Api(Box::new(status)))
        };
        for (answer, want) in [
            (status(403, "m"), Code::RightsMissingForCheck),
            (status(404, "m"), Code::DefinitionDiffers),
            (status(429, "m"), Code::ApiServerSlow),
            (status(504, "m"), Code::ApiServerSlow),
            (status(500, "m"), Code::K3sNotAnswering),
            (status(503, "m"), Code::K3sNotAnswering),
            (status(504, "conversion webhook for x failed"), Code::ConversionWebhookFailed),
        ] {
            let found = asked("asking", async { answer }).await.unwrap_err();
            assert_eq!(found.code, want, "{found:?}");
        }
        let long = Limited::new("more than one byte".to_owned(), 1).collect().await.unwrap_err();
        let found = asked("asking", async { Err::<(), _>(kube::Error::Service(long)) }).await.unwrap_err();
        assert_eq!((found.code, found.severity()), (Code::ApiServerSlow, Severity::Warn));
        let never = std::future::pending::<kube::Result<()>>();
        let found = asked_for(Duration::ZERO, "asking", never).await.unwrap_err();
        assert_eq!((found.code, found.severity()), (Code::ApiServerSlow, Severity::Warn));
    }

    /// Three thousand large objects; no more than 20,000 bytes are read of an answer.
    fn answer(query: &str) -> Response<Limited<Body>> {
        let value = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.map_or(0, |value| value.parse::<usize>().unwrap())
        };
        let from = value("continue");
        let to = (from + value("limit")).min(3_000);
        let large = "x".repeat(100);
        let items: Vec<Value> =
            (from..to).map(|_| json!({"metadata": {"annotations": {"a": large}}})).collect();
        let more = if to < 3_000 { to.to_string() } else { String::new() };
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": more}, "items": items});
        Response::new(Limited::new(Body::from(list.to_string().into_bytes()), 20_000))
    }

    /// Who may write objects decides how large they are.
    #[tokio::test]
    async fn large_objects_hide_no_others_and_no_more_than_a_thousand_are_looked_at() {
        let service = tower::service_fn(|request: Request<Body>| {
            ready(Ok::<_, kube::Error>(answer(request.uri().query().unwrap_or_default())))
        });
        let maps: Api<ConfigMap> = Api::namespaced(Client::new(service, "a"), "a");
        let mut pages = Vec::new();
        each_page("listing", maps, ListParams::default(), |page| pages.push(page.items.len())).await.unwrap();
        assert_eq!((pages.len(), pages.iter().sum::<usize>()), (20, MOST));
    }
}
