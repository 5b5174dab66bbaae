//! Which rights the work needs, and the Role that would grant those that the tenant lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::Resource as _;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::kind::ObjectKind;
use weaver_api::validate::ValidSync;
use weaver_diagnostics::yaml_text;
use weaver_tenant::Account;

/// What a target needs: upstream's own role plus `watch`.
const TARGET_VERBS: [&str; 6] = ["create", "delete", "get", "list", "update", "watch"];
/// What a source needs; `list` and `watch` may be limited to its name, where it is named.
const SOURCE_VERBS: [&str; 3] = ["get", "list", "watch"];

/// What writing a Secret of tokens needs on it, besides `create`.
const WRITER_VERBS: [&str; 4] = ["get", "list", "update", "watch"];

/// How many namespaces are asked about in one reconciliation. Each costs six questions, and a status has its limit.
pub const EXPLAINED: usize = 50;

/// What is said where a namespace may not exist.
const NO_NAMESPACE: &str = "if the namespace does not exist, the refusal is the same: create it, or \
    remove it from the spec\n";

/// For how many of them a Role is printed.
const PRINTED: usize = 5;

/// One right on objects of a kind.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Right {
    pub kind: ObjectKind,
    pub namespace: String,
    /// Limited to one object, or all.
    pub object: Option<String>,
    /// To read sources, and not to write copies.
    pub on_sources: bool,
    pub verb: &'static str,
}

/// As a review asks for it.
impl From<&Right> for ResourceAttributes {
    fn from(right: &Right) -> Self {
        Self {
            group: Some(right.kind.group().into()),
            resource: Some(right.kind.plural().into()),
            namespace: Some(right.namespace.clone()),
            name: right.object.clone(),
            verb: Some(right.verb.into()),
            ..Self::default()
        }
    }
}

impl Right {
    /// Is it needed only to see changes at once? Without it the operator polls instead, as with upstream's own role,
    /// which has no `watch`.
    pub fn is_for_watching(&self) -> bool {
        self.verb == "watch" || (self.verb == "list" && self.object.is_some())
    }

    fn scope(&self) -> RightScope<'_> {
        (self.kind, &self.namespace, self.object.as_deref(), self.on_sources)
    }
}

/// The rights that the source `name` needs, or all that are selected.
pub fn for_source(kind: ObjectKind, namespace: &str, name: Option<&str>) -> Vec<Right> {
    let right = |verb| {
        let (namespace, object) = (namespace.to_owned(), name.map(str::to_owned));
        Right { kind, namespace, object, on_sources: true, verb }
    };
    SOURCE_VERBS.map(right).to_vec()
}

/// The rights that the sources of `spec` need, each that it names or all of the kind.
pub fn for_sources(spec: &ValidSync) -> Vec<Right> {
    let of = |name: Option<&String>| {
        for_source(spec.source_kind, &spec.source_namespace, name.map(String::as_str))
    };
    match spec.source_names() {
        [] => of(None),
        names => names.iter().flat_map(|name| of(Some(name))).collect(),
    }
}

pub fn for_target(kind: ObjectKind, namespace: &str) -> Vec<Right> {
    let right = |verb| Right { kind, namespace: namespace.into(), object: None, on_sources: false, verb };
    TARGET_VERBS.map(right).to_vec()
}

/// The rights that writing the Secret `name` needs. The API server knows no name at a create, so that one is for all.
pub fn for_writer(namespace: &str, name: &str) -> Vec<Right> {
    let named = WRITER_VERBS.map(|verb| (Some(name.to_owned()), verb));
    let rights = named.into_iter().chain([(None, "create")]);
    rights
        .map(|(object, verb)| Right {
            kind: ObjectKind::SECRET,
            namespace: namespace.into(),
            object,
            on_sources: false,
            verb,
        })
        .collect()
}

/// Says what is missing, and prints the Role and RoleBinding that, applied, grant it. If all rights in a namespace are
/// missing, the namespace may not exist; the API server does not tell the account which, so the message covers both,
/// except where all `exist` as far as the reader knows.
pub fn explain(account: &Account, missing: &BTreeSet<Right>, exist: bool) -> String {
    let (mut text, scopes) = sentences(account, missing);
    let may_not_exist = |scope: &RightScope<'_>| {
        let (_, namespace, _, on_sources) = *scope;
        let needed = if on_sources { SOURCE_VERBS.len() } else { TARGET_VERBS.len() };
        let lacks = |right: &&Right| right.scope() == *scope;
        namespace != account.namespace && missing.iter().filter(lacks).count() == needed
    };
    if !exist && scopes.iter().any(may_not_exist) {
        text.push_str(NO_NAMESPACE);
    }
    let printed = scopes.iter().take(PRINTED);
    let roles: Vec<String> = printed.map(|scope| yaml(&role_of(account, scope))).collect();
    let _ = write!(text, "grant it with:\n{}", roles.join("---\n"));
    if scopes.len() > PRINTED {
        let _ = writeln!(
            text,
            "# … and a Role and RoleBinding for each of {} more namespaces",
            scopes.len() - PRINTED
        );
    }
    text
}

/// Each Role that, bound, grants a part of what is missing, with its binding.
pub fn roles(account: &Account, missing: &BTreeSet<Right>) -> Vec<(Role, RoleBinding)> {
    let scopes: BTreeSet<RightScope<'_>> = missing.iter().map(Right::scope).collect();
    scopes.iter().map(|scope| role_of(account, scope)).collect()
}

/// The same for what the writer of the Secret `name` lacks.
pub fn explain_writer(account: &Account, name: &str, missing: &BTreeSet<Right>) -> String {
    let (mut text, _) = sentences(account, missing);
    let _ = write!(text, "grant it with:\n{}", yaml(&writer_role(account, name)));
    text
}

/// The Role, with its binding, that lets `account` write the Secret `name` of tokens.
pub fn writer_role(account: &Account, name: &str) -> (Role, RoleBinding) {
    let rules = vec![rule("secrets", Some(name), &WRITER_VERBS), rule("secrets", None, &["create"])];
    role(account, &account.namespace, &format!("tokens:{name}"), rules)
}

/// A kind in a namespace, one object of it or all, and whether they are sources.
type RightScope<'a> = (ObjectKind, &'a str, Option<&'a str>, bool);

fn sentences<'a>(account: &Account, missing: &'a BTreeSet<Right>) -> (String, Vec<RightScope<'a>>) {
    let mut verbs_of: BTreeMap<RightScope<'a>, Vec<&str>> = BTreeMap::new();
    for right in missing {
        verbs_of.entry(right.scope()).or_default().push(right.verb);
    }
    // Namespaces that miss the same share a sentence.
    let mut sentences: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for ((kind, namespace, object, _), verbs) in &verbs_of {
        let what = object.map_or_else(|| kind.several(), |name| format!("{kind} {name}"));
        sentences.entry((what, verbs.join(", "))).or_default().push(namespace);
    }
    let mut text = String::new();
    for ((what, verbs), namespaces) in sentences {
        let (plural, namespaces) = (if namespaces.len() > 1 { "s" } else { "" }, namespaces.join(", "));
        let _ = writeln!(text, "{account} may not {verbs} {what} in namespace{plural} {namespaces}");
    }
    (text, verbs_of.into_keys().collect())
}

/// The whole Role, not only what is missing of it: applied, it replaces the one that was printed before. Its
/// name has the account and the purpose, since two tenants, or two sources, may meet in one namespace; `:` is
/// allowed in names of Roles and in no part of this one.
fn role_of(
    account: &Account,
    &(kind, namespace, object, on_sources): &RightScope<'_>,
) -> (Role, RoleBinding) {
    let resources = kind.plural();
    // As `kubectl` names it: two groups may have a kind of one plural.
    let dot = if kind.group().is_empty() { "" } else { "." };
    let what = format!("{resources}{dot}{}", kind.group());
    let suffix = match (on_sources, object) {
        (false, _) => format!("target:{what}"),
        (true, None) => format!("source:{what}"),
        (true, Some(name)) => format!("source:{what}:{name}"),
    };
    let verbs: &[&str] = if on_sources { &SOURCE_VERBS } else { &TARGET_VERBS };
    role(account, namespace, &suffix, vec![rule_in(kind.group(), resources, object, verbs)])
}

pub(crate) fn rule(resource: &str, object: Option<&str>, verbs: &[&str]) -> PolicyRule {
    rule_in("", resource, object, verbs)
}

fn rule_in(group: &str, resource: &str, object: Option<&str>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: object.map(|name| vec![name.to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    }
}

pub(crate) fn role(
    account: &Account,
    namespace: &str,
    suffix: &str,
    rules: Vec<PolicyRule>,
) -> (Role, RoleBinding) {
    let name = format!("weaver:{}:{}:{suffix}", account.namespace, account.name);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let binding = RoleBinding {
        metadata: metadata.clone(),
        role_ref: RoleRef { api_group: String::from(Role::GROUP).into(), kind: Role::KIND.to_owned(), name },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.name.clone(),
            namespace: Some(account.namespace.clone()),
            ..Subject::default()
        }]),
    };
    (Role { metadata, rules: Some(rules) }, binding)
}

pub fn yaml((role, binding): &(Role, RoleBinding)) -> String {
    format!("{}---\n{}", yaml_text::write(role), yaml_text::write(binding))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MAP: ObjectKind = ObjectKind::CONFIG_MAP;

    fn account() -> Account {
        Account { namespace: "team-a".into(), name: "sync".into() }
    }

    /// The objects that it prints.
    fn printed(text: &str) -> Vec<Value> {
        let (_, objects) = text.split_once("grant it with:\n").unwrap();
        serde_saphyr::from_multiple(objects).unwrap()
    }

    #[test]
    fn every_needed_verb_is_asked_for() {
        let verbs: Vec<_> = for_target(MAP, "foo").into_iter().map(|right| right.verb).collect();
        assert_eq!(verbs, ["create", "delete", "get", "list", "update", "watch"]);
        assert!(
            for_source(MAP, "team-a", Some("settings"))
                .iter()
                .all(|right| right.object.as_deref() == Some("settings"))
        );
    }

    #[test]
    fn selected_sources_need_a_role_of_their_own_for_all_objects() {
        let missing: BTreeSet<Right> =
            for_source(MAP, "src", None).into_iter().chain(for_target(MAP, "foo")).collect();
        // Without `list` nothing is known of them; without `watch` there is a look from time to time.
        let for_watching: Vec<_> = missing.iter().filter(|right| right.is_for_watching()).collect();
        assert!(for_watching.iter().all(|right| right.verb == "watch"), "{for_watching:?}");
        let roles = roles(&account(), &missing);
        let of: Vec<_> = roles
            .iter()
            .map(|(role, _)| {
                let rule = &role.rules.as_ref().unwrap()[0];
                (role.metadata.name.as_deref().unwrap(), rule.resource_names.is_none(), rule.verbs.len())
            })
            .collect();
        assert_eq!(
            of,
            [
                ("weaver:team-a:sync:target:configmaps", true, 6),
                ("weaver:team-a:sync:source:configmaps", true, 3)
            ]
        );
        let text = explain(&account(), &missing, true);
        assert!(text.contains("may not get, list, watch ConfigMaps in namespace src"), "{text}");
    }

    #[test]
    fn account_verbs_kind_and_namespace_are_named_in_a_stable_order() {
        let writes =
            |namespace: &str| for_target(MAP, namespace).into_iter().filter(|right| right.verb.len() == 6);
        let mut missing: BTreeSet<Right> = writes("foo").chain(writes("bar")).collect();
        missing.extend(for_source(MAP, "team-a", Some("settings")));
        missing.extend(for_source(ObjectKind::SECRET, "team-a", Some("settings")));
        let text = explain(&account(), &missing, false);
        let lines: Vec<_> = text.lines().take(4).collect();
        assert_eq!(
            lines,
            [
                "ServiceAccount team-a/sync may not get, list, watch ConfigMap settings in namespace team-a",
                "ServiceAccount team-a/sync may not create, delete, update ConfigMaps in namespaces bar, foo",
                "ServiceAccount team-a/sync may not get, list, watch Secret settings in namespace team-a",
                "grant it with:",
            ]
        );
    }

    #[test]
    fn the_printed_role_is_whole_and_its_name_is_no_one_elses() {
        let one = |kind| for_target(kind, "123").into_iter().take(1).collect::<BTreeSet<Right>>();
        let text = explain(&account(), &one(MAP), false);
        let role = &printed(&text)[0];
        assert_eq!(role["rules"][0]["verbs"], json!(["create", "delete", "get", "list", "update", "watch"]));
        assert_eq!(role["metadata"]["namespace"], "123", "a namespace may be called like a number: {text}");
        let other = Account { namespace: "team".into(), name: "a-sync".into() };
        let name = |text: &str| printed(text)[0]["metadata"]["name"].clone();
        assert_ne!(name(&text), name(&explain(&other, &one(MAP), false)));
        assert_ne!(name(&text), name(&explain(&account(), &one(ObjectKind::SECRET), false)));
    }

    #[test]
    fn without_watch_there_is_a_look_from_time_to_time() {
        let of = |rights: Vec<Right>| -> Vec<&str> {
            rights.into_iter().filter(Right::is_for_watching).map(|right| right.verb).collect()
        };
        assert_eq!(of(for_target(MAP, "foo")), ["watch"]);
        assert_eq!(of(for_source(MAP, "team-a", Some("settings"))), ["list", "watch"]);
    }

    #[test]
    fn a_writer_is_granted_its_one_secret_and_the_making_of_any() {
        let needed: BTreeSet<Right> = for_writer("team-a", "tokens").into_iter().collect();
        let text = explain_writer(&account(), "tokens", &needed);
        let (said, _) = text.split_once("grant it with:\n").unwrap();
        assert_eq!(
            said,
            "ServiceAccount team-a/sync may not get, list, update, watch Secret tokens in namespace team-a\n\
             ServiceAccount team-a/sync may not create Secrets in namespace team-a\n"
        );
        let objects = printed(&text);
        let rule = |names: Option<&str>, verbs: &[&str]| {
            let mut of_secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
            if let Some(name) = names {
                of_secrets["resourceNames"] = json!([name]);
            }
            of_secrets
        };
        let expected = [rule(Some("tokens"), &["get", "list", "update", "watch"]), rule(None, &["create"])];
        assert_eq!(objects[0]["rules"], json!(expected));
        assert_eq!(objects[1]["roleRef"]["name"], objects[0]["metadata"]["name"]);
    }

    #[test]
    fn where_every_right_is_missing_the_namespace_may_be_and_both_are_reported_alike() {
        let all: BTreeSet<Right> = for_target(MAP, "foo").into_iter().collect();
        let some: BTreeSet<Right> = all.iter().skip(1).cloned().collect();
        let of_source = |namespace| for_source(MAP, namespace, Some("settings")).into_iter().collect();
        for (missing, exist, expected) in [
            (&all, false, true),
            (&all, true, false),
            (&some, false, false),
            (&of_source("foo"), false, true),
            (&of_source("team-a"), false, false),
        ] {
            let text = explain(&account(), missing, exist);
            assert_eq!(text.contains(&format!("{NO_NAMESPACE}grant it with:\n")), expected, "{text}");
        }
    }

    #[test]
    fn many_namespaces_leave_room_for_the_role() {
        let long = |n: usize| format!("{n:063}");
        let missing: BTreeSet<Right> = (0..EXPLAINED).flat_map(|n| for_target(MAP, &long(n))).collect();
        let text = explain(&account(), &missing, false);
        assert!(text.len() < 16_384, "{} bytes", text.len());
        assert!(text.ends_with("# … and a Role and RoleBinding for each of 45 more namespaces\n"), "{text}");
        assert_eq!(text.matches("kind: RoleBinding").count(), 5);
    }
}
