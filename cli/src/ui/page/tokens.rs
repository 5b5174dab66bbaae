//! Each key of each ServiceToken: when it was issued, is renewed, expires.

use std::sync::Arc;

use maud::{Markup, html};

use super::super::view::token::{Freshness, GeneratedView, Life, TokenKey, TokenView};
use super::{Frame, Tab, badge, code_block, health, lines, trouble};
use crate::connection;

/// ServiceTokens on the page.
const SHOWN: usize = 200;

pub fn tokens(frame: &Frame<'_>, tokens: &[Arc<TokenView>], error: Option<&str>, is_known: bool) -> Markup {
    let mut sorted: Vec<&Arc<TokenView>> = tokens.iter().collect();
    // The worst first, else by name.
    sorted.sort_by_key(|token| token.summary.health);
    let content = html! {
        (trouble(error, "ServiceTokens", is_known))
        @if is_known && tokens.is_empty() {
            p.empty { "There is no ServiceToken yet. Create one, which keeps a Secret filled with fresh tokens:" }
            (code_block(&format!("weaver token create robot -n team-a --writer team-a-tokens --token registry=robot,audience=registry.lan{}", connection::flags())))
        }
        @for token in sorted.iter().take(SHOWN) { (one(frame, token)) }
        @if sorted.len() > SHOWN {
            p.quiet { (sorted.len() - SHOWN) " more are not shown: " code { "weaver token list -A" (connection::flags()) } }
        }
        p.quiet { "No page shows a token: it is in the Secret, for those who may read it." }
    };
    frame.page(Tab::Tokens, "Tokens", true, &content)
}

fn one(frame: &Frame<'_>, token: &TokenView) -> Markup {
    let summary = &token.summary;
    html! {
        section.card {
            h2 { (summary.namespace) "/" (summary.name) }
            p {
                (health(summary)) " " (summary.reason) " " (frame.since(summary.since))
                @if !token.secret.is_empty() { " · Secret " code { (token.secret) } }
            }
            @if summary.health != super::ResourceHealth::Ready && !summary.message.is_empty() {
                p { (summary.message) }
                details { summary { "Conditions" } (frame.conditions(&summary.conditions)) }
            }
            @if let Some(made) = &token.generated { (generated(frame, made)) }
            @if !token.keys.is_empty() {
                div.scroll tabindex="0" role="group" aria-label={ "Keys of " (summary.name) } {
                    table {
                        thead { tr { th scope="col" { "Key" } th scope="col" { "Account" } th scope="col" { "State" }
                            th scope="col" { "Issued" } th scope="col" { "Renewed by" } th scope="col" { "Expires" }
                            th scope="col" { "Life" } } }
                        tbody { @for key in &token.keys { (line(frame, key)) } }
                    }
                }
            }
        }
    }
}

/// The accounts that it makes.
fn generated(frame: &Frame<'_>, made: &GeneratedView) -> Markup {
    html! {
        h3 { "Accounts that it makes" }
        p {
            @if made.count > 0 { (made.count) " named " code { (made.name) } ": " } @else { "None are requested any longer: " }
            @match &made.seen {
                None => "not reconciled yet.",
                Some(seen) => {
                    (seen.accounts) " there, " (seen.fresh) " with a valid token"
                    @if let Some(expires) = seen.expires { "; the first expires " (frame.time(expires)) }
                    "."
                }
            }
        }
        @if let Some(seen) = made.seen.as_ref().filter(|seen| !seen.problems.is_empty()) {
            ul {
                @for (account, message) in &seen.problems { li { (badge("bad", "Problem")) " " code { (account) } ": " (lines(message)) } }
            }
            p.quiet { "A status names at most 16 accounts with a problem." }
        }
    }
}

fn line(frame: &Frame<'_>, key: &TokenKey) -> Markup {
    let freshness = key.freshness(frame.now);
    html! {
        tr {
            th scope="row" { code { (key.key) } }
            td { (key.account) }
            td {
                (badge(class(freshness), freshness.label()))
                @if !key.message.is_empty() { br; (lines(&key.message)) }
            }
            @if let Some(life) = key.life {
                td { (frame.time(life.issued)) }
                td { (frame.time(life.renewed_by)) }
                td { (frame.time(life.expires)) }
                td { (bar(frame, life)) }
            } @else {
                td colspan="4" { "not issued" }
            }
        }
    }
}

/// From when until when, with the renewal and this moment.
fn bar(frame: &Frame<'_>, life: Life) -> Markup {
    let (renewal, now) = (life.position(life.renewed_by), life.position(frame.now));
    html! {
        svg.life viewBox="0 0 1000 60" preserveAspectRatio="none" aria-hidden="true" {
            rect.whole x="0" y="20" width="1000" height="20" {}
            rect.gone x="0" y="20" width=(now) height="20" {}
            rect.renewal x=(renewal.clamp(0, 990)) y="5" width="10" height="50" {}
        }
    }
}

fn class(freshness: Freshness) -> &'static str {
    match freshness {
        Freshness::Missing | Freshness::Expired => "bad",
        Freshness::Late => "warn",
        Freshness::Fresh => "ok",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::view::token::GeneratedSeen;
    use super::super::super::view::token::tests::token;
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn each_key_has_its_times_and_none_has_a_token() {
        let page = tokens(&frame(), &[Arc::new(token("robot"))], None, true).into_string();
        for part in [
            "<h2>team-a/robot</h2>",
            "<code>registry</code>",
            "10 min ago</time>",
            "in 20 min</time>",
            "in 50 min</time>",
            "width=\"166\"",
            "<span class=\"badge bad\">Missing</span><br>may not be minted",
            "not issued",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn accounts_that_it_makes_are_shown_with_what_is_wrong() {
        let seen = GeneratedSeen {
            accounts: 2,
            fresh: 1,
            expires: Some("2026-01-01T00:30:00Z".parse().unwrap()),
            problems: vec![("robot-2".into(), "<exists>".into())],
        };
        let of = |count: i32, seen: Option<GeneratedSeen>| {
            let made = GeneratedView { name: "robot-{{n}}".into(), count, seen };
            let token = TokenView { generated: Some(made), ..token("robot") };
            tokens(&frame(), &[Arc::new(token)], None, true).into_string()
        };
        let page = of(3, Some(seen));
        for part in [
            "3 named <code>robot-{{n}}</code>: 2 there, 1 with a valid token; the first expires <time",
            "in 20 min</time>.",
            "<code>robot-2</code>: &lt;exists&gt;",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(of(3, None).contains("not reconciled yet."));
        assert!(of(0, None).contains("None are requested any longer"));
    }

    #[test]
    fn without_any_it_says_what_to_type_and_of_many_a_bounded_part_is_shown() {
        let none = tokens(&frame(), &[], None, true).into_string();
        assert!(none.contains("weaver token create robot"), "{none}");
        let many: Vec<_> = (0..SHOWN + 3).map(|number| Arc::new(token(&format!("t{number}")))).collect();
        let page = tokens(&frame(), &many, None, true).into_string();
        assert!(page.contains("3 more are not shown"), "{}", page.len());
    }
}
