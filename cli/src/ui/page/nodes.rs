//! Each node, as its agent reports it.

use std::sync::Arc;

use maud::{Markup, html};

use super::super::view::node::{NameView, NodeView, ServingView};
use super::super::view::time::exact;
use super::finding::finding;
use super::{Frame, Tab, badge, code_block, counted, encoded, trouble};
use crate::connection;

/// Nodes on the page.
const SHOWN: usize = 100;

pub fn nodes(frame: &Frame<'_>, nodes: &[Arc<NodeView>], error: Option<&str>, is_known: bool) -> Markup {
    let mut sorted: Vec<&Arc<NodeView>> = nodes.iter().collect();
    sorted.sort_by_key(|node| (!node.is_bad(), node.findings.is_empty()));
    let content = html! {
        @if error.is_some() && !is_known {
            p.trouble role="alert" {
                "NodeReports could not be listed with your rights: " (error.unwrap_or_default()) ". Tenants do not need them."
            }
        } @else { (trouble(error, "NodeReports", is_known)) }
        @if is_known && nodes.is_empty() {
            p.empty { "No node has reported. On a node with Config Weaver, see whether its agent runs:" }
            (code_block("systemctl status weaver-node-agent"))
        }
        @for node in sorted.iter().take(SHOWN) { (one(frame, node)) }
        @if sorted.len() > SHOWN {
            p.quiet { (sorted.len() - SHOWN) " more are not shown: " code { "kubectl get nodereports" (connection::flags()) } }
        }
    };
    frame.page(Tab::Nodes, "Nodes", true, &content)
}

fn one(frame: &Frame<'_>, node: &NodeView) -> Markup {
    let (class, label) = match (node.is_bad(), node.findings.is_empty()) {
        (true, _) => ("bad", "Has a failure"),
        (false, false) => ("warn", "Worth a look"),
        (false, true) => ("ok", "Nothing found"),
    };
    html! {
        section.card {
            h2 { (node.name) }
            p {
                (badge(class, label)) @if let Some(booted) = node.booted { " · booted " (frame.time(booted)) }
                " · " a href={ (frame.prefix) "nodes/" (encoded(&node.name)) } { "The boot of " (node.name) " as a time line" }
            }
            @for found in &node.findings { (finding(found, &html! {})) }
            @if !node.facts.is_empty() {
                dl { @for (title, value) in &node.facts { dt { (title) } dd { (value) } } }
            }
            (serving(frame, &node.serving))
            details { summary { "Conditions" } (frame.conditions(&node.conditions)) }
        }
    }
}

/// The names of the API server: requested, served, and the one that this page uses.
fn serving(frame: &Frame<'_>, serving: &ServingView) -> Markup {
    let used = frame.server_name();
    html! {
        @if !serving.names.is_empty() {
            div.scroll tabindex="0" role="group" aria-label="Names of the API server" {
                table {
                    thead { tr { th scope="col" { "Name of the API server" } th scope="col" { "Asked for" }
                        th scope="col" { "Served" } th scope="col" { "Used here" } } }
                    tbody { @for name in &serving.names { (name_row(name, used)) } }
                }
            }
            @if serving.left_off > 0 { p.quiet { (counted(serving.left_off, "more name")) " of its certificate." } }
        }
        @for (what, at) in &serving.expires {
            p {
                "The " (what) " of the API server " (if *at < frame.now { "expired" } else { "expires" }) " on "
                time datetime=(at.to_string()) { (exact(*at)) } "."
            }
        }
    }
}

fn name_row(name: &NameView, used: &str) -> Markup {
    let yes = |is: bool| if is { "yes" } else { "no" };
    html! {
        tr {
            th scope="row" { (name.name) }
            td { (yes(name.is_configured)) }
            td { @if name.is_served { "yes" } @else { (badge("bad", "no")) } }
            td { (yes(used.eq_ignore_ascii_case(&name.name))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::view::node::tests::node;
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn a_node_shows_what_was_found_on_it_with_our_remedy() {
        let found = node(&json!({
            "board": "<b>Pi</b>", "system": {"temperatureCelsius": 55},
            "findings": [{"code": "N-01", "severity": "fail", "message": "<i>", "remedy": "curl evil"}],
        }));
        let page = nodes(&frame(), &[Arc::new(found)], None, true).into_string();
        for part in [
            "<h2>raspi</h2>",
            "&lt;b&gt;Pi",
            "55 °C",
            "<code>N-01</code>",
            "Has a failure",
            "What helps: ",
            "href=\"/p/nodes/raspi\"",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("curl evil"), "{page}");
    }

    #[test]
    fn the_names_are_asked_for_served_and_used() {
        let serving = |expires: &str| {
            node(&json!({"serving": {"certificateExpires": expires, "names": [
                {"name": "PI.test", "configured": true, "served": true},
                {"name": "<i>", "configured": true, "served": false},
                {"name": "kubernetes", "configured": false, "served": true},
            ]}}))
        };
        let page = nodes(&frame(), &[Arc::new(serving("2999-01-01T00:00:00Z"))], None, true).into_string();
        for part in [
            "<th scope=\"row\">PI.test</th><td>yes</td><td>yes</td><td>yes</td>",
            "<th scope=\"row\">&lt;i&gt;</th><td>yes</td><td><span class=\"badge bad\">no</span></td><td>no</td>",
            "<th scope=\"row\">kubernetes</th><td>no</td><td>yes</td><td>no</td>",
            "The certificate of the API server expires on ",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        let late = nodes(&frame(), &[Arc::new(serving("1999-01-01T00:00:00Z"))], None, true).into_string();
        assert!(late.contains("of the API server expired on "), "{late}");
    }

    #[test]
    fn without_any_and_without_the_right_it_says_so() {
        let none = nodes(&frame(), &[], None, true).into_string();
        assert!(none.contains("systemctl status weaver-node-agent"), "{none}");
        let refused = nodes(&frame(), &[], Some("forbidden"), false).into_string();
        assert!(refused.contains("Tenants do not need them"), "{refused}");
    }
}
