//! Grants what an account lacks: the offer, the objects, and the result.

use maud::{Markup, html};

use super::super::view::sync::SyncKey;
use super::{Frame, Tab, code_block};

/// Rights of the user that are named.
const NAMED: usize = 12;

/// What can be done where rights are missing.
pub enum GrantOffer {
    Nothing,
    /// The user's own rights suffice.
    Grant,
    /// They do not: these are missing.
    NotAllowed(Vec<String>),
    /// Why it is not known.
    Unknown(String),
}

/// What a user is asked to confirm, or why there is nothing to confirm.
pub enum Proposal {
    /// This account lacks nothing.
    Nothing(String),
    Grant {
        account: String,
        /// Each object, and what it grants.
        lines: Vec<String>,
        /// All of them, as YAML for `kubectl apply`.
        manifest: String,
        token: String,
    },
    /// What the user lacks.
    NotAllowed(Vec<String>),
    Failed(String),
}

/// The result of what was confirmed.
pub enum Granted {
    /// All is there, and the operator was asked to retry.
    Retried,
    /// All is there, and the operator could not be asked to retry. Why.
    NotRetried(String),
    /// Why there is no more of it.
    InPart(String),
}

/// The link to the confirmation, or why there is none.
pub fn offer(path: &str, offer: &GrantOffer) -> Markup {
    html! {
        @match offer {
            GrantOffer::Nothing => {}
            GrantOffer::Grant => p { a.button href={ (path) "/grant" } { "Grant what is missing" } " first shows what would be made, and asks." }
            GrantOffer::NotAllowed(lacking) => { (not_allowed(lacking)) }
            GrantOffer::Unknown(why) => p.trouble { "Could not determine whether you may grant it: " (why) }
        }
    }
}

fn not_allowed(lacking: &[String]) -> Markup {
    html! {
        p { "Your own rights do not allow you to grant it; you may not:" }
        ul {
            @for right in lacking.iter().take(NAMED) { li { (right) } }
            @if lacking.len() > NAMED { li { "and " (lacking.len() - NAMED) " more" } }
        }
    }
}

/// `reported` is what the comparison found on the way.
pub fn confirmation(frame: &Frame<'_>, key: &SyncKey, proposal: &Proposal, reported: &[String]) -> Markup {
    let path = frame.sync_path(key);
    let content = html! {
        p { a href=(path) { "← " (key) } }
        @match proposal {
            Proposal::Nothing(account) => p.empty { (account) " lacks no right." },
            Proposal::NotAllowed(lacking) => { (not_allowed(lacking)) }
            Proposal::Failed(why) => p.trouble role="alert" { "Nothing can be granted here: " (why) },
            Proposal::Grant { account, lines, manifest, token } => {
                p { strong { (account) } " would be granted, with your rights:" }
                ul { @for line in lines { li { (line) } } }
                p.quiet {
                    "The author of the " (key.kind.name()) " chose its source and targets: check that this account is to read and write \
                     there. Nothing has been changed yet."
                }
                form method="post" action={ (path) "/grant" } {
                    input type="hidden" name="confirmation" value=(token);
                    p.answers { button { "Grant these rights" } a href=(path) { "Cancel" } }
                }
                h2 { "Manifest" }
                (code_block(manifest))
            }
        }
        @if !reported.is_empty() {
            section aria-labelledby="reported" { h2 #reported { "Found on the way" } ul { @for line in reported { li { (line) } } } }
        }
    };
    frame.page(Tab::Syncs, &format!("Grant rights to {key}"), false, &content)
}

/// What was made, or why not all of it.
pub fn granted(frame: &Frame<'_>, key: &SyncKey, lines: &[String], granted: &Granted) -> Markup {
    let path = frame.sync_path(key);
    let title =
        if matches!(granted, Granted::InPart(_)) { "Not everything was granted" } else { "Rights granted" };
    let content = html! {
        @match granted {
            Granted::InPart(error) => {
                p.trouble role="alert" { (error) }
                p {
                    "The rights before it were granted. "
                    a.button href={ (path) "/grant" } { "Show what is missing now" }
                }
            }
            Granted::Retried => {
                p.verdict.ok role="status" { "The operator retries " (key) " now." }
                (now(&path))
            }
            Granted::NotRetried(error) => {
                p.verdict.ok role="status" { "Everything was granted. The operator retries " (key) " by itself." }
                p { "It could not be asked to retry at once: " (error) }
                (now(&path))
            }
        }
        ul { @for line in lines { li { (line) } } }
    };
    frame.page(Tab::Syncs, title, false, &content)
}

/// The link back, to a page that follows the operator by itself where scripts run.
pub fn now(path: &str) -> Markup {
    html! {
        p { a.button href=(path) { "Show the current state" } }
        p.quiet { "The operator takes some seconds. Without JavaScript the page shows how it was when it was opened: load it again." }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::view::sync::SyncKind;
    use super::super::super::view::sync::tests::key;
    use super::super::tests::frame;
    use super::*;

    #[test]
    fn a_confirmation_shows_all_that_would_be_made_and_one_button() {
        let proposal = Proposal::Grant {
            account: "ServiceAccount team-a/<i>".into(),
            lines: vec!["Role foo/x: get secrets".into()],
            manifest: "kind: Role\nname: <b>\n".into(),
            token: "t-1".into(),
        };
        for kind in SyncKind::ALL {
            let page = confirmation(&frame(), &key(kind, "a"), &proposal, &["said".into()]).into_string();
            for part in [
                "<strong>ServiceAccount team-a/&lt;i&gt;</strong> would be granted",
                "<li>Role foo/x: get secrets</li>",
                "kind: Role\nname: &lt;b&gt;",
                &format!("The author of the {} chose", kind.name()),
                &format!("<form method=\"post\" action=\"/p/{}/team-a/a/grant\">", kind.path()),
                "<input type=\"hidden\" name=\"confirmation\" value=\"t-1\">",
                "<li>said</li>",
            ] {
                assert!(page.contains(part), "{part} is not in {page}");
            }
            assert!(page.matches("<button>").count() == 1 && !page.contains("data-events"), "{page}");
        }
    }

    #[test]
    fn without_rights_or_without_a_lack_there_is_nothing_to_click() {
        let lacking: Vec<String> = (0..=NAMED).map(|number| format!("create x-{number}")).collect();
        for (proposal, label) in [
            (Proposal::Nothing("ServiceAccount a/b".into()), "lacks no right"),
            (Proposal::NotAllowed(lacking), "and 1 more"),
            (Proposal::Failed("<forbidden>".into()), "&lt;forbidden&gt;"),
        ] {
            let page = confirmation(&frame(), &key(SyncKind::ConfigMap, "a"), &proposal, &[]).into_string();
            assert!(page.contains(label) && !page.contains("<form"), "{page}");
        }
        assert!(offer("/p", &GrantOffer::Grant).into_string().contains("href=\"/p/grant\""));
        assert_eq!(offer("/p", &GrantOffer::Nothing).into_string(), "");
        assert!(!offer("/p", &GrantOffer::NotAllowed(vec!["x".into()])).into_string().contains("href"));
    }

    #[test]
    fn what_was_made_leads_back_and_what_failed_to_the_rest() {
        let lines = ["Role foo/x".to_owned()];
        let key = key(SyncKind::Resource, "a");
        let done = granted(&frame(), &key, &lines, &Granted::Retried).into_string();
        assert!(
            done.contains("<a class=\"button\" href=\"/p/resources/team-a/a\">")
                && done.contains("load it again")
                && done.contains("Role foo/x")
        );
        let late = Granted::NotRetried("may not <patch>".into());
        let late = granted(&frame(), &key, &lines, &late).into_string();
        assert!(late.contains("Everything was granted") && late.contains("may not &lt;patch&gt;"), "{late}");
        assert!(late.contains("<h1>Rights granted</h1>") && !late.contains("Not all"), "{late}");
        let failed = Granted::InPart("no <right>".into());
        let failed = granted(&frame(), &key, &lines, &failed).into_string();
        assert!(
            failed.contains("no &lt;right&gt;") && failed.contains("/p/resources/team-a/a/grant"),
            "{failed}"
        );
    }
}
