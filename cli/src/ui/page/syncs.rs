//! All ConfigMapSyncs and ResourceSyncs, with the state of each copy.

use maud::{Markup, html};

use super::super::view::matrix::{Cell, Matrix, MatrixQuery, MatrixRow, PageRange};
use super::super::view::sync::{CopyState, SyncKind, TargetView, Unnamed};
use super::{Frame, Tab, encoded, health};
use crate::connection;

pub fn syncs(
    frame: &Frame<'_>,
    matrix: &Matrix,
    selection: &MatrixQuery,
    unknown: &Markup,
    is_known: bool,
) -> Markup {
    let is_filtered = !(selection.q.is_empty() && selection.to.is_empty() && selection.problems.is_empty());
    let content = html! {
        (unknown)
        (filter(frame, selection))
        @if is_known && matrix.rows.is_empty() {
            @if is_filtered {
                p.empty { "No sync is selected. " a href={ (frame.prefix) "syncs" } { "Show all" } }
            } @else {
                p.empty { "There is no sync yet. Create one, which copies a ConfigMap into two namespaces:" }
                (super::code_block(&format!("weaver sync create settings -n team-a --account team-a-sync --source settings --to foo,bar --grant{}", connection::flags())))
            }
        }
        @if !matrix.rows.is_empty() { (table(frame, matrix, selection)) }
    };
    frame.page(Tab::Syncs, "Syncs", true, &content)
}

fn filter(frame: &Frame<'_>, selection: &MatrixQuery) -> Markup {
    html! {
        form.filter method="get" action={ (frame.prefix) "syncs" } role="search" {
            label { "Sync " input type="search" name="q" value=(selection.q) placeholder="name, source or reason"; }
            label { "Target namespace " input type="search" name="to" value=(selection.to); }
            label { input type="checkbox" name="problems" value="1" checked[!selection.problems.is_empty()]; " Only problems" }
            button { "Show" }
        }
    }
}

fn table(frame: &Frame<'_>, matrix: &Matrix, selection: &MatrixQuery) -> Markup {
    html! {
        (parts("Syncs", matrix.row_part, |page| address(frame, &MatrixQuery { row: page, ..selection.clone() })))
        (parts("Namespaces that a status names", matrix.column_part, |page| address(frame, &MatrixQuery { column: page, ..selection.clone() })))
        div.scroll tabindex="0" role="group" aria-label="Syncs and namespaces" {
            table.matrix {
                thead { tr {
                    th scope="col" { "Sync" } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "Synced" }
                    @for column in &matrix.columns { th scope="col" { (column) } }
                } }
                tbody { @for row in &matrix.rows { (line(frame, row)) } }
            }
        }
        p.quiet {
            "A cell is empty where the sync has no copy in that namespace. A status names 128 targets, those with a problem \
             first: an asterisk marks a sync that has more, and "
            (unnamed(Unnamed::SyncedOrNone)) " or " (unnamed(Unnamed::NotKnown))
            " is shown where its status does not name the namespace: synced or no copy, or not known."
        }
    }
}

fn line(frame: &Frame<'_>, row: &MatrixRow) -> Markup {
    let (sync, summary) = (&row.sync, &row.sync.summary);
    html! {
        tr {
            th scope="row" {
                a href=(frame.path_of(sync)) { (summary.namespace) "/" (summary.name) }
                @if sync.kind == SyncKind::Resource { " " small { (sync.kind.name()) } }
                @if !sync.source.is_empty() { br; small { (sync.source) } }
            }
            td { (health(summary)) @if summary.health != super::ResourceHealth::Ready { " " small { (summary.reason) } } }
            td { (frame.since(summary.since)) }
            td { (sync.counts.synced) "/" (sync.counts.desired) @if sync.is_truncated { "*" } }
            @for cell in &row.cells {
                td { @match cell {
                    Cell::None => {}
                    Cell::Named(target) => { (mark(target)) }
                    Cell::Unnamed(what) => { (unnamed(*what)) }
                } }
            }
        }
    }
}

/// A symbol, and its text for screen readers.
pub fn mark(target: &TargetView) -> Markup {
    let title = if target.reason.is_empty() {
        target.state.label().to_owned()
    } else {
        format!("{} ({})", target.state.label(), target.reason)
    };
    html! {
        span class={ "mark " (state_class(target.state)) } title=(title) {
            span aria-hidden="true" { (sign(target.state)) }
            span.hidden { (title) }
        }
    }
}

/// A note that a full status does not name the namespace.
pub fn unnamed(what: Unnamed) -> Markup {
    let sign = match what {
        Unnamed::SyncedOrNone => "·",
        Unnamed::NotKnown => "?",
    };
    html! {
        span.mark.reads title=(what.label()) {
            span aria-hidden="true" { (sign) }
            span.hidden { (what.label()) }
        }
    }
}

fn sign(state: CopyState) -> &'static str {
    match state {
        CopyState::Failed => "✗",
        CopyState::Conflict => "!",
        CopyState::Waiting => "…",
        CopyState::Other => "?",
        CopyState::Synced => "✓",
    }
}

pub fn state_class(state: CopyState) -> &'static str {
    match state {
        CopyState::Failed | CopyState::Conflict => "bad",
        CopyState::Waiting | CopyState::Other => "warn",
        CopyState::Synced => "ok",
    }
}

/// The position in a long list, and links to its other pages, which are at these addresses.
pub fn parts(what: &str, part: PageRange, of: impl Fn(usize) -> String) -> Markup {
    let link = |page: usize, label: &str| html! { a href=(of(page)) { (label) } };
    html! {
        @if part.pages > 1 {
            nav.parts aria-label=(what) {
                (what) ": page " (part.page + 1) " of " (part.pages) ", " (part.all) " in all "
                @if part.page > 0 { (link(part.page - 1, "← previous")) " " }
                @if part.page + 1 < part.pages { (link(part.page + 1, "next →")) }
            }
        }
    }
}

fn address(frame: &Frame<'_>, selection: &MatrixQuery) -> String {
    let MatrixQuery { q, to, problems, row, column } = selection;
    let [q, to, problems] = [q, to, problems].map(|text| encoded(text));
    format!("{}syncs?q={q}&to={to}&problems={problems}&row={row}&column={column}", frame.prefix)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::view::matrix::matrix;
    use super::super::super::view::sync::SyncView;
    use super::super::super::view::sync::tests::sync;
    use super::super::tests::frame;
    use super::*;

    fn page(all: &[Arc<SyncView>], selection: &MatrixQuery) -> String {
        syncs(&frame(), &matrix(all, selection), selection, &html! {}, true).into_string()
    }

    #[test]
    fn each_cell_says_its_state_in_words() {
        let all = [Arc::new(sync("a", "False", &[("foo", "Failed"), ("bar", "Synced")]))];
        let page = page(&all, &MatrixQuery::default());
        for part in [
            "<a href=\"/p/syncs/team-a/a\">team-a/a</a>",
            "<th scope=\"col\">foo</th><th scope=\"col\">bar</th>",
            "<span class=\"mark bad\" title=\"Failed (Why)\"><span aria-hidden=\"true\">✗</span><span class=\"hidden\">Failed (Why)</span></span>",
            "<span class=\"badge bad\">Not ready</span> <small>Reason</small>",
            "10 min ago",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("class=\"parts\""), "{page}");
    }

    #[test]
    fn the_way_to_another_page_keeps_the_selection() {
        let all: Vec<_> = (0..120)
            .map(|number| Arc::new(sync(&format!("s{number}"), "True", &[("foo", "Synced")])))
            .collect();
        let selection = MatrixQuery { q: "S&\"<b>".into(), row: 1, ..MatrixQuery::default() };
        let empty = page(&all, &selection);
        assert!(empty.contains("No sync is selected"), "{empty}");
        assert!(empty.contains("value=\"S&amp;&quot;&lt;b&gt;\""), "{empty}");
        let page = page(&all, &MatrixQuery { q: "s".into(), to: "foo".into(), ..selection });
        assert!(page.contains("page 2 of 3, 120 in all"), "{page}");
        for row in [0, 2] {
            assert!(
                page.contains(&format!("/p/syncs?q=s&amp;to=foo&amp;problems=&amp;row={row}&amp;column=0")),
                "{page}"
            );
        }
    }

    #[test]
    fn a_page_of_a_thousand_syncs_in_128_namespaces_each_is_small() {
        let namespaces: Vec<String> = (0..128).map(|number| format!("n-{number:03}")).collect();
        let targets: Vec<(&str, &str)> = namespaces.iter().map(|name| (name.as_str(), "Failed")).collect();
        let all: Vec<_> =
            (0..1_000).map(|number| Arc::new(sync(&format!("s{number}"), "False", &targets))).collect();
        let size = page(&all, &MatrixQuery::default()).len();
        assert!(size < 400_000, "{size}");
    }

    #[test]
    fn of_a_full_status_no_cell_says_that_there_is_no_copy() {
        let full = SyncView { is_truncated: true, ..sync("full", "True", &[("foo", "Synced")]) };
        let resource = SyncView { kind: SyncKind::Resource, ..sync("b", "True", &[("bar", "Synced")]) };
        let page = page(&[Arc::new(full), Arc::new(resource)], &MatrixQuery::default());
        let label =
            "<span class=\"hidden\">Synced, or no copy: the status is full, and names problems first</span>";
        assert_eq!(page.matches(label).count(), 2, "a cell and the line below the table: {page}");
        assert!(
            page.contains("<a href=\"/p/resources/team-a/b\">team-a/b</a> <small>ResourceSync</small>"),
            "{page}"
        );
    }

    #[test]
    fn where_there_are_none_the_first_one_is_a_command_away() {
        assert!(page(&[], &MatrixQuery::default()).contains("weaver sync create settings"));
    }
}
