//! A cluster between two releases: this one, and the one that `make test-skew PREVIOUS=DIR` names.

use serde_json::{Value, json};
use weaver_devstack::programs::BuiltPrograms;

use crate::alone::OwnOperator;
use crate::cli::{Said, ended, weaver_of};
use crate::own::OwnServer;
pub use crate::own::{another_release, this_release};

/// A server with the webhook of one release and the definitions of one; operators are started of the last.
pub async fn server(
    webhook: &BuiltPrograms,
    definitions: &BuiltPrograms,
    operators: &BuiltPrograms,
) -> OwnServer {
    let mut own = OwnServer::start().await;
    own.webhook.replace(webhook);
    let said = install(&own, definitions).await;
    assert!(said.done, "{said:?}");
    own.programs = operators.clone();
    own
}

/// Upgrades to this release, or goes back to it, in the order of docs/how-to/upgrade.md. What `weaver crd install` said.
pub async fn change_to(alone: &mut OwnOperator, programs: &BuiltPrograms) -> Said {
    alone.own.webhook.replace(programs);
    let said = install(&alone.own, programs).await;
    alone.operator.kill();
    alone.own.programs = programs.clone();
    alone.own.apply("deploy/rbac/operator.yaml").await;
    alone.restart_operator();
    said
}

async fn install(own: &OwnServer, programs: &BuiltPrograms) -> Said {
    let (url, certificates) = (own.webhook.address().url, own.dir().join("webhook"));
    let words = ["crd", "install", "--webhook", &url, "--certificates", certificates.to_str().unwrap()];
    ended(weaver_of(programs, own, &words)).await
}

/// What is stored of our resources: spec, finalizers and uid at both versions, in the order of their names.
pub fn stored(own: &OwnServer) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in ["configmapsyncs", "servicetokens"] {
        for version in ["v1alpha1", "v1beta1"] {
            let kind = format!("{kind}.{version}.weaver.example.com");
            let list = own.kubectl(&["get", &kind, "--all-namespaces", "--output", "json"]);
            let list: Value = serde_json::from_str(&list).unwrap();
            all.extend(list["items"].as_array().unwrap().iter().map(|item| {
                let meta = &item["metadata"];
                json!([
                    item["apiVersion"],
                    meta["name"],
                    meta["uid"],
                    meta["finalizers"],
                    meta["generation"],
                    item["spec"]
                ])
            }));
        }
    }
    all
}
