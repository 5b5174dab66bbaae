//! One request to the API server, within a time.

use std::time::Duration;

use kube::core::Status;
use tokio::time::timeout;
use weaver_client::call::{conversion_failed, is_too_large};
use weaver_diagnostics::finding::{Code, Finding};

pub const PATIENCE: Duration = Duration::from_secs(15);
/// The most resources that are checked.
pub const MOST: u32 = 1000;

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
    let bad = |code, why: String| Box::new(Finding::new(code, format!("{what}: {why}")));
    match timeout(patience, call).await {
        // It answered a moment ago: an API server that takes long is slow, and not broken.
        Err(_) => Err(bad(Code::ApiServerSlow, format!("no answer within {} s", patience.as_secs()))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(error))) => Err(bad(code_of(&error), error.message.clone())),
        // It answers: large objects, which a tenant may write, are no reason to call it down.
        Ok(Err(error)) if is_too_large(&error) => {
            Err(bad(Code::ApiServerSlow, "the answer is longer than what is read of one".to_owned()))
        }
        Ok(Err(error)) => Err(bad(Code::K3sNotAnswering, error.to_string())),
    }
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
    use super::*;
    use http_body_util::{BodyExt as _, Limited};
    use weaver_diagnostics::finding::Severity;

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
}
