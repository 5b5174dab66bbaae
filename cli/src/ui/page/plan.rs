//! What the next reconciliation would change, copy by copy: the names of keys, never their values.

use maud::{Markup, html};
use weaver_api::kind::ObjectKind;
use weaver_copies::content::{Difference, FieldEffect};
use weaver_diagnostics::finding_text::clean;

use super::badge;
use crate::sync::planned::{MAX_DIFFERENCES, PlannedCopy, PlannedStep};

/// Copies on the page that would change, and those that stay.
const CHANGED: usize = 200;
const KEPT: usize = 200;

/// Why nothing is written now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteBlock {
    No,
    DryRun,
    Paused,
}

pub fn plan(copies: &[PlannedCopy], held: WriteBlock) -> Markup {
    let (kept, changed): (Vec<&PlannedCopy>, Vec<&PlannedCopy>) =
        copies.iter().partition(|copy| copy.step == PlannedStep::Keep);
    html! {
        section aria-labelledby="plan" {
            h2 #plan { "What the next reconciliation would change" }
            @match held {
                WriteBlock::DryRun => p { "It is a dry run: nothing of this is written until " code { "spec.dryRun" } " is removed." },
                WriteBlock::Paused => p { "It is paused: nothing of this is written until it is resumed." },
                WriteBlock::No => {}
            }
            p { (summary(&changed, kept.len())) }
            @if !changed.is_empty() { p.quiet { "Changes for which the account has no right are skipped." } }
            @for copy in changed.iter().take(CHANGED) { (one(copy)) }
            @if changed.len() > CHANGED {
                p.quiet { (changed.len() - CHANGED) " more are not shown: type " code { "weaver sync explain" } "." }
            }
            @if !kept.is_empty() {
                details {
                    summary { (kept.len()) " as they should be" }
                    ul {
                        @for copy in kept.iter().take(KEPT) { li { (copy.to_string()) } }
                        @if kept.len() > KEPT { li { "and " (kept.len() - KEPT) " more" } }
                    }
                }
            }
            @if copies.iter().any(|copy| copy.copy.kind == ObjectKind::SECRET) {
                p.quiet { "No page shows a value of a Secret, only which keys differ." }
            } @else if !changed.is_empty() {
                p.quiet { "Only the names of keys are shown, not their values." }
            }
        }
    }
}

/// `1 to create, 2 to update, 5 as they should be.`
fn summary(changed: &[&PlannedCopy], kept: usize) -> String {
    let count = |class: Class| changed.iter().filter(|copy| Class::of(&copy.step) == class).count();
    let counts = Class::ALL.map(|class| (count(class), class.label()));
    let parts = counts.into_iter().chain([(kept, "as they should be")]).filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, label)| format!("{count} {label}")).collect();
    if parts.is_empty() { "No copy was compared.".to_owned() } else { format!("{}.", parts.join(", ")) }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Class {
    Create,
    Update,
    Replace,
    Remove,
    Untouched,
    Unknown,
    Keep,
}

impl Class {
    const ALL: [Self; 6] =
        [Self::Create, Self::Update, Self::Replace, Self::Remove, Self::Untouched, Self::Unknown];

    fn of(step: &PlannedStep) -> Self {
        match step {
            PlannedStep::Keep => Self::Keep,
            PlannedStep::Create(_) => Self::Create,
            PlannedStep::Update(_) | PlannedStep::Adopt(_) => Self::Update,
            PlannedStep::Replace(_) => Self::Replace,
            PlannedStep::Delete | PlannedStep::Release => Self::Remove,
            PlannedStep::Refuse(_) => Self::Untouched,
            PlannedStep::Unknown(_) => Self::Unknown,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Create => "to create",
            Self::Update => "to update",
            Self::Replace => "to delete and create again",
            Self::Remove => "to remove",
            Self::Untouched => "not to be touched",
            Self::Unknown => "not known",
            Self::Keep => "as they should be",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Create | Self::Keep => "ok",
            Self::Update | Self::Replace | Self::Unknown => "warn",
            Self::Remove | Self::Untouched => "bad",
        }
    }
}

fn one(copy: &PlannedCopy) -> Markup {
    let (class, differences) = (Class::of(&copy.step), copy.step.differences());
    html! {
        article.card {
            h3 { (copy.copy.to_string()) ": " (clean(&copy.step.to_string())) }
            p { (badge(class.colour(), class.label())) }
            @if !differences.is_empty() {
                ul.diff aria-label={ "Changes of " (copy.copy.to_string()) } {
                    @for difference in differences.iter().take(MAX_DIFFERENCES) { (line(difference)) }
                    @if differences.len() > MAX_DIFFERENCES { li { "and more" } }
                }
            }
        }
    }
}

fn line(difference: &Difference) -> Markup {
    let (class, sign, label) = match difference.change {
        FieldEffect::Added => ("ok", "+", "added: "),
        FieldEffect::Removed => ("bad", "−", "removed: "),
        FieldEffect::Changed => ("warn", "~", "changed: "),
    };
    html! {
        li {
            span class={ "mark " (class) } { span aria-hidden="true" { (sign) } span.hidden { (label) } }
            " " code { (clean(&difference.field)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use weaver_copies::object::ObjectKey;

    use super::*;

    fn copy(namespace: &str, step: PlannedStep) -> PlannedCopy {
        let copy = ObjectKey { kind: ObjectKind::CONFIG_MAP, namespace: namespace.into(), name: "a".into() };
        PlannedCopy { copy, step }
    }

    fn difference(change: FieldEffect, field: &str) -> Difference {
        Difference { change, field: field.into() }
    }

    #[test]
    fn each_change_is_named_by_its_key_and_a_sign_that_is_read_aloud_as_a_word() {
        let changes = vec![
            difference(FieldEffect::Added, "data.a"),
            difference(FieldEffect::Removed, "data.<b>"),
            difference(FieldEffect::Changed, "metadata.labels.c"),
        ];
        let all = [
            copy("foo", PlannedStep::Update(changes)),
            copy("bar", PlannedStep::Keep),
            copy("old", PlannedStep::Delete),
            copy("shut", PlannedStep::Refuse("<why>".into())),
        ];
        let page = plan(&all, WriteBlock::No).into_string();
        for part in [
            "<p>1 to update, 1 to remove, 1 not to be touched, 1 as they should be.</p>",
            "<h3>ConfigMap foo/a: is a copy and differs</h3>",
            "<span class=\"mark ok\"><span aria-hidden=\"true\">+</span><span class=\"hidden\">added: </span></span> <code>data.a</code>",
            "<span aria-hidden=\"true\">−</span><span class=\"hidden\">removed: </span></span> <code>data.&lt;b&gt;</code>",
            "<span aria-hidden=\"true\">~</span><span class=\"hidden\">changed: </span></span> <code>metadata.labels.c</code>",
            "<li>ConfigMap bar/a: holds the copy</li>",
            "is not touched: &lt;why&gt;",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("dry run") && !page.contains("paused"), "{page}");
        assert!(plan(&all, WriteBlock::DryRun).into_string().contains("It is a dry run"));
        assert!(plan(&all, WriteBlock::Paused).into_string().contains("It is paused"));
        assert!(plan(&[], WriteBlock::No).into_string().contains("No copy was compared."));
    }

    #[test]
    fn of_very_many_a_bounded_part_is_shown() {
        let keys: Vec<Difference> =
            (0..5_000).map(|key| difference(FieldEffect::Added, &format!("data.{key}"))).collect();
        let many: Vec<PlannedCopy> =
            (0..1_000).map(|at| copy(&format!("n{at}"), PlannedStep::Create(keys.clone()))).collect();
        let page = plan(&many, WriteBlock::No).into_string();
        assert!(page.len() < 3_000_000 && page.contains("800 more are not shown"), "{}", page.len());
        assert!(page.contains("<li>and more</li>"), "{}", page.len());
    }
}
