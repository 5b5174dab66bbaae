//! The fields of the definitions, one by one: for the page `docs/reference/api.md`, and for anyone who asks.
//!
//! What is said of them is what the API server enforces, since both come from one schema. Pure, total and
//! deterministic: fields are in the order of their paths.

mod fields;
mod markdown;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;

pub use fields::Field;
pub use markdown::{code, inline};

/// The fields of one version, the root first and each before what is in it.
pub fn fields(version: &CustomResourceDefinitionVersion) -> Vec<Field> {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    schema.map(fields::of_schema).unwrap_or_default()
}
