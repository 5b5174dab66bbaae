//! Errors that others print, recognised: kubectl, helm and other clients, k3s and k3d, the kubelet, containerd, Docker,
//! podman and skopeo, the kernel and systemd; of TLS in the words of Go, rustls, OpenSSL, `GnuTLS`, Java and Node.js.
//!
//! A line is looked through once, for all signatures together. If several match, the first one in
//! [`signatures`] counts: a webhook that fails by its certificate is a matter of the webhook.
//!
//! What a line names (names, accounts, namespaces) is untrusted: who writes to a log chooses it. It becomes part of a
//! command only where it can be nothing but such a name. A command that deletes for good, moves or opens a file, trusts
//! a server or sends it a password has nothing of a line but what is one of a list, or else a placeholder. Secrets are
//! removed from a line before it is read, so that neither a message nor a command has them.

mod absent;
mod answers;
mod bolt;
mod card;
mod context;
mod datastore;
mod deletion;
mod details;
mod disks;
mod docker;
mod helm;
mod host;
mod images;
mod in_container;
mod join;
mod k3d;
mod kill;
mod kubeconfig;
mod kubelets;
mod line_time;
mod memory;
mod modules;
mod node;
mod overlay;
mod peer;
mod pods;
mod programs;
mod registries;
mod rights;
mod runtime;
mod servers;
mod services;
mod settings;
mod signatures;
mod slots;
mod slow;
mod space;
mod start;
mod tls;
mod unreached;
mod wear;
mod webhooks;
mod wording;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use memchr::memchr2;

use crate::finding::{Code, Finding, Place, Severity};
use crate::tokens::without_secrets;
use details::Details;
use wording::Wording;

pub(crate) use card::COMMAND_UNANSWERED;
pub use context::LogContext;
pub(crate) use disks::{Disks, RESETS, device, is_number, whole};
pub(crate) use host::blocked_task;
pub(crate) use kill::{is_below_one_pod, is_below_pods, segments};
pub(crate) use slots::Slots;
pub use tls::NameMismatch;

#[derive(Clone)]
pub struct Recogniser {
    needles: AhoCorasick,
    /// What the needles belong to, in their order.
    wordings: Arc<[(Code, &'static Wording)]>,
}

impl Recogniser {
    /// Ready for lines. The signatures are compiled at the first call in a process and shared by all.
    ///
    /// # Errors
    /// If the signatures are too many for one search, which does not depend on what is searched.
    pub fn new() -> Result<Self, BuildError> {
        static COMPILED: LazyLock<Result<Recogniser, BuildError>> =
            LazyLock::new(|| Recogniser::compile(AhoCorasickKind::ContiguousNFA));
        COMPILED.clone()
    }

    /// The same for whole logs: it reads faster, and takes some MiB more.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_logs() -> Result<Self, BuildError> {
        Self::compile(AhoCorasickKind::DFA)
    }

    fn compile(kind: AhoCorasickKind) -> Result<Self, BuildError> {
        let wordings: Arc<[_]> = signatures::wordings().collect();
        let needles = wordings.iter().map(|(_, wording)| wording.needle).chain(context::needles());
        let mut search = AhoCorasick::builder();
        search.kind(Some(kind)).dense_depth(4).ascii_case_insensitive(true);
        Ok(Self { needles: search.build(needles)?, wordings })
    }

    /// What is wrong, if the line alone shows it. `place` is that of the line.
    pub fn judge(&self, line: &[u8], place: impl FnOnce() -> Place) -> Option<Finding> {
        self.judge_in(&mut LogContext::default(), line, place)
    }

    /// What is wrong, if the line shows it together with those before it, which `context` knows.
    pub fn judge_in(
        &self,
        context: &mut LogContext,
        line: &[u8],
        place: impl FnOnce() -> Place,
    ) -> Option<Finding> {
        context.next_line();
        let line = plain(line);
        let hits = self.needles.find_overlapping_iter(&*line).map(|hit| hit.pattern().as_usize());
        let hits: BTreeSet<usize> = hits.collect();
        // Most lines of a log; they need not be read as text.
        let (first, last) = (*hits.first()?, *hits.last()?);
        let line = String::from_utf8_lossy(&line);
        // Those after the wordings are of the context.
        if last >= self.wordings.len() {
            context.learn(&line);
        }
        if first >= self.wordings.len() {
            return None;
        }
        let line = without_secrets(&line);
        let (code, details) = hits.into_iter().find_map(|index| {
            let (code, wording) = self.wordings.get(index)?;
            Some((*code, wording.read(&line, context)?))
        })?;
        context.explain();
        Some(finding(code, details, place(), &line))
    }

    /// What is wrong because nothing more came. `place` is that of a line by its number.
    pub fn judge_end(context: &LogContext, place: impl FnOnce(u64) -> Place) -> Option<Finding> {
        if let Some((number, line)) = context.memory_off() {
            let details = Details::message("the kernel turned its memory controller off, and not on again");
            return Some(finding(Code::MemoryCgroupDisabled, details, place(number), &without_secrets(line)));
        }
        if let Some((number, line)) = context.last_kill().asked() {
            return Some(finding(Code::OutOfMemory, memory::asked(), place(number), &without_secrets(line)));
        }
        let (number, line) = context.unexplained_failure()?;
        Some(finding(
            Code::K3sNotAnswering,
            servers::unit_failed(line),
            place(number),
            &without_secrets(line),
        ))
    }

    /// What is wrong, if `line` is the last one and nothing more comes.
    pub fn judge_last(line: &[u8], place: Place) -> Option<Finding> {
        let line = plain(line);
        let line = String::from_utf8_lossy(&line);
        let line = without_secrets(&line);
        let details = servers::starts_k3d_server(&line)?;
        Some(finding(Code::K3dNodeRestarting, details, place, &line))
    }
}

fn finding(code: Code, details: Details, place: Place, line: &str) -> Finding {
    let message = details.message.unwrap_or_else(|| code.title().to_owned());
    let finding = Finding::new(code, message).saw(place, line);
    // Who is asked, the line does not say.
    let finding = if details.is_hint { finding.milder(Severity::Warn) } else { finding };
    match details.remedy {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    }
}

/// What begins with a quote behind further backslashes: each log that repeats a line of another one escapes its quotes
/// once more, as Ansible does with the API server's answer. kiali#2003
fn escaped_quote(rest: &[u8]) -> Option<&[u8]> {
    /// A line of nothing but backslashes is read once, and not once for each of them.
    const DEEPEST: usize = 8;
    let depth = rest.iter().take(DEEPEST).position(|&byte| byte != b'\\')?;
    let rest = &rest[depth..];
    rest.starts_with(b"\"").then_some(rest)
}

/// Without terminal sequences, and with the quotes of a log's fields unescaped.
fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    let mut rest = line.trim_ascii_end();
    let Some(mut at) = memchr2(b'\\', ESCAPE, rest) else { return Cow::Borrowed(rest) };
    let mut plain = Vec::with_capacity(rest.len());
    loop {
        plain.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match (rest[at], after) {
            (ESCAPE, [b'[', sequence @ ..]) => {
                let end = sequence.iter().position(u8::is_ascii_alphabetic);
                end.map_or(&[][..], |end| &sequence[end + 1..])
            }
            (special, _) => {
                let quote = escaped_quote(after).filter(|_| special == b'\\');
                if quote.is_none() {
                    plain.push(special);
                }
                quote.unwrap_or(after)
            }
        };
        let Some(next) = memchr2(b'\\', ESCAPE, rest) else { break };
        at = next;
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}
