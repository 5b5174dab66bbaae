//! Conversion between the versions of a kind.
//!
//! Conversion is total: whatever the API server has stored comes out at the other version, values of a wrong
//! type included, because one object that cannot be converted makes every list of its kind fail. Fields that
//! both versions have are moved; the others, and the exact form of the moved ones where it would not come back
//! by itself, travel in one annotation, and at v1alpha1 in `spec.roundTrip` if the annotation is full ([`round_trip`]).
//! Nothing is guessed: what is missing stays missing, and the operator says so. Fields of a newer definition's spec,
//! which this program does not know, travel there too ([`unknown`]).
//!
//! Conversion to v1alpha1 is injective: different stored objects, status counts excepted, differ there too, and what is
//! stored comes back equal. So a rule that compares two objects at v1beta1, as the admission policy on accounts does,
//! sees every change that a write at v1alpha1 makes.
//!
//! Only a request that is not about our kinds and versions at all is refused.

mod conditions;
mod config_map_sync;
mod fields;
mod kind_version;
mod object;
mod round_trip;
mod service_token;
mod types;
mod unknown;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use serde_json::Value;

pub use round_trip::ANNOTATION;

use self::kind_version::{KindVersion, NEW, OLD};
use crate::GROUP;
use crate::validate::SpecFault;

/// Why an object cannot be converted.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConversionFault {
    /// Not an object of Kubernetes at all.
    #[error("it has no {0}")]
    Without(&'static str),
    /// A kind of another API group, or none of those that are converted: `GROUP/VERSION, Kind=KIND`.
    #[error("this webhook converts ConfigMapSync and ServiceToken of {GROUP}, not {0}")]
    UnknownKind(String),
    /// Ours, at a version that there is not.
    #[error("{kind} has no version {version}, only {GROUP}/{NEW} and {GROUP}/{OLD}")]
    UnknownVersion {
        /// The kind as it was given: `ConfigMapSync` or `ServiceToken`.
        kind: String,
        /// `apiVersion` as it was given.
        version: String,
    },
}

/// Answers a review: as many objects in the same order, or a failure that names the first object which cannot
/// be converted.
pub fn review(review: ConversionReview) -> ConversionReview {
    let Ok(mut request) = ConversionRequest::from_review(review) else {
        let status = Status::failure("the ConversionReview has no request", "BadRequest").with_code(400);
        return ConversionResponse::invalid(status).into_review();
    };
    let objects = std::mem::take(&mut request.objects);
    let mut converted = Vec::with_capacity(objects.len());
    for (index, object) in objects.into_iter().enumerate() {
        let who = shown(&object);
        match convert(object, &request.desired_api_version) {
            Ok(object) => converted.push(object),
            Err(fault) => {
                let message = format!("objects[{index}]{who} cannot be converted: {fault}");
                let status = Status::failure(&message, "Invalid").with_code(422);
                return ConversionResponse::for_request(request).failure(status).into_review();
            }
        }
    }
    ConversionResponse::for_request(request).success(converted).into_review()
}

/// One object at the version `desired` (`<group>/<version>`).
///
/// # Errors
/// If it is not of a kind that has two versions, at one of them.
pub fn convert(object: Value, desired: &str) -> Result<Value, ConversionFault> {
    let text = |field| object.get(field).and_then(Value::as_str).map(str::to_owned);
    let present = text("apiVersion").ok_or(ConversionFault::Without("apiVersion"))?;
    let kind = text("kind").ok_or(ConversionFault::Without("kind"))?;
    if !object.get("metadata").is_some_and(Value::is_object) {
        return Err(ConversionFault::Without("metadata"));
    }
    let in_group = |version: &str| version.strip_prefix(GROUP)?.strip_prefix('/').map(str::to_owned);
    let versions: [KindVersion; 2] = match (kind.as_str(), in_group(&present)) {
        ("ConfigMapSync", Some(_)) => [config_map_sync::OLD, config_map_sync::NEW],
        ("ServiceToken", Some(_)) => [service_token::OLD, service_token::NEW],
        _ => return Err(ConversionFault::UnknownKind(format!("{kind} of {present}"))),
    };
    let version_of = |version: &str| {
        let found = in_group(version).and_then(|name| versions.iter().find(|one| one.version == name));
        found.ok_or_else(|| ConversionFault::UnknownVersion {
            kind: kind.clone(),
            version: version.to_owned(),
        })
    };
    let (here, there) = (version_of(&present)?, version_of(desired)?);
    Ok(if here.version == there.version { object } else { object::convert(object, here, there) })
}

/// What is wrong with the content that conversion carries in the annotation of a `ConfigMapSync` at v1beta1,
/// which anyone may have edited: each part is kept as it is and not used.
pub fn round_trip_faults(meta: &ObjectMeta) -> Vec<String> {
    faults_in(meta, &config_map_sync::OLD)
}

/// The same of a `ServiceToken`.
pub fn token_round_trip_faults(meta: &ObjectMeta) -> Vec<String> {
    faults_in(meta, &service_token::OLD)
}

fn faults_in(meta: &ObjectMeta, old: &KindVersion) -> Vec<String> {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION));
    annotation.map(|text| round_trip::faults(text, old)).unwrap_or_default()
}

/// With an older release, a write at v1alpha1 has lost part of the spec of an object at v1beta1, because it was
/// too long for the round-trip annotation. Until it is filled in again nothing may be concluded from what is missing:
/// it may be a restriction.
pub fn lost(meta: &ObjectMeta) -> Option<SpecFault> {
    let text = meta.annotations.as_ref()?.get(ANNOTATION)?;
    round_trip::RoundTrip::parse(text, OLD).dropped.then(|| SpecFault::Broken {
        field: "spec".into(),
        fault: format!(
            "has lost what a write at v1alpha1 could not carry: fill it in again at v1beta1, then remove the \
             annotation {ANNOTATION}"
        ),
    })
}

/// Kind, namespace and name, as far as the object says.
fn shown(object: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (kind, meta) = (text(&object["kind"]), &object["metadata"]);
    match (kind, text(&meta["namespace"]), text(&meta["name"])) {
        (Some(kind), Some(namespace), Some(name)) => format!(" ({kind} {namespace}/{name})"),
        (Some(kind), None, Some(name)) => format!(" ({kind} {name})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod injective;
#[cfg(test)]
mod newer;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod review_tests;
#[cfg(test)]
mod structural;
#[cfg(test)]
mod tests;
