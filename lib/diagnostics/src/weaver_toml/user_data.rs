//! cloud-init's `user-data`, as far as `weaver.toml` must know it: which user
//! it makes, and what it says about the host's name.
//!
//! Only these keys are looked at; a password's hash, tokens and scripts are
//! dropped unseen. What is not `#cloud-config` (a script, an archive) says
//! nothing here.

use crate::{
    finding::Place,
    text_file::TextFile,
    yaml_node::{self, SyntaxError, YamlNode, YamlValue},
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserData {
    /// The first user that it makes and that ssh keys can be given to.
    pub user: Option<String>,
    /// `hostname:` and `fqdn:`: the first label, and its place.
    pub host_names: Vec<(String, Place)>,
    /// Where it lets cloud-init write `/etc/hosts`.
    pub manages_hosts: Option<Place>,
    /// Packages that it asks for; the card has cloud-init install none.
    pub packages: Vec<(String, Place)>,
}

/// Reads the file.
///
/// # Errors
/// It says that it is `#cloud-config` and is no YAML.
pub fn read(file: &TextFile) -> Result<UserData, SyntaxError> {
    let text = file.text.trim_start_matches('\u{feff}');
    let is_cloud_config = text.lines().next().is_some_and(|line| line.trim_end() == "#cloud-config");
    if !is_cloud_config {
        return Ok(UserData::default());
    }
    let root = yaml_node::parse(&file.text)?;
    let place = |node: &YamlNode| Place::at(&file.path, node.line, node.column);
    let named = ["hostname", "fqdn"].iter().filter_map(|key| root.get(key));
    let host_names = named.filter_map(|node| {
        let label = node.as_str()?.split('.').next()?;
        Some((label.to_ascii_lowercase(), place(node)))
    });
    let manages_hosts = root.get("manage_etc_hosts").filter(|node| node.as_str() != Some("false")).map(place);
    let packages = root.list("packages").iter().filter_map(|node| {
        // A list is a name and a version.
        let name = node.as_str().or_else(|| node.items().first()?.as_str())?;
        Some((name.to_owned(), place(node)))
    });
    let (user, host_names, packages) = (user(&root), host_names.collect(), packages.collect());
    Ok(UserData { user, host_names, manages_hosts, packages })
}

fn user(root: &YamlNode) -> Option<String> {
    let users = root.list("users").iter().filter_map(|node| node.get("name"));
    let single = root.get("user").map(|node| match node.value {
        YamlValue::Map(_) => node.get("name").unwrap_or(node),
        _ => node,
    });
    let mut names = users.chain(single).filter_map(YamlNode::as_str);
    names.find(|name| is_account(name)).map(str::to_owned)
}

/// Whether this is the name of an account that may log in. It becomes the name of a file.
fn is_account(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    starts && name.chars().all(is_part) && name.len() <= 32 && name != "root"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> UserData {
        read(&TextFile::new("/u", text)).unwrap()
    }

    #[test]
    fn the_first_user_that_keys_can_be_given_to() {
        for (text, want) in [
            ("#cloud-config\nusers:\n- name: ada\n- name: bob\n", Some("ada")),
            ("#cloud-config\r\nusers:\r\n- default\r\n- name: ada\r\n", Some("ada")),
            ("\u{feff}#cloud-config\nuser: ada\n", Some("ada")),
            ("#cloud-config\nuser: {name: ada}\n", Some("ada")),
            ("#cloud-config\nuser: {uid: 7}\n", None),
            ("#cloud-config\nusers:\n- name: root\n- name: ada\n", Some("ada")),
            ("#cloud-config\nusers:\n- name: ../../etc/shadow\n", None),
            ("#cloud-config\nusers:\n- name: ..\n", None),
            ("#cloud-config\nusers: []\n", None),
            ("#cloud-config\nusers: ada\n", None),
            ("#cloud-config\n", None),
            ("#!/bin/sh\nuser: ada\n", None),
            ("", None),
        ] {
            assert_eq!(of(text).user.as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn what_it_says_about_the_name() {
        let data = of("#cloud-config\nhostname: Pi\nfqdn: box.lan\nmanage_etc_hosts: true\n");
        let names = [("pi".to_owned(), Place::at("/u", 2, 11)), ("box".to_owned(), Place::at("/u", 3, 7))];
        assert_eq!(data.host_names, names);
        assert_eq!(data.manages_hosts, Some(Place::at("/u", 4, 19)));
        assert_eq!(of("#cloud-config\nmanage_etc_hosts: false\n"), UserData::default());
    }

    #[test]
    fn the_packages_that_it_asks_for() {
        let data = of("#cloud-config\npackages:\n- htop\n- [curl, 8.0]\n- {snap: [x]}\n");
        let names: Vec<_> = data.packages.iter().map(|(name, place)| (name.as_str(), place.line)).collect();
        assert_eq!(names, [("htop", Some(3)), ("curl", Some(4))]);
    }

    #[test]
    fn no_yaml_is_an_error_with_its_line_and_none_of_the_text() {
        let error = read(&TextFile::new("/u", "#cloud-config\nusers:\n- passwd: \"hunter2\n")).unwrap_err();
        assert!(error.line.is_some() && !error.message.contains("hunter2"), "{error:?}");
    }
}
