//! Keys of cloud-init's `user-data` that it does not know, and values that it does not take. Pure.
//!
//! cloud-init ignores a key that it does not know, with a line in a log that an owner whose user was not created cannot
//! read. Passwords and keys are never repeated.

use super::netplan_keys::KeyFault;
use super::plan::ADMIN;
use crate::finding_text::cut;
use crate::yaml_node::{YamlNode, YamlValue};

/// Keys at the top that people write by hand.
const TOP: [&str; 41] = [
    "apt",
    "bootcmd",
    "ca-certs",
    "ca_certs",
    "chpasswd",
    "disable_root",
    "disk_setup",
    "final_message",
    "fqdn",
    "fs_setup",
    "groups",
    "growpart",
    "hostname",
    "keyboard",
    "locale",
    "manage_etc_hosts",
    "mounts",
    "ntp",
    "package_reboot_if_required",
    "package_update",
    "package_upgrade",
    "packages",
    "password",
    "phone_home",
    "power_state",
    "prefer_fqdn_over_hostname",
    "preserve_hostname",
    "random_seed",
    "resize_rootfs",
    "resolv_conf",
    "runcmd",
    "ssh_authorized_keys",
    "ssh_deletekeys",
    "ssh_genkeytypes",
    "ssh_import_id",
    "ssh_keys",
    "ssh_pwauth",
    "swap",
    "timezone",
    "users",
    "write_files",
];
/// Fields of a user that people write, and what cloud-init calls them.
const FIELDS: [(&str, &str); 6] = [
    ("plain_text_password", "plain_text_passwd"),
    ("plaintext_passwd", "plain_text_passwd"),
    ("hashed_password", "hashed_passwd"),
    ("password", "plain_text_passwd"),
    ("lock_password", "lock_passwd"),
    ("username", "name"),
];

fn fault(at: &YamlNode, what: impl Into<String>, remedy: impl Into<String>) -> KeyFault<'_> {
    KeyFault { at, what: what.into(), remedy: remedy.into() }
}

/// What is wrong at the top of it.
pub(super) fn of_top<'n>(
    root: &'n YamlNode,
    of_card: bool,
    has_default: bool,
    users: &[&str],
) -> Vec<KeyFault<'n>> {
    let mut found = Vec::new();
    for (key, value) in root.entries() {
        let Some(name) = key.as_str() else { continue };
        let plain = name.replace('-', "_").to_ascii_lowercase();
        if name == "autoinstall" {
            let what = "only Ubuntu's installer reads `autoinstall`, and there is none on a card: nothing below it is done";
            found.push(fault(key, what, "write what is below `user-data` there to the top of this file"));
        } else if name == "network" {
            let what = "cloud-init takes no network from user-data";
            found.push(fault(key, what, "write it into network-config, next to user-data"));
        } else if name == "users" && value.get("name").is_some_and(|name| name.as_str().is_some()) {
            let what = "`users` is one mapping and no list, so cloud-init creates no user of it";
            found.push(fault(value, what, "write a dash in front of each user: `- name: NAME`"));
        } else if ["runcmd", "bootcmd", "packages", "write_files"].contains(&name) && value.as_str().is_some()
        {
            let what = format!("`{name}` is a string, so cloud-init passes over it");
            found.push(fault(value, what, "write a list: each entry on a line that begins with `- `"));
        } else if !TOP.contains(&name)
            && name != "user"
            && let Some(meant) = TOP.iter().find(|known| is_near(&plain, known))
        {
            let what = format!("cloud-init has no `{}`, and passes over it", cut(name, 40));
            found.push(fault(key, what, format!("write `{meant}`")));
        }
    }
    if let Some((key, entry)) = mapped_command(root) {
        let what = format!(
            "this entry of `{key}` is a mapping, since it has a colon and a blank: cloud-init runs none of its commands"
        );
        found.push(fault(entry, what, "write the whole command in quotes, such as - 'echo a: b'"));
    }
    if of_card && let Some(node) = installs_k3s(root) {
        let what = "this installs k3s, which the card has: the two overwrite each other's files";
        found.push(fault(node, what, "remove it, and set k3s' options in weaver.toml"));
    }
    if of_card || root.get("users").is_some() {
        let known = |name: &str| has_default || ["root", ADMIN].contains(&name) || users.contains(&name);
        for (at, name) in passwords(root).into_iter().filter(|(_, name)| !known(name)) {
            let what = format!("`chpasswd` sets a password of `{}`, who is not created", cut(name, 40));
            found.push(fault(at, what, "write the user into `users`, or correct the name"));
        }
    }
    found
}

/// What is wrong with the fields of a user.
pub(super) fn of_user<'n>(name: &str, user: &'n YamlNode) -> Vec<KeyFault<'n>> {
    let mut found = Vec::new();
    let name = cut(name, 40);
    let get = |field: &str| {
        let is_it = |key: &YamlNode| key.as_str().is_some_and(|key| key.replace('-', "_") == field);
        user.entries().iter().rev().find(|(key, _)| is_it(key))
    };
    for (key, _) in user.entries() {
        let plain = key.as_str().unwrap_or_default().replace('-', "_");
        if let Some((wrong, meant)) = FIELDS.iter().find(|(wrong, _)| *wrong == plain) {
            found.push(fault(key, format!("users have no field `{wrong}`"), format!("write `{meant}`")));
        }
    }
    for field in ["passwd", "hashed_passwd"] {
        let Some((_, node)) = get(field) else { continue };
        let text = node.as_str().unwrap_or_default();
        if !text.is_empty() && !text.starts_with(['$', '!', '*', '_']) {
            let what = format!("`{field}` of `{name}` is not a hash, so no password is right");
            let remedy = "write what `openssl passwd -6` prints, or `plain_text_passwd`";
            found.push(fault(node, what, remedy));
        }
    }
    let has_password = ["passwd", "hashed_passwd", "plain_text_passwd"].iter().find_map(|field| get(field));
    if let Some((key, _)) = has_password.filter(|_| get("lock_passwd").is_none()) {
        let what = format!("`{name}` has a password, and cloud-init locks it: no one can log in with it");
        found.push(fault(key, what, "write `lock_passwd: false`"));
    }
    if let Some((_, rules)) = get("sudo") {
        for node in std::slice::from_ref(rules).iter().chain(rules.items()) {
            let lacks_colon = |text: &str| {
                let after = text.split_once("NOPASSWD").map(|(_, after)| after.trim_start());
                after.is_some_and(|after| !after.starts_with(':'))
            };
            if node.as_str().is_some_and(lacks_colon) {
                let what = format!("the sudo rule of `{name}` lacks a colon, so sudo refuses it");
                found.push(fault(node, what, "write `ALL=(ALL) NOPASSWD:ALL`"));
            }
        }
    }
    found
}

/// Keys that give a user a way to log in, or may do so.
const WAYS_IN: [&str; 9] = [
    "ssh_authorized_keys",
    "ssh_import_id",
    "ssh_redirect_user",
    "passwd",
    "hashed_passwd",
    "plain_text_passwd",
    "snapuser",
    "system",
    "no_create_home",
];
/// Keys at the top that may do so later, or that make more users.
const OTHER_WAYS_IN: [&str; 9] = [
    "chpasswd",
    "runcmd",
    "bootcmd",
    "write_files",
    "ssh_import_id",
    "snap",
    "ansible",
    "merge_how",
    "merge_type",
];

/// Users of whom none has a key or a password. Only where nothing else of the file may give them one.
pub(super) fn without_login<'n>(root: &'n YamlNode, users: &[(&str, &'n YamlNode)]) -> Option<KeyFault<'n>> {
    let (name, user) = users.first()?;
    let has_way = |user: &YamlNode| {
        let keys = user.entries().iter().filter_map(|(key, _)| key.as_str());
        keys.map(|key| key.replace('-', "_")).any(|key| WAYS_IN.contains(&key.as_str()))
    };
    if OTHER_WAYS_IN.iter().any(|key| root.get(key).is_some()) || users.iter().any(|(_, user)| has_way(user))
    {
        return None;
    }
    let what = format!("`{}` has neither an ssh key nor a password, so no one can log in", cut(name, 40));
    let remedy = "write `ssh_authorized_keys` below it, or `keys` below [ssh] in weaver.toml";
    Some(fault(user, what, remedy))
}

/// Whether one is the other in other letters, in the plural, or with one letter wrong.
fn is_near(given: &str, known: &str) -> bool {
    // Of a short word another letter makes another word.
    given == known
        || given.strip_suffix('s') == Some(known)
        || known.strip_suffix('s') == Some(given)
        || (given.len() > 4 && strsim::damerau_levenshtein(given, known) == 1)
}

/// A command of which YAML has made a mapping.
fn mapped_command(root: &YamlNode) -> Option<(&'static str, &YamlNode)> {
    ["runcmd", "bootcmd"].into_iter().find_map(|key| {
        let entry = root.get(key)?.items().iter().find(|entry| !entry.entries().is_empty())?;
        Some((key, entry))
    })
}

fn installs_k3s(root: &YamlNode) -> Option<&YamlNode> {
    let commands = ["runcmd", "bootcmd"].iter().filter_map(|key| root.get(key)).flat_map(YamlNode::items);
    let mut words = commands.flat_map(|node| std::slice::from_ref(node).iter().chain(node.items()));
    words.find(|node| node.as_str().is_some_and(|text| text.contains("get.k3s.io")))
}

/// Whose passwords are set.
fn passwords(root: &YamlNode) -> Vec<(&YamlNode, &str)> {
    let Some(all) = root.get("chpasswd") else { return Vec::new() };
    let mut names = Vec::new();
    for user in all.list("users") {
        names.extend(user.get("name").and_then(|node| Some((node, node.as_str()?))));
    }
    if let Some(list) = all.get("list") {
        let lines = match &list.value {
            YamlValue::Scalar(text) => text.lines().map(|line| (list, line)).collect(),
            _ => list.items().iter().filter_map(|node| Some((node, node.as_str()?))).collect::<Vec<_>>(),
        };
        names.extend(lines.into_iter().filter_map(|(node, line)| {
            Some((node, line.split_once(':')?.0.trim())).filter(|(_, name)| !name.is_empty())
        }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml_node;

    fn top(text: &str) -> Vec<String> {
        let root = yaml_node::parse(text).unwrap();
        let found = of_top(&root, true, false, &["ada"]);
        found
            .into_iter()
            .map(|it| format!("{}:{}: {} | {}", it.at.line, it.at.column, it.what, it.remedy))
            .collect()
    }

    fn user(text: &str) -> Vec<String> {
        let node = yaml_node::parse(text).unwrap();
        let found = of_user("ada", &node);
        assert!(found.iter().all(|it| !it.what.contains("hunter2")));
        found.into_iter().map(|it| format!("{} | {}", it.what, it.remedy)).collect()
    }

    #[test]
    fn keys_at_the_top() {
        for (text, want) in [
            ("network: {version: 2}", "1:1: cloud-init takes no network from user-data"),
            ("runcmd: apt update", "1:9: `runcmd` is a string"),
            // canonical/cloud-init#3117
            ("runcmd:\n- apt update\n- echo done: a\n", "3:3: this entry of `runcmd` is a mapping"),
            ("bootcmd: [{\"echo a\": b}]", "1:11: this entry of `bootcmd` is a mapping"),
            (
                "ssh_pwath: true",
                "1:1: cloud-init has no `ssh_pwath`, and passes over it | write `ssh_pwauth`",
            ),
            ("hostnme: x", "1:1: cloud-init has no `hostnme`, and passes over it | write `hostname`"),
            ("package: [a]", "1:1: cloud-init has no `package`"),
            ("runcmd: [\"curl -sfL https://get.k3s.io | sh -\"]", "1:10: this installs k3s"),
            ("runcmd: [[sh, -c, \"curl https://get.k3s.io\"]]", "1:19: this installs k3s"),
            ("chpasswd: {list: \"pi:hunter2\"}", "1:18: `chpasswd` sets a password of `pi`"),
            (
                "chpasswd: {users: [{name: pi, password: hunter2}]}",
                "1:27: `chpasswd` sets a password of `pi`",
            ),
        ] {
            let found = top(text);
            assert!(found.len() == 1 && found[0].starts_with(want), "{text}: {found:?}");
            assert!(!found[0].contains("hunter2"));
        }
        for text in [
            "{hostname: pi, enable_ssh: true, rpi: {}, user: ada, apt: {}, user_groups: []}",
            "{runcmd: [a], chpasswd: {expire: false, users: [{name: ada}, {name: root}]}}",
            "chpasswd: {list: [\"ada:x\"]}",
            "runcmd:\n- 'echo done: a'\n- [echo, \"done: a\"]\n- echo http://a\n-\n",
            "",
        ] {
            assert_eq!(top(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn fields_of_a_user() {
        for (text, want) in [
            (
                "{plain_text_password: hunter2, lock_passwd: false}",
                "users have no field `plain_text_password` | write `plain_text_passwd`",
            ),
            ("{passwd: hunter2, lock_passwd: false}", "`passwd` of `ada` is not a hash"),
            ("{passwd: $6$a$b}", "`ada` has a password, and cloud-init locks it"),
            ("{sudo: \"ALL=(ALL) NOPASSWD ALL\"}", "the sudo rule of `ada` lacks a colon"),
        ] {
            let found = user(text);
            assert!(found.len() == 1 && found[0].starts_with(want), "{text}: {found:?}");
        }
        for text in [
            "{passwd: $y$j9T$a, lock_passwd: false, sudo: \"ALL=(ALL) NOPASSWD:ALL\"}",
            "{sudo: [\"ALL=(ALL) NOPASSWD: ALL\"], lock_passwd: true}",
            "{passwd: \"*\", lock-passwd: true}",
        ] {
            assert_eq!(user(text), [""; 0], "{text}");
        }
    }
}
