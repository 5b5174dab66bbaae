//! The boot of a node as a time line.

use maud::{Markup, html};

use super::super::view::boot::{Boot, Level, Moment, boot};
use super::super::view::event::History;
use super::super::view::node::NodeView;
use super::super::view::time::{amount, exact};
use super::{Frame, Tab, badge, code_block, lines, trouble};

/// The command that shows each step on the node itself.
const STEPS: &str =
    "journalctl -b -o short-monotonic -u weaver-boot-config -u weaver-preflight -u weaver-node-agent -u k3s";

/// `events` is why they are not known, if so.
pub fn node(
    frame: &Frame<'_>,
    node: &NodeView,
    events: &Result<History, String>,
    error: Option<&str>,
) -> Markup {
    let known = events.as_ref().map(|history| history.events.as_slice()).unwrap_or_default();
    let content = html! {
        (trouble(error, "NodeReports", true))
        p { a href={ (frame.prefix) "nodes" } { "← All nodes" } }
        @if let Err(error) = events {
            p.trouble { "The Events about this node could not be listed with your rights, and are left out: " (error) }
        }
        @match boot(node, known) {
            Some(boot) => { (line(frame, &boot)) }
            None => p.empty { "This node has not reported when it started." },
        }
        section aria-labelledby="steps" {
            h2 #steps { "Each step in the journal" }
            @if node.steps.is_empty() {
                p { "This node has not reported the steps of its boot; its agent does where systemd runs it." }
            }
            p { "The journal of the node has each step, with the seconds since the kernel started:" }
            (code_block(STEPS))
        }
    };
    frame.page(Tab::Nodes, &format!("Boot of {}", node.name), true, &content)
}

fn line(frame: &Frame<'_>, boot: &Boot) -> Markup {
    html! {
        p { "Started " (frame.time(boot.started)) ", to the minute." }
        @if !boot.has_clock {
            p.quiet { "The clock of this node is not known to be synchronised: times on this page may be wrong." }
        }
        section aria-labelledby="line" {
            h2 #line { "Since it started" }
            @if boot.moments.is_empty() {
                p.empty { "Nothing has been reported since. Kubernetes keeps Events for an hour, usually." }
            } @else {
                (picture(boot))
                ol.moments { @for moment in &boot.moments { (entry(moment)) } }
                @if boot.left_off > 0 { p.quiet { (boot.left_off) " later ones are not shown." } }
            }
        }
        @if !boot.unchanged.is_empty() {
            section aria-labelledby="unchanged" {
                h2 #unchanged { "As before this boot" }
                (frame.conditions(&boot.unchanged))
            }
        }
    }
}

fn picture(boot: &Boot) -> Markup {
    let last = boot.moments.last().map_or(0, |moment| moment.after);
    let label = format!(
        "{} moments from the start to {} after it; the list has each",
        boot.moments.len(),
        amount(last)
    );
    html! {
        svg.boot viewBox="0 0 1020 40" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.whole x="0" y="18" width="1020" height="4" {}
            @for moment in &boot.moments {
                rect class=(class(moment.how)) x=(boot.position(moment.after)) y=(top(moment.how)) width="8" height=(40 - 2 * top(moment.how)) {}
            }
        }
    }
}

/// A worse event is taller: colour alone is not enough.
fn top(how: Level) -> u32 {
    match how {
        Level::Fine => 12,
        Level::Warning => 6,
        Level::Bad => 0,
    }
}

fn class(how: Level) -> &'static str {
    match how {
        Level::Fine => "fine",
        Level::Warning => "worth",
        Level::Bad => "wrong",
    }
}

fn entry(moment: &Moment) -> Markup {
    let (colour, label) = match moment.how {
        Level::Fine => ("ok", "fine"),
        Level::Warning => ("warn", "worth a look"),
        Level::Bad => ("bad", "wrong"),
    };
    html! {
        li {
            time datetime=(moment.at.to_string()) title=(exact(moment.at)) { "+" (amount(moment.after)) } " "
            (badge(colour, label)) " " strong { (moment.what) }
            @if !moment.message.is_empty() { ": " (lines(&moment.message)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::view::event::EventView;
    use super::super::super::view::node::tests::node as made;
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn the_picture_says_in_words_what_it_shows_and_text_of_others_stays_text() {
        let found = made(&json!({
            "system": {"bootTime": "2026-01-01T00:00:00Z"},
            "conditions": [{"type": "ServingNamesCovered", "status": "False", "reason": "R", "message": "<i>",
                            "lastTransitionTime": "2026-01-01T00:02:00Z"}],
        }));
        let event = EventView {
            at: Some("2026-01-01T00:00:30Z".parse().unwrap()),
            is_warning: false,
            reason: "<b>Starting".into(),
            message: "Starting kubelet.".into(),
            count: 1,
        };
        let page =
            node(&frame(), &found, &Ok(History { events: vec![event], is_cut: false }), None).into_string();
        for part in [
            "<h1>Boot of raspi</h1>",
            "role=\"img\" aria-label=\"2 moments from the start to 2 min after it; the list has each\"",
            "<rect class=\"wrong\" x=\"1000\" y=\"0\" width=\"8\" height=\"40\"></rect>",
            "title=\"2026-01-01 00:00:30 UTC\">+30 s</time> <span class=\"badge ok\">fine</span> <strong>&lt;b&gt;Starting</strong>",
            "ServingNamesCovered is False (R)</strong>: &lt;i&gt;",
            "may be wrong",
            "has not reported the steps of its boot",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let unknown = made(&serde_json::Value::Null);
        let page = node(&frame(), &unknown, &Err("forbidden <x>".into()), None).into_string();
        assert!(
            page.contains("has not reported when it started") && page.contains("forbidden &lt;x&gt;"),
            "{page}"
        );
        let bare = made(&json!({"system": {"bootTime": "2026-01-01T00:00:00Z"}}));
        let page = node(&frame(), &bare, &Ok(History::default()), None).into_string();
        assert!(page.contains("Nothing has been reported since") && !page.contains("<svg"), "{page}");
    }
}
