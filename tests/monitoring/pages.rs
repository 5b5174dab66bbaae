//! Alerts, dashboard and their pages in docs/reference/ speak of what the programs tell, of all of it and of
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::json;
use weaver_api::conditions::{NODE_ORDER, ORDER, TOKEN_ORDER};
use weaver_operator::controller::events::OWN_REASONS;
use weaver_tests::exposition::{Family, families};
use weaver_tests::monitoring::{agent_page, alerts, dashboard, file, operator_page, panels};
use weaver_tests::promtool;
use weaver_tests::source::{code, texts};

/// Labels that Prometheus adds when it scrapes.
const SCRAPERS: [&str; 2] = ["instance", "job"];

fn reported() -> Vec<Family> {
    [operator_page(), agent_page()].iter().flat_map(|page| families(page)).collect()
}

/// Series that an expression selects. Whether it is an expression, `promtool` says.
struct SeriesSelector<'a> {
    name: &'a str,
    /// Labels, and the values that they are compared with.
    matchers: Vec<(&'a str, Vec<&'a str>)>,
    has_range: bool,
}

fn selectors(expr: &str) -> Vec<SeriesSelector<'_>> {
    let selector = |(at, _)| {
        let text: &str = &expr[at..];
        let (name, rest) =
            text.split_at(text.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(text.len()));
        let (matchers, rest) =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).unwrap_or(("", rest));
        let matchers = matchers.split(',').filter(|matcher| !matcher.is_empty()).map(|matcher| {
            let (label, value) = matcher.split_once(['=', '!']).unwrap();
            let value = value.trim_start_matches(['=', '~']).trim_matches('"');
            (label.trim(), value.split('|').collect())
        });
        SeriesSelector { name, matchers: matchers.collect(), has_range: rest.starts_with('[') }
    };
    expr.match_indices("weaver_").map(selector).collect()
}

/// Is it such a value? `.+` at its end is anything that is not empty.
fn is_value(value: &str, found: &str) -> bool {
    match value.strip_suffix(".+") {
        Some(start) => found.len() > start.len() && found.starts_with(start),
        None => value == found,
    }
}

fn family<'a>(reported: &'a [Family], name: &str) -> &'a Family {
    let bucket = name.strip_suffix("_bucket").unwrap_or(name);
    let named =
        |family: &&Family| family.name == name || (family.kind == "histogram" && family.name == bucket);
    reported.iter().find(named).unwrap_or_else(|| panic!("no program tells {name}"))
}

/// All that an expression selects is reported, with these labels and values.
fn is_reported(place: &str, expr: &str) {
    let reported = reported();
    let selectors = selectors(expr);
    assert!(!selectors.is_empty(), "{place}");
    for SeriesSelector { name, matchers, has_range } in &selectors {
        let family = family(&reported, name);
        assert!(
            family.kind == "gauge" || *has_range,
            "{place}: {name} grows forever: take its rate or increase"
        );
        are_reported(place, family, matchers);
        for by in expr.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
            let known = |label: &str| {
                family.labels.contains_key(label)
                    || SCRAPERS.contains(&label)
                    || (name.ends_with("_bucket") && label == "le")
            };
            assert!(
                by.split(',').all(|label| known(label.trim())),
                "{place}: {name} has not all labels of {by:?}"
            );
        }
    }
}

fn are_reported(place: &str, family: &Family, matchers: &[(&str, Vec<&str>)]) {
    for (label, values) in matchers.iter().filter(|(label, _)| !SCRAPERS.contains(label)) {
        let known = family.labels.get(*label);
        let known = known.unwrap_or_else(|| panic!("{place}: {} has no label {label}", family.name));
        for value in values {
            let is_known = known.iter().any(|known| is_value(value, known));
            assert!(is_known, "{place}: {}: {label} is never {value}, but {known:?}", family.name);
        }
    }
}

#[test]
fn help_and_labels_of_metrics_are_in_one_style() {
    for Family { name, help, labels, .. } in reported() {
        let begins = help.starts_with("1 while ") || help.starts_with("1 if ");
        let is_sentence =
            help.ends_with('.') && (begins || help.starts_with(|c: char| c.is_ascii_uppercase()));
        assert!(is_sentence && help.len() <= 120 && !help.contains(", by "), "{name}: {help}");
        for (label, values) in labels {
            assert!(help.to_lowercase().contains(&label), "{name}: the help does not name the label {label}");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            // Codes of findings are written as everywhere.
            let is_code = name == "weaver_node_findings" && label == "code";
            assert!(is_code || values.iter().all(|value| value.chars().all(is_plain)), "{name}: {values:?}");
        }
    }
}

#[test]
fn selectors_are_found_in_an_expression() {
    let found = selectors("sum by (x) (rate(weaver_a{b=~\"c|d.+\",e!=\"f\"}[5m])) > weaver_g");
    let found: Vec<_> =
        found.iter().map(|found| (found.name, &found.matchers[..], found.has_range)).collect();
    let matchers = [("b", vec!["c", "d.+"]), ("e", vec!["f"])];
    assert_eq!(found, [("weaver_a", &matchers[..], true), ("weaver_g", &[], false)]);
    assert!(
        is_value("T-.+", "T-01") && !is_value("T-.+", "T-") && is_value("a", "a") && !is_value("a", "ab")
    );
}

/// A rule test of `deploy/monitoring/alerts_test.yaml`.
#[derive(Deserialize)]
struct RuleTest {
    name: String,
    input_series: Vec<Series>,
    #[serde(rename = "alert_rule_test")]
    asked: Vec<AlertTest>,
}

#[derive(Deserialize)]
struct Series {
    series: String,
}

#[derive(Deserialize)]
struct AlertTest {
    alertname: String,
    exp_alerts: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct RuleTests {
    tests: Vec<RuleTest>,
}

#[test]
fn promtool_has_each_alert_fire_in_one_case_and_not_in_another() {
    for arguments in [&["check", "rules", "alerts.yaml"][..], &["test", "rules", "alerts_test.yaml"]] {
        let (is_content, said) = promtool::run(arguments, None);
        assert!(is_content, "{said}");
    }
    let tests: RuleTests = serde_saphyr::from_str(&file("deploy/monitoring/alerts_test.yaml")).unwrap();
    let (mut fire, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let reported = reported();
    for test in tests.tests {
        for SeriesSelector { name, matchers, .. } in
            test.input_series.iter().flat_map(|series| selectors(&series.series))
        {
            are_reported(&test.name, family(&reported, name), &matchers);
        }
        for alert in test.asked {
            let set = if alert.exp_alerts.is_empty() { &mut silent } else { &mut fire };
            set.insert(alert.alertname);
        }
    }
    let all: BTreeSet<String> = alerts().into_iter().map(|rule| rule.alert).collect();
    assert_eq!((&fire, &silent), (&all, &all));
}

#[test]
fn promtool_reads_the_expression_of_each_panel() {
    let rule =
        |(at, (_, expr)): (usize, (String, String))| json!({"record": format!("panel:{at}"), "expr": expr});
    let rules: Vec<_> = panels(&dashboard()).into_iter().enumerate().map(rule).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.json");
    std::fs::write(&path, json!({"groups": [{"name": "panels", "rules": rules}]}).to_string()).unwrap();
    let (is_content, said) = promtool::run(&["check", "rules", "--lint=none"], Some(&path));
    assert!(is_content, "{said}");
}

#[test]
fn each_alert_is_of_what_the_programs_tell_and_says_what_to_do() {
    let page = file("docs/reference/alerts.md");
    let mut names = BTreeSet::new();
    for rule in alerts() {
        let name = &rule.alert;
        assert!(names.insert(name.clone()), "{name} is there twice");
        is_reported(name, &rule.expr);
        assert!(["critical", "warning"].contains(&rule.labels.severity.as_str()), "{name}");
        assert!(rule.r#for.ends_with(['m', 'h']), "{name} fires at once");
        assert!(
            rule.annotations.summary.ends_with('.') && rule.annotations.description.contains('`'),
            "{name}"
        );
        let anchor = format!("docs/reference/alerts.md#{}", name.to_lowercase());
        assert_eq!(rule.annotations.runbook_url, anchor);
        assert!(page.contains(&format!("\n### {name}\n")), "docs/reference/alerts.md has no section {name}");
    }
    let described = page.lines().filter_map(|line| line.strip_prefix("### Weaver"));
    let described: BTreeSet<String> = described.map(|name| format!("Weaver{name}")).collect();
    assert_eq!(described, names, "docs/reference/alerts.md describes what is no alert");
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
    let reported = reported();
    let mut shown = BTreeSet::new();
    for (title, expr) in panels(&dashboard) {
        is_reported(&title, &expr);
        shown.extend(selectors(&expr).iter().map(|selector| family(&reported, selector.name).name.clone()));
    }
    let all: BTreeSet<String> = reported.iter().map(|family| family.name.clone()).collect();
    assert_eq!(shown, all);
}

/// The kinds of ours that a text names.
fn kinds(text: &str) -> BTreeSet<&'static str> {
    ["ConfigMapSync", "ResourceSync", "ServiceToken"].into_iter().filter(|kind| text.contains(kind)).collect()
}

/// What counts several kinds is not said to be of one.
fn names_all_kinds_or_none(place: &str, text: &str, expr: &str) {
    let (reported, named) = (reported(), kinds(text));
    for selector in selectors(expr) {
        let counted = kinds(&family(&reported, selector.name).help);
        let shared = named.intersection(&counted).count();
        assert!(
            [0, counted.len()].contains(&shared),
            "{place}: {} counts {counted:?}: {text}",
            selector.name
        );
    }
}

/// Labels that the series of an expression have.
fn labels_of(expr: &str) -> BTreeSet<String> {
    if let Some((_, by)) = expr.split_once("by (") {
        return by.split(')').next().unwrap().split(',').map(|label| label.trim().to_owned()).collect();
    }
    let is_one = ["sum(", "max("].iter().any(|function| expr.contains(function));
    let reported = reported();
    let own =
        selectors(expr).into_iter().flat_map(|one| family(&reported, one.name).labels.clone().into_keys());
    let all = own.chain(SCRAPERS.map(str::to_owned));
    if is_one { BTreeSet::new() } else { all.collect() }
}

#[test]
fn what_panels_and_alerts_say_is_what_their_expressions_count() {
    for rule in alerts() {
        let text = format!("{} {}", rule.annotations.summary, rule.annotations.description);
        names_all_kinds_or_none(&rule.alert, &text, &rule.expr);
    }
    for panel in dashboard()["panels"].as_array().unwrap() {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let title = text(&panel["title"]);
        let mut legends = BTreeSet::new();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let (expr, legend) = (text(&target["expr"]), text(&target["legendFormat"]));
            names_all_kinds_or_none(&title, &format!("{title} {}", text(&panel["description"])), &expr);
            names_all_kinds_or_none(&title, &legend, &expr);
            for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
                assert!(labels_of(&expr).contains(label), "{title}: {expr} has no label {label}");
            }
            assert!(legends.insert(legend), "{title}: two series have one name");
        }
    }
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

/// Where reasons of our kinds' conditions are said; nowhere else is a verdict made.
const SAY_REASONS: [&str; 7] = [
    "controller/outcome.rs",
    "controller/pause.rs",
    "controller/verdicts.rs",
    "service_token/status.rs",
    "sync/progress.rs",
    "sync/source_verdicts.rs",
    "sync/verdicts.rs",
];

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
                source.insert(path, code(&text).to_owned());
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
fn no_type_or_reason_of_a_condition_that_was_released_is_gone() {
    let page = file("docs/reference/conditions.md");
    let now: BTreeMap<_, _> =
        TABLES_OF_CONDITIONS.map(|(what, heading)| (what, table(&page, heading))).into();
    let released = file("deploy/crds/released/conditions.txt");
    let released = released.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let gone: Vec<_> = released
        .filter(|line| {
            let (what, name) = line.split_once(' ').unwrap();
            !now[what].contains(name)
        })
        .collect();
    assert_eq!(
        gone,
        Vec::<&str>::new(),
        "scripts wait for these: bring them back, or say it at a new version"
    );
}

/// Tables of the page by the word that the list of released ones has for their rows.
const TABLES_OF_CONDITIONS: [(&str, &str); 4] = [
    ("type", "\n| type | of | `True` means |"),
    ("v1alpha1", "\n| type | is | reasons |"),
    ("reason", "\n| reason | means |"),
    ("event", "\n| reason of event | means |"),
];

#[test]
fn the_page_of_conditions_has_each_type() {
    let page = file("docs/reference/conditions.md");
    let types = [&ORDER[..], &TOKEN_ORDER, &NODE_ORDER].concat();
    let types: BTreeSet<_> = types.into_iter().map(str::to_owned).collect();
    assert_eq!(table(&page, TABLES_OF_CONDITIONS[0].1), types);
}

/// A text of one word that begins with a capital is a reason.
fn is_reason(text: &&str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphabetic())
}

#[test]
fn the_page_of_conditions_lists_each_reason_of_a_target_and_no_other() {
    // The states, which that file names too; `Synced` is a reason as well.
    let states = ["Conflict", "Failed", "Waiting"];
    let source = source();
    let said = texts(&source["sync/status.rs"]).filter(is_reason).filter(|text| !states.contains(text));
    let reasons: BTreeSet<String> = said.map(str::to_owned).collect();
    let page = file("docs/reference/conditions.md");
    assert_eq!(table(&page, "\n| reason of target | state | means |"), reasons);
}

#[test]
fn the_page_of_conditions_lists_each_reason_and_no_other() {
    let source = source();
    let makers =
        source.iter().filter(|(_, text)| text.contains("Verdict::new(")).map(|(path, _)| path.as_str());
    assert_eq!(makers.collect::<Vec<_>>(), SAY_REASONS);
    let said = SAY_REASONS.iter().flat_map(|path| texts(&source[*path])).filter(is_reason);
    let page = file("docs/reference/conditions.md");
    let reasons: BTreeSet<String> = said.map(str::to_owned).collect();
    assert_eq!(table(&page, "\n| reason | means |"), reasons);
    let own: BTreeSet<String> = OWN_REASONS.iter().map(|reason| (*reason).to_owned()).collect();
    assert_eq!(table(&page, "\n| reason of event | means |"), own);
    // No event is reported with a reason that is in no list.
    for (path, text) in &source {
        let literal = text
            .split("event(EventType::")
            .skip(1)
            .find(|call| call.split(',').nth(1).is_some_and(|reason| reason.trim_start().starts_with('"')));
        assert_eq!(literal, None, "{path} tells an event with a reason of its own");
    }
}
