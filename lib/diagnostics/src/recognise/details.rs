//! What a line says in particular, and how it is cut out of it.

use crate::finding::{Command, Remedy};

/// Of k3s' containerd, where what it has on record and what is on its disk contradict each other.
pub(super) const CONTAINERD_AWAY: &str =
    "sudo mv /var/lib/rancher/k3s/agent/containerd /var/lib/rancher/k3s/agent/containerd.broken";

/// What a line says in particular; the catalogue has the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) message: Option<String>,
    pub(super) remedy: Option<Remedy>,
    /// It can be something else, and is no failure for sure.
    pub(super) is_hint: bool,
}

impl Details {
    pub(super) fn message(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    pub(super) fn remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// What to do, in words.
    pub(super) fn advice(self, explain: impl Into<String>) -> Self {
        self.remedy(Remedy::new(explain))
    }

    /// What to type then, after those commands that are there.
    pub(super) fn command(self, command: impl Into<Command>) -> Self {
        Self { remedy: self.remedy.map(|remedy| remedy.command(command)), ..self }
    }

    pub(super) fn hint(self) -> Self {
        Self { is_hint: true, ..self }
    }
}

/// Groups that the API server itself serves.
const OF_THE_API_SERVER: [&str; 19] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Does Kubernetes itself have this group, or had it once? The oldest has no name.
pub(super) fn is_built_in(group: &str) -> bool {
    ["", "extensions"].contains(&group) || OF_THE_API_SERVER.contains(&group)
}

pub(super) fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// What is in `text` after `before` and up to `end`, or to the end of the text.
pub(super) fn after<'a>(text: &'a str, before: &str, end: &[char]) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(rest.split(end).next().unwrap_or_default())
}

/// The group of a kind that is silent, where the API server passes it on to another program: `get pods.metrics.k8s.io`.
pub(super) fn silent_group(line: &str) -> Option<&str> {
    let asked = after(line, "unable to handle the request (", &[')'])?;
    let (_, group) = asked.split_whitespace().nth(1)?.split_once('.')?;
    (!OF_THE_API_SERVER.contains(&group)).then_some(group)
}

/// The name that Go's resolver was asked for. What wraps its error can have the same word:
/// `dns: A record lookup error: lookup a`.
pub(super) fn looked_up(line: &str) -> Option<&str> {
    let (_, asked) = line.rsplit_once("lookup ")?;
    asked.split([' ', ':', '"']).next().filter(|name| !["address", "error", ""].contains(name))
}

/// Whether a line is one of klog that only informs: `I1105 10:00:00.123456    2217 kubelet.go:1726] …`.
pub(super) fn only_informs(line: &str) -> bool {
    is_of_klog(line, 'I')
}

/// Whether it is one that only warns: `W1105 …`.
pub(super) fn only_warns(line: &str) -> bool {
    is_of_klog(line, 'W')
}

fn is_of_klog(line: &str, level: char) -> bool {
    let is_head = |word: &str| {
        word.strip_prefix(level)
            .is_some_and(|date| date.len() == 4 && date.bytes().all(|c| c.is_ascii_digit()))
    };
    line.contains(".go:") && line.split_whitespace().take(8).any(is_head)
}

/// Of a resource, of a group, or of a path without a step upwards: nothing that a shell would read otherwise.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    let goes_up = || name.split('/').any(|step| step == "..");
    !name.is_empty() && name.chars().all(plain) && !name.starts_with('-') && !goes_up()
}

/// Of an object in Kubernetes, or of a host: plain, and no path.
pub(super) fn is_name(name: &str) -> bool {
    const LONGEST: usize = 253;
    is_plain(name)
        && name.len() <= LONGEST
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains('/')
}
