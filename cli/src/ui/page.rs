//! The pages as HTML. Guarantees: all text of others is escaped (maud does it), there is neither a script nor
//! a style in a page, and each can be read without JavaScript.

pub mod accounts;
pub mod boot;
pub mod explain;
mod finding;
pub mod grant;
pub mod nodes;
pub mod overview;
pub mod plan;
pub mod refused;
pub mod sync;
pub mod syncs;
pub mod tokens;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::view::health::{ConditionView, ResourceHealth, ResourceSummary};
use super::view::sync::{SyncKey, SyncView};
use super::view::time::{distance, duration, exact};
use crate::connection;

/// What is around every page.
pub struct Frame<'a> {
    /// The path prefix of every address; begins and ends with `/`.
    pub prefix: &'a str,
    pub now: Timestamp,
    /// Identifies this run: no program that has the port later knows it, since no request contains it.
    pub run: &'a str,
    /// Name or address and port of the API server, as the user's kubeconfig has them.
    pub server: &'a str,
    /// The only namespace that is shown.
    pub namespace: Option<&'a str>,
}

/// The pages of the menu.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tab {
    Overview,
    Syncs,
    Accounts,
    Tokens,
    Nodes,
    Explain,
}

/// Each page of the menu, its name there, and the end of its address.
const MENU: [(Tab, &str, &str); 6] = [
    (Tab::Overview, "Overview", ""),
    (Tab::Syncs, "Syncs", "syncs"),
    (Tab::Accounts, "Accounts", "accounts"),
    (Tab::Tokens, "Tokens", "tokens"),
    (Tab::Nodes, "Nodes", "nodes"),
    (Tab::Explain, "Explain", "explain"),
];

impl Frame<'_> {
    /// A whole page. One that `is_live` is reloaded when something has changed.
    pub fn page(&self, tab: Tab, title: &str, is_live: bool, content: &Markup) -> Markup {
        let prefix = self.prefix;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · Config Weaver" }
                    link rel="icon" type="image/svg+xml" href={ (prefix) "icon.svg" };
                    link rel="stylesheet" href={ (prefix) "ui.css" };
                    script src={ (prefix) "ui.js" } defer {}
                }
                body data-run=(self.run) data-events=[is_live.then(|| format!("{prefix}events"))] {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        strong { "Config Weaver" }
                        nav aria-label="Pages" {
                            @for (other, name, path) in MENU {
                                a href={ (prefix) (path) } aria-current=[(other == tab).then_some("page")] { (name) }
                            }
                        }
                    }
                    main #main tabindex="-1" {
                        h1 { (title) }
                        (content)
                    }
                    footer {
                        p {
                            "With the rights of your kubeconfig at " code { (self.server) }
                            @if let Some(namespace) = self.namespace { ", namespace " code { (namespace) } }
                            "; nothing is written that you do not confirm. As of " time datetime=(self.now.to_string()) { (exact(self.now)) } ". "
                            span #live role="status" {}
                        }
                    }
                }
            }
        }
    }

    /// The name or address by which this page connects to the API server.
    fn server_name(&self) -> &str {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let name = match self.server.rsplit_once(':') {
            Some((name, port)) if is_port(port) => name,
            _ => self.server,
        };
        name.trim_matches(['[', ']'])
    }

    /// How long ago, with the exact time on hover.
    pub fn time(&self, then: Timestamp) -> Markup {
        html! { time datetime=(then.to_string()) title=(exact(then)) { (distance(then, self.now)) } }
    }

    /// For how long it has been so, with the exact time on hover.
    pub fn lasting(&self, since: Timestamp) -> Markup {
        html! { "for " time datetime=(since.to_string()) title=(exact(since)) { (duration(since, self.now)) } }
    }

    pub fn since(&self, then: Option<Timestamp>) -> Markup {
        html! { @if let Some(then) = then { (self.time(then)) } }
    }

    pub fn path_of(&self, sync: &SyncView) -> String {
        self.sync_path(&sync.sync_key())
    }

    pub fn sync_path(&self, SyncKey { kind, namespace, name }: &SyncKey) -> String {
        format!("{}{}/{}/{}", self.prefix, kind.path(), encoded(namespace), encoded(name))
    }

    fn conditions(&self, conditions: &[ConditionView]) -> Markup {
        html! {
            @if conditions.is_empty() {
                p.empty { "No conditions yet: the operator has not reconciled it. Check with " code { "weaver doctor" } "." }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Conditions" {
                    table {
                        thead { tr { th scope="col" { "Condition" } th scope="col" { "Status" } th scope="col" { "Reason" }
                            th scope="col" { "Since" } th scope="col" { "Message" } } }
                        tbody {
                            @for condition in conditions {
                                tr {
                                    th scope="row" { (condition.kind) }
                                    td { (condition.status) }
                                    td { (condition.reason) }
                                    td { (self.time(condition.since)) }
                                    td { (lines(&condition.message)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A part of a path, or a value of a query.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// `1 line`, `2 lines`.
fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A message: its first line, and the others, such as a Role. Some messages have other authors, so no button copies
/// them.
fn lines(message: &str) -> Markup {
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    html! {
        (first)
        @if !rest.is_empty() { pre tabindex="0" { code { (rest) } } }
    }
}

/// Text to copy; the script adds the button.
fn code_block(text: &str) -> Markup {
    html! { pre data-copy tabindex="0" { code { (text) } } }
}

fn health(summary: &ResourceSummary) -> Markup {
    badge(health_class(summary.health), summary.health.label())
}

fn health_class(health: ResourceHealth) -> &'static str {
    match health {
        ResourceHealth::Bad => "bad",
        ResourceHealth::Pending | ResourceHealth::Deleting | ResourceHealth::Paused => "warn",
        ResourceHealth::Ready => "ok",
    }
}

/// A label with a colour; the colour means nothing that the label does not say.
fn badge(class: &str, label: &str) -> Markup {
    html! { span class={ "badge " (class) } { (label) } }
}

/// What is known of a kind: its name in the plural, why a watch of it failed, and whether it was ever listed.
pub struct KindState<'a> {
    pub what: &'a str,
    pub error: Option<&'a str>,
    pub was_listed: bool,
}

/// A warning that what follows may be old, or that nothing is known.
pub fn trouble(error: Option<&str>, what: &str, is_known: bool) -> Markup {
    troubles(&[KindState { what, error, was_listed: is_known }])
}

/// The same of several kinds that a page shows.
pub fn troubles(kinds: &[KindState<'_>]) -> Markup {
    html! {
        @for KindState { what, error, was_listed } in kinds {
            @if let Some(error) = error {
                p.trouble role="alert" {
                    @if *was_listed { "The watch of " (what) " failed and is retried; what follows may be old: " }
                    @else { "The " (what) " could not be listed with your rights: " }
                    (error)
                }
            }
        }
        @if kinds.iter().any(|kind| !kind.was_listed && kind.error.is_some()) {
            p { "To see one namespace: end this program with Ctrl-C, and type" }
            (code_block(&format!("weaver ui -n NAMESPACE{}", connection::flags())))
        } @else if kinds.iter().any(|kind| !kind.was_listed) {
            p.empty { "Asking the API server…" }
        }
    }
}

#[cfg(test)]
pub(in crate::ui) mod tests {
    use super::super::view::sync::SyncKind;
    use super::super::view::sync::tests::key;
    use super::*;

    pub fn frame() -> Frame<'static> {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        Frame { prefix: "/p/", now, run: "r-1", server: "pi.test:6443", namespace: None }
    }

    #[test]
    fn text_of_others_is_escaped_wherever_it_stands() {
        let evil = "<script>alert(1)</script>\n\"'><img src=x onerror=y>";
        let condition = ConditionView {
            kind: evil.into(),
            status: evil.into(),
            reason: evil.into(),
            message: evil.into(),
            since: Timestamp::UNIX_EPOCH,
        };
        let frame = Frame { server: evil, namespace: Some(evil), ..frame() };
        let content =
            html! { (frame.conditions(&[condition])) (trouble(Some(evil), evil, true)) (badge("ok", evil)) };
        let page = frame.page(Tab::Syncs, evil, true, &content).into_string();
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        let key = SyncKey { namespace: evil.into(), ..key(SyncKind::ConfigMap, "..") };
        assert!(frame.sync_path(&key).starts_with("/p/syncs/%3Cscript%3E"));
    }

    #[test]
    fn a_page_has_neither_script_nor_style_in_it() {
        let page = frame().page(Tab::Overview, "Overview", true, &html! { p { "x" } }).into_string();
        assert!(!page.contains(" style=") && !page.contains("<style") && !page.contains(" on"), "{page}");
        assert!(page.contains("<script src=\"/p/ui.js\" defer></script>"), "{page}");
        assert!(page.contains("data-events=\"/p/events\"") && page.contains("<html lang=\"en\">"), "{page}");
        assert!(!frame().page(Tab::Explain, "x", false, &html! {}).into_string().contains("data-events"));
    }

    #[test]
    fn a_time_has_the_exact_one_on_hover() {
        let then = "2026-01-01T00:05:00Z".parse().unwrap();
        let time = frame().time(then).into_string();
        assert_eq!(
            time,
            "<time datetime=\"2026-01-01T00:05:00Z\" title=\"2026-01-01 00:05:00 UTC\">5 min ago</time>"
        );
    }

    #[test]
    fn what_is_not_known_says_why_and_what_to_do() {
        let refused = trouble(Some("forbidden"), "ConfigMapSyncs", false).into_string();
        assert!(refused.contains("weaver ui -n NAMESPACE") && refused.contains("forbidden"), "{refused}");
        let old = trouble(Some("gone"), "ConfigMapSyncs", true).into_string();
        assert!(old.contains("may be old: gone") && !old.contains("-n NAMESPACE"), "{old}");
        assert!(trouble(None, "ConfigMapSyncs", false).into_string().contains("Asking the API server"));
        assert_eq!(trouble(None, "ConfigMapSyncs", true).into_string(), "");
    }

    #[test]
    fn the_name_of_the_server_is_without_its_port() {
        for (server, name) in [
            ("pi.test:6443", "pi.test"),
            ("pi.test", "pi.test"),
            ("[::1]:6443", "::1"),
            ("[::1]", "::1"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(Frame { server, ..frame() }.server_name(), name, "{server}");
        }
    }
}
