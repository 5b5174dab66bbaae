//! Create and replace with strict field validation, as requests for a [`kube::Client`] to send.
//!
//! A field that a kind does not have, a misspelt one for instance, is dropped by the API server, with a
//! warning that kube does not pass on. A request with `fieldValidation=Strict` is refused instead, and the
//! answer names the field. Of kube's own calls only a patch can ask for that
//! ([`kube::api::PatchParams::validation_strict`]).

use http::{Request, Uri};
use kube::core::request::Error;
use serde::Serialize;

/// The request that `of` makes of an object as JSON, such as [`kube::core::Request::create`].
pub fn strict(
    object: &impl Serialize,
    of: impl FnOnce(Vec<u8>) -> Result<Request<Vec<u8>>, Error>,
) -> Result<Request<Vec<u8>>, Error> {
    let mut request = of(serde_json::to_vec(object).map_err(Error::SerializeBody)?)?;
    // kube ends every address with `?` and its own parameters.
    let address = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = Uri::try_from(address).map_err(|error| Error::BuildRequest(error.into()))?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use kube::api::PostParams;
    use kube::core::Request as Api;
    use serde_json::json;

    use super::*;

    const COLLECTION: &str = "/apis/weaver.example.com/v1beta1/namespaces/team-a/configmapsyncs";

    fn parameters(request: &Request<Vec<u8>>) -> Vec<&str> {
        let mut found: Vec<&str> = request.uri().query().unwrap_or_default().split('&').collect();
        found.retain(|parameter| !parameter.is_empty());
        found
    }

    fn created(collection: &str) -> Result<Request<Vec<u8>>, Error> {
        strict(&json!({"a": 1}), |body| Api::new(collection).create(&PostParams::default(), body))
    }

    fn replaced(name: &str, params: &PostParams) -> Result<Request<Vec<u8>>, Error> {
        strict(&json!({}), |body| Api::new(COLLECTION).replace(name, params, body))
    }

    #[test]
    fn an_object_is_created_strictly() {
        let request = created(COLLECTION).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, COLLECTION));
        assert_eq!(parameters(&request), ["fieldValidation=Strict"]);
        assert_eq!(request.body(), b"{\"a\":1}");
    }

    #[test]
    fn an_object_is_replaced_strictly_and_what_else_was_asked_for_stays() {
        let params = PostParams { dry_run: true, field_manager: Some("me".into()) };
        let request = replaced("settings", &params).unwrap();
        assert_eq!(request.method(), Method::PUT);
        assert_eq!(request.uri().path(), format!("{COLLECTION}/settings"));
        assert_eq!(parameters(&request), ["dryRun=All", "fieldManager=me", "fieldValidation=Strict"]);
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        assert!(created("not a path").is_err());
        assert!(replaced("", &PostParams::default()).is_err());
    }
}
