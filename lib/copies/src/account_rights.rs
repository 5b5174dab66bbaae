//! Which rights the writer of a `ServiceToken` needs to make accounts, and the Role that would grant those
//! that it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::rbac::v1::PolicyRule;
use weaver_tenant::Account;

use super::rights::{role, rule, yaml};

/// The right to mint is on this.
const TOKENS: &str = "serviceaccounts/token";
const ACCOUNTS: &str = "serviceaccounts";

/// How many accounts are asked about.
const ASKED: usize = 5;

/// Most bytes of names in a Role that is printed; beyond, what needs them is described.
const NAMES: usize = 3_000;

/// One right on `ServiceAccount`s, or on their tokens.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct AccountRight {
    pub namespace: String,
    /// Limited to one account, or all.
    pub name: Option<String>,
    /// To mint its tokens, and not to change the account itself.
    pub on_tokens: bool,
    pub verb: &'static str,
}

/// As a review asks for it.
impl From<&AccountRight> for ResourceAttributes {
    fn from(right: &AccountRight) -> Self {
        Self {
            group: Some(String::new()),
            resource: Some(ACCOUNTS.into()),
            subresource: right.on_tokens.then(|| "token".into()),
            namespace: Some(right.namespace.clone()),
            name: right.name.clone(),
            verb: Some(right.verb.into()),
            ..Self::default()
        }
    }
}

/// The rights that making these accounts needs, asked for a few of them. The API server knows no name at a create and a
/// list.
pub fn for_accounts<'a>(namespace: &str, names: impl Iterator<Item = &'a str>) -> Vec<AccountRight> {
    let right = |name: Option<&str>, on_tokens, verb| AccountRight {
        namespace: namespace.to_owned(),
        name: name.map(str::to_owned),
        on_tokens,
        verb,
    };
    let of_one = |name| {
        [(false, "delete"), (false, "patch"), (true, "create")]
            .map(|(on_tokens, verb)| right(Some(name), on_tokens, verb))
    };
    let of_some = names.take(ASKED).flat_map(of_one);
    [right(None, false, "create"), right(None, false, "list")].into_iter().chain(of_some).collect()
}

/// Says what is missing, and prints a Role and RoleBinding that, applied, let `account` make the accounts `names` for
/// the `ServiceToken` `owner`, and no others but by `create`.
pub fn explain_accounts(
    account: &Account,
    owner: &str,
    names: &[String],
    missing: &BTreeSet<AccountRight>,
) -> String {
    let mut verbs_of: BTreeMap<(bool, Option<&str>), Vec<&str>> = BTreeMap::new();
    for right in missing {
        verbs_of.entry((right.on_tokens, right.name.as_deref())).or_default().push(right.verb);
    }
    let mut text = String::new();
    for ((on_tokens, name), verbs) in verbs_of {
        let of = name.map_or_else(|| "ServiceAccounts".to_owned(), |name| format!("ServiceAccount {name}"));
        let what = if on_tokens { format!("tokens of {of}") } else { of };
        let (verbs, namespace) = (verbs.join(", "), &account.namespace);
        let _ = writeln!(text, "{account} may not {verbs} {what} in namespace {namespace}");
    }
    let fits = names.iter().map(String::len).sum::<usize>() <= NAMES;
    if !fits {
        let _ = writeln!(
            text,
            "the accounts are too many for the Role below: add their names as resourceNames of delete and patch on \
             {ACCOUNTS}, and of create on {TOKENS}"
        );
    }
    let printed = if fits { names } else { &[] };
    let role = role(account, &account.namespace, &format!("accounts:{owner}"), rules(printed));
    let _ = write!(text, "grant it with:\n{}", yaml(&role));
    text
}

/// Without names there is no rule for what needs them: it would be one for every account of the namespace.
fn rules(names: &[String]) -> Vec<PolicyRule> {
    let limited = |resource, verbs: &[&str]| PolicyRule {
        resource_names: Some(names.to_vec()),
        ..rule(resource, None, verbs)
    };
    let mut rules = vec![rule(ACCOUNTS, None, &["create", "list"])];
    if !names.is_empty() {
        rules.extend([limited(ACCOUNTS, &["delete", "patch"]), limited(TOKENS, &["create"])]);
    }
    rules
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn account() -> Account {
        Account { namespace: "team-a".into(), name: "sync".into() }
    }

    fn names(count: usize) -> Vec<String> {
        (1..=count).map(|n| format!("bot-{n}")).collect()
    }

    #[test]
    fn each_right_is_asked_for_and_of_accounts_only_some() {
        let needed = for_accounts("team-a", names(500).iter().map(String::as_str));
        assert_eq!(needed.len(), 2 + 5 * 3);
        let minting = needed.iter().find(|right| right.on_tokens).unwrap();
        let asked = ResourceAttributes::from(minting);
        assert_eq!(
            (asked.resource.as_deref(), asked.subresource.as_deref(), asked.name.as_deref()),
            (Some("serviceaccounts"), Some("token"), Some("bot-1"))
        );
    }

    #[test]
    fn the_role_is_for_these_accounts_and_never_for_all_of_the_namespace() {
        let missing: BTreeSet<_> = for_accounts("team-a", ["bot-1"].into_iter()).into_iter().collect();
        for (count, named) in [(0, false), (3, true), (400, true), (500, false), (5_000, false)] {
            let text = explain_accounts(&account(), "bots", &names(count), &missing);
            let (said, objects) = text.split_once("grant it with:\n").unwrap();
            assert_eq!(said.contains("resourceNames"), count > 400, "{count}: {said}");
            assert!(
                said.starts_with(
                "ServiceAccount team-a/sync may not create, list ServiceAccounts in namespace team-a\n\
                 ServiceAccount team-a/sync may not delete, patch ServiceAccount bot-1 in namespace team-a\n\
                 ServiceAccount team-a/sync may not create tokens of ServiceAccount bot-1 in namespace team-a\n"
            ));
            let objects: Vec<Value> = serde_saphyr::from_multiple(objects).unwrap();
            let rules = &objects[0]["rules"];
            assert_eq!(rules[0]["resourceNames"], Value::Null);
            assert_eq!(rules.as_array().unwrap().len(), if named { 3 } else { 1 }, "{count}");
            if named {
                assert_eq!(rules[1]["verbs"], json!(["delete", "patch"]));
                assert_eq!(rules[2]["resources"], json!(["serviceaccounts/token"]));
                let of_names =
                    [&rules[1], &rules[2]].map(|rule| rule["resourceNames"].as_array().map(Vec::len));
                assert_eq!(of_names, [Some(count); 2]);
            }
            assert_eq!(objects[1]["roleRef"]["name"], objects[0]["metadata"]["name"]);
            assert!(text.len() < 16_384, "{count}: {} bytes", text.len());
        }
    }
}
