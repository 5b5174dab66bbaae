//! What is red, since when, who is responsible and what to do.

use jiff::Timestamp;
use maud::{Markup, html};

use super::super::view::overview::{FindingSubject, FindingView, Overview, OverviewCounts, Since};
use super::finding::{class, finding};
use super::{Frame, Tab};
use crate::connection;

/// For what could not be listed, or not yet: its own page says why.
const UNKNOWN: &str = "not known";

/// `at` is when doctor looked; without it nothing is known yet.
pub fn overview(frame: &Frame<'_>, overview: &Overview, at: Option<Timestamp>) -> Markup {
    let prefix = frame.prefix;
    let content = html! {
        @if let Some(at) = at {
            p class={ "verdict " (class(overview.worst)) } role="status" { (overview.verdict) }
            p.quiet { "Checked " (frame.time(at)) ", as " code { "weaver doctor" } " does; again while this page is open." }
        } @else {
            p.verdict role="status" { "Checking…" }
            p.quiet { "If the page does not reload by itself, reload it in a few seconds." }
        }
        ul.tallies {
            li { a href={ (prefix) "syncs" } { (tally("Syncs", overview.syncs.as_ref())) } }
            li { a href={ (prefix) "tokens" } { (tally("Tokens", overview.tokens.as_ref())) } }
            li { a href={ (prefix) "nodes" } {
                strong { "Nodes" }
                @match overview.nodes {
                    Some((all, bad)) => { " " (all) " reported, " (bad) " with a failure" }
                    None => { " " (UNKNOWN) }
                }
            } }
        }
        @if !overview.open.is_empty() {
            section aria-labelledby="open" {
                h2 #open { "To look at" }
                @for found in &overview.open { (open(frame, found)) }
            }
        }
        @if at.is_some() && overview.open.is_empty() && overview.syncs.as_ref().is_some_and(|syncs| syncs.all == 0) {
            p.empty { "There is no sync yet. Create one, which copies a ConfigMap into two namespaces:" }
            (super::code_block(&format!("weaver sync create settings -n team-a --account team-a-sync --source settings --to foo,bar --grant{}", connection::flags())))
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

fn tally(what: &str, tally: Option<&OverviewCounts>) -> Markup {
    html! {
        strong { (what) } " "
        @if let Some(tally) = tally {
            (tally.ready) " of " (tally.all) " ready"
            @if tally.paused > 0 { ", " (tally.paused) " paused" }
        } @else { (UNKNOWN) }
    }
}

fn open(frame: &Frame<'_>, found: &FindingView) -> Markup {
    let more = html! {
        p.quiet {
            (found.seen.location.phrase()) ", "
            @match found.since {
                Since::Changed(then) => { (frame.lasting(then)) }
                Since::FirstSeen(then) => { "first seen here " (frame.time(then)) }
            }
            @match &found.about {
                Some(FindingSubject::Sync(key)) => {
                    " · " a href=(frame.sync_path(key)) { "Open " (key) }
                }
                Some(FindingSubject::Syncs) => { " · " a href={ (frame.prefix) "syncs?problems=1" } { "All syncs with a problem" } }
                Some(FindingSubject::Token(..) | FindingSubject::Tokens) => { " · " a href={ (frame.prefix) "tokens" } { "Open the tokens" } }
                Some(FindingSubject::Node(name)) => { " · " a href={ (frame.prefix) "nodes" } { "Open the node " (name) } }
                None => {}
            }
        }
    };
    finding(&found.seen.finding, &more)
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::{Code, Finding, Place, Severity};

    use super::super::super::view::overview::{FirstSeen, ResourceViews, overview as made};
    use super::super::super::view::sync::tests::sync;
    use super::super::tests::frame;
    use super::*;
    use crate::doctor::seen::{LocatedFinding, Location};

    #[test]
    fn the_cure_is_one_click_away() {
        let finding = Finding::new(Code::SyncNotReady, "team-a/b is not Ready")
            .saw(Place::file("ConfigMapSync team-a/b"), "s");
        let seen = [LocatedFinding { location: Location::Cluster, finding }];
        let syncs = [std::sync::Arc::new(sync("b", "False", &[]))];
        let resources = ResourceViews { syncs: Some(&syncs), tokens: Some(&[]), nodes: None };
        let frame = frame();
        let made = made(&seen, &FirstSeen::new(), &resources, frame.now);
        let page = overview(&frame, &made, Some(frame.now)).into_string();
        for part in [
            "was found, but not everything is ready.",
            "in the cluster, for <time datetime=\"2026-01-01T00:00:00Z\"",
            "<a href=\"/p/syncs/team-a/b\">Open team-a/b</a>",
            "<strong>Syncs</strong> 0 of 1 ready",
            "<strong>Tokens</strong> 0 of 0 ready",
            "<strong>Nodes</strong> not known",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn more_than_are_named_are_one_click_away_too() {
        let finding = Finding::new(Code::SyncNotReady, "5 more ResourceSyncs have problems")
            .saw(Place::file("ResourceSync"), "5 more");
        let seen = [LocatedFinding { location: Location::Cluster, finding }];
        let resources = ResourceViews { syncs: Some(&[]), tokens: Some(&[]), nodes: None };
        let frame = frame();
        let made = made(&seen, &FirstSeen::new(), &resources, frame.now);
        let page = overview(&frame, &made, Some(frame.now)).into_string();
        assert!(page.contains("<a href=\"/p/syncs?problems=1\">All syncs with a problem</a>"), "{page}");
    }

    fn made_of(resources: &ResourceViews<'_>, frame: &Frame<'_>) -> String {
        let made = made(&[], &FirstSeen::new(), resources, frame.now);
        overview(frame, &made, Some(frame.now)).into_string()
    }

    #[test]
    fn without_anything_it_says_what_to_do_next() {
        let none = ResourceViews { syncs: Some(&[]), tokens: Some(&[]), nodes: Some(&[]) };
        let frame = frame();
        let made = made(&[], &FirstSeen::new(), &none, frame.now);
        assert_eq!(made.worst, Severity::Ok);
        let page = overview(&frame, &made, Some(frame.now)).into_string();
        assert!(page.contains("weaver sync create settings") && page.contains("All is well."), "{page}");
        let unlisted = ResourceViews { syncs: None, tokens: None, nodes: None };
        let unlisted = made_of(&unlisted, &frame);
        assert_eq!(unlisted.matches(" not known").count(), 3, "{unlisted}");
        assert!(!unlisted.contains("weaver sync create") && !unlisted.contains(" of 0"), "{unlisted}");
        let early = overview(&frame, &made, None).into_string();
        assert!(early.contains("Checking…") && !early.contains("All is well"), "{early}");
    }
}
