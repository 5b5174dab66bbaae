//! The keys of k3s' configuration files against the flags that k3s has.
//!
//! A server passes over a key that it does not know, with a line in its log; an agent does not start with it.
//! So neither does what was meant. A newer k3s may know more than the table: a key that the table lacks is a
//! failure only where it is close to one that k3s has.

mod config_key;
mod doubles;
mod scalars;
mod unused;

use self::config_key::{ConfigKey, each};
use self::scalars::{is_bool, is_duration, is_go_bool, is_int};
use super::flags::{self, FlagKind, KnownFlag, NEWEST};
use super::values;
use crate::{
    finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity},
    finding_text::cut,
    k3s_unit::Flag,
    k3s_upgrade::Role,
    shell::quoted,
    text_file::TextFile,
    yaml_node::{YamlNode, YamlValue},
};

/// Judged where their values are read.
const READ_ELSEWHERE: [&str; 3] = ["tls-san", "https-listen-port", "data-dir"];
/// Characters of a key that a message repeats.
const LONGEST: usize = 60;

/// What is wrong with the keys and the kinds of their values, next to the flags that the unit gives. Nothing of a file
/// that is no YAML, which is reported elsewhere.
pub fn lint(files: &[TextFile], given: &[Flag], role: Role) -> Vec<Finding> {
    let entries: Vec<_> = each(files).collect();
    // Of a key without `+` k3s takes the value of the last one.
    let judged = entries.iter().enumerate().flat_map(|(at, entry)| {
        let is_replaced = entries[at + 1..].iter().any(|later| later.text() == entry.plain());
        entry.judge(role, is_replaced || unused::is_unused(entry, &entries, given))
    });
    let mut findings: Vec<_> = judged.collect();
    findings.extend(doubles::lint(&entries, role));
    findings.extend(refused_token(&entries, given, role));
    findings.extend(families(files, given, role));
    findings.extend(dns_outside(files, given, role));
    findings.extend(files.iter().filter_map(super::files::second_document));
    findings
}

/// A token of an agent that no server takes, where no other setting counts before it. A server takes any text as its
/// own.
fn refused_token(entries: &[ConfigKey<'_>], given: &[Flag], role: Role) -> Option<Finding> {
    let entry = entries.iter().rfind(|entry| entry.plain() == "token").filter(|_| role == Role::Agent)?;
    let is_replaced = entries.iter().any(|entry| entry.plain() == "token-file")
        || given.iter().any(|flag| ["token", "t", "token-file"].contains(&flag.name.as_str()));
    if is_replaced {
        return None;
    }
    super::token::refused(entry.at(&entry.value), entry.value.as_str()?)
}

/// Addresses of pods of both families, and of services of one, or the reverse.
fn families(files: &[TextFile], given: &[Flag], role: Role) -> Option<Finding> {
    // What the unit gives is not among the values here.
    if given.iter().any(|flag| ["cluster-cidr", "service-cidr"].contains(&flag.name.as_str())) {
        return None;
    }
    let last = |name: &str| each(files).filter(|entry| entry.text() == name).last();
    let (pods, services) = (last("cluster-cidr")?, last("service-cidr")?);
    let of = |entry: &ConfigKey<'_>| {
        let texts = std::slice::from_ref(&entry.value).iter().chain(entry.value.items());
        values::families(&texts.filter_map(YamlNode::as_str).collect::<Vec<_>>())
    };
    if role == Role::Agent || of(&pods)? == of(&services)? {
        return None;
    }
    let wanted = format!(
        "of the same families as cluster-cidr at {}: k3s does not start with IPv4 and IPv6 in one of them only",
        pods.place()
    );
    let example = "cluster-cidr: 10.42.0.0/16,2001:db8:42::/56\nservice-cidr: 10.43.0.0/16,2001:db8:43::/112";
    let known = flags::find("service-cidr")?;
    Some(services.wrong(&known, &services.value, &wanted, Some(example)))
}

/// An address of the cluster's DNS server that no Service can have.
fn dns_outside(files: &[TextFile], given: &[Flag], role: Role) -> Option<Finding> {
    let no_coredns = |text: &str| text.split(',').any(|part| part.trim() == "coredns");
    let is_elsewhere = given.iter().any(|flag| match flag.name.as_str() {
        "service-cidr" => true,
        "disable" => no_coredns(&flag.value),
        _ => false,
    });
    let is_disabled = each(files).filter(|entry| entry.plain() == "disable").any(|entry| {
        let values = std::slice::from_ref(&entry.value).iter().chain(entry.value.items());
        values.filter_map(YamlNode::as_str).any(no_coredns)
    });
    // Without the DNS server of k3s it may be that of another one, at an address of the node.
    if is_elsewhere || is_disabled {
        return None;
    }
    let last = |name: &str| each(files).filter(|entry| entry.text() == name).last();
    let text = |entry: &ConfigKey<'_>| entry.value.as_str().map(str::to_owned);
    let dns = last("cluster-dns").filter(|_| role == Role::Server)?;
    let services = match last("service-cidr") {
        Some(entry) => text(&entry)?,
        None => values::DEFAULT_SERVICES.to_owned(),
    };
    let is_within = values::is_within(&text(&dns)?, &services)?;
    let wanted = format!(
        "within service-cidr, which is {services}: otherwise the cluster's DNS server gets no address"
    );
    let known = flags::find("cluster-dns")?;
    (!is_within).then(|| dns.wrong(&known, &dns.value, &wanted, None).milder(Severity::Warn))
}

/// What needs a newer k3s than the installed v1.`minor`.
pub fn lint_since(files: &[TextFile], given: &[Flag], role: Role, minor: u32) -> Vec<Finding> {
    let needs = |name: &str, origin: Place| {
        let known = flags::find(name).filter(|known| known.until.is_none() && known.is_of(role))?;
        let since = known.since.filter(|since| *since > minor)?;
        let message =
            format!("{origin}: k3s has `{}` since v1.{since}, and v1.{minor} is installed", known.name);
        let remedy = Remedy::new(format!(
            "remove `{}` from {}, or upgrade k3s to v1.{since} or newer",
            known.name, origin.file
        ));
        let finding = Finding::new(Code::SettingMisspelled, message);
        Some(finding.saw(origin, known.name).remedy(remedy.command(RESTART_K3S)))
    };
    let keys = each(files).filter_map(|entry| needs(entry.plain(), entry.place()));
    let keys = keys.map(|finding| finding.milder(severity(role)));
    keys.chain(given.iter().filter_map(|flag| needs(&flag.name, flag.origin.clone()))).collect()
}

/// A file among the drop-ins that k3s does not read.
pub fn passed_over(directory: &str, name: &str) -> Option<Finding> {
    let is_meant = [".conf", ".json", ".toml", ".cfg", ".txt"].iter().any(|end| name.ends_with(end));
    (is_meant && !name.starts_with('.')).then(|| {
        let place = Place::file(format!("{directory}/{name}"));
        let message = format!("{place}: k3s reads files there that end in .yaml or .yml only");
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let remedy = Remedy::new(format!("rename it to {stem}.yaml, then restart k3s"));
        Finding::new(Code::SettingMisspelled, message)
            .saw(place, "not read")
            .remedy(remedy.command(RESTART_K3S))
            .milder(Severity::Warn)
    })
}

/// What the command line of the unit has that k3s has no more, not in this role, or never had: k3s does not
/// start with it.
pub fn lint_flags(given: &[Flag], role: Role) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, flag) in given.iter().enumerate() {
        let Some(known) = flags::find(&flag.name) else {
            // A word with hyphens may be the value of the flag before it.
            let before = at.checked_sub(1).and_then(|before| given.get(before));
            let is_value = before.is_some_and(|before| {
                before.value.is_empty()
                    && flags::find(&before.name).is_none_or(|flag| flag.kind != FlagKind::Bool)
            });
            if !is_value && let Some(meant) = flags::nearest(&flag.name, role) {
                let shown = cut(&flag.name, LONGEST);
                let message = format!("k3s does not start with --{shown}: it knows --{meant}");
                let explain = format!("in {} write --{meant} instead of --{shown}", flag.origin.file);
                findings.push(
                    Finding::new(Code::SettingMisspelled, message)
                        .saw(flag.origin.clone(), format!("--{shown}"))
                        .remedy(super::after_the_unit_changed(explain)),
                );
            }
            continue;
        };
        let why = match known.until {
            Some(until) => removed(&known, until),
            None if known.is_of(role) => continue,
            None => only_of(&known),
        };
        let message = format!("{}, and does not start with --{}", why, known.name);
        let instead = known.instead.filter(|_| known.until.is_some());
        let explain = match instead {
            Some(instead) => format!("in {} write --{instead} instead of --{}", flag.origin.file, known.name),
            None => format!("remove --{} from {}", known.name, flag.origin.file),
        };
        let finding = Finding::new(Code::SettingMisspelled, message)
            .saw(flag.origin.clone(), format!("--{}", known.name))
            .remedy(super::after_the_unit_changed(explain));
        // A line may repeat the flag.
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

impl ConfigKey<'_> {
    fn judge(&self, role: Role, is_unused: bool) -> Vec<Finding> {
        let Some(known) = flags::find(self.plain()) else { return self.unknown(role).into_iter().collect() };
        if let Some(until) = known.until {
            let message = format!("{} and {}", removed(&known, until), passes(role));
            let explain = match known.instead {
                Some("flannel-backend") => {
                    "write `flannel-backend: none` on the servers, and nothing on agents".to_owned()
                }
                Some(instead) => format!("write `{instead}`, then restart k3s"),
                None => self.removal(&known),
            };
            let remedy = Remedy::new(explain).command(RESTART_K3S);
            return vec![self.misspelled(message, remedy).milder(severity(role))];
        }
        if !known.is_of(role) {
            let message = format!("{} and {}", only_of(&known), passes(role));
            let remedy = Remedy::new(self.removal(&known)).command(RESTART_K3S);
            return vec![self.misspelled(message, remedy).milder(severity(role))];
        }
        if is_unused || READ_ELSEWHERE.contains(&known.name) { Vec::new() } else { self.value(&known) }
    }

    fn removal(&self, known: &KnownFlag) -> String {
        format!("remove `{}` from {}", known.name, self.file.path)
    }

    fn unknown(&self, role: Role) -> Option<Finding> {
        let key = self.plain();
        if key.is_empty() {
            return None;
        }
        // k3s makes `--KEY=VALUE` of it, and what is in front of the first `=` is the flag.
        if let Some(known) = key.split_once('=').and_then(|(name, _)| flags::find(name))
            && known.until.is_none()
            && known.is_of(role)
        {
            return None;
        }
        let shown = cut(key, LONGEST);
        let bare = key.trim_start_matches('-');
        if bare != key
            && let Some(known) = flags::find(bare)
        {
            let message =
                format!("k3s does not start with `{shown}`: write its keys without leading hyphens");
            let remedy =
                Remedy::new(format!("write `{}`, then restart k3s", known.name)).command(RESTART_K3S);
            return Some(self.misspelled(message, remedy));
        }
        if let Some(part) = bare.strip_prefix("disable-").filter(|part| values::PACKAGED.contains(part)) {
            let message = format!("k3s does not know `{shown}` and {}", passes(role));
            let remedy =
                Remedy::new(format!("write `disable: [{part}]`, on servers only")).command(RESTART_K3S);
            return Some(self.misspelled(message, remedy).milder(severity(role)));
        }
        let Some(meant) = flags::nearest(key, role) else {
            let message = format!("k3s up to v1.{NEWEST} does not know `{shown}` and {}", passes(role));
            let remedy = Remedy::new(format!(
                "correct `{shown}` in {}, or remove it; a setting of the kubelet or of the API server is an entry of \
                 the list `kubelet-arg` or `kube-apiserver-arg`",
                self.file.path
            ));
            return Some(self.misspelled(message, remedy.command(RESTART_K3S)).milder(Severity::Warn));
        };
        let message = format!("k3s does not know `{shown}` and {}; it knows `{meant}`", passes(role));
        let plain = |key: &str| key.to_ascii_lowercase().replace(['_', '-'], "");
        let is_safe = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && plain(key).starts_with(&plain(meant));
        let then =
            if meant == "tls-san" { "sudo weaver-node-agent repair names".into() } else { RESTART_K3S };
        let mut remedy = Remedy::new(format!("write `{meant}`, then restart k3s"));
        if is_safe {
            let file = quoted(&self.file.path);
            remedy = remedy.command(format!("sudo sed -i 's/^{key}/{meant}/' {file}"));
        }
        Some(self.misspelled(message, remedy.command(then)).milder(severity(role)))
    }

    fn misspelled(&self, message: String, remedy: Remedy) -> Finding {
        Finding::new(Code::SettingMisspelled, message)
            .saw(self.place(), cut(self.text(), LONGEST))
            .remedy(remedy)
    }

    fn value(&self, known: &KnownFlag) -> Vec<Finding> {
        let values = match &self.value.value {
            YamlValue::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&self.value),
        };
        let mut findings: Vec<_> = values.iter().filter_map(|value| self.single(known, value)).collect();
        if known.kind != FlagKind::List && values.len() > 1 && findings.is_empty() {
            let wanted = format!("a single value: k3s uses only the last of {}", values.len());
            // Milder, since k3s starts with it.
            findings.push(self.wrong(known, &self.value, &wanted, None).milder(Severity::Warn));
        }
        findings.extend(self.octal(known));
        findings
    }

    fn single(&self, known: &KnownFlag, value: &YamlNode) -> Option<Finding> {
        let text = match &value.value {
            YamlValue::Scalar(text) => text.as_str(),
            YamlValue::Null => "",
            YamlValue::Map(_) if known.kind == FlagKind::List => {
                let example = format!("{}:\n  - name=value", known.name);
                // What k3s makes of it is for the part that it is passed to.
                let finding = self.wrong(known, value, "a list of strings, not a mapping", Some(&example));
                return Some(finding.milder(Severity::Warn));
            }
            YamlValue::Map(_) | YamlValue::List(_) => {
                return Some(self.wrong(known, value, "a single value", None).milder(Severity::Warn));
            }
        };
        let (is_right, wanted, example) = match known.kind {
            // YAML makes a boolean of `yes`, and a string of it in quotes.
            FlagKind::Bool if value.is_quoted(&self.file.text) => (is_go_bool(text), "true or false", "true"),
            FlagKind::Bool => (is_bool(text), "true or false", "true"),
            FlagKind::Int => (is_int(text), "a number", "5"),
            FlagKind::Duration => (is_duration(text), "a duration with its unit", "5m0s"),
            FlagKind::Text | FlagKind::List => {
                let fault = values::fault(known.name, text)?;
                let example = format!("{}: {}", known.name, fault.example);
                let found = self.wrong(known, value, &fault.wanted, Some(&example));
                return Some(if fault.stops { found } else { found.milder(Severity::Warn) });
            }
        };
        let example = format!("{}: {example}", known.name);
        (!is_right).then(|| self.wrong(known, value, wanted, Some(&example)))
    }

    /// A mode that YAML takes for an octal number.
    fn octal(&self, known: &KnownFlag) -> Option<Finding> {
        if known.name != "write-kubeconfig-mode" {
            return None;
        }
        let line = self.file.text.lines().nth(usize::try_from(self.value.line.checked_sub(1)?).ok()?)?;
        let written = line.split_once(':')?.1.split('#').next()?.trim();
        let digits = written.strip_prefix('0').filter(|digits| !digits.is_empty())?;
        let number = u32::from_str_radix(digits, 8).ok()?;
        let wanted = format!(
            "in quotes: without them YAML reads {written} as the number {number}, which k3s uses as the mode"
        );
        let example = format!("{}: \"{written}\"", known.name);
        Some(self.wrong(known, &self.value, &wanted, Some(&example)).milder(Severity::Warn))
    }

    /// The value itself is not repeated: it may be a secret of another key.
    fn wrong(&self, known: &KnownFlag, at: &YamlNode, wanted: &str, example: Option<&str>) -> Finding {
        let place = self.at(at);
        let finding =
            Finding::new(Code::K3sConfigWrongType, format!("{place}: {} must be {wanted}", known.name));
        let remedy = match example {
            Some(example) => Remedy::new(format!("in {} write it as:\n{example}", place.file)),
            None => Remedy::new(format!("in {} write one value", place.file)),
        };
        finding.saw(place, format!("{} is not {wanted}", known.name)).remedy(remedy.command(RESTART_K3S))
    }
}

/// What a key that k3s does not know is.
const fn severity(role: Role) -> Severity {
    match role {
        Role::Server => Severity::Warn,
        Role::Agent => Severity::Fail,
    }
}

/// What k3s does about a key that it does not know.
const fn passes(role: Role) -> &'static str {
    match role {
        Role::Server => "ignores it",
        Role::Agent => "does not start as an agent with it",
    }
}

fn removed(known: &KnownFlag, until: u32) -> String {
    format!("k3s has no `{}` since v1.{}", known.name, until + 1)
}

fn only_of(known: &KnownFlag) -> String {
    let role = if known.on_server { "servers" } else { "agents" };
    format!("k3s has `{}` on {role} only", known.name)
}

#[cfg(test)]
mod tests;
