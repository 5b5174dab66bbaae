//! What is red, since when, whose fault it is and what to do.

use jiff::Timestamp;
use maud::{Markup, html};

use super::super::view::overview::{AboutKind, FindingView, Overview, Since, Tally};
use super::finding::{class, finding};
use super::{Frame, Tab};

/// `at` is when doctor looked; without it nothing is known yet.
pub fn overview(frame: &Frame<'_>, overview: &Overview, at: Option<Timestamp>) -> Markup {
    let prefix = frame.prefix;
    let content = html! {
        @if let Some(at) = at {
            p class={ "verdict " (class(overview.worst)) } role="status" { (overview.verdict) }
            p.quiet { "Checked " (frame.time(at)) ", as " code { "weaver doctor" } " does; again while this page is open." }
        } @else {
            p.verdict role="status" { "Checking…" }
            p.quiet { "Load this page again in some seconds, if it does not do so by itself." }
        }
        ul.tallies {
            li { a href={ (prefix) "syncs" } { (tally("Syncs", &overview.syncs)) } }
            li { a href={ (prefix) "tokens" } { (tally("Tokens", &overview.tokens)) } }
            li { a href={ (prefix) "nodes" } {
                strong { "Nodes" } " " (overview.nodes.0) " reported, " (overview.nodes.1) " with a failure"
            } }
        }
        @if !overview.open.is_empty() {
            section aria-labelledby="open" {
                h2 #open { "To look at" }
                @for found in &overview.open { (open(frame, found)) }
            }
        }
        @if at.is_some() && overview.open.is_empty() && overview.syncs.all == 0 {
            p.empty { "There is no ConfigMapSync yet. Create one, which copies a ConfigMap into two namespaces:" }
            (super::code_block("weaver sync create settings -n team-a --account team-a-sync --source settings --to foo,bar --grant"))
        }
        @if !overview.fine.is_empty() {
            details {
                summary { (overview.fine.len()) " checks found nothing wrong" }
                ul { @for found in &overview.fine {
                    li { code { (found.code.id()) } " " (weaver_diagnostics::finding_text::clean(&found.message)) }
                } }
            }
        }
    };
    frame.page(Tab::Overview, "Overview", true, &content)
}

fn tally(what: &str, tally: &Tally) -> Markup {
    html! {
        strong { (what) } " " (tally.ready) " of " (tally.all) " ready"
        @if tally.paused > 0 { ", " (tally.paused) " paused" }
    }
}

fn open(frame: &Frame<'_>, found: &FindingView) -> Markup {
    let more = html! {
        p.quiet {
            (found.seen.side.place()) ", "
            @match found.since {
                Since::Changed(then) => { "since " (frame.time(then)) }
                Since::FirstSeen(then) => { "first seen here " (frame.time(then)) }
            }
            @if let Some((kind, namespace, name)) = &found.about {
                @match kind {
                    AboutKind::Sync => { " · " a href=(frame.sync_path(namespace, name)) { "Open " (namespace) "/" (name) } }
                    AboutKind::Token => { " · " a href={ (frame.prefix) "tokens" } { "Open the tokens" } }
                }
            }
        }
    };
    finding(&found.seen.finding, &more)
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::{Code, Finding, Place, Severity};

    use super::super::super::view::overview::{FirstSeen, Resources, overview as made};
    use super::super::super::view::sync::tests::sync;
    use super::super::tests::frame;
    use super::*;
    use crate::doctor::seen::{Seen, Side};

    #[test]
    fn the_cure_is_one_click_away() {
        let finding = Finding::new(Code::SyncNotReady, "team-a/b is not Ready")
            .saw(Place::file("ConfigMapSync team-a/b"), "s");
        let seen = [Seen { side: Side::Cluster, finding }];
        let syncs = [std::sync::Arc::new(sync("b", "False", &[]))];
        let resources = Resources { syncs: &syncs, tokens: &[], nodes: &[] };
        let frame = frame();
        let made = made(&seen, &FirstSeen::new(), &resources, frame.now);
        let page = overview(&frame, &made, Some(frame.now)).into_string();
        for part in [
            "No problem was found; one finding is worth a look.",
            "in the cluster, since <time datetime=\"2026-01-01T00:00:00Z\"",
            "<a href=\"/p/syncs/team-a/b\">Open team-a/b</a>",
            "0 of 1 ready",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn without_anything_it_says_what_to_do_next() {
        let none = Resources { syncs: &[], tokens: &[], nodes: &[] };
        let frame = frame();
        let made = made(&[], &FirstSeen::new(), &none, frame.now);
        assert_eq!(made.worst, Severity::Ok);
        let page = overview(&frame, &made, Some(frame.now)).into_string();
        assert!(page.contains("weaver sync create settings") && page.contains("All is well."), "{page}");
        let early = overview(&frame, &made, None).into_string();
        assert!(early.contains("Checking…") && !early.contains("All is well"), "{early}");
    }
}
