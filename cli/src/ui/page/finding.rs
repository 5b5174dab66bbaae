//! A finding, as `weaver doctor` prints it.

use maud::{Markup, html};
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_diagnostics::finding_text::{clean, clean_lines, cut};

use super::{badge, code_block};

/// Characters of a message, and of a line of evidence.
const MESSAGE: usize = 8_192;
const EVIDENCE: usize = 400;

/// `more` goes below the message.
pub fn finding(finding: &Finding, more: &Markup) -> Markup {
    article(finding, more, false)
}

/// The same for a user who asks for its meaning: the cause is open.
pub fn explained(finding: &Finding) -> Markup {
    article(finding, &html! {}, true)
}

fn article(finding: &Finding, more: &Markup, shows_cause: bool) -> Markup {
    let severity = finding.severity();
    let row = finding.code.row();
    html! {
        article class={ "finding " (class(severity)) } {
            h3 { (badge(class(severity), &severity.to_string())) " " code { (finding.code.id()) } " " (finding.name) }
            p { (cut(&finding.message, MESSAGE)) }
            (more)
            @if !finding.evidence.is_empty() {
                ul.seen aria-label="Seen" {
                    @for evidence in &finding.evidence { li { (cut(&evidence.to_string(), EVIDENCE)) } }
                }
            }
            @if let Some(remedy) = &finding.remedy {
                p.remedy { strong { "What helps: " } (clean_lines(&remedy.explain)) }
                @for command in &remedy.commands { (code_block(&clean(command))) }
                @if let Some(diff) = &remedy.diff { (code_block(&clean_lines(diff))) }
            }
            details open[shows_cause] { summary { "Why" } p { (row.title) " " (row.cause) } }
        }
    }
}

pub fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "ok",
        Severity::Unknown | Severity::Warn => "warn",
        Severity::Fail => "bad",
    }
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::{Code, Place, Remedy};

    use super::*;

    #[test]
    fn a_finding_says_what_was_seen_why_and_what_to_type() {
        let remedy = Remedy { diff: Some("-a\n+b\n".into()), ..Remedy::new("do it").command("weaver x <y>") };
        let bad = Finding::new(Code::NameNotFound, "a <b> name")
            .saw(Place::line("/etc/hosts", 3), "<i>")
            .remedy(remedy);
        let page = finding(&bad, &html! { p { "more" } }).into_string();
        for part in [
            "<article class=\"finding bad\">",
            "<code>N-07</code> name-not-found",
            "a &lt;b&gt; name",
            "/etc/hosts:3: &lt;i&gt;",
            "</strong>do it",
            "<pre data-copy tabindex=\"0\"><code>weaver x &lt;y&gt;</code></pre>",
            "-a\n+b\n",
            "<details><summary>Why</summary>",
            "<p>more</p>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(explained(&bad).into_string().contains("<details open><summary>Why</summary>"));
    }
}
