//! Alerts, dashboard and docs/operate.md speak of what the programs tell, of all of it and of nothing else.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use weaver_operator::controller::events::OWN_REASONS;
use weaver_tests::exposition::{Family, families};
use weaver_tests::monitoring::{agent_page, alerts, dashboard, file, operator_page, panels};
use weaver_tests::promql::{Expr, Matcher, Selector, parse};

/// Labels that Prometheus adds when it scrapes.
const SCRAPERS: [&str; 2] = ["instance", "job"];

/// More values of a label than this are not listed in the table; of `code` docs/codes.md has them.
const LISTED: usize = 20;

fn told() -> Vec<Family> {
    [operator_page(), agent_page()].iter().flat_map(|page| families(page)).collect()
}

fn family<'a>(told: &'a [Family], selector: &Selector) -> &'a Family {
    let bucket = selector.name.strip_suffix("_bucket").unwrap_or(&selector.name);
    let named = |family: &&Family| {
        family.name == selector.name || (family.kind == "histogram" && family.name == bucket)
    };
    told.iter().find(named).unwrap_or_else(|| panic!("no program tells {}", selector.name))
}

/// All that an expression selects is told, with these labels and values.
fn is_told(place: &str, expr: &Expr) {
    let told = told();
    for selector in expr.selectors() {
        let family = family(&told, selector);
        assert!(
            family.kind == "gauge" || selector.range.is_some(),
            "{place}: {} grows for ever: take its rate or increase",
            selector.name
        );
        for Matcher { label, values, .. } in &selector.matchers {
            if SCRAPERS.contains(&label.as_str()) {
                continue;
            }
            let known = family.labels.get(label);
            let known = known.unwrap_or_else(|| panic!("{place}: {} has no label {label}", selector.name));
            for value in values {
                let is_known = known.iter().any(|known| Matcher::names(value, known));
                assert!(is_known, "{place}: {}: {label} is never {value}, but {known:?}", selector.name);
            }
        }
    }
    grouped_by_what_is_told(place, expr, &told);
}

fn grouped_by_what_is_told(place: &str, expr: &Expr, told: &[Family]) {
    match expr {
        Expr::Aggregate(_, by, of) => {
            for selector in of.selectors() {
                let labels = &family(told, selector).labels;
                let is_bucket = selector.name.ends_with("_bucket");
                let known = |label: &String| {
                    labels.contains_key(label)
                        || SCRAPERS.contains(&label.as_str())
                        || (is_bucket && label == "le")
                };
                assert!(by.iter().all(known), "{place}: {} has not all labels of {by:?}", selector.name);
            }
            grouped_by_what_is_told(place, of, told);
        }
        Expr::Call(_, arguments) => {
            for argument in arguments {
                grouped_by_what_is_told(place, argument, told);
            }
        }
        Expr::Binary(left, _, right) => {
            grouped_by_what_is_told(place, left, told);
            grouped_by_what_is_told(place, right, told);
        }
        Expr::Number(_) | Expr::Selector(_) => {}
    }
}

#[test]
fn each_alert_is_of_what_the_programs_tell_and_says_what_to_do() {
    let operate = file("docs/operate.md");
    let mut names = BTreeSet::new();
    for rule in alerts() {
        let name = &rule.alert;
        assert!(names.insert(name.clone()), "{name} stands there twice");
        is_told(name, &parse(&rule.expr).unwrap());
        assert!(["critical", "warning"].contains(&rule.labels.severity.as_str()), "{name}");
        assert!(rule.r#for.ends_with(['m', 'h']), "{name} fires at once");
        assert!(
            rule.annotations.summary.ends_with('.') && rule.annotations.description.contains('`'),
            "{name}"
        );
        let anchor = format!("docs/operate.md#{}", name.to_lowercase());
        assert_eq!(rule.annotations.runbook_url, anchor);
        assert!(operate.contains(&format!("\n### {name}\n")), "docs/operate.md has no section {name}");
    }
    let described = operate.lines().filter_map(|line| line.strip_prefix("### Weaver"));
    let described: BTreeSet<String> = described.map(|name| format!("Weaver{name}")).collect();
    assert_eq!(described, names, "docs/operate.md describes what is no alert");
}

#[test]
fn the_dashboard_shows_every_metric_from_the_chosen_source() {
    let dashboard = dashboard();
    let panels_of = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels_of.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels_of.len());
    for panel in panels_of.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
    assert_eq!(dashboard["templating"]["list"][0]["name"], "datasource");
    let told = told();
    let mut shown = BTreeSet::new();
    for (title, expr) in panels(&dashboard) {
        is_told(&title, &expr);
        shown.extend(expr.selectors().into_iter().map(|selector| family(&told, selector).name.clone()));
    }
    let all: BTreeSet<String> = told.iter().map(|family| family.name.clone()).collect();
    assert_eq!(shown, all);
}

#[test]
fn no_panel_covers_another() {
    let mut taken = BTreeSet::new();
    for panel in dashboard()["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert((x, y)), "{} covers another panel at {x}, {y}", panel["title"]);
        }
    }
}

#[test]
fn docs_operate_lists_each_metric_with_its_labels_and_no_other() {
    let row = |family: &Family| {
        let labels = family.labels.iter().map(|(label, values)| {
            if values.len() > LISTED {
                return format!("`{label}`: one of [codes.md](codes.md)");
            }
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("`{label}`: {}", values.join(", "))
        });
        let labels: Vec<String> = labels.collect();
        format!("| `{}` | {} | {} | {} |", family.name, family.kind, labels.join("; "), family.help)
    };
    let wanted: Vec<String> = told().iter().map(row).collect();
    let operate = file("docs/operate.md");
    let found: Vec<&str> = operate.lines().filter(|line| line.starts_with("| `weaver_")).collect();
    assert!(found == wanted, "the table in docs/operate.md should be:\n{}", wanted.join("\n"));
}

/// Where reasons of our kinds' conditions are said; nowhere else is a verdict made.
const SAY_REASONS: [&str; 4] =
    ["controller/pause.rs", "controller/verdicts.rs", "service_token/status.rs", "sync/verdicts.rs"];

/// Source of the operator without its tests, by path.
fn source() -> BTreeMap<String, String> {
    let root = format!("{}/../operator/src", env!("CARGO_MANIFEST_DIR"));
    let mut source = BTreeMap::new();
    for directory in ["controller", "service_token", "sync"] {
        for entry in std::fs::read_dir(format!("{root}/{directory}")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with("_tests.rs") {
                let path = format!("{directory}/{name}");
                let text = std::fs::read_to_string(format!("{root}/{path}")).unwrap();
                source.insert(path, text.split("#[cfg(test)]").next().unwrap().to_owned());
            }
        }
    }
    source
}

/// First cells of the table below this heading.
fn table(page: &str, heading: &str) -> BTreeSet<String> {
    let rows = page.split(heading).nth(1).unwrap().lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect()
}

#[test]
fn docs_operate_lists_each_reason_of_conditions_and_events_and_no_other() {
    let source = source();
    let makers =
        source.iter().filter(|(_, text)| text.contains("Verdict::new(")).map(|(path, _)| path.as_str());
    assert_eq!(makers.collect::<Vec<_>>(), SAY_REASONS);
    // A text of one word that begins with a capital is a reason there.
    let is_reason = |text: &&str| {
        text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphabetic())
    };
    let said = SAY_REASONS.iter().flat_map(|path| source[*path].lines());
    let said = said.filter(|line| !line.trim_start().starts_with("//"));
    let said = said.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(is_reason);
    let operate = file("docs/operate.md");
    let reasons: BTreeSet<String> = said.map(str::to_owned).collect();
    assert_eq!(table(&operate, "\n| reason | means |"), reasons);
    let own: BTreeSet<String> = OWN_REASONS.iter().map(|reason| (*reason).to_owned()).collect();
    assert_eq!(table(&operate, "\n| reason of event | means |"), own);
    // No event is told with a reason that stands in no list.
    for (path, text) in &source {
        let literal = text
            .split("event(EventType::")
            .skip(1)
            .find(|call| call.split(',').nth(1).is_some_and(|reason| reason.trim_start().starts_with('"')));
        assert_eq!(literal, None, "{path} tells an event with a reason of its own");
    }
}
