//! What of cloud-init's `user-data` has no effect, so that perhaps login is impossible. Pure; no key and no password is
//! repeated.
//!
//! As cloud-init reads it: the beginning says what it is. Scripts, templates, lists of addresses, archives and parts of
//! MIME are not judged here. Of a cloud-config the users are: `users` without `default` makes no default user, for whom
//! the keys at the top are; a user of the system or without a home that has keys is not made at all.

use super::{ssh_key, user_data_keys};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::text_file::TextFile;
use crate::yaml_node::{self, ODD_INDENT, YamlNode, YamlValue};

/// How cloud-init's other kinds begin.
const OTHERS: [&str; 7] = [
    "## template: jinja",
    "#include",
    "#!",
    "#part-handler",
    "#cloud-boothook",
    "#cloud-config-archive",
    "#cloud-config-jsonp",
];
const CLOUD_CONFIG: &str = "#cloud-config";
/// Keys by which a cloud-config is known that does not begin as one.
const KEYS: [&str; 9] = [
    "users",
    "user",
    "hostname",
    "ssh_authorized_keys",
    "ssh_pwauth",
    "chpasswd",
    "runcmd",
    "write_files",
    "packages",
];
const KEYS_FIELD: &str = "ssh_authorized_keys";
/// What a user's keys are called by mistake.
const MISNAMED: [&str; 7] = [
    "ssh_authorized_key",
    "ssh_authorised_keys",
    "authorized_keys",
    "ssh_keys",
    "ssh_key",
    "sshkeys",
    "ssh_public_keys",
];

/// The file that configures cloud-init on the card to have no default user.
pub const OF_CARD: &str = "/etc/cloud/cloud.cfg.d/99-weaver.cfg";

/// What is wrong with it; nothing where it is of a kind that is not judged. `has_keys`: `weaver.toml` has ssh keys,
/// which are for the first user.
pub fn lint(file: &TextFile, of_card: bool, has_keys: bool) -> Vec<Finding> {
    let mut found = UserDataLint { file, of_card, findings: Vec::new() };
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
    let begin = text.trim_start().to_ascii_lowercase();
    let head: String = begin.chars().take(4096).collect();
    if OTHERS.iter().any(|other| begin.starts_with(other)) || head.contains("mime-version:") {
        return found.findings;
    }
    let root = match yaml_node::parse(text) {
        Ok(root) => root,
        Err(error) if begin.starts_with(CLOUD_CONFIG) => {
            let place = Place { file: file.path.clone(), line: error.line, column: error.column };
            let what = format!("it is not YAML, so cloud-init ignores all of it: {}", error.message);
            found.fault(place, &what, yaml_node::correction(text, error.line));
            return found.findings;
        }
        Err(_) => return found.findings,
    };
    if !begin.starts_with(CLOUD_CONFIG) {
        if root.entries().iter().any(|(key, _)| key.as_str().is_some_and(|key| KEYS.contains(&key))) {
            let what = "the first line is not `#cloud-config`, so cloud-init ignores the file";
            found.fault(
                Place::line(&file.path, 1),
                what,
                "write #cloud-config as the first line, without a space",
            );
        }
        return found.findings;
    }
    if text.len() < file.text.len() {
        let what = "the file begins with a byte order mark, so cloud-init ignores it";
        found.fault(Place::line(&file.path, 1), what, "save it as UTF-8 without a byte order mark (BOM)");
    }
    if let Some(key) = root.odd_indent(text) {
        found.fault(found.at(key), ODD_INDENT.0, ODD_INDENT.1);
        return found.findings;
    }
    found.keys_at_the_top(&root);
    let names = names(&root);
    for fault in user_data_keys::of_top(&root, of_card, has_default(&root, of_card), &names) {
        found.fault(found.at(fault.at), &fault.what, &fault.remedy);
    }
    for (name, user) in users(&root) {
        found.user(name, user);
        for fault in user_data_keys::of_user(name, user) {
            found.fault(found.at(fault.at), &fault.what, &fault.remedy);
        }
    }
    if found.findings.is_empty()
        && !has_keys
        && !has_default(&root, of_card)
        && let Some(fault) = user_data_keys::without_login(&root, &users(&root))
    {
        found.fault(found.at(fault.at), &fault.what, &fault.remedy);
    }
    found.findings
}

/// The users that are mappings, each with its name.
fn users(root: &YamlNode) -> Vec<(&str, &YamlNode)> {
    let Some(users) = root.get("users") else { return Vec::new() };
    let is_map = |node: &YamlNode| matches!(node.value, YamlValue::Map(_));
    let of_list = users.items().iter().filter(|user| is_map(user));
    let of_list = of_list.map(|user| (user.text("name").unwrap_or("default"), user));
    let of_map = users.entries().iter().filter(|(_, user)| is_map(user));
    of_list.chain(of_map.filter_map(|(name, user)| Some((name.as_str()?, user)))).collect()
}

/// The names of all users, those without a field among them.
fn names(root: &YamlNode) -> Vec<&str> {
    let users = root.get("users");
    let plain = users.into_iter().flat_map(|users| std::slice::from_ref(users).iter().chain(users.items()));
    let plain = plain.filter_map(YamlNode::as_str).flat_map(|names| names.split(',').map(str::trim));
    plain.chain(self::users(root).into_iter().map(|(name, _)| name)).collect()
}

/// Whether the default user is made, for whom the keys at the top are.
fn has_default(root: &YamlNode, of_card: bool) -> bool {
    let is_set = |node: &YamlNode| node.value != YamlValue::Null && node.as_str() != Some("");
    if root.get("user").is_some_and(is_set) {
        return true;
    }
    let Some(users) = root.get("users") else { return !of_card };
    let names = |text: &str| text.split(',').any(|name| name.trim() == "default");
    let item = |item: &YamlNode| {
        item.as_str().is_some_and(names)
            || item.items().iter().any(|item| item.as_str() == Some("default"))
            || (matches!(item.value, YamlValue::Map(_))
                && item.get("name").is_none_or(|name| name.as_str() == Some("default")))
    };
    users.as_str().is_some_and(names) || users.items().iter().any(item) || users.get("default").is_some()
}

struct UserDataLint<'a> {
    file: &'a TextFile,
    of_card: bool,
    findings: Vec<Finding>,
}

impl UserDataLint<'_> {
    fn fault(&mut self, place: Place, what: &str, remedy: &str) {
        self.findings.push(Finding::at(Code::UserDataFault, place, what).remedy(Remedy::new(remedy)));
    }

    fn at(&self, node: &YamlNode) -> Place {
        Place::at(&self.file.path, node.line, node.column)
    }

    fn keys_at_the_top(&mut self, root: &YamlNode) {
        let Some(keys) = root.get(KEYS_FIELD) else { return };
        if keys.as_str().is_some() {
            let what = "`ssh_authorized_keys` at the top level is a string, and cloud-init takes each letter for a key";
            self.fault(self.at(keys), what, "write a list: each key on a line that begins with `- `");
            return;
        }
        if !keys.items().is_empty() && !has_default(root, self.of_card) {
            let what =
                "these keys are for the default user, which is not created: no one can log in with them";
            let remedy = "write them below `ssh_authorized_keys` of a user in `users`, or into `keys` below [ssh] in weaver.toml";
            self.fault(self.at(keys), what, remedy);
        }
        self.keys(keys);
    }

    fn user(&mut self, name: &str, user: &YamlNode) {
        let get = |field: &str| {
            let of = |key: &str| key.replace('-', "_").trim() == field;
            let entries = user.entries().iter().rev();
            entries.clone().find(|(key, _)| key.as_str().is_some_and(of)).map(|(key, value)| (key, value))
        };
        let is_true = |field: &str| {
            let value = get(field).and_then(|(_, value)| value.as_str());
            value
                .is_some_and(|text| matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1"))
        };
        let needs_home = ["ssh_authorized_keys", "ssh_import_id"].into_iter().find_map(get);
        if let Some((key, _)) = needs_home {
            let without = ["system", "no_create_home"].into_iter().find(|field| is_true(field));
            if let Some(field) = without {
                let what = format!(
                    "`{}` has both keys and `{field}`: cloud-init does not create such a user",
                    shown(name)
                );
                self.fault(self.at(key), &what, &format!("remove `{field}`, or the keys"));
            }
            if get("ssh_redirect_user").is_some_and(|(_, value)| value.as_str() != Some("false")) {
                let what = format!(
                    "`{}` has both keys and `ssh_redirect_user`: cloud-init does not create such a user",
                    shown(name)
                );
                self.fault(self.at(key), &what, "remove one of the two");
            }
        }
        for (key, _) in user.entries() {
            let plain = key.as_str().unwrap_or_default().replace('-', "_").to_ascii_lowercase();
            if MISNAMED.contains(&plain.as_str()) {
                let what = format!("users have no such field, so `{}` gets no key from it", shown(name));
                self.fault(self.at(key), &what, "write ssh_authorized_keys");
            }
        }
        if let Some((_, keys)) = get(KEYS_FIELD) {
            self.keys(keys);
        }
    }

    fn keys(&mut self, keys: &YamlNode) {
        let single = std::slice::from_ref(keys);
        for node in if keys.items().is_empty() { single } else { keys.items() } {
            let Some(text) = node.as_str() else { continue };
            if ssh_key::is_private(text) {
                let what = "this is a private key, which must not leave your computer";
                let remedy = "remove it from the card, make a new key pair if others saw the card; then write the line of the .pub file";
                self.fault(self.at(node), what, remedy);
            } else if text.strip_suffix(".pub").is_some() && text.starts_with(['/', '~', '.']) {
                let what = "this is the path of a file, which cloud-init does not read";
                self.fault(self.at(node), what, "write the line that is in the file");
            } else if !text.trim().contains(char::is_whitespace) && !text.contains("://") {
                let what = "this is no public key: it has no type and no data, so no one can log in with it";
                self.fault(self.at(node), what, "write the line of the .pub file: ssh-ed25519 AAAA…");
            } else if text.trim_start().starts_with("ssh-")
                && let Err(mistake) = ssh_key::public_key(text)
            {
                self.fault(self.at(node), &mistake.message, &mistake.remedy);
            }
        }
    }
}

/// A name on one line.
fn shown(name: &str) -> String {
    crate::finding_text::cut(name, 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g";

    fn found(text: &str) -> Vec<String> {
        let findings = lint(&TextFile::new("/u", text), false, false);
        assert!(!format!("{findings:?}").contains("AAAAC3") && !format!("{findings:?}").contains("hunter2"));
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn what_cloud_init_takes_is_left_alone() {
        for text in [
            String::new(),
            include_str!("../../../../tests/fixtures/imager/password/user-data").to_owned(),
            include_str!("../../../../tests/fixtures/imager/key-only/user-data").to_owned(),
            include_str!("../../../../tests/fixtures/imager/no-host-name/user-data").to_owned(),
            format!("#cloud-config\nssh_authorized_keys:\n- {KEY}\n"),
            format!(
                "\n  #Cloud-Config of mine\nusers:\n- default\n- name: ada\nssh_authorized_keys: [{KEY}]\n"
            ),
            format!("#cloud-config\nuser: ada\nssh_authorized_keys: [{KEY}]\nusers: []\n"),
            format!("#cloud-config\nusers: default,ada\nssh_authorized_keys: [{KEY}]\n"),
            format!("#cloud-config\nusers: {{default: true, ada: {{}}}}\nssh_authorized_keys: [{KEY}]\n"),
            format!("#cloud-config\nusers:\n- name: ada\n  ssh-authorized-keys: {KEY}\n  system: false\n"),
            format!("#cloud-config\nusers:\n- {{groups: sudo}}\nssh_authorized_keys: [{KEY}]\n"),
            "#cloud-config\nusers:\n- name: daemon\n  system: true\n".to_owned(),
            "#cloud-config\nusers: [{name: ada}, {name: bob, ssh-import-id: [gh:bob]}]\n".to_owned(),
            "#cloud-config\nusers: [default, {name: ada}]\n".to_owned(),
            "#cloud-config\nusers: [{name: ada}]\nchpasswd: {expire: false, users: [{name: ada}]}\n"
                .to_owned(),
            "#cloud-config\nusers: [{name: ada}]\nruncmd: [x]\n".to_owned(),
            format!("## template: jinja\n#cloud-config\nusers: []\nssh_authorized_keys: [{KEY}]\n"),
            "#include\nhttps://example.com/user-data\n".to_owned(),
            "#!/bin/sh\nhostname: x\n".to_owned(),
            "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    users: []\n".to_owned(),
            "Content-Type: multipart/mixed; boundary=\"b\"\nMIME-Version: 1.0\n\n--b\nusers: x\n".to_owned(),
            "notes: of mine\n".to_owned(),
            "# nothing yet\n".to_owned(),
        ] {
            assert_eq!(found(&text), [""; 0], "{text}");
        }
    }

    #[test]
    fn each_fault_is_named_with_its_line() {
        for (text, want) in [
            (
                format!("#cloud-config\nusers:\n- name: ada\nssh_authorized_keys:\n- {KEY}\n"),
                "/u:5:3: these keys are for the default user",
            ),
            ("#cloud-config\nusers:\n\t- name: ada\n".to_owned(), "/u:3:2: it is not YAML, so cloud-init ignores all of it"),
            (
                "#cloud-config\nusers:\n- name: ada\n  ssh_authorized_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1]\n".to_owned(),
                "/u:4:25: this ssh key is",
            ),
            ("#cloud-config\nnetwork: {}\n".to_owned(), "/u:2:1: cloud-init takes no network"),
            (format!("#cloud-config\nusers: []\nssh_authorized_keys: [{KEY}]\n"), "/u:3:22: these keys are"),
            (format!("#cloud-config\nusers: {{ada: {{}}}}\nssh_authorized_keys: [{KEY}]\n"), "/u:3:22: these keys"),
            (format!("#cloud-config\nssh_authorized_keys: {KEY}\n"), "/u:2:22: `ssh_authorized_keys` at the top level is a string"),
            (
                format!("#cloud-config\nusers:\n- name: ada\n  system: true\n  ssh_authorized_keys: [{KEY}]\n"),
                "/u:5:3: `ada` has both keys and `system`",
            ),
            (
                "#cloud-config\nusers:\n- name: ada\n  no-create-home: yes\n  ssh_import_id: [gh:ada]\n".to_owned(),
                "/u:5:3: `ada` has both keys and `no_create_home`",
            ),
            (
                format!("#cloud-config\nusers:\n- name: ada\n  ssh_redirect_user: true\n  ssh_authorized_keys: [{KEY}]\n"),
                "/u:5:3: `ada` has both keys and `ssh_redirect_user`",
            ),
            (
                format!("#cloud-config\nusers:\n- name: ada\n  ssh_authorized_key: {KEY}\n"),
                "/u:4:3: users have no such field, so `ada` gets no key",
            ),
            (
                format!("#cloud-config\nusers:\n- name: ada\n  ssh-keys: [{KEY}]\n"),
                "/u:4:3: users have no such field",
            ),
            (
                "#cloud-config\nusers:\n- name: ada\n  ssh_authorized_keys:\n  - ~/.ssh/id_ed25519.pub\n".to_owned(),
                "/u:5:5: this is the path of a file",
            ),
            (
                "#cloud-config\nusers:\n- name: ada\n  ssh_authorized_keys:\n  - |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n    hunter2\n"
                    .to_owned(),
                "/u:6:5: this is a private key",
            ),
            (
                "#cloud-config\nusers:\n- name: ada\n  groups: sudo\n".to_owned(),
                "/u:3:3: `ada` has neither an ssh key nor a password, so no one can log in",
            ),
            ("#cloud-config\nusers:\n  name: ada\n  groups: sudo\n".to_owned(), "/u:3:3: `users` is one mapping"),
            (
                "#cloud-config\nusers:\n\u{a0}- name: ada\n".to_owned(),
                "/u:3:1: the blanks here are those of a web page",
            ),
            ("# cloud-config\nhostname: pi\n".to_owned(), "/u:1: the first line is not `#cloud-config`"),
            ("hostname: pi\nusers: []\n".to_owned(), "/u:1: the first line is not `#cloud-config`"),
            ("---\n#cloud-config\nruncmd: []\n".to_owned(), "/u:1: the first line is not"),
            ("\u{feff}#cloud-config\nhostname: pi\n".to_owned(), "/u:1: the file begins with a byte order mark"),
        ] {
            let found = found(&text);
            assert!(found.len() == 1 && found[0].starts_with(want), "{text}: {found:?}");
        }
    }

    #[test]
    fn keys_of_weaver_toml_are_a_way_in() {
        let file = TextFile::new("/u", "#cloud-config\nusers: [{name: ada}]\n");
        assert_eq!((lint(&file, true, true).len(), lint(&file, true, false).len()), (0, 1));
    }

    #[test]
    fn the_card_has_no_default_user_unless_user_data_makes_one() {
        let keys = format!("#cloud-config\nssh_authorized_keys: [{KEY}]\n");
        for (more, of_card, want) in [
            ("", true, 1),
            ("", false, 0),
            ("user: ada\n", true, 0),
            ("users: [default]\n", true, 0),
            ("users: [ada]\n", false, 1),
        ] {
            let file = TextFile::new("/u", format!("{keys}{more}"));
            assert_eq!(lint(&file, of_card, false).len(), want, "{more} {of_card}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(#cloud-config\n|users|user|default|ssh_authorized_keys|name|: |- |\\[|\\]|\\{|\\}|a|\n| ){0,20}") {
            let _ = lint(&TextFile::new("/u", text.clone()), true, false);
            let _ = lint(&TextFile::new("/u", format!("#cloud-config\n{text}")), false, false);
        }
    }
}
