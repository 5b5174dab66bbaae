//! Writes of copies that are answered with metadata alone: a copy may have a megabyte, which the API server would send
//! back for each. While the answer is awaited, the copy is held once, as its JSON.

use http::Request;
use http::header::{ACCEPT, HeaderValue};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::core::PartialObjectMeta;
use weaver_copies::object::Object;

/// As the API has it for the metadata of one object.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Creates the copy of this JSON.
///
/// # Errors
/// As [`Api::create`].
pub async fn create(copies: &Api<Object>, params: &PostParams, json: Vec<u8>) -> kube::Result<ObjectMeta> {
    send(copies, kube::core::Request::new(copies.resource_url()).create(params, json)).await
}

/// Replaces the object called `name` by that of this JSON.
///
/// # Errors
/// As [`Api::replace`].
pub async fn replace(
    copies: &Api<Object>,
    name: &str,
    params: &PostParams,
    json: Vec<u8>,
) -> kube::Result<ObjectMeta> {
    send(copies, kube::core::Request::new(copies.resource_url()).replace(name, params, json)).await
}

async fn send(
    copies: &Api<Object>,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> kube::Result<ObjectMeta> {
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, METADATA);
    let written: PartialObjectMeta<Object> = copies.clone().into_client().request(request).await?;
    Ok(written.metadata)
}
