//! One ConfigMapSync: from where to where, as whom, how it is and why; and what is found of it with the
//! person's rights.

use maud::{Markup, html};
use weaver_diagnostics::shell::quoted;

use super::super::view::event::EventView;
use super::super::view::matrix::states;
use super::super::view::sync::{CopyState, SyncView, TargetView};
use super::grant::{Offer, offer};
use super::plan::{Held, plan};
use super::syncs::state_class;
use super::{Frame, Tab, badge, code_block, health, lines, trouble};
use crate::connection;
use crate::sync::planned::PlannedCopy;

/// `events` is why they are not known, if so.
pub fn sync(
    frame: &Frame<'_>,
    sync: &SyncView,
    events: &Result<Vec<EventView>, String>,
    error: Option<&str>,
) -> Markup {
    let summary = &sync.summary;
    let path = frame.sync_path(&summary.namespace, &summary.name);
    let content = html! {
        (trouble(error, "ConfigMapSyncs", true))
        p { (health(summary)) " " strong { (summary.reason) } " " (frame.since(summary.since)) }
        @if !summary.message.is_empty() { p { (summary.message) } }
        @if sync.is_dry_run {
            p.quiet { "A dry run: nothing is written, and the conditions say what would be." }
            p { a.button href={ (path) "/compare" } { "See what it would change" } " shows each copy as a diff of its keys." }
        }
        @if sync.has_problem() {
            p { a.button href={ (path) "/compare" } { "Find out why" } " compares source and copies now, and names missing rights." }
        }
        (picture(sync))
        section aria-labelledby="conditions" { h2 #conditions { "Conditions" } (frame.conditions(&summary.conditions)) }
        section aria-labelledby="events" { h2 #events { "Events" } (history(frame, events)) }
        section aria-labelledby="more" {
            h2 #more { "More" }
            ul {
                li { a href={ (path) "/compare" } { "Compare source and copies now" } }
                li { a href={ (frame.prefix) "syncs" } { "All syncs" } }
            }
            (code_block(&explain(&summary.namespace, &summary.name)))
        }
    };
    frame.page(Tab::Syncs, &format!("{}/{}", summary.namespace, summary.name), true, &content)
}

fn picture(sync: &SyncView) -> Markup {
    html! {
        section.picture aria-label="Source and copies" {
            div.box { h2 { "Source" } p { @if sync.source.is_empty() { "none in the spec" } @else { (sync.source) } } }
            div.arrow { span aria-hidden="true" { "→" } small { "as " (sync.account) } }
            div.box {
                h2 { "Copies: " (sync.counts.synced) " of " (sync.counts.desired) " synced" }
                @for (state, targets) in states(&sync.targets) { (group(state, &targets)) }
                @if sync.targets.is_empty() {
                    p.empty { "The status names no target namespace." }
                }
                @if sync.is_truncated { p.quiet { "There are more: a status names 128, those with a problem first." } }
            }
        }
    }
}

/// Those in one state; of a copy that is as it should be, the namespace is enough.
fn group(state: CopyState, targets: &[&TargetView]) -> Markup {
    let count = html! { (badge(state_class(state), state.words())) " " (targets.len()) };
    let names = html! {
        ul.targets {
            @for target in targets {
                li {
                    code { (target.namespace) }
                    @if state != CopyState::Synced {
                        " " (target.reason)
                        @if !target.message.is_empty() { ": " (lines(&target.message)) }
                    }
                }
            }
        }
    };
    html! {
        details open[state.is_problem() || targets.len() <= 12] { summary { (count) } (names) }
    }
}

fn history(frame: &Frame<'_>, events: &Result<Vec<EventView>, String>) -> Markup {
    html! {
        @match events {
            Err(error) => p.trouble { "The events could not be listed with your rights: " (error) },
            Ok(events) if events.is_empty() => p.empty { "None. Kubernetes keeps events for an hour, usually." },
            Ok(events) => ol.events {
                @for event in events {
                    li {
                        (frame.since(event.at)) " "
                        (badge(if event.is_warning { "warn" } else { "ok" }, &event.reason)) " "
                        (lines(&event.message))
                        @if event.count > 1 { " ×" (event.count) }
                    }
                }
            },
        }
    }
}

/// What `weaver sync explain` says: lines, each copy, and the Role that grants what is missing.
pub struct Comparison {
    pub lines: Vec<String>,
    pub copies: Vec<PlannedCopy>,
    pub held: Held,
    pub role: Option<String>,
    /// Why there is no more of it.
    pub error: Option<String>,
    pub offer: Offer,
}

/// The command for this cluster, whatever the object is called.
fn explain(namespace: &str, name: &str) -> String {
    let cluster = connection::flags();
    format!("weaver sync explain {} -n {}{cluster}", quoted(name), quoted(namespace))
}

pub fn compared(frame: &Frame<'_>, namespace: &str, name: &str, comparison: &Comparison) -> Markup {
    let path = frame.sync_path(namespace, name);
    let content = html! {
        p { a href=(path) { "← " (namespace) "/" (name) } }
        @if let Some(error) = &comparison.error { p.trouble role="alert" { (error) } }
        @if comparison.role.is_some() || !matches!(comparison.offer, Offer::Nothing) {
            section aria-labelledby="missing" {
                h2 #missing { "Missing rights" }
                @let role = comparison.role.as_deref().unwrap_or_default();
                @let (words, role) = role.split_once("grant it with:\n").unwrap_or((role, ""));
                @if !words.is_empty() { ul { @for line in words.lines() { li { (line) } } } }
                (offer(&path, &comparison.offer))
                p { "In a terminal, anyone who may grant rights there runs" }
                (code_block(&format!("{} --grant", explain(namespace, name))))
                @if !role.is_empty() { p { "or applies with " code { "kubectl apply -f FILE" } } (code_block(role)) }
            }
        }
        (plan(&comparison.copies, comparison.held))
        section aria-labelledby="found" {
            h2 #found { "Found with your rights" }
            @if comparison.lines.is_empty() { p.empty { "Nothing." } }
            ul { @for line in &comparison.lines { li { (line) } } }
        }
    };
    frame.page(Tab::Syncs, &format!("Compare {namespace}/{name}"), false, &content)
}

#[cfg(test)]
mod tests {
    use super::super::super::view::sync::tests::sync as made;
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn a_broken_sync_leads_to_its_cure() {
        let broken = made("settings", "False", &[("foo", "Failed"), ("bar", "Synced")]);
        let page = sync(&frame(), &broken, &Ok(Vec::new()), None).into_string();
        for part in [
            "ConfigMap team-a/settings",
            "as copier",
            "<a class=\"button\" href=\"/p/syncs/team-a/settings/compare\">Find out why</a>",
            "<code>foo</code> Why: m",
            "<code>bar</code></li>",
            "weaver sync explain settings -n team-a",
            "<th scope=\"row\">Ready</th>",
            "Kubernetes keeps events for an hour",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        let dry = SyncView { is_dry_run: true, ..made("settings", "True", &[]) };
        let page = sync(&frame(), &dry, &Ok(Vec::new()), None).into_string();
        assert!(page.contains("/compare\">See what it would change</a>"), "{page}");
        let fine = made("settings", "True", &[("bar", "Synced")]);
        let page = sync(&frame(), &fine, &Err("forbidden".into()), None).into_string();
        assert!(!page.contains("Find out why") && page.contains("rights: forbidden"), "{page}");
    }

    #[test]
    fn missing_rights_come_with_the_role_to_copy_and_nothing_is_granted_here() {
        let comparison = Comparison {
            lines: vec!["source ConfigMap a/b <exists>".into()],
            copies: Vec::new(),
            held: Held::No,
            role: Some("copier may not get\ngrant it with:\nkind: Role\nname: x\n".into()),
            error: None,
            offer: Offer::Grant,
        };
        let page = compared(&frame(), "team-a", "settings", &comparison).into_string();
        for part in [
            "<li>copier may not get</li>",
            "<pre data-copy tabindex=\"0\"><code>kind: Role\nname: x\n</code></pre>",
            "weaver sync explain settings -n team-a --grant",
            "<a class=\"button\" href=\"/p/syncs/team-a/settings/grant\">",
            "a/b &lt;exists&gt;",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("<form") && !page.contains("data-events"), "{page}");
        // The operator's own right is missing, and no Role of the account.
        let minting = compared(&frame(), "team-a", "settings", &Comparison { role: None, ..comparison });
        let minting = minting.into_string();
        assert!(minting.contains("Missing rights") && minting.contains("settings/grant"), "{minting}");
        assert!(!minting.contains("kubectl apply"), "{minting}");
    }

    #[test]
    fn events_are_a_history() {
        let event = EventView {
            at: Some("2026-01-01T00:09:00Z".parse().unwrap()),
            is_warning: true,
            reason: "MissingRights".into(),
            message: "first\nkind: Role".into(),
            count: 3,
        };
        let page = sync(&frame(), &made("a", "True", &[]), &Ok(vec![event]), None).into_string();
        assert!(
            page.contains("60 s ago") && page.contains("×3") && page.contains("<code>kind: Role</code>"),
            "{page}"
        );
    }
}
