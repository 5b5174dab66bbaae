//! The sources of a release: an in-toto statement with SLSA's predicate. Pure.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// What the statement is of, and how it was built.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Subject {
    name: String,
    #[serde(default)]
    digest: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    build_definition: BuildDefinition,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition {
    /// Each build type has its own.
    #[serde(default)]
    external_parameters: Value,
    #[serde(default)]
    resolved_dependencies: Vec<Material>,
}

#[derive(Deserialize)]
struct Material {
    #[serde(default)]
    digest: BTreeMap<String, String>,
}

/// What was built, by name, as which version and of which commit.
#[derive(Debug)]
pub struct Provenance {
    subjects: BTreeMap<String, String>,
    pub version: Option<String>,
    pub commit: Option<String>,
}

impl Provenance {
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let statement: Statement = serde_json::from_slice(bytes)
            .context("it is not an in-toto statement in JSON, or it is truncated; download it again")?;
        let Statement { kind, predicate_type, subject, predicate } = statement;
        ensure!(kind == STATEMENT, "it is `{kind}`, and {STATEMENT} is known here");
        ensure!(predicate_type == PREDICATE, "it says `{predicate_type}`, and {PREDICATE} is known here");
        let mut subjects = BTreeMap::new();
        for Subject { name, mut digest } in subject {
            let Some(sha256) = digest.remove("sha256") else { bail!("its subject {name} has no sha256") };
            ensure!(
                subjects.insert(name.clone(), sha256.to_ascii_lowercase()).is_none(),
                "its subject {name} is listed twice"
            );
        }
        let BuildDefinition { external_parameters, resolved_dependencies: materials } =
            predicate.build_definition;
        let version = external_parameters.get("version").and_then(Value::as_str).map(str::to_owned);
        let commit = materials.into_iter().find_map(|mut material| material.digest.remove("gitCommit"));
        Ok(Self { subjects, version, commit })
    }

    /// Was the file of this name and SHA-256 built so?
    pub fn check(&self, name: &str, sha256: &str) -> anyhow::Result<()> {
        match self.subjects.get(name) {
            None => bail!("it does not say how {name} was built: take both from one release"),
            Some(built) if built != sha256 => {
                bail!("it says that {name} was built with the SHA-256 {built}: take both from one release")
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn statement() -> Value {
        json!({
            "_type": STATEMENT, "predicateType": PREDICATE,
            "subject": [{"name": "a", "digest": {"sha256": "AB"}}],
            "predicate": {
                "buildDefinition": {"externalParameters": {"version": "0.2.0"}, "resolvedDependencies": [{"uri": "x"}, {"uri": "y", "digest": {"gitCommit": "c0"}}]},
                "runDetails": {},
            },
        })
    }

    #[test]
    fn a_subject_is_known_by_name_and_hash() {
        let read = Provenance::parse(statement().to_string().as_bytes()).unwrap();
        assert_eq!((read.version.as_deref(), read.commit.as_deref()), (Some("0.2.0"), Some("c0")));
        assert!(read.check("a", "ab").is_ok());
        for (name, sha256, why) in
            [("b", "ab", "does not say how b was built"), ("a", "ac", "with the SHA-256 ab")]
        {
            let said = read.check(name, sha256).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn another_statement_is_refused() {
        let changed = |path: &str, value: Value| {
            let mut changed = statement();
            *changed.pointer_mut(path).unwrap() = value;
            changed.to_string()
        };
        let twice = statement()["subject"][0].clone();
        for (text, why) in [
            (String::new(), "truncated"),
            (statement().to_string()[..40].to_owned(), "truncated"),
            ("[]".into(), "not an in-toto statement"),
            (
                r#"{"payloadType": "application/vnd.in-toto+json", "payload": ""}"#.into(),
                "not an in-toto statement",
            ),
            (changed("/_type", json!("https://in-toto.io/Statement/v0.1")), "Statement/v0.1"),
            (changed("/predicateType", json!("https://example.com/other")), "other"),
            (changed("/subject/0/digest", json!({"md5": "00"})), "subject a has no sha256"),
            (changed("/subject", json!([twice, twice])), "twice"),
        ] {
            let said = format!("{:#}", Provenance::parse(text.as_bytes()).unwrap_err());
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
