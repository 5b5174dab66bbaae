//! What an error means that someone else printed. Nothing of it leaves this machine.

use maud::{Markup, html};
use weaver_diagnostics::finding::Finding;

use super::finding::finding;
use super::{Frame, Tab};

/// What was recognised in a text.
pub struct Recognised {
    pub text: String,
    pub lines: u64,
    /// Each thing once.
    pub findings: Vec<Finding>,
}

pub fn explain(frame: &Frame<'_>, recognised: Option<&Recognised>) -> Markup {
    let text = recognised.map(|recognised| recognised.text.as_str()).unwrap_or_default();
    let content = html! {
        form method="post" action={ (frame.prefix) "explain" } {
            label for="text" { "An error, or a piece of a log, of kubectl, k3s, k3d, helm, containerd, Docker, the kernel …" }
            textarea #text name="text" rows="10" spellcheck="false" required { (text) }
            button { "Explain" }
        }
        @if let Some(Recognised { lines, findings, .. }) = recognised {
            section aria-labelledby="found" role="status" {
                h2 #found { (findings.len()) " known in " (lines) " lines" }
                @if findings.is_empty() {
                    p.empty { "No known error. On the Pi, " code { "sudo weaver-node-agent check" } " checks the host itself." }
                }
                @for found in findings { (finding(found, &html! {})) }
            }
        } @else {
            p.quiet { "The text stays on this machine." }
        }
    };
    frame.page(Tab::Explain, "Explain", false, &content)
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Code;

    use super::super::tests::frame;
    use super::*;

    #[test]
    fn what_was_typed_stays_text() {
        let recognised = Recognised {
            text: "</textarea><script>alert(1)</script>".into(),
            lines: 1,
            findings: vec![Finding::new(Code::NameNotFound, "m")],
        };
        let page = explain(&frame(), Some(&recognised)).into_string();
        assert!(
            page.contains("&lt;/textarea&gt;&lt;script&gt;") && page.contains("1 known in 1 lines"),
            "{page}"
        );
        let none = explain(&frame(), Some(&Recognised { findings: vec![], ..recognised })).into_string();
        assert!(none.contains("No known error"), "{none}");
        assert!(explain(&frame(), None).into_string().contains("stays on this machine"));
    }
}
