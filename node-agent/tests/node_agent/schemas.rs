//! The agent's output for programs follows docs/schema/.

use std::fs;

use jiff::Timestamp;
use serde_json::Value;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_node_agent::{
    node_report::{CardStatus, ChildReport, Gate, Report},
    publish::page::ReportPage,
    report,
};

/// Broken rules, by where they are.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let broken = |keyword: &String, rule: &Value| match keyword.as_str() {
        "$ref" => {
            let target = root.pointer(rule.as_str().unwrap().trim_start_matches('#'));
            faults(root, target.unwrap(), value, at)
        }
        "type" => {
            let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
            let fits = types.iter().any(|kind| is(kind.as_str().unwrap(), value));
            said(fits, format!("{at}: is no {rule}"))
        }
        "enum" => said(rule.as_array().unwrap().contains(value), format!("{at}: {value} is none of {rule}")),
        "const" => said(rule == value, format!("{at}: {value} is not {rule}")),
        "minimum" => said(value.as_f64() >= rule.as_f64(), format!("{at}: below {rule}")),
        "maximum" => said(value.as_f64() <= rule.as_f64(), format!("{at}: above {rule}")),
        "required" => {
            let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            names.flat_map(|name| said(value.get(name).is_some(), format!("{at}: no {name}"))).collect()
        }
        "properties" => {
            let members = value.as_object().into_iter().flatten();
            let judged = members.flat_map(|(name, value)| match rule.get(name) {
                Some(rule) => faults(root, rule, value, &format!("{at}.{name}")),
                // Every field must be described in the schema.
                None => vec![format!("{at}.{name}: not described")],
            });
            judged.collect()
        }
        "items" => {
            let items = value.as_array().into_iter().flatten();
            items.flat_map(|item| faults(root, rule, item, &format!("{at}[]"))).collect()
        }
        "anyOf" | "oneOf" => {
            let each = rule.as_array().unwrap().iter().map(|rule| faults(root, rule, value, at));
            let each: Vec<_> = each.collect();
            said(each.iter().any(Vec::is_empty), format!("{at}: {each:?}"))
        }
        "$schema" | "$defs" | "title" | "description" | "format" | "default" => Vec::new(),
        other => panic!("this judge does not know `{other}`"),
    };
    schema.as_object().unwrap().iter().flat_map(|(keyword, rule)| broken(keyword, rule)).collect()
}

fn said(fits: bool, words: String) -> Vec<String> {
    if fits { Vec::new() } else { vec![words] }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

fn schema(name: &str) -> Value {
    let text = fs::read_to_string(format!("{}/../docs/schema/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn fits(name: &str, value: &Value) {
    let schema = schema(name);
    assert_eq!(faults(&schema, &schema, value, "$"), Vec::<String>::new());
}

fn findings() -> Vec<Finding> {
    let whole = Finding::new(Code::NameNotServed, "a name")
        .saw(Place::at("/etc/rancher/k3s/config.yaml", 3, 5), "tls-san a")
        .saw(Place::file("127.0.0.1:6443"), "its certificate")
        .remedy(Remedy { diff: Some("-a\n+b\n".into()), ..Remedy::new("mend it").command("repair") });
    let every = Code::ALL.iter().map(|code| Finding::new(*code, "message").milder(Severity::Unknown));
    std::iter::once(whole).chain(every).collect()
}

#[test]
fn what_is_said_is_what_is_published() {
    let findings = findings();
    fits("check.json", &serde_json::from_str(&report::json(&findings).unwrap()).unwrap());
    let child = || Some(ChildReport { pid: 7 });
    let whole = Report {
        gate: Gate::Open,
        findings,
        operator: child(),
        webhook: child(),
        k3s_blocked: Some(false),
        card: Some(CardStatus { current: false, reason: "full".into() }),
        ..Report::unchecked()
    };
    for report in [&whole, &Report::unchecked()] {
        fits("report.json", &serde_json::to_value(report).unwrap());
        let page =
            ReportPage { host_name: "raspi", time: Timestamp::UNIX_EPOCH, synchronised: false, report };
        fits("node-status.json", &page.json());
    }
}

#[test]
fn what_is_wrong_does_not_fit() {
    let check = |text: &str| {
        let schema = schema("check.json");
        !faults(&schema, &schema, &serde_json::from_str(text).unwrap(), "$").is_empty()
    };
    let finding = |finding: &str| check(&format!(r#"{{"exitCode": 0, "findings": [{finding}]}}"#));
    let good = r#"{"code": "N-01", "severity": "fail", "name": "n", "message": "m", "evidence": []}"#;
    assert!(!finding(good));
    assert!(check("{}") && check(r#"{"exitCode": "0", "findings": []}"#) && check(r#"{"exitCode": 0}"#));
    assert!(finding(&good.replace("N-01", "N-1")) && finding(&good.replace("fail", "bad")));
    assert!(finding(&good.replace("[]", "[{}]")) && finding(&good.replace("message", "massage")));
}
