//! Syncs and the namespaces of their copies as a table, of which one part is shown at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::sync::{CopyState, SyncView, TargetView, Unnamed};

/// Syncs of a page.
pub const ROWS: usize = 50;
/// Namespaces of a page.
pub const COLUMNS: usize = 25;

/// The requested part; pages count from 0.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct MatrixQuery {
    /// In namespace, name, source or reason of a sync.
    pub q: String,
    /// Part of the name of a target namespace.
    pub to: String,
    /// Only those with a problem, if it is not empty.
    pub problems: String,
    pub row: usize,
    pub column: usize,
}

/// The part of a long list that a page shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageRange {
    pub page: usize,
    pub pages: usize,
    pub all: usize,
}

impl PageRange {
    /// The requested page, or the last one.
    pub fn of(asked: usize, all: usize, size: usize) -> Self {
        let pages = all.div_ceil(size).max(1);
        Self { page: asked.min(pages - 1), pages, all }
    }
}

#[derive(Debug)]
pub struct Matrix {
    pub rows: Vec<MatrixRow>,
    /// Names of namespaces, those with problems first.
    pub columns: Vec<String>,
    pub row_part: PageRange,
    pub column_part: PageRange,
}

#[derive(Debug)]
pub struct MatrixRow {
    pub sync: Arc<SyncView>,
    pub cells: Vec<Cell>,
}

/// The state of a sync's copy in a namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cell {
    /// None is wanted.
    None,
    Named(TargetView),
    /// The status is full, and does not name the namespace.
    Unnamed(Unnamed),
}

/// What is shown of these.
pub fn matrix(syncs: &[Arc<SyncView>], selection: &MatrixQuery) -> Matrix {
    let mut chosen: Vec<&Arc<SyncView>> = syncs.iter().filter(|sync| is_selected(sync, selection)).collect();
    // Otherwise in order of their names, as they come.
    chosen.sort_by_key(|sync| !sync.has_problem());

    let mut problems: BTreeMap<&str, usize> = BTreeMap::new();
    for target in chosen.iter().flat_map(|sync| &sync.targets) {
        if holds(&target.namespace, &selection.to) {
            *problems.entry(&target.namespace).or_default() += usize::from(target.state.is_problem());
        }
    }
    let mut columns: Vec<(&str, usize)> = problems.into_iter().collect();
    columns.sort_by_key(|(_, problems)| std::cmp::Reverse(*problems));

    let row_part = PageRange::of(selection.row, chosen.len(), ROWS);
    let column_part = PageRange::of(selection.column, columns.len(), COLUMNS);
    let shown = columns.iter().skip(column_part.page * COLUMNS).take(COLUMNS);
    let columns: Vec<String> = shown.map(|(name, _)| (*name).to_owned()).collect();
    let rows = chosen.into_iter().skip(row_part.page * ROWS).take(ROWS);
    let rows = rows.map(|sync| row(sync, &columns)).collect();
    Matrix { rows, columns, row_part, column_part }
}

fn row(sync: &Arc<SyncView>, columns: &[String]) -> MatrixRow {
    let targets: BTreeMap<&str, &TargetView> =
        sync.targets.iter().map(|target| (&*target.namespace, target)).collect();
    let cell = |name: &String| match (targets.get(name.as_str()), sync.unnamed()) {
        (Some(target), _) => Cell::Named((*target).clone()),
        (None, Some(unnamed)) => Cell::Unnamed(unnamed),
        (None, None) => Cell::None,
    };
    let cells = columns.iter().map(cell).collect();
    MatrixRow { sync: Arc::clone(sync), cells }
}

fn is_selected(sync: &SyncView, selection: &MatrixQuery) -> bool {
    let summary = &sync.summary;
    let name = format!("{}/{}", summary.namespace, summary.name);
    let is_named = [&name, &sync.source, &summary.reason].iter().any(|text| holds(text, &selection.q));
    // What a full status leaves out may lead there.
    let leads_there = selection.to.trim().is_empty()
        || sync.is_truncated
        || sync.targets.iter().any(|target| holds(&target.namespace, &selection.to));
    is_named && leads_there && (selection.problems.is_empty() || sync.has_problem())
}

/// Does a text contain a part, ignoring case?
pub fn holds(text: &str, part: &str) -> bool {
    let part = part.trim();
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}

/// How many copies are in each state, the worst first.
pub fn states(targets: &[TargetView]) -> BTreeMap<CopyState, Vec<&TargetView>> {
    let mut states: BTreeMap<CopyState, Vec<&TargetView>> = BTreeMap::new();
    for target in targets {
        states.entry(target.state).or_default().push(target);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::super::sync::tests::sync;
    use super::*;

    fn names(matrix: &Matrix) -> Vec<&str> {
        matrix.rows.iter().map(|row| row.sync.summary.name.as_str()).collect()
    }

    fn state(cell: &Cell) -> Option<CopyState> {
        match cell {
            Cell::Named(target) => Some(target.state),
            Cell::None | Cell::Unnamed(_) => None,
        }
    }

    fn some() -> Vec<Arc<SyncView>> {
        [
            sync("a", "True", &[("foo", "Synced"), ("bar", "Synced")]),
            sync("b", "False", &[("foo", "Failed"), ("zoo", "Conflict")]),
            sync("c", "True", &[("zoo", "Synced")]),
        ]
        .map(Arc::new)
        .to_vec()
    }

    #[test]
    fn what_has_a_problem_comes_first_in_rows_and_columns() {
        let matrix = matrix(&some(), &MatrixQuery::default());
        assert_eq!(names(&matrix), ["b", "a", "c"]);
        assert_eq!(matrix.columns, ["foo", "zoo", "bar"]);
        let states: Vec<Vec<Option<CopyState>>> =
            matrix.rows.iter().map(|row| row.cells.iter().map(state).collect()).collect();
        assert_eq!(states[0], [Some(CopyState::Failed), Some(CopyState::Conflict), None]);
        assert_eq!(states[2], [None, Some(CopyState::Synced), None]);
    }

    #[test]
    fn a_selection_is_of_rows_columns_and_problems() {
        let select = |q: &str, to: &str, problems: &str| {
            let selection = MatrixQuery {
                q: q.into(),
                to: to.into(),
                problems: problems.into(),
                ..MatrixQuery::default()
            };
            let matrix = matrix(&some(), &selection);
            (names(&matrix).concat(), matrix.columns.join(" "))
        };
        let is = |names: &str, columns: &str| (names.to_owned(), columns.to_owned());
        assert_eq!(select("TEAM-A/A", "", ""), is("a", "bar foo"));
        assert_eq!(select("", "oo", ""), is("bac", "foo zoo"));
        assert_eq!(select("", "bar", ""), is("a", "bar"));
        assert_eq!(select("", "", "1"), is("b", "foo zoo"));
        assert_eq!(select("nothing", "", ""), is("", ""));
    }

    #[test]
    fn of_very_many_a_bounded_part_is_shown_and_each_is_on_some_page() {
        let namespaces: Vec<String> = (0..128).map(|number| format!("n-{number:03}")).collect();
        let targets: Vec<(&str, &str)> = namespaces.iter().map(|name| (name.as_str(), "Synced")).collect();
        let all: Vec<_> =
            (0..1_000).map(|number| Arc::new(sync(&format!("s-{number:04}"), "True", &targets))).collect();
        let (mut rows, mut columns) = (0, 0);
        for page in 0..20 {
            let matrix = matrix(&all, &MatrixQuery { row: page, ..MatrixQuery::default() });
            assert_eq!(matrix.row_part, PageRange { page, pages: 20, all: 1_000 });
            assert!(matrix.rows.len() <= ROWS && matrix.rows.iter().all(|row| row.cells.len() <= COLUMNS));
            rows += matrix.rows.len();
        }
        for page in 0..6 {
            columns += matrix(&all, &MatrixQuery { column: page, ..MatrixQuery::default() }).columns.len();
        }
        assert_eq!((rows, columns), (1_000, 128));
        let far =
            matrix(&all, &MatrixQuery { row: usize::MAX, column: usize::MAX, ..MatrixQuery::default() });
        assert_eq!((far.row_part.page, far.column_part.page), (19, 5));
    }

    #[test]
    fn a_full_status_that_does_not_name_a_namespace_is_not_said_to_leave_it_out() {
        let namespaces: Vec<String> = (0..128).map(|number| format!("n-{number:03}")).collect();
        let targets: Vec<(&str, &str)> = namespaces.iter().map(|name| (name.as_str(), "Synced")).collect();
        let full = SyncView { is_truncated: true, ..sync("full", "True", &targets) };
        let all = [Arc::new(full), Arc::new(sync("other", "True", &[("n-999", "Synced")]))];
        let matrix = matrix(&all, &MatrixQuery { to: "n-999".into(), ..MatrixQuery::default() });
        assert_eq!(
            (names(&matrix), matrix.columns.as_slice()),
            (vec!["full", "other"], &["n-999".to_owned()][..])
        );
        assert_eq!(matrix.rows[0].cells, [Cell::Unnamed(Unnamed::SyncedOrNone)]);
        assert_eq!(state(&matrix.rows[1].cells[0]), Some(CopyState::Synced));
    }

    #[test]
    fn without_any_there_is_one_empty_page() {
        let matrix = matrix(&[], &MatrixQuery::default());
        assert_eq!((matrix.rows.len(), matrix.row_part), (0, PageRange { page: 0, pages: 1, all: 0 }));
    }
}
