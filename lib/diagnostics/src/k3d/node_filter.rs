//! Node filters of k3d 5, as in `--tls-san=raspi@server:*`, and what is wrong with a value that ends in one. Pure.

use crate::san::ServingName;

/// What is wrong with a value of `--k3s-arg`, such as `--tls-san=raspi@server:*`; nothing where all is well.
#[must_use]
pub fn lint_k3s_arg(value: &str) -> Vec<String> {
    let (argument, filters) = value.split_once('@').map_or((value, None), |(a, f)| (a, Some(f)));
    let mut faults = Vec::new();
    if let Some((flag, rest)) = argument.split_once(char::is_whitespace) {
        faults.push(format!(
            "k3s reads `{argument}` as one word and prints \"flag provided but not defined\": write {flag}={}",
            rest.trim()
        ));
    }
    let Some(filters) = filters else {
        faults.push(format!("it names no nodes: write {argument}@server:*"));
        return faults;
    };
    for filter in filters.split(';') {
        match group_of(filter) {
            Err(fault) => faults.push(fault),
            Ok(Group::Agents | Group::All) if argument.starts_with("--tls-san") => faults.push(format!(
                "`{filter}` includes agents, and an agent with --tls-san exits: write {argument}@server:*"
            )),
            Ok(Group::LoadBalancer) => {
                faults.push(format!("`{filter}` runs no k3s: write {argument}@server:*"));
            }
            Ok(_) => {}
        }
    }
    if let Some(name) = argument.strip_prefix("--tls-san=") {
        for name in name.split(',') {
            if let Err(error) = name.parse::<ServingName>() {
                let meant =
                    error.suggestion.as_ref().map_or_else(String::new, |meant| format!("; write {meant}"));
                faults.push(format!("`{name}` is not a valid name for a certificate: {error}{meant}"));
            }
        }
    }
    faults
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Servers,
    Agents,
    LoadBalancer,
    All,
}

/// The group of `group[:subset[:suffix]]`.
pub(super) fn group_of(filter: &str) -> Result<Group, String> {
    if let Some((group, rest)) = filter.split_once('[') {
        let subset = rest.trim_end_matches(']');
        return Err(format!("`{filter}` is the form of k3d 4: write {group}:{subset}"));
    }
    let mut parts = filter.splitn(3, ':');
    let group = match parts.next().unwrap_or_default() {
        "server" | "servers" => Group::Servers,
        "agent" | "agents" => Group::Agents,
        "loadbalancer" => Group::LoadBalancer,
        "all" => Group::All,
        other => {
            return Err(format!("`{other}` is not a node filter: use server, agent, loadbalancer or all"));
        }
    };
    match (group, parts.next()) {
        (Group::Servers | Group::Agents, None) => Err(format!(
            "`{filter}` does not say which of them: write {filter}:* for all, {filter}:0 for the first"
        )),
        (_, Some(subset)) if !is_subset(subset) => {
            Err(format!("`{subset}` names no nodes: write *, 0, 0,2 or 1-3"))
        }
        _ => Ok(group),
    }
}

fn is_subset(subset: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_bound = |text: &str| is_number(text) || text.is_empty() || text == "*";
    let is_part = |part: &str| match part.split_once('-') {
        Some((from, to)) => is_bound(from) && is_bound(to) && (is_number(from) || is_number(to)),
        None => is_number(part),
    };
    subset == "*" || subset.split(',').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn node_filters() {
        for (value, want) in [
            ("--tls-san=raspi@server:*", None),
            ("--tls-san=raspi@server:0", None),
            ("--tls-san=raspi,10.0.0.7@servers:0,2", None),
            ("--disable=traefik@server:1-3", None),
            ("--node-label=a=b@agent:*;server:0-", None),
            ("--node-label=a=b@all", None),
            ("--tls-san=raspi@server:0:direct", None),
            ("--tls-san=raspi", Some("write --tls-san=raspi@server:*")),
            ("--tls-san 192.168.1.5@server:0", Some("write --tls-san=192.168.1.5")),
            ("--tls-san=raspi@agent:*", Some("--tls-san exits: write --tls-san=raspi@server:*")),
            ("--tls-san=raspi@all", Some("--tls-san exits")),
            ("--tls-san=raspi@server:0;agent:0", Some("--tls-san exits")),
            ("--tls-san=raspi@loadbalancer", Some("runs no k3s")),
            ("--tls-san=raspi@server[0]", Some("is the form of k3d 4: write server:0")),
            ("--tls-san=raspi@server", Some("write server:* for all")),
            ("--tls-san=raspi@master:0", Some("`master` is not a node filter")),
            ("--tls-san=raspi@server:first", Some("`first` names no nodes")),
            ("--tls-san=raspi@server:", Some("names no nodes")),
            ("--tls-san=raspi@server:-", Some("names no nodes")),
            ("--tls-san=https://raspi@server:0", Some("it is a URL, not a name; write raspi")),
        ] {
            let faults = lint_k3s_arg(value);
            match want {
                None => assert_eq!(faults, Vec::<String>::new(), "{value}"),
                Some(want) => assert!(faults.iter().any(|fault| fault.contains(want)), "{value}: {faults:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_what_we_print_is_well(value in "\\PC{0,40}", name in "[a-z][a-z0-9]{0,8}") {
            let _ = lint_k3s_arg(&value);
            prop_assert_eq!(lint_k3s_arg(&format!("--tls-san={name}@server:*")), Vec::<String>::new());
        }
    }
}
