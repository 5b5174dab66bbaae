//! One request to the API server, within a time.

use std::time::Duration;

use kube::core::Status;
use tokio::time::timeout;
use weaver_client::call::conversion_failed;
use weaver_diagnostics::finding::{Code, Finding};

pub const PATIENCE: Duration = Duration::from_secs(15);
/// Resources that are looked at.
pub const MOST: u32 = 1000;

/// The answer in time, or what is to be said of there being none.
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
        Err(_) => Err(bad(Code::K3sNotAnswering, format!("no answer within {} s", patience.as_secs()))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(error))) => Err(bad(code_of(&error), error.message.clone())),
        Ok(Err(error)) => Err(bad(Code::K3sNotAnswering, error.to_string())),
    }
}

fn code_of(error: &Status) -> Code {
    match error.code {
        403 => Code::MayNotLook,
        404 => Code::DefinitionDiffers,
        _ if conversion_failed(error) => Code::ConversionWebhookFailed,
        _ => Code::K3sNotAnswering,
    }
}
