//! Is k3s what it was before, in the version that it should be?

use super::Role;
use super::version::Version;

/// What must be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedNode {
    /// What the node is.
    pub role: Role,
    /// What it must run; `None` if that could not be found out.
    pub version: Option<Version>,
    /// The names that were served before.
    pub names: Vec<String>,
}

/// What was seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedNode {
    /// The state of the unit, in systemd's word or in words why it is not known.
    pub unit: String,
    /// Whether the API server says that it is ready, or why that is not known; `None` of an agent.
    pub ready: Option<Result<(), String>>,
    /// The names that are served.
    pub names: Vec<String>,
    /// The version that the cluster sees; `None` if the cluster could not be asked.
    pub version: Option<Result<String, String>>,
}

/// What is not as it must be, in words; nothing: it is proven.
pub fn missing(wanted: &WantedNode, seen: &ObservedNode) -> Vec<String> {
    let mut missing = Vec::new();
    if seen.unit != "active" {
        missing.push(format!("{} is {}", wanted.role.unit(), seen.unit));
    }
    if wanted.role == Role::Server {
        match &seen.ready {
            Some(Ok(())) => {}
            Some(Err(why)) => missing.push(format!("the API server is not ready: {why}")),
            None => missing.push("the API server was not asked".to_owned()),
        }
        let is_served = |name: &&String| seen.names.iter().any(|served| served.eq_ignore_ascii_case(name));
        let lost: Vec<_> = wanted.names.iter().filter(|name| !is_served(name)).map(String::as_str).collect();
        if !lost.is_empty() {
            missing.push(format!("not served any more: {}", lost.join(", ")));
        }
    }
    match (&wanted.version, &seen.version) {
        (Some(wanted), Some(Ok(version))) if wanted.to_string() != *version => {
            missing.push(format!("the cluster reports {version} instead of {wanted}"));
        }
        (_, Some(Err(why))) => missing.push(format!("the cluster does not report the version: {why}")),
        _ => {}
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(role: Role) -> WantedNode {
        let version = Some("v1.36.4+k3s1".parse().unwrap());
        WantedNode { role, version, names: vec!["pi.lan".to_owned(), "10.0.0.2".to_owned()] }
    }

    fn seen() -> ObservedNode {
        ObservedNode {
            unit: "active".to_owned(),
            ready: Some(Ok(())),
            names: ["10.0.0.2", "Pi.lan", "kubernetes"].map(str::to_owned).to_vec(),
            version: Some(Ok("v1.36.4+k3s1".to_owned())),
        }
    }

    #[test]
    fn each_thing_that_is_missing_is_named() {
        let refused = || Err("connection refused".to_owned());
        for (seen, want) in [
            (seen(), &[][..]),
            (ObservedNode { version: None, ..seen() }, &[]),
            (ObservedNode { unit: "activating".to_owned(), ..seen() }, &["k3s.service is activating"]),
            (
                ObservedNode { ready: Some(refused()), ..seen() },
                &["the API server is not ready: connection refused"],
            ),
            (ObservedNode { ready: None, ..seen() }, &["the API server was not asked"]),
            (ObservedNode { names: vec!["pi.lan".to_owned()], ..seen() }, &["not served any more: 10.0.0.2"]),
            (ObservedNode { names: Vec::new(), ..seen() }, &["not served any more: pi.lan, 10.0.0.2"]),
            (
                ObservedNode { version: Some(Ok("v1.36.3+k3s1".to_owned())), ..seen() },
                &["the cluster reports v1.36.3+k3s1 instead of v1.36.4+k3s1"],
            ),
            (
                ObservedNode {
                    unit: "failed".to_owned(),
                    version: Some(Err("connection refused".to_owned())),
                    ..seen()
                },
                &["k3s.service is failed", "the cluster does not report the version: connection refused"],
            ),
        ] {
            assert_eq!(missing(&wanted(Role::Server), &seen), want);
        }
    }

    #[test]
    fn an_agent_has_no_api_server_and_serves_no_name() {
        let seen = ObservedNode { ready: None, names: Vec::new(), ..seen() };
        assert_eq!(missing(&wanted(Role::Agent), &seen), Vec::<String>::new());
        let seen = ObservedNode { unit: "inactive".to_owned(), ..seen };
        assert_eq!(missing(&wanted(Role::Agent), &seen), ["k3s-agent.service is inactive"]);
    }

    proptest! {
        #[test]
        fn nothing_that_was_served_is_lost_unnoticed(
            before in proptest::collection::btree_set("[a-c]{1,2}", 0..5),
            after in proptest::collection::btree_set("[a-c]{1,2}", 0..5),
        ) {
            let wanted = WantedNode { names: before.iter().cloned().collect(), ..wanted(Role::Server) };
            let seen = ObservedNode { names: after.iter().cloned().collect(), ..seen() };
            prop_assert_eq!(missing(&wanted, &seen).is_empty(), before.is_subset(&after));
        }
    }
}
