//! Who copies from where to where: each account between what it reads and where it writes.

use maud::{Markup, html};

use super::super::view::account::{AccountView, Search};
use super::syncs::mark;
use super::{Frame, Tab, trouble};

/// Accounts on the page, and namespaces of each.
const SHOWN: usize = 100;
const TARGETS: usize = 60;

pub fn accounts(
    frame: &Frame<'_>,
    accounts: &[AccountView],
    search: &Search,
    error: Option<&str>,
    is_known: bool,
) -> Markup {
    let content = html! {
        (trouble(error, "ConfigMapSyncs", is_known))
        form.filter method="get" action={ (frame.prefix) "accounts" } role="search" {
            label { "Account, source or namespace " input type="search" name="q" value=(search.q); }
            button { "Show" }
        }
        @if is_known && accounts.is_empty() {
            p.empty {
                @if search.q.is_empty() { "No ConfigMapSync uses an account yet." }
                @else { "No account is selected. " a href={ (frame.prefix) "accounts" } { "Show all" } }
            }
        }
        @for account in accounts.iter().take(SHOWN) { (one(frame, account)) }
        @if accounts.len() > SHOWN {
            p.quiet { (accounts.len() - SHOWN) " more are not shown: search for one." }
        }
        p.quiet {
            "What an account has copied, or could not. It may hold more rights than its ConfigMapSyncs use: "
            code { "kubectl auth can-i --list --as=system:serviceaccount:NAMESPACE:NAME -n TARGET" }
        }
    };
    frame.page(Tab::Accounts, "Accounts", true, &content)
}

fn one(frame: &Frame<'_>, account: &AccountView) -> Markup {
    html! {
        section.card {
            h2 { (account.namespace) "/" (account.name) }
            div.picture {
                div { h3 { "Reads" } ul { @for source in &account.sources { li { (source) } } } }
                div.arrow { span aria-hidden="true" { "→" } small { "for" br;
                    @for (at, sync) in account.syncs.iter().enumerate() {
                        @if at > 0 { ", " }
                        a href=(frame.sync_path(&account.namespace, sync)) { (sync) }
                    }
                } }
                div {
                    h3 { "Writes in " (account.targets.len()) @if account.is_truncated { " and more" } }
                    ul.namespaces {
                        @for target in account.targets.iter().take(TARGETS) { li { (mark(target)) " " code { (target.namespace) } } }
                    }
                    @if account.targets.len() > TARGETS { p.quiet { "and " (account.targets.len() - TARGETS) " more" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::view::account::accounts as made;
    use super::super::super::view::sync::tests::sync;
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn an_account_stands_between_what_it_reads_and_where_it_writes() {
        let syncs = [Arc::new(sync("a", "False", &[("foo", "Failed"), ("bar", "Synced")]))];
        let all = made(&syncs, &Search::default());
        let page = accounts(&frame(), &all, &Search::default(), None, true).into_string();
        for part in [
            "<h2>team-a/copier</h2>",
            "<li>ConfigMap team-a/a</li>",
            "<a href=\"/p/syncs/team-a/a\">a</a>",
            "Writes in 2",
            "Failed (Why)</span></span> <code>foo</code>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn where_none_is_found_or_known_it_says_so() {
        let none = |q: &str, error: Option<&str>, is_known: bool| {
            accounts(&frame(), &[], &Search { q: q.into() }, error, is_known).into_string()
        };
        assert!(none("", None, true).contains("uses an account yet"));
        assert!(none("<b>", None, true).contains("No account is selected"));
        assert!(!none("<b>", None, true).contains("<b>"));
        assert!(
            none("", Some("forbidden"), false).contains("could not be listed with your rights: forbidden")
        );
    }
}
