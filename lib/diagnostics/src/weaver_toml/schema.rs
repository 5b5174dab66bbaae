//! The keys of `weaver.toml`, one by one, from a document without syntax errors.

use std::ops::Range;

use toml_edit::Table;

use super::{
    Config, HostName, backup,
    fault::{Faults, Mistake},
    k3s_options, names, network, registries,
    role::{self, RoleContext},
    secret,
    section::{Section, SpannedText},
    security_updates, ssh_key, status, storage, update, wifi,
};

/// A clock that is not set after five minutes is not going to be, in seconds.
const LONGEST_WAIT: u16 = 300;
const LONGEST_TOKEN: usize = 1024;

/// What the document asks for, and where secrets to import stand. Worthless once there is a fault.
pub(super) fn read(table: &Table, faults: &mut Faults<'_>) -> (Config, Vec<Range<usize>>) {
    let root = Section::root(table, faults);
    let hostname = root.text("hostname", faults).and_then(|text| {
        let (line, column) = faults.place(root.place_of("hostname").as_ref());
        let name = faults.take(text.span.as_ref(), names::host_name(text.value))?;
        Some(HostName { name, line, column })
    });
    let api = root.section("api", faults);
    let api_names = unique(api.texts("names", faults), faults, names::api_name, String::as_str);
    let ssh = root.section("ssh", faults);
    let ssh_keys =
        unique(ssh.texts("keys", faults), faults, ssh_key::public_key, |key| ssh_key::identity(key));
    let network = network::read(&root.section("network", faults), faults);
    let (wifi, password_at) = wifi::read(&root.section("wifi", faults), faults);
    let time = root.section("time", faults);
    let time_servers = unique(time.texts("servers", faults), faults, names::time_server, String::as_str);
    let clock_wait = time.number("wait_seconds", LONGEST_WAIT, faults);
    let k3s = root.section("k3s", faults);
    let token = k3s.text("token", faults);
    let (token, token_at) = token.map(|text| secret::read(text, token_mistake, faults)).unwrap_or_default();
    let options = k3s.table_of("options", faults);
    let k3s_options = options.map_or_else(Vec::new, |options| k3s_options::read(options, faults));
    let registries = k3s.table_of("registries", faults).and_then(|table| registries::read(table, faults));
    if let Some(options) = options.filter(|_| registries.is_some()) {
        k3s_options::goes_with_registries(options, faults);
    }
    let data_disk = storage::read(&root.section("storage", faults), faults);
    let updates = root.section("update", faults);
    let update = update::read(&updates, faults);
    let security = security_updates::read(&updates, faults);
    let backup = backup::read(&root.section("backup", faults), faults);
    let status = status::read(&root.section("status", faults), faults);
    let surroundings = RoleContext {
        hostname: hostname.as_ref().map(|host| host.name.as_str()),
        api: &api,
        api_names: &api_names,
        token: &token,
        token_at: token_at.as_ref(),
    };
    let role = role::read(&k3s, &surroundings, faults);
    let config = Config {
        hostname,
        api_names,
        ssh_keys,
        network,
        wifi,
        time_servers,
        clock_wait,
        role,
        token,
        k3s_options,
        registries,
        data_disk,
        update,
        security,
        backup,
        status,
    };
    (config, [password_at, token_at].into_iter().flatten().collect())
}

/// Each entry judged; one that says the same as an earlier one is a fault.
fn unique(
    texts: Vec<SpannedText<'_>>,
    faults: &mut Faults<'_>,
    judge: impl Fn(&str) -> Result<String, Mistake>,
    identity: impl Fn(&String) -> &str,
) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for text in texts {
        let Some(entry) = faults.take(text.span.as_ref(), judge(text.value)) else { continue };
        if unique.iter().any(|seen| identity(seen) == identity(&entry)) {
            faults.add_at(text.span.as_ref(), "this entry is listed twice", "remove one of the two");
        }
        unique.push(entry);
    }
    unique
}

/// No message here may repeat the value.
fn token_mistake(value: &str) -> Option<Mistake> {
    let wrong = if value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        "`token` contains white space or control characters"
    } else if value.len() > LONGEST_TOKEN {
        "`token` is longer than 1024 bytes"
    } else if !value.is_ascii() {
        "`token` has characters outside ASCII"
    } else {
        return None;
    };
    Some(Mistake::new(wrong, "write it as k3s shows it, on one line"))
}
