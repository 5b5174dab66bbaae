//! What the comparison says of us is what its sources have: measured figures, limits, versions of the API.

use std::collections::BTreeSet;

use weaver_api::crds;
use weaver_api::v1beta1::MAX_TARGETS_SHOWN;
use weaver_tests::monitoring::file;

const PAGE: &str = "docs/explanation/comparison.md";

/// A cell behind the name of a row of the page on performance, in whole units.
fn measured(page: &str, row: &str, cell: usize) -> String {
    let cells = page.lines().find_map(|line| line.strip_prefix(&format!("| {row} | ")));
    let cells = cells.unwrap_or_else(|| panic!("performance.md has no row {row}"));
    let figure = cells.split(" | ").nth(cell).and_then(|found| found.split(' ').next());
    let figure: f64 = figure.unwrap_or_default().parse().unwrap();
    format!("{figure:.0}")
}

/// Without its line breaks.
fn text(path: &str) -> String {
    file(path).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_comparison_and_the_limits_of_memory_have_the_measured_figures() {
    let performance = file("docs/explanation/performance.md");
    let of = |row: &str, cell: usize| measured(&performance, row, cell);
    let copies = of("memory, 1 resource × 100", 0);
    let more_copies = of("memory, 100 resources × 10, one account", 0);
    let syncs = of("memory, 1,000 resources × 1", 0);
    let (first, last) = (of("an edit → 1 copy: the last", 0), of("an edit → 100 copies: the last", 0));
    let client = of("an edit → 100 copies: the last", 1);
    for (path, words) in [
        (
            PAGE,
            format!(
                "| Config Weaver | {copies} MiB with 100 copies, {more_copies} MiB with 1,000, {syncs} MiB with 1,000 \
                 syncs; an edit reaches one copy in {first} ms, the last of 100 in {last} ms |"
            ),
        ),
        (PAGE, format!("a bare client needs {client} ms for the 100 copies")),
        (
            "deploy/kubernetes/operator.yaml",
            format!("{copies} MiB with 100 copies, {more_copies} with 1,000, {syncs} with 1,000 resources"),
        ),
    ] {
        assert!(text(path).contains(&words), "{path} does not say: {words}");
    }
}

#[test]
fn the_comparison_has_the_limit_of_the_status_and_the_versions_of_the_api() {
    let definitions = crds::all();
    let versions = definitions.iter().flat_map(|crd| &crd.spec.versions).map(|version| version.name.as_str());
    assert_eq!(versions.collect::<BTreeSet<_>>(), BTreeSet::from(["v1alpha1", "v1beta1"]));
    let words = format!(
        "| Config Weaver | conditions, up to {MAX_TARGETS_SHOWN} targets, missing rights | yes | yes, with alerts | \
         `v1beta1`; `v1alpha1`, converted; none released |"
    );
    assert!(text(PAGE).contains(&words), "{PAGE} does not say: {words}");
}
