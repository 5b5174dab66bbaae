//! One ConfigMapSync or ResourceSync: from where to where, by which account, its state and the reason; and what the
//! user's rights show of it.

use maud::{Markup, html};
use weaver_diagnostics::shell::quoted;

use super::super::view::event::{EventView, History, MOST, SHOWN};
use super::super::view::matrix::states;
use super::super::view::sync::{CopyState, SourceView, SyncKey, SyncView, TargetView};
use super::grant::{GrantOffer, offer};
use super::plan::{WriteBlock, plan};
use super::syncs::state_class;
use super::{Frame, Tab, badge, code_block, health, lines};
use crate::connection;
use crate::sync::planned::PlannedCopy;

/// Sources of a selector that are shown with a reason.
const SOURCES: usize = 128;

/// `events` is an error where they are not known; `error` is what else is not known.
pub fn sync(frame: &Frame<'_>, sync: &SyncView, events: &Result<History, String>, error: &Markup) -> Markup {
    let (summary, key) = (&sync.summary, sync.sync_key());
    let path = frame.sync_path(&key);
    let content = html! {
        (error)
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
        @if !sync.sources.is_empty() { (sources(&sync.sources, sync.counts.sources)) }
        section aria-labelledby="conditions" { h2 #conditions { "Conditions" } (frame.conditions(&summary.conditions)) }
        section aria-labelledby="events" { h2 #events { "Events" } (history(frame, events)) }
        section aria-labelledby="more" {
            h2 #more { "More" }
            ul {
                li { a href={ (path) "/compare" } { "Compare source and copies now" } }
                li { a href={ (frame.prefix) "syncs" } { "All syncs" } }
            }
            (code_block(&explain(&key)))
        }
    };
    frame.page(Tab::Syncs, &key.to_string(), true, &content)
}

/// The sources that a selector selects: which of them is not copied, and why.
fn sources(sources: &[SourceView], all: Option<i32>) -> Markup {
    let (bad, fine): (Vec<_>, Vec<_>) = sources.iter().take(SOURCES).partition(|source| source.has_problem());
    let all = all.and_then(|all| usize::try_from(all).ok()).unwrap_or_default();
    html! {
        section aria-labelledby="sources" {
            h2 #sources { "Sources that the labels select: " (all.max(sources.len())) }
            ul.targets {
                @for source in bad {
                    li {
                        (badge("bad", if source.conflicts > 0 { "Conflict" } else { "Failed" })) " " code { (source.name) }
                        " " (source.synced) " synced, " (source.failed) " failed, " (source.conflicts) " in conflict "
                        (source.reason) @if !source.message.is_empty() { ": " (lines(&source.message)) }
                    }
                }
            }
            @if !fine.is_empty() {
                details open[fine.len() <= 12] {
                    summary { (badge("ok", "Synced")) " " (fine.len()) }
                    ul.targets { @for source in fine { li { code { (source.name) } } } }
                }
            }
            @if all > sources.len() { p.quiet { "There are more: a status names 128, those with a problem first." } }
        }
    }
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
    let count = html! { (badge(state_class(state), state.label())) " " (targets.len()) };
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

pub fn history(frame: &Frame<'_>, events: &Result<History, String>) -> Markup {
    html! {
        @match events {
            Err(error) => p.trouble { "The events could not be listed with your rights: " (error) },
            Ok(History { events, .. }) if events.is_empty() => p.empty { "None. Kubernetes keeps events for an hour, usually." },
            Ok(History { events, is_cut, .. }) => {
                ol.events { @for event in events { (said(frame, event)) } }
                @if *is_cut { p.quiet { "There are more than " (MOST) ": these are the latest of those that were listed." } }
                @else if events.len() == SHOWN { p.quiet { "The latest " (SHOWN) "." } }
            }
        }
    }
}

fn said(frame: &Frame<'_>, event: &EventView) -> Markup {
    html! {
        li {
            (frame.since(event.at)) " "
            (badge(if event.is_warning { "warn" } else { "ok" }, &event.reason)) " "
            (lines(&event.message))
            @if event.count > 1 { " ×" (event.count) }
        }
    }
}

/// The output of `weaver sync explain`: lines, each copy, and the Role that grants what is missing.
pub struct SyncExplanation {
    pub lines: Vec<String>,
    pub copies: Vec<PlannedCopy>,
    pub held: WriteBlock,
    pub role: Option<String>,
    /// Why there is no more of it.
    pub error: Option<String>,
    pub offer: GrantOffer,
}

/// The command for this cluster, whatever the object is called.
fn explain(SyncKey { namespace, name, .. }: &SyncKey) -> String {
    format!("weaver sync explain {} -n {}{}", quoted(name), quoted(namespace), connection::flags())
}

pub fn compared(frame: &Frame<'_>, key: &SyncKey, comparison: &SyncExplanation) -> Markup {
    let path = frame.sync_path(key);
    let content = html! {
        p { a href=(path) { "← " (key) } }
        @if let Some(error) = &comparison.error { p.trouble role="alert" { (error) } }
        @if comparison.role.is_some() || !matches!(comparison.offer, GrantOffer::Nothing) {
            section aria-labelledby="missing" {
                h2 #missing { "Missing rights" }
                @let role = comparison.role.as_deref().unwrap_or_default();
                @let (explanation, role) = role.split_once("grant it with:\n").unwrap_or((role, ""));
                @if !explanation.is_empty() { ul { @for line in explanation.lines() { li { (line) } } } }
                (offer(&path, &comparison.offer))
                p { "In a terminal, anyone who may grant rights there runs" }
                (code_block(&format!("{} --grant", explain(key))))
                @if !role.is_empty() { p { "or applies with " code { "kubectl apply -f FILE" (connection::flags()) } } (code_block(role)) }
            }
        }
        (plan(&comparison.copies, comparison.held))
        section aria-labelledby="found" {
            h2 #found { "Found with your rights" }
            @if comparison.lines.is_empty() { p.empty { "Nothing." } }
            ul { @for line in &comparison.lines { li { (line) } } }
        }
    };
    frame.page(Tab::Syncs, &format!("Compare {key}"), false, &content)
}

#[cfg(test)]
mod tests {
    use super::super::super::view::sync::SyncKind;
    use super::super::super::view::sync::tests::{key, sync as made};
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn a_broken_sync_leads_to_its_cure() {
        for kind in SyncKind::ALL {
            let broken = made("settings", "False", &[("foo", "Failed"), ("bar", "Synced")]);
            let broken = SyncView { kind, ..broken };
            let page = sync(&frame(), &broken, &Ok(History::default()), &html! {}).into_string();
            let compare = format!("/p/{}/team-a/settings/compare", kind.path());
            for part in [
                "ConfigMap team-a/settings",
                "as copier",
                &format!("<a class=\"button\" href=\"{compare}\">Find out why</a>"),
                &format!("<a href=\"{compare}\">Compare source and copies now</a>"),
                "<code>foo</code> Why: m",
                "<code>bar</code></li>",
                "weaver sync explain settings -n team-a",
                "<th scope=\"row\">Ready</th>",
                "Kubernetes keeps events for an hour",
            ] {
                assert!(page.contains(part), "{part} is not in {page}");
            }
            let dry = SyncView { kind, is_dry_run: true, ..made("settings", "True", &[]) };
            let page = sync(&frame(), &dry, &Ok(History::default()), &html! {}).into_string();
            assert!(page.contains(&format!("{compare}\">See what it would change</a>")), "{page}");
        }
        let fine = made("settings", "True", &[("bar", "Synced")]);
        let page = sync(&frame(), &fine, &Err("forbidden".into()), &html! {}).into_string();
        assert!(!page.contains("Find out why") && page.contains("rights: forbidden"), "{page}");
    }

    #[test]
    fn missing_rights_come_with_the_role_to_copy_and_nothing_is_granted_here() {
        let comparison = SyncExplanation {
            lines: vec!["source ConfigMap a/b <exists>".into()],
            copies: Vec::new(),
            held: WriteBlock::No,
            role: Some("copier may not get\ngrant it with:\nkind: Role\nname: x\n".into()),
            error: None,
            offer: GrantOffer::Grant,
        };
        for kind in SyncKind::ALL {
            let page = compared(&frame(), &key(kind, "settings"), &comparison).into_string();
            for part in [
                "<li>copier may not get</li>",
                "<pre data-copy tabindex=\"0\"><code>kind: Role\nname: x\n</code></pre>",
                "weaver sync explain settings -n team-a --grant",
                &format!("<a class=\"button\" href=\"/p/{}/team-a/settings/grant\">", kind.path()),
                "a/b &lt;exists&gt;",
            ] {
                assert!(page.contains(part), "{part} is not in {page}");
            }
            assert!(!page.contains("<form") && !page.contains("data-events"), "{page}");
        }
        // The operator's own right is missing, and no Role of the account.
        let key = key(SyncKind::ConfigMap, "settings");
        let minting = compared(&frame(), &key, &SyncExplanation { role: None, ..comparison });
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
        let said = History { events: vec![event], is_cut: true };
        let page = sync(&frame(), &made("a", "True", &[]), &Ok(said), &html! {}).into_string();
        assert!(
            page.contains("60 s ago")
                && page.contains("There are more than 2000")
                && page.contains("×3")
                && page.contains("<code>kind: Role</code>"),
            "{page}"
        );
    }

    #[test]
    fn a_selected_source_that_fails_is_named_with_its_reason_before_those_that_are_fine() {
        let source = |name: &str, failed: i32, reason: &str| SourceView {
            name: name.into(),
            synced: 1,
            failed,
            conflicts: 0,
            reason: reason.into(),
            message: String::new(),
        };
        let found = vec![source("fine", 0, ""), source("<bad>", 2, "MissingRights")];
        let selecting = SyncView { sources: found, ..made("a", "False", &[]) };
        let page = sync(&frame(), &selecting, &Ok(History::default()), &html! {}).into_string();
        let bad = "<code>&lt;bad&gt;</code> 1 synced, 2 failed, 0 in conflict MissingRights";
        let (bad, fine) = (page.find(bad), page.find("<code>fine</code></li>"));
        assert!(bad.is_some() && bad < fine, "{page}");
    }
}
