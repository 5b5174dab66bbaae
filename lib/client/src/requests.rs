//! Create and replace with strict field validation, as requests for a [`kube::Client`] to send.
//!
//! A field that a kind does not have, a misspelt one for instance, is dropped by the API server, with a
//! warning that kube does not pass on. A request with `fieldValidation=Strict` is refused instead, and the
//! answer names the field. Of kube's own calls only a patch can ask for that
//! ([`kube::api::PatchParams::validation_strict`]).

use http::{Request, Uri};
use kube::api::PostParams;
use kube::core::request::Error;
use serde::Serialize;

/// A request that creates `object` in `collection`, which is what [`kube::Api::resource_url`] says.
///
/// # Errors
/// If the object cannot be written as JSON, or `collection` is not a path.
pub fn create(
    collection: &str,
    object: &impl Serialize,
    params: &PostParams,
) -> Result<Request<Vec<u8>>, Error> {
    strict(kube::core::Request::new(collection).create(params, body(object)?)?)
}

/// A request that replaces the object called `name` by `object`. The API server refuses it (409) unless the
/// object has the `resourceVersion` of the one it replaces.
///
/// # Errors
/// If the object cannot be written as JSON, or `collection` and `name` are not a path.
pub fn replace(
    collection: &str,
    name: &str,
    object: &impl Serialize,
    params: &PostParams,
) -> Result<Request<Vec<u8>>, Error> {
    strict(kube::core::Request::new(collection).replace(name, params, body(object)?)?)
}

fn body(object: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(object).map_err(Error::SerializeBody)
}

fn strict(mut request: Request<Vec<u8>>) -> Result<Request<Vec<u8>>, Error> {
    // kube ends every address with `?` and its own parameters.
    let address = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = Uri::try_from(address).map_err(|error| Error::BuildRequest(error.into()))?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;

    const COLLECTION: &str = "/apis/weaver.example.com/v1beta1/namespaces/team-a/configmapsyncs";

    fn parameters(request: &Request<Vec<u8>>) -> Vec<&str> {
        let mut found: Vec<&str> = request.uri().query().unwrap_or_default().split('&').collect();
        found.retain(|parameter| !parameter.is_empty());
        found
    }

    #[test]
    fn an_object_is_created_strictly() {
        let request = create(COLLECTION, &json!({"a": 1}), &PostParams::default()).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, COLLECTION));
        assert_eq!(parameters(&request), ["fieldValidation=Strict"]);
        assert_eq!(request.body(), b"{\"a\":1}");
    }

    #[test]
    fn an_object_is_replaced_strictly_and_what_else_was_asked_for_stays() {
        let params = PostParams { dry_run: true, field_manager: Some("me".into()) };
        let request = replace(COLLECTION, "settings", &json!({}), &params).unwrap();
        assert_eq!(request.method(), Method::PUT);
        assert_eq!(request.uri().path(), format!("{COLLECTION}/settings"));
        assert_eq!(parameters(&request), ["dryRun=All", "fieldManager=me", "fieldValidation=Strict"]);
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        assert!(create("not a path", &json!({}), &PostParams::default()).is_err());
        assert!(replace(COLLECTION, "", &json!({}), &PostParams::default()).is_err());
    }
}
