use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use weaver_client::call::{CallError, lookup};

use super::*;
use crate::token::FreshToken;

/// Mints `token-1`, `token-2`, …
struct Counting(AtomicUsize);

impl Mint for Counting {
    async fn mint(&self, _: &Account) -> Result<FreshToken, MintError> {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(FreshToken {
            uid: format!("uid-{number}"),
            secret: format!("token-{number}").into(),
            lifetime: Duration::from_mins(10),
        })
    }
}

/// A server that knows the tokens in `valid` and answers 404 to them, 401 to all others; records what it saw.
fn server(valid: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = seen.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let token = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        assert!(request.headers()[AUTHORIZATION].is_sensitive());
        let status = if token == format!("Bearer {valid}") { 404 } else { 401 };
        log.lock().push(token);
        async move { Ok::<_, BoxError>(Response::builder().status(status).body(Body::empty()).unwrap()) }
    });
    (Client::new(service, "default"), seen)
}

fn account() -> Account {
    Account { namespace: "team-a".into(), name: "sync".into() }
}

/// Objects of a kind of which nothing here knows.
fn widgets(tenant: &TenantClient) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    tenant.namespaced(&kind, "foo")
}

#[tokio::test]
async fn a_refused_token_is_replaced_and_the_request_sent_once_more() {
    let (transport, seen) = server("token-2");
    let tenant = Tenants::new(transport, Counting(AtomicUsize::new(0)), Duration::ZERO)
        .client(&account())
        .await
        .unwrap();
    assert_eq!(lookup(widgets(&tenant).get("settings")).await.unwrap(), None);
    assert_eq!(*seen.lock(), ["Bearer token-1", "Bearer token-2"]);
}

#[tokio::test]
async fn a_second_refusal_is_reported_not_repeated() {
    let (transport, seen) = server("none");
    let tenant = Tenants::new(transport, Counting(AtomicUsize::new(0)), Duration::ZERO)
        .client(&account())
        .await
        .unwrap();
    let error = lookup(widgets(&tenant).get("settings")).await.unwrap_err();
    assert!(matches!(error, CallError::Transient(_)), "{error:?}");
    assert_eq!(seen.lock().len(), 2);
}

#[tokio::test]
async fn a_recreated_account_is_another_identity() {
    let (transport, _) = server("token-2");
    let tenants = Tenants::new(transport, Counting(AtomicUsize::new(0)), Duration::ZERO);
    let before = tenants.client(&account()).await.unwrap();
    assert_eq!(before.uid, "uid-1");
    lookup(widgets(&before).get("settings")).await.unwrap();
    assert_eq!(tenants.client(&account()).await.unwrap().uid, "uid-2");
}
