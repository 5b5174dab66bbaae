//! Which account copies from where to where: accounts and namespaces as a table, and one account between what it reads
//! and where it writes.

use maud::{Markup, html};
use weaver_api::kind::ObjectKind;
use weaver_copies::rights::{Right, for_source, for_target};
use weaver_diagnostics::shell::quoted;

use super::super::view::account::{AccountCell, AccountMatrix, AccountQuery, AccountRow, AccountView};
use super::super::view::sync::Unnamed;
use super::syncs::{mark, parts, unnamed};
use super::{Frame, Tab, badge, code_block, counted, encoded, health_class};
use crate::connection;

/// For one account: sources, syncs, and target namespaces.
const SHOWN: usize = 100;
const TARGETS: usize = 500;

pub fn accounts(
    frame: &Frame<'_>,
    matrix: &AccountMatrix<'_>,
    search: &AccountQuery,
    unknown: &Markup,
    is_known: bool,
) -> Markup {
    let content = html! {
        (unknown)
        form.filter method="get" action={ (frame.prefix) "accounts" } role="search" {
            label { "Account, source or namespace " input type="search" name="q" value=(search.q); }
            button { "Show" }
        }
        @if is_known && matrix.rows.is_empty() {
            @if search.q.is_empty() {
                p.empty { "No sync uses an account yet. Create one, with the rights that its account needs:" }
                (code_block(&format!("weaver sync create settings -n team-a --account team-a-sync --source settings --to foo,bar --grant{}", connection::flags())))
            } @else {
                p.empty { "No account is selected. " a href={ (frame.prefix) "accounts" } { "Show all" } }
            }
        }
        @if !matrix.rows.is_empty() {
            (table(frame, matrix, search))
            (legend())
        }
    };
    frame.page(Tab::Accounts, "Accounts", true, &content)
}

fn table(frame: &Frame<'_>, matrix: &AccountMatrix<'_>, search: &AccountQuery) -> Markup {
    let of = |search: AccountQuery| {
        let AccountQuery { q, row, column } = search;
        format!("{}accounts?q={}&row={row}&column={column}", frame.prefix, encoded(&q))
    };
    html! {
        (parts("Accounts", matrix.row_part, |page| of(AccountQuery { row: page, ..search.clone() })))
        (parts("Namespaces", matrix.column_part, |page| of(AccountQuery { column: page, ..search.clone() })))
        div.scroll tabindex="0" role="group" aria-label="Accounts and namespaces" {
            table.matrix {
                thead { tr {
                    th scope="col" { "Account" } th scope="col" { "Syncs" } th scope="col" { "Writes in" }
                    @for column in &matrix.columns { th scope="col" { (column) } }
                } }
                tbody { @for row in &matrix.rows { (line(frame, row)) } }
            }
        }
    }
}

fn line(frame: &Frame<'_>, row: &AccountRow<'_>) -> Markup {
    let account = &row.account;
    html! {
        tr {
            th scope="row" {
                a href=(path(frame, account.namespace, account.name)) { (account.namespace) "/" (account.name) }
            }
            td { (account.syncs.len()) }
            td { (account.targets.len()) @if account.unnamed.is_some() { "*" } }
            @for cell in &row.cells { td { (signs(cell)) } }
        }
    }
}

fn path(frame: &Frame<'_>, namespace: &str, name: &str) -> String {
    format!("{}accounts/{}/{}", frame.prefix, encoded(namespace), encoded(name))
}

fn signs(cell: &AccountCell<'_>) -> Markup {
    html! {
        @if cell.reads {
            span.mark.reads title="Reads" { span aria-hidden="true" { "R" } span.hidden { "Reads." } }
        }
        @if let Some(target) = cell.writes {
            @if cell.reads { " " }
            span.hidden { "Writes: " } (mark(target))
        }
        @if let Some(what) = cell.unnamed { " " (unnamed(what)) }
        @if let Some(health) = cell.keeps {
            @let label = format!("Writes the Secret of a ServiceToken: {}", health.label());
            " " span class={ "mark " (health_class(health)) } title=(label) {
                span aria-hidden="true" { "T" } span.hidden { (label) }
            }
        }
    }
}

fn legend() -> Markup {
    let verbs = |rights: Vec<Right>| rights.iter().map(|right| right.verb).collect::<Vec<_>>().join(", ");
    let reads = verbs(for_source(ObjectKind::CONFIG_MAP, "", None));
    let writes = verbs(for_target(ObjectKind::CONFIG_MAP, ""));
    html! {
        p.quiet {
            span.mark.reads aria-hidden="true" { "R" } " reads a source there, which takes the rights " (reads)
            ". Another symbol: writes copies there, which takes " (writes) "; it shows the worst of them. \
             An asterisk: the account writes in more namespaces than a status names, and "
            (unnamed(Unnamed::SyncedOrNone)) " or " (unnamed(Unnamed::NotKnown)) " marks where it may. "
            span.mark.reads aria-hidden="true" { "T" } " writes the Secret of a ServiceToken there."
        }
        p.quiet {
            "This is what syncs and ServiceTokens ask for and what came of it. An account may hold more rights than they use: \
             its own page asks the API server, where your rights suffice."
        }
    }
}

/// The API server's answer about an account's rights in one namespace.
pub struct Reviewed {
    pub namespace: String,
    /// Or why it is not known.
    pub rights: Result<ReviewedRights, String>,
}

pub struct ReviewedRights {
    /// Each right that a sync or a ServiceToken of the account needs there, and whether the account has it.
    pub rights: Vec<(String, bool)>,
    /// Why the rights on another kind are not known.
    pub unknown: Vec<String>,
}

pub fn account(
    frame: &Frame<'_>,
    account: &AccountView<'_>,
    reviewed: Option<&Reviewed>,
    unknown: &Markup,
) -> Markup {
    let AccountView { namespace, name, .. } = account;
    let content = html! {
        (unknown)
        p { a href={ (frame.prefix) "accounts" } { "← All accounts" } }
        (picture(account))
        section aria-labelledby="syncs" {
            h2 #syncs { "What uses it" }
            ul {
                @for sync in account.syncs.iter().take(SHOWN) {
                    li { (sync.kind.name()) " " a href=(frame.path_of(sync)) { (sync.summary.name) } }
                }
                @for token in account.tokens.iter().take(SHOWN) {
                    li {
                        "ServiceToken " a href={ (frame.prefix) "tokens" } { (token.summary.name) }
                        ", whose Secret " @if !token.secret.is_empty() { code { (token.secret) } " " } "it writes"
                    }
                }
            }
            @if account.syncs.len() > SHOWN {
                p { a href={ (frame.prefix) "syncs?q=" (encoded(&format!("{namespace}/"))) } { "All syncs of " (namespace) } }
            }
        }
        (rights(frame, account, reviewed))
    };
    frame.page(Tab::Accounts, &format!("{namespace}/{name}"), reviewed.is_none(), &content)
}

fn picture(account: &AccountView<'_>) -> Markup {
    html! {
        section.picture aria-label="Sources and targets" {
            div.box { h2 { "Reads" } ul { @for source in account.sources.iter().take(SHOWN) { li { (source) } } }
                @if account.sources.is_empty() { p.empty { "Nothing." } }
                (more(account.sources.len(), SHOWN)) }
            div.arrow { span aria-hidden="true" { "→" } small { "for " (counted(account.syncs.len(), "sync")) } }
            div.box {
                h2 { "Writes in " (account.targets.len()) @if account.unnamed.is_some() { " and more" } }
                ul.namespaces {
                    @for target in account.sorted_targets().into_iter().take(TARGETS) {
                        li { (mark(target)) " " code { (target.namespace) } }
                    }
                }
                @if account.targets.is_empty() { p.empty { "No status names a target namespace." } }
                (more(account.targets.len(), TARGETS))
            }
        }
    }
}

/// What is known of its rights in a namespace, and a link that requests a review.
fn rights(frame: &Frame<'_>, account: &AccountView<'_>, reviewed: Option<&Reviewed>) -> Markup {
    let asked = reviewed.map(|reviewed| reviewed.namespace.as_str());
    html! {
        section aria-labelledby="rights" {
            h2 #rights { "Rights" }
            @if !account.namespaces().is_empty() {
                form.filter method="get" action=(path(frame, account.namespace, account.name)) {
                    label {
                        "What its syncs and ServiceTokens need in " select name="in" {
                            @for name in account.namespaces().into_iter().take(TARGETS) {
                                option value=(name) selected[asked == Some(name)] { (name) }
                            }
                        }
                    }
                    button { "Ask the API server" }
                }
            }
            @match reviewed {
                None => {}
                Some(Reviewed { namespace, rights: Err(why) }) => {
                    p.trouble role="alert" { "What it may do in " (namespace) " is not known: " (why) }
                }
                Some(Reviewed { namespace, rights: Ok(ReviewedRights { rights, unknown }) }) => {
                    p { "In " code { (namespace) } ", now:" }
                    ul { @for (right, is_held) in rights {
                        li { (badge(if *is_held { "ok" } else { "bad" }, if *is_held { "may" } else { "may not" })) " " (right) }
                    } }
                    @for why in unknown { p.trouble { "What one of its syncs needs is not known: " (why) } }
                    @if rights.is_empty() && unknown.is_empty() { p.empty { "They need nothing there." } }
                }
            }
            p { "All that it may do in one namespace:" }
            (code_block(&can_i(account)))
        }
    }
}

fn can_i(account: &AccountView<'_>) -> String {
    let AccountView { namespace, name, .. } = account;
    let user = quoted(&format!("system:serviceaccount:{namespace}:{name}"));
    let target = account.sorted_targets().first().map_or("TARGET", |target| &target.namespace).to_owned();
    let cluster = connection::flags();
    format!("kubectl auth can-i --list --as={user} -n {}{cluster}", quoted(&target))
}

fn more(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { p.quiet { "and " (all - shown) " more" } } }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::view::account::{account as found, account_matrix};
    use super::super::super::view::sync::SyncView;
    use super::super::super::view::sync::tests::sync;
    use super::super::super::view::token::TokenView;
    use super::super::super::view::token::tests::token;
    use super::super::tests::frame;
    use super::*;

    fn page(all: &[Arc<SyncView>], q: &str) -> String {
        let search = AccountQuery { q: q.into(), ..AccountQuery::default() };
        accounts(&frame(), &account_matrix(all, &[], &search), &search, &html! {}, true).into_string()
    }

    #[test]
    fn a_cell_says_in_words_whether_an_account_reads_and_how_it_writes_there() {
        let all = [Arc::new(sync("a", "False", &[("foo", "Failed"), ("team-a", "Synced")]))];
        let page = page(&all, "");
        for part in [
            "<a href=\"/p/accounts/team-a/copier\">team-a/copier</a>",
            "<th scope=\"col\">foo</th><th scope=\"col\">team-a</th>",
            "<span class=\"hidden\">Writes: </span><span class=\"mark bad\" title=\"Failed (Why)\">",
            "<span class=\"hidden\">Reads.</span></span> <span class=\"hidden\">Writes: </span>",
            "takes the rights get, list, watch",
            "takes create, delete, get, list, update, watch",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("page 1 of"), "{page}");
    }

    #[test]
    fn an_account_stands_between_what_it_reads_and_where_it_writes() {
        let all = [Arc::new(sync("a", "False", &[("foo", "Failed"), ("bar", "Synced")]))];
        let copier = found(&all, &[], "team-a", "copier").unwrap();
        let page = account(&frame(), &copier, None, &html! {}).into_string();
        for part in [
            "<h1>team-a/copier</h1>",
            "<li>ConfigMap team-a/a</li>",
            "<a href=\"/p/syncs/team-a/a\">a</a>",
            "Writes in 2",
            "for 1 sync<",
            "Failed (Why)</span></span> <code>foo</code>",
            "--as=system:serviceaccount:team-a:copier -n foo",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn pages_of_very_many_are_bounded_and_lead_to_the_rest() {
        let names: Vec<String> = (0..128).map(|at| format!("n-{at:03}")).collect();
        let targets: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "Synced")).collect();
        let many: Vec<_> = (0..600)
            .map(|at| Arc::new(SyncView { account: format!("a-{at}"), ..sync("s", "True", &targets) }))
            .collect();
        let all = page(&many, "a-");
        assert!(all.len() < 500_000, "{}", all.len());
        assert!(
            all.contains("page 1 of 12, 600 in all") && all.contains("?q=a-&amp;row=1&amp;column=0"),
            "{all}"
        );
        // One account of a thousand ConfigMapSyncs.
        let one: Vec<_> = (0..1_000).map(|at| Arc::new(sync(&format!("s-{at}"), "True", &targets))).collect();
        let page =
            account(&frame(), &found(&one, &[], "team-a", "copier").unwrap(), None, &html! {}).into_string();
        assert!(page.len() < 100_000 && page.contains("All syncs of team-a"), "{}", page.len());
    }

    #[test]
    fn where_none_is_found_or_known_it_says_so() {
        assert!(page(&[], "").contains("weaver sync create settings"));
        let none = page(&[], "<b>");
        assert!(none.contains("No account is selected") && !none.contains("<b>"), "{none}");
        let search = AccountQuery::default();
        let none = account_matrix(&[], &[], &search);
        let page = accounts(&frame(), &none, &search, &html! { "forbidden" }, false).into_string();
        assert!(page.contains("forbidden") && !page.contains("weaver sync create"), "{page}");
    }

    #[test]
    fn the_rights_of_an_account_in_a_namespace_are_asked_for_and_shown() {
        let all = [Arc::new(sync("a", "False", &[("foo", "Failed")]))];
        let tokens = [Arc::new(TokenView { writer: "copier".into(), ..token("robot") })];
        let copier = found(&all, &tokens, "team-a", "copier").unwrap();
        let page =
            |reviewed: Option<&Reviewed>| account(&frame(), &copier, reviewed, &html! {}).into_string();
        let before = page(None);
        for part in [
            "<form class=\"filter\" method=\"get\" action=\"/p/accounts/team-a/copier\">",
            "<option value=\"foo\">foo</option><option value=\"team-a\">team-a</option>",
            "ServiceToken <a href=\"/p/tokens\">robot</a>",
        ] {
            assert!(before.contains(part), "{part} is not in {before}");
        }
        let rights = vec![("get <x>".to_owned(), true), ("create".to_owned(), false)];
        let rights = ReviewedRights { rights, unknown: vec!["no <Gadget> is served".to_owned()] };
        let asked = page(Some(&Reviewed { namespace: "foo".into(), rights: Ok(rights) }));
        assert!(asked.contains("<option value=\"foo\" selected>"), "{asked}");
        assert!(asked.contains("<span class=\"badge bad\">may not</span> create"), "{asked}");
        assert!(asked.contains("<span class=\"badge ok\">may</span> get &lt;x&gt;"), "{asked}");
        assert!(asked.contains("needs is not known: no &lt;Gadget&gt; is served"), "{asked}");
        let refused = page(Some(&Reviewed { namespace: "foo".into(), rights: Err("forbidden".into()) }));
        assert!(
            refused.contains("is not known: forbidden") && refused.contains("kubectl auth can-i"),
            "{refused}"
        );
    }
}
