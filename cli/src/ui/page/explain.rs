//! The meaning of another program's error. Nothing of it leaves this machine.

use maud::{Markup, html};
use weaver_diagnostics::finding::Finding;

use super::finding::explained;
use super::{Frame, Tab, counted};

pub struct Recognised {
    pub text: String,
    pub lines: u64,
    /// Without one that repeats another.
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
                h2 #found { (counted(findings.len(), "known error")) " in " (counted(*lines, "line")) }
                @if findings.is_empty() {
                    p.empty { "No known error. On the Pi, " code { "sudo weaver-node-agent check" } " checks the host itself." }
                }
                @for found in findings { (explained(found)) }
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
            page.contains("&lt;/textarea&gt;&lt;script&gt;") && page.contains("1 known error in 1 line<"),
            "{page}"
        );
        let none = Recognised { findings: vec![], lines: 2, ..recognised };
        let none = explain(&frame(), Some(&none)).into_string();
        assert!(none.contains("No known error") && none.contains("0 known errors in 2 lines"), "{none}");
        assert!(explain(&frame(), None).into_string().contains("stays on this machine"));
    }
}
