//! From what and by whom a release was built: an in-toto statement, version 1, with SLSA's predicate, version 1.
//!
//! It has no time of its own, so that the same build gives the same statement. It is signed by being listed in
//! `SHA256SUMS`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub const NAME: &str = "provenance.intoto.json";
/// `make release`, as docs/how-to/make-a-release.md describes it; what its parameters mean follows from it.
const BUILD_TYPE: &str = "https://weaver.example.com/release/v1";

#[derive(Clone, Copy, Debug)]
pub struct BuildFacts<'a> {
    pub version: &'a str,
    /// Where the files will be fetched from.
    pub url: Option<&'a str>,
    pub commit: &'a str,
    /// A URI of the builder.
    pub builder: &'a str,
    pub rustc: &'a str,
}

/// The statement about the files with these hashes.
///
/// # Errors
/// It could not be written as JSON.
pub fn statement(built: &BuildFacts<'_>, sums: &BTreeMap<String, String>) -> Result<String> {
    let BuildFacts { version, url, commit, builder, rustc } = built;
    let subjects: Vec<Value> =
        sums.iter().map(|(name, sum)| json!({"name": name, "digest": {"sha256": sum}})).collect();
    let mut parameters = json!({"version": version});
    if let Some(url) = url {
        parameters["address"] = json!(url);
    }
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": parameters,
                "resolvedDependencies": [{"name": "config-weaver", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {"builder": {"id": builder, "version": {"rustc": rustc}}},
        },
    });
    serde_json::to_string_pretty(&statement).map(|text| text + "\n").context("writing the provenance")
}
