//! What a node that is no server may write: the NodeReport of its own name, with a certificate such as its kubelet has.

use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::json;
use weaver_api::v1beta1::{NodeReport, NodeReportFields};
use weaver_installer::InstallOutcome;
use weaver_tests::kubelet;
use weaver_tests::own::OwnServer;
use weaver_tests::world::eventually;

async fn node(own: &OwnServer, name: &str) -> Client {
    let kubeconfig = kubelet::kubeconfig(&own.server, &own.client, name).await;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn report(name: &str) -> NodeReport {
    NodeReport::new(name, NodeReportFields {})
}

/// What the API server says against a request that it forbids.
fn forbidden<T>(answer: kube::Result<T>) -> Result<String, String> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message.clone()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("it was done".into()),
    }
}

/// The same, where it is the policy that forbids it; RBAC refuses in other words.
fn by_policy<T>(answer: kube::Result<T>) -> Result<String, String> {
    let words = forbidden(answer)?;
    let own = words.contains("ValidatingAdmissionPolicy 'weaver-node-reports'")
        && words.contains("system:node:worker may write the NodeReport of its own name only");
    if own { Ok(words) } else { Err(words) }
}

#[tokio::test]
async fn a_node_writes_the_report_of_its_own_name_and_no_other() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let ours: Api<NodeReport> = Api::all(own.client.clone());
    let reports: Api<NodeReport> = Api::all(node(&own, "worker").await);
    let (kept, tried) = (PostParams::default(), PostParams { dry_run: true, ..PostParams::default() });
    let params = PatchParams::default();
    let status = Patch::Merge(json!({"status": {"kernel": "6.12"}}));
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));

    // A node of another name is refused from the moment that the policy is in force.
    let words = eventually("the policy refuses another's report", || async {
        by_policy(reports.create(&tried, &report("raspi")).await)
    })
    .await;
    assert!(words.contains("this one is raspi"), "{words}");

    reports.create(&kept, &report("worker")).await.unwrap();
    reports.patch_status("worker", &params, &status).await.unwrap();
    reports.patch_metadata("worker", &params, &label).await.unwrap();
    let found = reports.get("worker").await.unwrap();
    assert_eq!(found.status.unwrap().kernel.as_deref(), Some("6.12"));
    assert_eq!(found.metadata.labels.unwrap()["a"], "b");

    // The agent of the server writes as the administrator, and is not judged.
    ours.create(&kept, &report("raspi")).await.unwrap();
    ours.patch_status("raspi", &params, &status).await.unwrap();
    by_policy(reports.patch_metadata("raspi", &params, &label).await).unwrap();
    by_policy(reports.patch_status("raspi", &params, &status).await).unwrap();
    ours.patch_metadata("worker", &params, &label).await.unwrap();

    for name in ["worker", "raspi"] {
        let words = forbidden(reports.delete(name, &DeleteParams::default()).await).unwrap();
        assert!(words.contains("cannot delete resource \"nodereports\""), "{words}");
    }
    forbidden(reports.list(&ListParams::default()).await).unwrap();
    assert!(ours.get("raspi").await.unwrap().metadata.labels.is_none(), "nothing of it came through");
}

#[tokio::test]
async fn what_someone_changed_of_the_rights_of_nodes_comes_back() {
    let own = OwnServer::start().await;
    assert!(own.install().await.unwrap().changed());
    assert!(!own.install().await.unwrap().changed(), "the API server keeps them as they were written");
    let wide = r#"[{"op": "replace", "path": "/rules/0/verbs", "value": ["*"]}]"#;
    own.kubectl(&["patch", "clusterrole", "weaver-node-reports", "--type=json", "-p", wide]);
    own.kubectl(&["delete", "validatingadmissionpolicy", "weaver-node-reports"]);
    let report = own.install().await.unwrap();
    let outcome = |name: &str| {
        let found = report.admission.iter().find(|installed| installed.name == name);
        found.unwrap_or_else(|| panic!("no {name}: {report:?}")).outcome.clone()
    };
    assert_eq!(outcome("validatingadmissionpolicy/weaver-node-reports"), InstallOutcome::Created);
    assert_eq!(outcome("clusterrole/weaver-node-reports"), InstallOutcome::Replaced(vec!["rules".into()]));
    assert_eq!(outcome("clusterrolebinding/weaver-node-reports"), InstallOutcome::Unchanged);
}
