//! What was seen of a registry, for a program.

use serde_json::{Value, json};

use super::{Https, ImageAvailability, RegistryFacts, Reply};
use crate::k3d::registry::RegistryContainer;
use crate::serving::HandshakeOutcome;

/// The facts as JSON, without credentials.
pub fn document(facts: &RegistryFacts) -> Value {
    let configured = facts.configured.as_ref().map(|(file, configured)| {
        let endpoints: Vec<_> = configured.endpoints.iter().map(ToString::to_string).collect();
        json!({"file": file, "endpoints": endpoints, "credentials": configured.credentials.is_some()})
    });
    let containers = match &facts.containers {
        Ok(containers) => json!(containers.iter().map(RegistryContainer::summary).collect::<Vec<_>>()),
        Err(why) => json!({"unknown": why}),
    };
    json!({
        "registry": facts.registry,
        "https": https(&facts.https),
        "http": reply(&facts.http),
        "registriesYaml": configured,
        "containers": containers,
        "image": facts.image.as_ref().map(|wanted| json!({
            "name": wanted.image.to_string(),
            "wanted": wanted.platform.to_string(),
            "found": build(&wanted.found),
        })),
    })
}

fn https(https: &Https) -> Value {
    let verdict = match &https.outcome {
        HandshakeOutcome::Proven => "trusted",
        HandshakeOutcome::NotServed => "otherName",
        HandshakeOutcome::Dates(_) => "outOfDates",
        HandshakeOutcome::Untrusted(_) => "untrusted",
        HandshakeOutcome::Unreachable(_) => return reply(&https.reply),
    };
    let mut answer = reply(&https.reply);
    answer["certificate"] = json!({"verdict": verdict, "names": https.served});
    answer
}

fn reply(reply: &Result<Reply, String>) -> Value {
    match reply {
        Ok(reply) => json!(reply),
        Err(why) => json!({"error": why}),
    }
}

fn build(found: &ImageAvailability) -> Value {
    match found {
        ImageAvailability::For(platforms) => json!({"platforms": platforms}),
        ImageAvailability::Missing => json!({"error": "not found"}),
        ImageAvailability::Denied => json!({"error": "access denied"}),
        ImageAvailability::Unusable(why) | ImageAvailability::Unknown(why) => json!({"error": why}),
    }
}
