//! Node filters of k3d 5, as in `--tls-san=raspi@server:*`, and what is wrong with a value that ends in one. Pure.

use crate::k3s_config::flags;
use crate::k3s_upgrade::Role;
use crate::san::ServingName;

/// A flag's value and its node filters, of which there may be none. An `@` of the value has a backslash in front.
///
/// # Errors
/// There are more than one `@` without a backslash.
pub(super) fn split_filters(text: &str) -> Result<(String, Vec<String>), String> {
    let parts: Vec<&str> = text.split('@').collect();
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for (number, part) in (1..).zip(&parts) {
        let before = part.strip_suffix('\\').filter(|_| number < parts.len());
        piece.push_str(before.unwrap_or(part));
        // Two backslashes are one of the value.
        if before.is_some_and(|before| !before.ends_with('\\')) {
            piece.push('@');
        } else {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    let mut pieces = pieces.into_iter();
    let value = pieces.next().unwrap_or_default();
    match (pieces.next(), pieces.next()) {
        (None, _) => Ok((value, Vec::new())),
        (Some(filters), None) => Ok((value, filters.split(';').map(str::to_owned).collect())),
        (Some(_), Some(_)) => Err(format!(
            "`{text}` has more than one @: write \\@ for each that does not begin the node filters"
        )),
    }
}

/// A value as it is written in front of node filters. k3d has no way to write a backslash in front of an `@` of the
/// value, and [`split_filters`] returns none.
pub(super) fn escaped(value: &str) -> String {
    // The last one would make the next `@` one of the value.
    let end = if value.ends_with('\\') { "\\" } else { "" };
    value.replace('@', "\\@") + end
}

/// What is wrong with a value of `--k3s-arg`, such as `--tls-san=raspi@server:*`; nothing where all is well.
pub fn lint_k3s_arg(value: &str) -> Vec<String> {
    let (argument, filters) = match split_filters(value) {
        Ok(split) => split,
        Err(fault) => return vec![fault],
    };
    let on_servers = format!("{}@server:*", escaped(&argument));
    let mut faults = Vec::new();
    if let Some((flag, rest)) = argument.split_once(char::is_whitespace) {
        faults.push(format!(
            "k3s reads `{argument}` as one word and prints \"flag provided but not defined\": write {flag}={}",
            rest.trim()
        ));
    }
    faults.extend(flag_fault(&argument));
    if filters.is_empty() {
        faults.push(format!("it names no nodes: write {on_servers}"));
        return faults;
    }
    for filter in &filters {
        match group_of(filter) {
            Err(fault) => faults.push(fault),
            Ok(Group::Agents | Group::All) if is_of_servers(&argument) => faults.push(format!(
                "`{filter}` includes agents, and an agent with --{} exits: write {on_servers}",
                flag_name(&argument)
            )),
            Ok(Group::LoadBalancer) => {
                faults.push(format!("`{filter}` runs no k3s: write {on_servers}"));
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

fn flag_name(argument: &str) -> &str {
    let end = argument.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(argument.len());
    argument[..end].trim_start_matches('-')
}

fn is_of_servers(argument: &str) -> bool {
    let known = flags::find(flag_name(argument));
    known.is_some_and(|known| known.until.is_none() && !known.is_of(Role::Agent))
}

/// What is wrong with the flag itself, whichever nodes get it.
fn flag_fault(argument: &str) -> Option<String> {
    let name = flag_name(argument);
    let Some(known) = flags::find(name) else {
        let meant = flags::nearest(name, Role::Server).or_else(|| flags::nearest(name, Role::Agent))?;
        return argument
            .starts_with("--")
            .then(|| format!("k3s does not start with --{name}: if it is what is meant, write --{meant}"));
    };
    if !argument.starts_with('-') {
        return Some(format!("without dashes k3s takes it for no flag: write --{argument}"));
    }
    let since = known.until? + 1;
    let value = argument.split_once('=').map_or("", |(_, value)| value);
    let write = match known.instead {
        Some("flannel-backend") => "write --flannel-backend=none for servers".to_owned(),
        Some(instead) => format!("write --{instead}={value}"),
        None => "remove it".to_owned(),
    };
    Some(format!("k3s has no --{} since v1.{since}, and does not start with it: {write}", known.name))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Servers,
    Agents,
    LoadBalancer,
    All,
}

/// The group of `group[:subset]`. k3d takes a suffix behind it, `:direct` or `:proxy`, for ports only.
pub(super) fn group_of(filter: &str) -> Result<Group, String> {
    if let Some((group, rest)) = filter.split_once('[') {
        let subset = rest.trim_end_matches(']');
        return Err(format!("`{filter}` is the form of k3d 4: write {group}:{subset}"));
    }
    let mut parts = filter.splitn(3, ':');
    let name = parts.next().unwrap_or_default();
    let group = match name {
        "server" | "servers" => Group::Servers,
        "agent" | "agents" => Group::Agents,
        "loadbalancer" => Group::LoadBalancer,
        "all" => Group::All,
        other => {
            return Err(format!("`{other}` is not a node filter: use server, agent, loadbalancer or all"));
        }
    };
    let (subset, suffix) = (parts.next(), parts.next());
    match (group, subset, suffix) {
        (Group::Servers | Group::Agents, None, _) => Err(format!(
            "`{filter}` does not say which of them: write {filter}:* for all, {filter}:0 for the first"
        )),
        (_, Some(subset), _) if !is_subset(subset) => {
            Err(format!("`{subset}` names no nodes: write *, 0, 0,2 or 1-3"))
        }
        (_, Some(subset), Some(suffix)) => {
            Err(format!("k3d takes `:{suffix}` for ports only: write {name}:{subset}"))
        }
        _ => Ok(group),
    }
}

/// A list, a range with or without its ends, or all.
fn is_subset(subset: &str) -> bool {
    let is_bound = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((from, to)) = subset.split_once('-') {
        let is_backward = match (from.parse::<u32>(), to.parse::<u32>()) {
            (Ok(from), Ok(to)) => from > to,
            _ => false,
        };
        return is_bound(from) && is_bound(to) && !is_backward;
    }
    let list = subset.strip_suffix(',').unwrap_or(subset);
    subset == "*" || list.split(',').all(|number| !number.is_empty() && is_bound(number))
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
            ("--tls-san=raspi@server:-", None),
            ("--tls-san=raspi@server:0,1,", None),
            (r"--kubelet-arg=x=a\@b@server:0", None),
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
            ("--tls-san=raspi@server:1-*", Some("`1-*` names no nodes")),
            ("--tls-san=raspi@server:0,2-3", Some("`0,2-3` names no nodes")),
            ("--tls-san=raspi@server:2-1", Some("`2-1` names no nodes")),
            ("--tls-san=raspi@server:0:direct", Some("`:direct` for ports only: write server:0")),
            ("--tls-san=raspi@server:0;@server:1", Some("more than one @")),
            ("--kubelet-arg=x=a@b@server:0", Some(r"write \@ for each")),
            (r"--kubelet-arg=x=a\@b", Some(r"write --kubelet-arg=x=a\@b@server:*")),
            (r"--kubelet-arg=x=a\", Some(r"write --kubelet-arg=x=a\\@server:*")),
            (r"--kubelet-arg=x=a\\", Some(r"write --kubelet-arg=x=a\\\@server:*")),
            ("--tls-san=https://raspi@server:0", Some("it is a URL, not a name; write raspi")),
            ("--kubelet-arg=max-pods=200@all", None),
            ("-v=2@server:0", None),
            (
                "--disable=traefik@all",
                Some("an agent with --disable exits: write --disable=traefik@server:*"),
            ),
            // k3d-io/k3d#292
            (
                "--no-deploy=traefik@server:*",
                Some("no --no-deploy since v1.26, and does not start with it: write --disable=traefik"),
            ),
            ("--no-flannel@agent:0", Some("write --flannel-backend=none")),
            ("--disabel=traefik@server:*", Some("write --disable")),
            ("disable=traefik@server:*", Some("write --disable=traefik")),
        ] {
            let faults = lint_k3s_arg(value);
            match want {
                None => assert_eq!(faults, Vec::<String>::new(), "{value}"),
                Some(want) => assert!(faults.iter().any(|fault| fault.contains(want)), "{value}: {faults:?}"),
            }
        }
    }

    #[test]
    fn a_value_and_its_filters() {
        for (text, want) in [
            ("a", Some("a []")),
            ("a@server:0;agent:*", Some(r#"a ["server:0", "agent:*"]"#)),
            (r"a\@b", Some("a@b []")),
            (r"a\@b@all", Some(r#"a@b ["all"]"#)),
            (r"a\\@all", Some(r#"a\ ["all"]"#)),
            (r"a\", Some(r"a\ []")),
            ("a@", Some(r#"a [""]"#)),
            ("a@b@all", None),
        ] {
            let split = split_filters(text).ok().map(|(value, filters)| format!("{value} {filters:?}"));
            assert_eq!(split.as_deref(), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_what_we_print_is_well(
            value in "(\\PC|[@\\\\]){0,40}",
            name in "[a-z][a-z0-9]{0,8}",
        ) {
            let _ = lint_k3s_arg(&value);
            prop_assert_eq!(lint_k3s_arg(&format!("--tls-san={name}@server:*")), Vec::<String>::new());
            if !value.contains("\\@") {
                let written = format!("{}@all", escaped(&value));
                prop_assert_eq!(split_filters(&written), Ok((value, vec!["all".to_owned()])));
            }
        }
    }
}
