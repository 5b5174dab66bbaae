//! The card's page: the same state for a browser. Pure.
//!
//! Guarantees: bounded in size; text from elsewhere is escaped (maud does it) and its control characters are shown;
//! there is neither a script nor a style nor a form in it. It has the interval at which its program's script looks for
//! a newer one: shorter while the node is not ready.

use std::cmp::Reverse;

use maud::{DOCTYPE, Markup, html};
use weaver_diagnostics::{
    announcement::NodeState,
    finding::{Code, Finding, Severity},
    finding_text::{clean, clean_lines, cut},
    host::names::LOCALHOST,
    serving,
};

use super::page::ReportPage;
use crate::node_report::Gate;

/// Where it is, for the program that shows it: anyone may read it.
pub const FILE: &str = "/run/weaver-page.html";
/// The state in a word, next to the page.
pub const STATE_FILE: &str = "/run/weaver-page.state";
/// Bytes, at most.
pub const LIMIT: usize = 512 * 1024;
/// Port of the page; its socket unit has the same.
pub const PORT: u16 = 9480;

/// Seconds until a browser looks again: while something changes, and afterwards.
const SOON: u8 = 5;
const LATER: u8 = 30;
/// Bytes for all findings together; the rest of the page is far smaller than the remaining space.
const FINDINGS: usize = LIMIT - 64 * 1024;
/// What is shown of a finding, at most.
const COMMANDS: usize = 10;
const EVIDENCE: usize = 10;
const NAMES: usize = 20;
/// Characters.
const MESSAGE: usize = 1000;
const LINE: usize = 300;

/// Where browsers of the same network find the page of this host; `None` without a name.
pub fn address(host_name: &str) -> Option<String> {
    on_the_network(host_name).map(|host| format!("http://{host}:{PORT}/"))
}

/// The name of this host in the network; `None` where it has none, or the same as every machine.
fn on_the_network(host_name: &str) -> Option<String> {
    // A name of one label is found by mDNS.
    let domain = if host_name.contains('.') { "" } else { ".local" };
    let is_name = is_word(host_name) && !host_name.eq_ignore_ascii_case(LOCALHOST);
    is_name.then(|| format!("{host_name}{domain}"))
}

/// What is shown while no agent reports for the node: before its first check has finished, and after it has ended.
pub fn starting() -> String {
    let content = html! {
        h1 { "This node is starting" }
        p.verdict.warn { "No check has finished since the node agent started." }
        p { "This page shows when one has. If it stays like this, put the card into another computer and read NODE-STATUS.txt on
             its first partition, or read the journal on the console:" }
        (code_block("sudo journalctl -b -u weaver-boot-config -u weaver-preflight -u weaver-node-agent"))
    };
    whole("Starting", Some(SOON), &content, &html! {}).into_string()
}

impl ReportPage<'_> {
    pub fn html(&self) -> String {
        let host = cut(self.host_name, 100);
        let mut sorted: Vec<_> = self.report.findings.iter().collect();
        sorted.sort_by_key(|finding| Reverse(finding.severity()));
        let (mut good, mut others, mut bytes_left) = (Vec::new(), Vec::new(), FINDINGS);
        for finding in &sorted {
            let article = shown(finding);
            let Some(left) = bytes_left.checked_sub(article.0.len()) else { break };
            bytes_left = left;
            if finding.severity() == Severity::Ok { good.push(article) } else { others.push(article) }
        }
        let left_off = sorted.len() - good.len() - others.len();
        let is_settled = self.report.gate == Gate::Open || self.report.joined;
        let class = match self.state() {
            NodeState::Fail => "bad",
            NodeState::Ok => "ok",
            NodeState::Starting => "warn",
        };
        let content = html! {
            h1 { (host) }
            p class={ "verdict " (class) } { (self.verdict()) }
            dl {
                dt { "Gate" } dd { (self.gate()) }
                @if let Some(blocked) = self.report.k3s_blocked {
                    dt { "k3s" }
                    dd { @if blocked { "not started, because of the failures below" } @else { "may run" } }
                }
                dt { "Last change" } dd { (self.last_change()) }
            }
            (self.ways_in(&host))
            h2 { "Found" }
            @if others.is_empty() { p.empty { "Nothing to do." } }
            @for finding in &others { (finding) }
            @if !good.is_empty() {
                details { summary { (good.len()) " without a fault" } @for finding in &good { (finding) } }
            }
            @if left_off > 0 { p.quiet { (left_off) " more are in NODE-STATUS.txt." } }
        };
        let footer = html! {
            p { (Self::product()) ". Nothing can be changed here. " a href="/docs/" { "Documentation" } ". More on the node: "
                code { "sudo weaver-node-agent check" } }
        };
        whole(&host, Some(if is_settled { LATER } else { SOON }), &content, &footer).into_string()
    }

    /// The exact time, which the script makes relative by the clock of the card.
    fn last_change(&self) -> Markup {
        let second = self.second().to_string();
        html! { time datetime=(second) { (second) } @if !self.synchronised { " (clock not synchronised)" } }
    }

    /// How to connect to the node.
    fn ways_in(&self, host: &str) -> Markup {
        let (names, name) = (self.proven_names(), self.best_name());
        let reached = on_the_network(host).unwrap_or_else(|| "NODE".to_owned());
        let host = if is_word(host) { host } else { "NODE" };
        html! {
            @if !self.report.joins {
                h2 { "Reach it" }
                @if let Some(name) = name {
                    p { "The API server serves these names, which is proven: "
                        @for (at, name) in names.iter().enumerate() { @if at > 0 { ", " } code { (name) } } "." }
                    p { "A kubeconfig, on a laptop with " code { "weaver" } " and an ssh key of this node:" }
                    (code_block(&format!("weaver kubeconfig fetch weaver-admin@{name}")))
                    p { "Without " code { "weaver" } ":" }
                    (code_block(&format!(
                        "(umask 077; ssh weaver-admin@{name} sudo weaver kubeconfig export {name} > {host}.yaml)"
                    )))
                    p.quiet { "If Raspberry Pi Imager created a user, use that user instead of weaver-admin." }
                } @else {
                    @let is_none_asked = self.report.gate == Gate::Open;
                    p { "No name of the API server is " (if is_none_asked { "configured" } else { "proven yet" })
                        ". The node itself, with an ssh key of its owner:" }
                    (code_block(&format!("ssh weaver-admin@{reached}")))
                }
            }
        }
    }

    /// Of the proven names one that every machine can resolve, rather than one that needs a name server.
    pub(super) fn best_name(&self) -> Option<&str> {
        let names = self.proven_names();
        names.iter().find(|name| name.contains('.')).or(names.first()).copied()
    }

    /// The names that the last check has proven.
    fn proven_names(&self) -> Vec<&str> {
        serving::proven_names(&self.report.findings).filter(|name| is_word(name)).take(NAMES).collect()
    }
}

/// Whether it is a single plain word of a command, as every name of a host is.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c))
}

fn shown(finding: &Finding) -> Markup {
    let class = match finding.severity() {
        Severity::Fail => "bad",
        Severity::Warn | Severity::Unknown => "warn",
        Severity::Ok => "ok",
    };
    html! {
        article class={ "finding " (class) } {
            h3 {
                span class={ "badge " (class) } { (finding.severity()) } " "
                a href={ "/docs/reference/codes.md#" (finding.code.id().to_lowercase()) "-" (finding.name) } {
                    code { (finding.code.id()) }
                }
                " " (finding.name)
            }
            p { (cut(&finding.message, MESSAGE)) }
            @if is_public(finding) && !finding.evidence.is_empty() {
                ul.seen aria-label="Seen" {
                    @for evidence in finding.evidence.iter().take(EVIDENCE) { li { (cut(&evidence.to_string(), LINE)) } }
                }
            }
            @if let Some(remedy) = &finding.remedy {
                p.remedy { strong { "What helps: " } (first(&remedy.explain, MESSAGE)) }
                @for command in remedy.commands.iter().take(COMMANDS) { (code_block(&cut(command, MESSAGE))) }
            }
        }
    }
}

/// Whether the evidence may be shown to the network. From files and logs it may be anything; that of a k3s which does
/// not answer is a code with its title.
fn is_public(finding: &Finding) -> bool {
    finding.code == Code::K3sNotAnswering
}

/// The first characters of a text that may have lines.
fn first(text: &str, longest: usize) -> String {
    clean_lines(&text.chars().take(longest).collect::<String>())
}

fn code_block(text: &str) -> Markup {
    // No script may write to the clipboard without https: one click selects all of it.
    html! { pre.command tabindex="0" { code { (text) } } }
}

/// A page that reloads every `seconds`, or one that does not change.
pub fn whole(title: &str, seconds: Option<u8>, content: &Markup, footer: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (clean(title)) " · Config Weaver" }
                link rel="icon" type="image/svg+xml" href="/icon.svg";
                link rel="stylesheet" href="/style.css";
                @if seconds.is_some() { script src="/page.js" defer {} }
            }
            body data-seconds=[seconds] {
                header { strong { "Config Weaver" } }
                main { (content) }
                footer { p #live role="status" {} (footer) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_report::Report;
    use jiff::Timestamp;
    use weaver_diagnostics::finding::{Place, Remedy};

    fn made(host_name: &str, report: &Report) -> String {
        ReportPage { host_name, time: Timestamp::UNIX_EPOCH, synchronised: false, report }.html()
    }

    fn proof(names: &[&str]) -> Finding {
        let proof = Finding::new(Code::ServingNamesOk, "proves them");
        names.iter().fold(proof, |proof, name| proof.saw(Place::file("/k3s.yaml"), format!("tls-san {name}")))
    }

    #[test]
    fn an_open_gate_shows_the_names_and_what_to_type() {
        let findings = vec![proof(&["raspi", "raspi.lan", "10.0.0.2"])];
        let report = Report { gate: Gate::Open, findings, k3s_blocked: Some(false), ..Report::unchecked() };
        let page = made("raspi", &report);
        for part in [
            "<title>raspi · Config Weaver</title>",
            "<p class=\"verdict ok\">fine: every configured name is proven</p>",
            "<code>raspi</code>, <code>raspi.lan</code>, <code>10.0.0.2</code>.",
            "weaver kubeconfig fetch weaver-admin@raspi.lan<",
            "<dd>may run</dd>",
            "<time datetime=\"1970-01-01T00:00:00Z\">1970-01-01T00:00:00Z</time> (clock not synchronised)",
            "data-seconds=\"30\"",
            "Nothing to do.",
            "1 without a fault",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_failure_comes_first_with_its_remedy_and_nothing_of_a_file() {
        let warn = Finding::new(Code::NamesShadowed, "w");
        let silent =
            Finding::new(Code::K3sNotAnswering, "s").saw(Place::file("journal of k3s"), "H-01 title");
        let bad = Finding::new(Code::MemoryTooSmall, "451 MB")
            .saw(Place::line("/etc/rancher/k3s/config.yaml", 1), "token: hunter2")
            .remedy(Remedy {
                diff: Some("-a\n+b".to_owned()),
                ..Remedy::new("another board").command("free -m")
            });
        let report =
            Report { findings: vec![warn, bad, silent], k3s_blocked: Some(true), ..Report::unchecked() };
        let page = made("raspi", &report);
        for part in [
            "verdict bad",
            "<a href=\"/docs/reference/codes.md#n-12-memory-too-small\"><code>N-12</code></a> memory-too-small",
            "journal of k3s: H-01 title",
            "another board",
            "<code>free -m</code>",
            "not started, because",
            "ssh weaver-admin@raspi.local",
            "data-seconds=\"5\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.find("N-12") < page.find("T-06"), "{page}");
    }

    #[test]
    fn a_node_that_joins_serves_no_names_and_is_fine_once_it_has_joined() {
        for (joined, part, seconds) in [
            (false, "verdict warn", "data-seconds=\"5\""),
            (true, "verdict ok\">fine: this node has joined its server<", "data-seconds=\"30\""),
        ] {
            let page = made("worker", &Report { joins: true, joined, ..Report::unchecked() });
            assert!(!page.contains("Reach it") && page.contains(part) && page.contains(seconds), "{page}");
        }
    }

    #[test]
    fn text_from_elsewhere_is_shown_and_not_obeyed() {
        let evil = "<script>x</script>\"'><img src=x onerror=y>\u{1b}[2J\u{202e}";
        let finding = Finding::new(Code::NameInvalid, evil)
            .saw(Place::file(evil), evil)
            .remedy(Remedy { diff: Some(evil.to_owned()), ..Remedy::new(evil).command(evil) });
        let names = [evil, "a;reboot", "$(reboot)", "good.lan"];
        let report =
            Report { reason: evil.to_owned(), findings: vec![finding, proof(&names)], ..Report::unchecked() };
        let page = made(evil, &report);
        assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "{page}");
        assert!(!page.contains("weaver-admin@a;") && !page.contains("weaver-admin@$"), "{page}");
        assert!(page.contains("fetch weaver-admin@good.lan<"), "{page}");
    }

    #[test]
    fn there_is_no_script_style_or_form_in_it() {
        let report = Report { findings: vec![proof(&["a.b"])], ..Report::unchecked() };
        for page in [made("raspi", &report), starting()] {
            let page = page.replacen("<script src=\"/page.js\" defer></script>", "", 1);
            for word in ["<script", "<style", " style=", "<form", "<input", "http://", "https://", "onload"] {
                assert!(!page.contains(word), "{word}: {page}");
            }
            assert!(page.contains("<html lang=\"en\">") && page.contains("data-seconds=\"5\""), "{page}");
        }
        assert!(starting().contains("No check has finished"));
    }

    #[test]
    fn it_has_a_bound() {
        let long = |c: &str| c.repeat(5_000);
        let mut finding = Finding::new(Code::NameInvalid, long("é"));
        for _ in 0..20 {
            finding = finding.saw(Place::file(long("<")), long("<"));
        }
        let mut remedy = Remedy { diff: Some(long("<\n")), ..Remedy::new(long("<")) };
        for _ in 0..20 {
            remedy = remedy.command(long("\u{1}"));
        }
        let report =
            Report { reason: long("<"), findings: vec![finding.remedy(remedy); 100], ..Report::unchecked() };
        let page = made(&long("<"), &report);
        assert!(page.len() <= LIMIT, "{}", page.len());
        assert!(page.contains(" more are in NODE-STATUS.txt"), "{page}");
    }
}
