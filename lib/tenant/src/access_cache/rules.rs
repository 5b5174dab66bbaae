//! What an account may do in one namespace, as a review of its rules says it.

use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use kube::Client;
use kube::api::{Api, PostParams};
use weaver_client::call::{CallError, call};

use crate::review::{Access, GroupResource, missing};

/// In the order of the kinds that were asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Rules(pub(super) Vec<OfKind>);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct OfKind {
    /// Any right on it, be it on one object only.
    pub(super) touches: bool,
    /// It may list all objects.
    pub(super) lists: bool,
}

impl Rules {
    /// Asks as the account that `client` acts as.
    pub(super) async fn ask(
        client: &Client,
        kinds: &[GroupResource],
        namespace: &str,
    ) -> Result<Self, CallError> {
        let review = SelfSubjectRulesReview {
            spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.into()) },
            ..SelfSubjectRulesReview::default()
        };
        let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
        let status = call(reviews.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let mut rules = Self::of(&status, kinds);
        // An authorizer that cannot list its rules, such as a webhook, can still be asked about one.
        if status.incomplete {
            for (kind, known) in kinds.iter().zip(&mut rules.0) {
                let asked = ["create", "list"].map(|verb| on_all(kind, verb, Some(namespace)));
                let missing = missing(client, asked.to_vec()).await?;
                let [creates, lists] = asked.map(|access| !missing.contains(&access));
                *known = OfKind { touches: known.touches || creates || lists, lists: known.lists || lists };
            }
        }
        Ok(rules)
    }

    /// Of the kind at this index; nothing, where it was not asked for.
    pub(super) fn of_kind(&self, index: usize) -> OfKind {
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Is nothing refused of what was asked for?
    pub(super) fn grant_all(&self) -> bool {
        self.0.iter().all(|of_kind| of_kind.touches && of_kind.lists)
    }

    pub(super) fn of(status: &SubjectRulesReviewStatus, kinds: &[GroupResource]) -> Self {
        let of_kind = |kind: &GroupResource| {
            let rules = status.resource_rules.iter().filter(|rule| is_about(rule, kind));
            rules.fold(OfKind::default(), |known, rule| {
                let unnamed = rule.resource_names.as_ref().is_none_or(Vec::is_empty);
                let lists = unnamed && rule.verbs.iter().any(|verb| verb == "list" || verb == "*");
                OfKind { touches: known.touches || !rule.verbs.is_empty(), lists: known.lists || lists }
            })
        };
        Self(kinds.iter().map(of_kind).collect())
    }
}

/// The verb on all objects of the kind.
pub(super) fn on_all(kind: &GroupResource, verb: &'static str, namespace: Option<&str>) -> Access {
    Access { verb: verb.into(), resource: kind.clone(), namespace: namespace.map(str::to_owned), name: None }
}

fn is_about(rule: &ResourceRule, kind: &GroupResource) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|item| item == wanted || item == "*")
    };
    has(&rule.api_groups, &kind.group) && has(&rule.resources, &kind.resource)
}
