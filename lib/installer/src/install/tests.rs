use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::fake_api::{FakeApi, RequestFate, condition};
use crate::fake_webhook::{Listening, router};

const SYNCS: &str = "configmapsyncs.weaver.example.com";
const TOKENS: &str = "servicetokens.weaver.example.com";

fn options(prove: Prove) -> InstallOptions {
    InstallOptions { prove, ca_from: None, patience: Duration::from_secs(10) }
}

/// For what never comes.
const IMPATIENT: InstallOptions =
    InstallOptions { prove: Prove::Always, ca_from: None, patience: Duration::from_millis(1500) };

struct Case {
    api: FakeApi,
    listening: Listening,
}

impl Case {
    async fn new() -> Self {
        let listening = Listening::start(router()).await;
        listening.show(listening.dir.path());
        Self { api: FakeApi::new(), listening }
    }

    async fn install(&self, options: InstallOptions) -> Result<InstallReport, InstallError> {
        install(&self.api.client(), &self.listening.webhook, &options, |_| {}).await
    }

    async fn refused(&self, options: InstallOptions) -> String {
        self.install(options).await.unwrap_err().to_string()
    }

    fn writes(&self) -> Vec<String> {
        self.api.with(|stored| std::mem::take(&mut stored.writes))
    }

    /// What a user would look at.
    fn specs(&self) -> Vec<Value> {
        self.api.with(|stored| {
            let all = stored.definitions.values().chain(stored.admission.values());
            all.map(|found| found["spec"].clone()).collect()
        })
    }
}

fn outcomes(report: &InstallReport) -> Vec<&InstallOutcome> {
    report.definitions.iter().map(|installed| &installed.outcome).collect()
}

#[tokio::test]
async fn the_first_installation_creates_and_the_second_writes_nothing() {
    let case = Case::new().await;
    let mut steps = Vec::new();
    let (client, webhook) = (case.api.client(), &case.listening.webhook);
    let first = install(&client, webhook, &options(Prove::OnChange), |step| steps.push(step.to_string()))
        .await
        .unwrap();
    assert!(outcomes(&first).iter().all(|outcome| **outcome == InstallOutcome::Created) && first.proved);
    assert_eq!(first.definitions.len(), weaver_api::crds::all().len());
    assert!(first.admission.iter().all(|installed| installed.outcome == InstallOutcome::Created));
    assert_eq!(case.writes().len(), first.all().count());
    let order = [
        "ready",
        "policy/weaver-accounts",
        "policybinding/weaver-accounts",
        "policy/weaver-deletions",
        "policybinding/weaver-deletions",
        "policy/weaver-node-reports",
        "policybinding/weaver-node-reports",
        "clusterrole/",
        "clusterrolebinding/",
        "answers",
        "created",
    ];
    assert!(steps.iter().zip(order).all(|(step, word)| step.contains(word)), "{steps:?}");
    assert!(steps[steps.len() - 1].contains("converts"), "{steps:?}");

    let second = case.install(options(Prove::OnChange)).await.unwrap();
    assert!(!second.changed() && !second.proved);
    assert!(case.writes().is_empty());
    let third = case.install(options(Prove::Always)).await.unwrap();
    assert!(!third.changed() && third.proved);
    assert!(case.writes().is_empty());
}

#[tokio::test]
async fn conversion_and_ca_are_there_in_the_first_write() {
    let case = Case::new().await;
    let bare = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&bare);
    case.api.hook(move |stored, _, _| {
        let without =
            |found: &&Value| found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].is_null();
        seen.fetch_add(stored.definitions.values().filter(without).count(), Ordering::Relaxed);
        RequestFate::Answered
    });
    case.install(options(Prove::Always)).await.unwrap();
    assert_eq!(bare.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_drifted_ca_is_repaired_in_one_write() {
    let case = Case::new().await;
    case.install(options(Prove::OnChange)).await.unwrap();
    let right = case.specs();
    case.writes();
    case.api.with(|stored| {
        let mut drifted = stored.definitions[SYNCS].clone();
        drifted["spec"]["conversion"]["webhook"]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        stored.put(drifted);
    });
    let report = case.install(options(Prove::OnChange)).await.unwrap();
    let replaced = InstallOutcome::Replaced(vec!["caBundle".into()]);
    assert_eq!(report.definitions[0].outcome, replaced);
    assert_eq!(report.definitions[0].to_string(), format!("{SYNCS} replaced (caBundle)"));
    assert_eq!(
        case.writes(),
        [format!("PUT /apis/apiextensions.k8s.io/v1/customresourcedefinitions/{SYNCS}")]
    );
    assert_eq!(case.specs(), right);
}

#[tokio::test]
async fn a_run_that_was_killed_at_any_write_is_finished_by_the_next() {
    let mut case = Case::new().await;
    case.install(options(Prove::Always)).await.unwrap();
    let (writes, whole) = (case.writes().len(), case.specs());
    for at in 0..writes {
        for answer_lost in [false, true] {
            case.api = FakeApi::new();
            let mut seen = 0;
            case.api.hook(move |_, method, _| {
                if *method == Method::GET {
                    return RequestFate::Answered;
                }
                seen += 1;
                match (seen - 1 < at, seen - 1 == at && answer_lost) {
                    (true, _) => RequestFate::Answered,
                    (_, true) => RequestFate::Lost,
                    _ => RequestFate::Refused(500, "killed"),
                }
            });
            case.install(IMPATIENT).await.unwrap_err();
            case.api.hook(|_, _, _| RequestFate::Answered);
            case.install(options(Prove::Always)).await.unwrap();
            assert!(case.specs() == whole, "write {at}, answer lost: {answer_lost}");
        }
    }
}

#[tokio::test]
async fn one_refusal_keeps_all_definitions_as_they_are() {
    let case = Case::new().await;
    case.install(options(Prove::OnChange)).await.unwrap();
    case.api.with(|stored| {
        // One that could be repaired, and one that may not be touched.
        let mut drifted = stored.definitions[SYNCS].clone();
        drifted["spec"]["conversion"]["webhook"]["clientConfig"]["url"] = json!("https://elsewhere/convert");
        stored.put(drifted);
        let mut newer = stored.definitions[TOKENS].clone();
        newer["status"]["storedVersions"] = json!(["v1beta1", "v7"]);
        stored.definitions.insert(TOKENS.into(), newer);
        stored.writes.clear();
    });
    let before = case.specs();
    let removed =
        case.api.with(|stored| stored.admission.remove("validatingadmissionpolicies/weaver-accounts"));
    assert!(removed.is_some());
    let error = case.install(options(Prove::Always)).await.unwrap_err();
    assert!(error.is_refusal());
    let words = error.to_string();
    assert!(words.contains("no CRD was changed") && words.contains("stored at v7"), "{words}");
    assert!(words.contains(TOKENS) && !words.contains(SYNCS), "{words}");
    let writes = case.writes();
    assert!(case.specs() == before && writes.len() == 1, "only the policy comes back: {writes:?}");
}

#[tokio::test]
async fn another_scope_is_refused_with_the_number_of_objects() {
    let case = Case::new().await;
    case.install(options(Prove::OnChange)).await.unwrap();
    case.api.with(|stored| {
        for n in 0..7 {
            stored.objects.insert(format!("s{n}"), ("v1beta1".into(), n));
        }
        stored.definitions.get_mut(SYNCS).unwrap()["spec"]["scope"] = json!("Cluster");
    });
    let words = case.refused(options(Prove::Always)).await;
    assert!(words.contains("it has 7 stored objects") && words.contains("kubectl delete crd"), "{words}");
}

#[tokio::test]
async fn without_a_webhook_only_policies_and_rights_are_written() {
    let mut case = Case::new().await;
    case.listening.webhook.url = "https://127.0.0.1:1/convert".into();
    let words = case.refused(IMPATIENT).await;
    assert!(words.contains("does not listen") && words.contains("127.0.0.1:1"), "{words}");
    let (definitions, admission) = case
        .api
        .with(|stored| (stored.definitions.len(), stored.admission.keys().cloned().collect::<Vec<_>>()));
    assert!(definitions == 0 && admission.len() == 8, "{admission:?}");
    assert_eq!(case.writes().len(), 8);
}

#[tokio::test]
async fn where_nothing_differs_a_loop_does_not_need_the_webhook() {
    let case = Case::new().await;
    case.install(options(Prove::OnChange)).await.unwrap();
    let Case { api, listening } = case;
    let webhook = listening.webhook.clone();
    drop(listening);
    install(&api.client(), &webhook, &options(Prove::OnChange), |_| {}).await.unwrap();
}

#[tokio::test]
async fn what_someone_changed_meanwhile_is_read_and_judged_again() {
    let case = Case::new().await;
    case.install(options(Prove::OnChange)).await.unwrap();
    let right = case.specs();
    case.writes();
    let drift = |stored: &mut crate::fake_api::Stored, label: usize| {
        let mut drifted = stored.definitions[SYNCS].clone();
        drifted["spec"]["names"]["shortNames"] = json!(["other"]);
        drifted["metadata"]["labels"] = json!({"round": label.to_string()});
        stored.put(drifted);
    };
    case.api.with(|stored| drift(stored, 0));
    let mut puts = 0;
    case.api.hook(move |stored, method, _| {
        if *method == Method::PUT {
            puts += 1;
            if puts < 3 {
                drift(stored, puts);
            }
        }
        RequestFate::Answered
    });
    let report = case.install(options(Prove::OnChange)).await.unwrap();
    assert_eq!(report.definitions[0].outcome, InstallOutcome::Replaced(vec!["names".into()]));
    assert_eq!((case.specs(), case.writes().len()), (right, 3));
    let labels = case.api.with(|stored| stored.definitions[SYNCS]["metadata"]["labels"].clone());
    assert_eq!(labels, json!({"round": "2"}));

    // And one that never ends is given up.
    case.api.with(|stored| drift(stored, 0));
    case.api.hook(move |stored, method, _| {
        if *method == Method::PUT {
            drift(stored, 9);
        }
        RequestFate::Answered
    });
    let words = case.refused(options(Prove::OnChange)).await;
    assert!(words.contains("changed at each attempt to write it"), "{words}");
}

#[tokio::test]
async fn a_definition_that_comes_into_being_meanwhile_is_no_failure() {
    let case = Case::new().await;
    let whole = Case { api: FakeApi::new(), listening: case.listening };
    whole.install(options(Prove::OnChange)).await.unwrap();
    let theirs = whole.api.with(|stored| stored.definitions[SYNCS].clone());
    let api = FakeApi::new();
    let mut done = false;
    api.hook(move |stored, method, _| {
        if *method == Method::POST && !std::mem::replace(&mut done, true) {
            stored.put(theirs.clone());
        }
        RequestFate::Answered
    });
    let case = Case { api, listening: whole.listening };
    let report = case.install(options(Prove::OnChange)).await.unwrap();
    assert_eq!(report.definitions[0].outcome, InstallOutcome::Unchanged);
    assert_eq!(report.definitions[1].outcome, InstallOutcome::Created);
}

#[tokio::test]
async fn names_that_are_taken_are_reported_in_the_api_servers_words() {
    for (conditions, expected, refusal) in [
        (vec![condition("NamesAccepted", "False")], "NamesAccepted is False", true),
        (vec![condition("NamesAccepted", "True")], "is not served after", false),
        (vec![], "is not served after", false),
    ] {
        let case = Case::new().await;
        case.api.hook(move |stored, _, _| {
            for definition in stored.definitions.values_mut() {
                definition["status"]["conditions"] = json!(conditions);
            }
            RequestFate::Answered
        });
        let error = case.install(IMPATIENT).await.unwrap_err();
        assert!(error.to_string().contains(expected) && error.is_refusal() == refusal, "{error}");
        assert!(error.to_string().contains("was written"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_ready_or_cannot_convert_is_reported_in_its_own_words() {
    for (path, expected) in [
        ("/readyz", "was not ready within"),
        ("/apis/apiextensions.k8s.io/", "reading configmapsyncs"),
        ("/apis/weaver.example.com/v1alpha1/", "cannot use the older version"),
        ("/apis/weaver.example.com/v1beta1/", "cannot use the older version"),
    ] {
        let case = Case::new().await;
        case.api.hook(move |_, _, asked| {
            if asked.starts_with(path) {
                RequestFate::Refused(500, "no, says the server")
            } else {
                RequestFate::Answered
            }
        });
        let words = case.refused(IMPATIENT).await;
        assert!(words.contains(expected) && words.contains("no, says the server"), "{path}: {words}");
    }
}

#[tokio::test]
async fn a_policy_or_quota_that_refuses_the_proof_is_a_warning_and_no_failure() {
    for (code, words) in [
        (403, "exceeded quota: none-of-these"),
        (422, "ValidatingAdmissionPolicy 'labels' denied the request"),
    ] {
        let case = Case::new().await;
        case.api.hook(move |_, method, asked| {
            let proof = *method == Method::POST && asked.starts_with("/apis/weaver.example.com/v1alpha1/");
            if proof { RequestFate::Refused(code, words) } else { RequestFate::Answered }
        });
        let mut steps = Vec::new();
        let (client, webhook) = (case.api.client(), &case.listening.webhook);
        let report =
            install(&client, webhook, &IMPATIENT, |step| steps.push(step.to_string())).await.unwrap();
        assert!(report.changed() && !report.proved);
        assert!(report.not_provable.as_ref().is_some_and(|reported| reported.contains(words)), "{report:?}");
        let last = steps.last().unwrap();
        assert!(last.starts_with("warning: it was not proved") && last.contains(words), "{last}");
    }
}

#[tokio::test]
async fn a_conversion_that_fails_is_a_failure_whatever_its_code() {
    for code in [403, 422, 500] {
        let case = Case::new().await;
        case.api.hook(move |_, _, asked| {
            let proof = asked.starts_with("/apis/weaver.example.com/v1alpha1/");
            if proof {
                RequestFate::Refused(code, "conversion webhook for a failed: no")
            } else {
                RequestFate::Answered
            }
        });
        let words = case.refused(IMPATIENT).await;
        assert!(words.contains("cannot use the older version: conversion webhook"), "{code}: {words}");
    }
}

#[tokio::test]
async fn a_refusal_under_the_definition_of_before_is_asked_again() {
    for code in [404, 422] {
        let case = Case::new().await;
        let mut asked_before = 0;
        case.api.hook(move |_, method, asked| {
            let proof = *method == Method::POST && asked.starts_with("/apis/weaver.example.com/v1alpha1/");
            asked_before += usize::from(proof);
            if proof && asked_before < 3 {
                RequestFate::Refused(code, "not yet")
            } else {
                RequestFate::Answered
            }
        });
        let report = case.install(options(Prove::Always)).await.unwrap();
        assert!(report.proved && report.not_provable.is_none(), "{code}");
    }
}

#[tokio::test]
async fn who_may_not_ask_for_readiness_may_still_install() {
    let case = Case::new().await;
    case.api.hook(
        |_, _, path| if path == "/readyz" { RequestFate::Refused(403, "no") } else { RequestFate::Answered },
    );
    case.install(options(Prove::OnChange)).await.unwrap();
}

#[tokio::test]
async fn a_task_of_its_own_can_install_and_migrate() {
    let case = Case::new().await;
    let (client, webhook) = (case.api.client(), case.listening.webhook.clone());
    let task = tokio::spawn(async move {
        install(&client, &webhook, &options(Prove::OnChange), |_| {}).await.unwrap();
        crate::migrate(&client, |_| {}).await.unwrap().len()
    });
    assert_eq!(task.await.unwrap(), weaver_api::crds::all().len());
}

#[tokio::test]
async fn a_plan_is_made_without_a_write() {
    let case = Case::new().await;
    let plans = read(&case.api.client(), &case.listening.webhook, &IMPATIENT).await.unwrap();
    assert!(plans.iter().all(|(_, plan, _)| *plan == DefinitionPlan::Create));
    assert!(case.writes().is_empty());
}
