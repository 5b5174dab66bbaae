use http::Method;
use k8s_openapi::api::admissionregistration::v1::MatchResources;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use weaver_api::convert::ANNOTATION;
use weaver_api::ownership::{FINALIZER, PAUSED_ANNOTATION, UPSTREAM_FINALIZER, UPSTREAM_SOURCE_ANNOTATION};
use weaver_api::schema::{NEVER_COPIED, RESERVED_KEYS, RESERVED_PREFIXES};
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};

use super::*;
use crate::fake_api::{FakeApi, RequestFate};
use crate::guard::PolicyState;
use crate::{InstallOutcome, Installed};

const POLICY: &str = "validatingadmissionpolicies/weaver-accounts";
const BINDING: &str = "validatingadmissionpolicybindings/weaver-accounts";

async fn install(client: &Client) -> Result<Vec<Installed>, InstallError> {
    built_in()?.install(client).await
}

fn outcomes(installed: &[Installed]) -> Vec<String> {
    installed.iter().map(ToString::to_string).collect()
}

/// What is said of a cluster that has what is built in, but for this change.
fn judged(change: impl FnOnce(&mut Guard)) -> PolicyState {
    let built_in = built_in().unwrap();
    let mut found = built_in.clone();
    change(&mut found);
    built_in.policy_state(Some(&found.policy), Some(&found.binding))
}

#[test]
fn each_account_that_can_be_named_is_asked_about() {
    let tokens =
        weaver_api::crds::all().into_iter().find(|crd| crd.spec.names.kind == "ServiceToken").unwrap();
    let schema = json!(tokens.spec.versions[0].schema);
    let most = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["tokens"]["maxItems"];
    let accounts = 1 + usize::try_from(most.as_u64().unwrap()).unwrap();
    let validations = built_in().unwrap().policy.spec.unwrap().validations.unwrap();
    let (guard, each) = validations.split_last().unwrap();
    assert_eq!(guard.expression, format!("size(variables.accounts) <= {accounts}"));
    assert_eq!(each.len(), accounts);
    for (position, validation) in each.iter().enumerate() {
        let asked = format!(
            "size(variables.accounts) <= {position} || \
             variables.question.name(variables.accounts[{position}]).check('impersonate').allowed()"
        );
        assert_eq!(validation.expression, asked);
        assert_eq!(validation.message_expression, Some(format!("variables.refusals[{position}]")));
        assert_eq!(validation.reason.as_deref(), Some("Forbidden"));
    }
}

/// The one condition of the policy under which a request is judged.
fn condition() -> String {
    let conditions = built_in().unwrap().policy.spec.unwrap().match_conditions.unwrap();
    let [condition] = conditions.as_slice() else { panic!("{conditions:?}") };
    condition.expression.clone()
}

fn quoted(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_keys_that_are_not_judged_are_those_that_are_never_copied() {
    let prefixes = [&RESERVED_PREFIXES[..], &NEVER_COPIED].concat();
    // The policy compares each with the part of a key that ends with its first slash.
    for prefix in &prefixes {
        assert_eq!(prefix.find('/'), Some(prefix.len() - 1), "{prefix}");
    }
    let condition = condition();
    for expected in [
        format!("!(key in [{}])", quoted(&RESERVED_KEYS)),
        format!("!(key.substring(0, key.indexOf('/') + 1) in [ {}])", quoted(&prefixes)),
    ] {
        assert!(condition.contains(&expected), "{expected} is not in: {condition}");
    }
}

#[test]
fn the_annotations_and_finalizers_that_the_operator_obeys_are_judged() {
    let condition = condition();
    for annotation in [ANNOTATION, PAUSED_ANNOTATION, UPSTREAM_SOURCE_ANNOTATION] {
        let compared =
            ["object", "oldObject"].map(|it| format!("{it}.metadata.?annotations[?'{annotation}']"));
        let expected = compared.join(" != ");
        assert!(condition.contains(&expected), "{expected} is not in: {condition}");
    }
    let operator = format!("'system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR_ACCOUNT}'");
    for expected in [
        format!("[{}].exists(finalizer, ", quoted(&[FINALIZER, UPSTREAM_FINALIZER])),
        format!("? finalizer == '{FINALIZER}' : finalizer == '{UPSTREAM_FINALIZER}' || "),
        format!("'{UPSTREAM_FINALIZER}' in object.metadata"),
        format!("'{UPSTREAM_SOURCE_ANNOTATION}' in object.metadata"),
        format!("'{FINALIZER}' in object.metadata"),
    ] {
        assert!(condition.contains(&expected), "{expected} is not in: {condition}");
    }
    // Of both the finalizers and the pinned source.
    assert_eq!(condition.matches(&format!("!(request.userInfo.username == {operator} && ")).count(), 2);
}

#[test]
fn the_policy_refuses_what_it_cannot_judge_at_every_version() {
    let Guard { policy, binding } = built_in().unwrap();
    assert_eq!((policy.name_any(), binding.name_any()), (NAME.into(), NAME.into()));
    let spec = json!(policy.spec);
    assert_eq!(spec["failurePolicy"], "Fail");
    assert_eq!(spec["matchConstraints"]["matchPolicy"], "Equivalent");
    let rules = spec["matchConstraints"]["resourceRules"].as_array().unwrap();
    let [rule] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!(rule["apiGroups"], json!([weaver_api::GROUP]));
    assert_eq!(rule["apiVersions"], json!([weaver_api::crds::STORED]));
}

#[test]
fn what_a_cluster_has_is_judged() {
    assert_eq!(judged(|_| ()), PolicyState::InForce);
    let off = |words: &str| PolicyState::Off(words.into());
    for (actions, expected) in [
        (&["Deny", "Audit"][..], PolicyState::InForce),
        (&["Audit"], off("the validationActions of its binding are [Audit], so no request is refused")),
        (
            &["Warn", "Audit"],
            off("the validationActions of its binding are [Warn, Audit], so no request is refused"),
        ),
    ] {
        let actions = actions.iter().map(|action| (*action).to_owned()).collect();
        assert_eq!(judged(|found| found.binding.spec.validation_actions = actions), expected);
    }
    let other = judged(|found| found.binding.spec.policy_name = "other".into());
    assert_eq!(other, off("its binding refers to another policy: other"));
    let narrowed = judged(|found| found.binding.spec.match_resources = Some(MatchResources::default()));
    assert_eq!(narrowed, off("its binding has matchResources, so it may not apply everywhere"));
    let tampered = judged(|found| found.policy.spec.as_mut().unwrap().failure_policy = Some("Ignore".into()));
    assert_eq!(tampered, PolicyState::OtherRules);

    let built_in = built_in().unwrap();
    assert_eq!(
        built_in.policy_state(None, Some(&built_in.binding)),
        PolicyState::Absent("ValidatingAdmissionPolicy")
    );
    let unbound = PolicyState::Absent("ValidatingAdmissionPolicyBinding");
    assert_eq!(built_in.policy_state(Some(&built_in.policy), None), unbound);
}

#[tokio::test]
async fn rules_that_were_changed_come_back_and_a_binding_stays_as_its_owner_left_it() {
    let api = FakeApi::new();
    let first = install(&api.client()).await.unwrap();
    assert_eq!(
        outcomes(&first),
        [
            "validatingadmissionpolicy/weaver-accounts created",
            "validatingadmissionpolicybinding/weaver-accounts created"
        ]
    );
    let right = api.with(|stored| stored.admission[POLICY]["spec"].clone());
    api.with(|stored| {
        stored.admission.get_mut(POLICY).unwrap()["spec"]["failurePolicy"] = json!("Ignore");
        stored.admission.get_mut(POLICY).unwrap()["metadata"]["labels"] = json!({"theirs": "1"});
        stored.admission.get_mut(BINDING).unwrap()["spec"]["validationActions"] = json!(["Audit"]);
        stored.writes.clear();
    });
    let second = install(&api.client()).await.unwrap();
    assert_eq!(
        outcomes(&second),
        [
            "validatingadmissionpolicy/weaver-accounts replaced (rules)",
            "validatingadmissionpolicybinding/weaver-accounts unchanged\n  note: left unchanged, although the \
             validationActions of its binding are [Audit], so no request is refused",
        ]
    );
    api.with(|stored| {
        assert_eq!(stored.admission[POLICY]["spec"], right);
        assert_eq!(stored.admission[POLICY]["metadata"]["labels"], json!({"theirs": "1"}));
        assert_eq!(stored.admission[BINDING]["spec"]["validationActions"], json!(["Audit"]));
        assert_eq!(stored.writes, [format!("PUT /apis/admissionregistration.k8s.io/v1/{POLICY}")]);
        stored.admission.remove(BINDING);
    });
    let third = install(&api.client()).await.unwrap();
    assert_eq!(
        [&third[0].outcome, &third[1].outcome],
        [&InstallOutcome::Unchanged, &InstallOutcome::Created]
    );
}

#[tokio::test]
async fn who_writes_at_the_same_time_is_looked_at_again_and_not_forever() {
    let api = FakeApi::new();
    install(&api.client()).await.unwrap();
    let tamper = |policy: &mut Value, round: usize| {
        policy["spec"]["failurePolicy"] = json!("Ignore");
        policy["metadata"]["resourceVersion"] = json!(format!("theirs-{round}"));
    };
    for (rounds, expected) in [(2, Ok(())), (usize::MAX, Err("changed at each attempt to write it"))] {
        api.with(|stored| tamper(stored.admission.get_mut(POLICY).unwrap(), 0));
        let mut puts = 0;
        api.hook(move |stored, method, _| {
            if *method == Method::PUT {
                puts += 1;
                if puts <= rounds {
                    tamper(stored.admission.get_mut(POLICY).unwrap(), puts);
                }
            }
            RequestFate::Answered
        });
        match (install(&api.client()).await, expected) {
            (Ok(done), Ok(())) => assert_eq!(done[0].outcome, InstallOutcome::Replaced(vec!["rules".into()])),
            (Err(error), Err(words)) => {
                let error = error.to_string();
                assert!(error.contains(words) && error.contains("get validatingadmissionpolicy/"), "{error}");
            }
            (got, _) => panic!("{got:?}"),
        }
    }
}

#[tokio::test]
async fn a_refusal_names_the_object() {
    let api = FakeApi::new();
    api.hook(|_, method, path| {
        let is_ours = *method == Method::POST && path.ends_with("/validatingadmissionpolicybindings");
        if is_ours { RequestFate::Refused(403, "no, says the server") } else { RequestFate::Answered }
    });
    let error = install(&api.client()).await.unwrap_err().to_string();
    assert_eq!(error, "writing validatingadmissionpolicybinding/weaver-accounts: no, says the server");
}
