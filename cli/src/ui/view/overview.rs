//! What is red, since when, who is responsible and what to do: the findings of `weaver doctor`, and how many resources
//! are ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use weaver_diagnostics::finding::{Code, Finding, Severity};

use super::health::{ResourceHealth, ResourceSummary};
use super::node::NodeView;
use super::sync::{SyncKey, SyncKind, SyncView};
use super::token::TokenView;
use crate::doctor::seen::LocatedFinding;

#[derive(Clone, Debug)]
pub struct FindingView {
    pub seen: LocatedFinding,
    pub since: Since,
    pub about: Option<FindingSubject>,
}

/// What a finding is about, and has a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FindingSubject {
    Sync(SyncKey),
    /// By its namespace and name.
    Token(String, String),
    /// Some that have problems.
    Syncs,
    Tokens,
    /// The node of this name.
    Node(String),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Since {
    /// According to the resource itself.
    Changed(Timestamp),
    /// These pages have seen it since then; it may be older.
    FirstSeen(Timestamp),
}

/// When this program saw each finding first, by a key that stays the same while it lasts.
pub type FirstSeen = BTreeMap<String, Timestamp>;

/// Records the findings of a run: new ones are first seen now, and those that are gone are dropped.
pub fn remember(before: &FirstSeen, seen: &[LocatedFinding], now: Timestamp) -> FirstSeen {
    let keys = seen.iter().map(|seen| identity(&seen.finding));
    keys.map(|key| {
        let first = before.get(&key).copied().unwrap_or(now);
        (key, first)
    })
    .collect()
}

/// The message of a finding may contain a number that changes with each run.
fn identity(finding: &Finding) -> String {
    let place = finding.evidence.first().map(|evidence| evidence.place.to_string());
    format!("{} {}", finding.code.id(), place.unwrap_or_default())
}

/// What is known of the resources; `None` where they could not be listed, or not yet.
pub struct ResourceViews<'a> {
    pub syncs: Option<&'a [Arc<SyncView>]>,
    pub tokens: Option<&'a [Arc<TokenView>]>,
    pub nodes: Option<&'a [Arc<NodeView>]>,
}

#[derive(Debug, Default, Eq, PartialEq)]
pub struct OverviewCounts {
    pub all: usize,
    pub ready: usize,
    pub paused: usize,
}

#[derive(Debug)]
pub struct Overview {
    pub verdict: String,
    pub worst: Severity,
    /// What needs attention, the failures first, in the order in which they were found.
    pub open: Vec<FindingView>,
    pub fine: Vec<Finding>,
    /// `None` where they are not known.
    pub syncs: Option<OverviewCounts>,
    pub tokens: Option<OverviewCounts>,
    /// All, and those that are known bad.
    pub nodes: Option<(usize, usize)>,
}

/// The page, from the result of a run.
pub fn overview(
    seen: &[LocatedFinding],
    first_seen: &FirstSeen,
    resources: &ResourceViews<'_>,
    now: Timestamp,
) -> Overview {
    let (fine, open): (Vec<&LocatedFinding>, Vec<&LocatedFinding>) =
        seen.iter().partition(|seen| seen.finding.severity() == Severity::Ok);
    let mut open: Vec<FindingView> =
        open.into_iter().map(|seen| finding(seen, first_seen, resources, now)).collect();
    open.sort_by_key(|found| std::cmp::Reverse(found.seen.finding.severity()));
    let worst = open.first().map_or(Severity::Ok, |found| found.seen.finding.severity());
    Overview {
        verdict: verdict(&open),
        worst,
        open,
        fine: fine.into_iter().map(|seen| seen.finding.clone()).collect(),
        syncs: resources.syncs.map(|syncs| tally(syncs.iter().map(|sync| &sync.summary))),
        tokens: resources.tokens.map(|tokens| tally(tokens.iter().map(|token| &token.summary))),
        nodes: resources.nodes.map(|nodes| (nodes.len(), nodes.iter().filter(|node| node.is_bad()).count())),
    }
}

fn verdict(open: &[FindingView]) -> String {
    let is_bad = |found: &&FindingView| found.seen.is_bad();
    match (open.iter().find(is_bad), open.len()) {
        (Some(first), _) => {
            let others = open.iter().filter(is_bad).count() - 1;
            let then = if others > 0 { " Other things may follow from it." } else { "" };
            format!("The fault is {}: {}.{then}", first.seen.location.phrase(), first.seen.finding.code)
        }
        (None, 0) => "All is well.".to_owned(),
        // No program failed, but what a resource asks for is not carried out.
        (None, _) if open.iter().any(|found| found.seen.finding.code == Code::SyncNotReady) => {
            "No failure of the machines, the network or the cluster was found, but not everything is ready."
                .to_owned()
        }
        (None, 1) => "No problem was found; one finding is worth a look.".to_owned(),
        (None, count) => format!("No problem was found; {count} findings are worth a look."),
    }
}

fn finding(
    seen: &LocatedFinding,
    first_seen: &FirstSeen,
    resources: &ResourceViews<'_>,
    now: Timestamp,
) -> FindingView {
    let about = about(&seen.finding);
    let is_it = |summary: &&ResourceSummary, namespace: &str, name: &str| {
        summary.namespace == namespace && summary.name == name
    };
    let summary = about.as_ref().and_then(|about| match about {
        FindingSubject::Sync(key) => {
            let mut syncs =
                resources.syncs?.iter().filter(|sync| sync.kind == key.kind).map(|sync| &sync.summary);
            syncs.find(|summary| is_it(summary, &key.namespace, &key.name))
        }
        FindingSubject::Token(namespace, name) => resources
            .tokens?
            .iter()
            .map(|token| &token.summary)
            .find(|summary| is_it(summary, namespace, name)),
        FindingSubject::Syncs | FindingSubject::Tokens | FindingSubject::Node(_) => None,
    });
    let since = summary.and_then(|summary| summary.since).map_or_else(
        || Since::FirstSeen(first_seen.get(&identity(&seen.finding)).copied().unwrap_or(now)),
        Since::Changed,
    );
    FindingView { seen: seen.clone(), since, about }
}

/// What a finding of doctor is about: it names kind, namespace and name as where it was seen, or the kind alone.
fn about(finding: &Finding) -> Option<FindingSubject> {
    let place = &finding.evidence.first()?.place.file;
    let (kind, key) = place.split_once(' ').unwrap_or((place, ""));
    let named = key.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    match (SyncKind::of(kind), kind, named) {
        (Some(sync), _, Some((namespace, name))) => {
            Some(FindingSubject::Sync(SyncKey { kind: sync, namespace, name }))
        }
        (Some(_), _, None) => Some(FindingSubject::Syncs),
        (None, "ServiceToken", Some((namespace, name))) => Some(FindingSubject::Token(namespace, name)),
        (None, "ServiceToken", None) => Some(FindingSubject::Tokens),
        (None, "NodeReport", None) if !key.is_empty() => Some(FindingSubject::Node(key.to_owned())),
        _ => None,
    }
}

fn tally<'a>(summaries: impl Iterator<Item = &'a ResourceSummary>) -> OverviewCounts {
    summaries.fold(OverviewCounts::default(), |tally, summary| OverviewCounts {
        all: tally.all + 1,
        ready: tally.ready + usize::from(summary.health == ResourceHealth::Ready),
        paused: tally.paused + usize::from(summary.health == ResourceHealth::Paused),
    })
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Place;

    use super::super::node::tests::node;
    use super::super::sync::tests::{key, sync};
    use super::super::token::tests::token;
    use super::*;
    use crate::doctor::seen::Location;

    fn seen(location: Location, code: Code, severity: Severity, place: &str) -> LocatedFinding {
        let finding = Finding::new(code, format!("renewed {} s ago", place.len())).milder(severity);
        LocatedFinding { location, finding: finding.saw(Place::file(place), "s") }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_failure_is_whose_fault_it_is_and_what_is_fine_stands_apart() {
        let all = [
            seen(Location::Here, Code::Reached, Severity::Ok, ""),
            seen(Location::Cluster, Code::SyncNotReady, Severity::Warn, "ConfigMapSync team-a/b"),
            seen(Location::Cluster, Code::DefinitionDiffers, Severity::Fail, "x.weaver.example.com"),
            seen(Location::Node, Code::NameNotFound, Severity::Fail, "NodeReport raspi"),
        ];
        let (syncs, tokens) = ([Arc::new(sync("b", "False", &[]))], [Arc::new(token("t"))]);
        let nodes = [Arc::new(node(&serde_json::Value::Null))];
        let resources = ResourceViews { syncs: Some(&syncs), tokens: Some(&tokens), nodes: Some(&nodes) };
        let of = |seen: &[LocatedFinding]| overview(seen, &FirstSeen::new(), &resources, at(5));
        let found = of(&all);
        assert!(found.verdict.starts_with("The fault is in the cluster: C-"), "{}", found.verdict);
        assert!(found.verdict.ends_with("Other things may follow from it."));
        assert_eq!((found.fine.len(), found.open.len(), found.worst), (1, 3, Severity::Fail));
        assert_eq!(found.open[2].seen.finding.severity(), Severity::Warn);
        assert_eq!(found.open[2].about, Some(FindingSubject::Sync(key(SyncKind::ConfigMap, "b"))));
        assert_eq!(found.open[2].since, Since::Changed("2026-01-01T00:00:00Z".parse().unwrap()));
        let node = FindingSubject::Node("raspi".into());
        assert_eq!(
            (found.open[1].about.as_ref(), found.open[1].since),
            (Some(&node), Since::FirstSeen(at(5)))
        );
        assert_eq!(found.syncs, Some(OverviewCounts { all: 1, ready: 0, paused: 0 }));
        assert_eq!(found.nodes, Some((1, 0)));
        assert!(of(&all[..2]).verdict.ends_with("but not everything is ready."), "{}", of(&all[..2]).verdict);
        let worth_a_look = [seen(Location::Here, Code::NameNotFound, Severity::Warn, "f")];
        assert_eq!(of(&worth_a_look).verdict, "No problem was found; one finding is worth a look.");
        assert_eq!((of(&all[..1]).verdict.as_str(), of(&all[..1]).worst), ("All is well.", Severity::Ok));
    }

    #[test]
    fn a_finding_is_remembered_while_it_lasts_whatever_number_is_in_its_message() {
        let one = |place: &str| vec![seen(Location::Here, Code::NameNotFound, Severity::Warn, place)];
        let first = remember(&FirstSeen::new(), &one("/f"), at(1));
        let mut again = one("/f");
        again[0].finding.message = "renewed 99 s ago".into();
        let second = remember(&first, &again, at(2));
        assert_eq!(second.values().copied().collect::<Vec<_>>(), [at(1)]);
        let other = remember(&second, &one("/g"), at(3));
        assert_eq!(other.values().copied().collect::<Vec<_>>(), [at(3)]);
    }

    #[test]
    fn what_a_finding_is_about_is_found_by_where_it_was_seen() {
        let of =
            |place: &str| about(&seen(Location::Cluster, Code::SyncNotReady, Severity::Warn, place).finding);
        assert_eq!(of("ResourceSync team-a/a"), Some(FindingSubject::Sync(key(SyncKind::Resource, "a"))));
        assert_eq!(of("ServiceToken t/a"), Some(FindingSubject::Token("t".into(), "a".into())));
        assert_eq!(
            (of("ResourceSync"), of("ServiceToken")),
            (Some(FindingSubject::Syncs), Some(FindingSubject::Tokens))
        );
        assert_eq!((of("/etc/hosts"), of("Pod t/a"), of("NodeReport")), (None, None, None));
    }
}
