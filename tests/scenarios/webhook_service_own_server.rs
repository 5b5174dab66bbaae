//! The webhook behind a Service: `weaver crd install --service` makes its certificate in a Secret, and the API
//! server converts.
//!
//! No kubelet and no network of a cluster are here. What they would do is done by hand: the certificate is put
//! where the pod has it mounted, and the Service points to a process on this machine.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use weaver_devstack::ports;
use weaver_devstack::server::ServerBinary;
use weaver_tests::alone::OperatorProcess;
use weaver_tests::own::OwnServer;
use weaver_tests::world::{eventually, given};

const NAMESPACE: &str = weaver_api::OPERATOR_NAMESPACE;
const NAME: &str = "weaver-webhook";

/// What is done with the definitions on a server whose webhook is behind its Service, at this port.
struct Cluster {
    own: OwnServer,
    port: u16,
}

impl Cluster {
    async fn start() -> Self {
        let binary = ServerBinary::from_environment().unwrap();
        // With it, the API server would look for pods behind a Service.
        let direct = ["--kube-apiserver-arg=enable-aggregator-routing=false"];
        let own = OwnServer::start_with(&binary, &given("WEAVER_TEST_BIN_DIR"), |options| {
            options.audit().extra_args(direct)
        })
        .await;
        let kubernetes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes");
        own.kubectl(&["apply", "-k", kubernetes.to_str().unwrap()]);
        own.kubectl(&["-n", NAMESPACE, "delete", "service", NAME]);
        own.kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "service",
            "externalname",
            NAME,
            "--external-name=localhost",
        ]);
        Self { own, port: ports::disposable().unwrap() }
    }

    fn crd(&self, verb: &str) -> Command {
        let mut command = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
        command.args([
            "crd",
            verb,
            "--service",
            &format!("{NAMESPACE}/{NAME}:{}", self.port),
            "--kubeconfig",
        ]);
        command.arg(self.own.server.kubeconfig()).stdin(Stdio::null());
        command
    }

    fn install(&self) -> String {
        said(&self.crd("install").output().unwrap())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.own.client.clone(), NAMESPACE)
    }

    /// Where the definitions and the Secret stand.
    async fn versions(&self) -> Vec<String> {
        let definitions =
            self.own.kubectl(&["get", "crd", "-o", "jsonpath={.items[*].metadata.resourceVersion}"]);
        let secret = self.secrets().get(NAME).await.unwrap();
        vec![definitions, secret.metadata.resource_version.unwrap()]
    }

    /// What the kubelet would do: the keys of the Secret that the pod asks for, in the directory that it is given.
    async fn mount(&self, directory: &Path) {
        let deployments: Api<Deployment> = Api::namespaced(self.own.client.clone(), NAMESPACE);
        let pod = deployments.get(NAME).await.unwrap().spec.unwrap().template.spec.unwrap();
        let volume = pod.volumes.unwrap().remove(0).secret.unwrap();
        assert_eq!(volume.default_mode, Some(0o440));
        let name = volume.secret_name.unwrap();
        let secret = eventually("the Secret is made", || async { self.secrets().get(&name).await }).await;
        for item in volume.items.unwrap() {
            std::fs::write(directory.join(item.path), &secret.data.as_ref().unwrap()[&item.key].0).unwrap();
        }
    }

    /// Starts what the pod would run, with these for the pod's own address and directory.
    async fn webhook(&self, directory: &Path) -> OperatorProcess {
        let deployments: Api<Deployment> = Api::namespaced(self.own.client.clone(), NAMESPACE);
        let pod = deployments.get(NAME).await.unwrap().spec.unwrap().template.spec.unwrap();
        let arguments =
            pod.containers[0].args.clone().unwrap().into_iter().map(|word| match word.split_once('=') {
                Some((flag @ "--listen", _)) => format!("{flag}=127.0.0.1:{}", self.port),
                Some((flag @ "--certificates", _)) => format!("{flag}={}", directory.display()),
                _ => word,
            });
        OperatorProcess::contained(&self.own, "webhook-pod", &arguments.collect::<Vec<_>>(), &[])
    }

    /// What `weaver version` says of it.
    fn webhook_versions(&self) -> Value {
        let mut command = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
        command.args(["version", "-o", "json", "--kubeconfig"]).arg(self.own.server.kubeconfig());
        let shown: Value = serde_json::from_str(&said(&command.output().unwrap())).unwrap();
        shown["cluster"]["webhook"].clone()
    }

    async fn create_old(&self, name: &str) -> Result<DynamicObject, kube::Error> {
        let kind = GroupVersionKind::gvk(weaver_api::GROUP, "v1alpha1", "ConfigMapSync");
        let kind = ApiResource::from_gvk_with_plural(&kind, "configmapsyncs");
        let api: Api<DynamicObject> = Api::namespaced_with(self.own.client.clone(), "default", &kind);
        let object = json!({
            "apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync", "metadata": {"name": name},
            "spec": {"source": {"name": "s", "namespace": "default"}, "syncToNamespaces": ["foo"]},
        });
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await
    }
}

/// What it printed, if it ended well.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test]
async fn the_api_server_converts_through_the_service_and_a_second_install_writes_nothing() {
    let cluster = Cluster::start().await;
    let mounted = cluster.own.dir().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let pod = cluster.webhook(&mounted).await;
    // The pod is there before its certificate.
    let installing = cluster.crd("install").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    cluster.mount(&mounted).await;
    let first = said(&installing.wait_with_output().unwrap());
    for words in [
        "in the Secret config-weaver/weaver-webhook is new",
        "if no CronJob weaver-certificate renews it",
        "converts through the webhook",
    ] {
        assert!(first.contains(words), "{words}: {first}");
    }
    let crd = cluster.own.kubectl(&["get", "crd", "configmapsyncs.weaver.example.com", "-o", "json"]);
    let crd: Value = serde_json::from_str(&crd).unwrap();
    let client = &crd["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(
        client["service"],
        json!({"namespace": NAMESPACE, "name": NAME, "path": "/convert", "port": cluster.port})
    );
    assert_eq!(client.get("url"), None);
    let versions = json!([{"deployment": NAME, "version": env!("CARGO_PKG_VERSION")}]);
    assert_eq!(cluster.webhook_versions(), versions);
    cluster.create_old("one").await.unwrap();

    let before = cluster.versions().await;
    let second = cluster.install();
    assert!(second.contains("can stay") && !second.contains("replaced"), "{second}");
    assert_eq!(cluster.versions().await, before);
    assert_eq!(said(&cluster.crd("diff").output().unwrap()), "");

    // Its certificate is lost: another one of the same CA, and the definitions stay.
    let patch = ["-n", NAMESPACE, "patch", "secret", NAME, "--type=json", "-p"];
    let lost = r#"[{"op": "remove", "path": "/data/leaf.pem"}]"#;
    cluster.own.kubectl(&[&patch[..], &[lost]].concat());
    let third = cluster.install();
    assert!(third.contains("is new") && !third.contains("replaced"), "{third}");
    assert_eq!(cluster.versions().await[0], before[0]);
    let served = |count: usize| {
        let seen = pod.log().matches("serving a certificate").count();
        if seen == count { Ok(()) } else { Err(seen) }
    };
    cluster.mount(&mounted).await;
    eventually("the new one is served", || std::future::ready(served(2))).await;
    cluster.create_old("two").await.unwrap();

    // Where cert-manager writes the CA, ours stays away, also from the Secret.
    let annotation = "cert-manager.io/inject-ca-from=config-weaver/weaver-webhook";
    cluster.own.kubectl(&["annotate", "crd", "configmapsyncs.weaver.example.com", annotation]);
    let before = cluster.versions().await;
    let refused = cluster.crd("install").output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(10), "{words}");
    let remedy = "kubectl annotate crd configmapsyncs.weaver.example.com cert-manager.io/inject-ca-from-";
    assert!(words.contains(remedy), "{words}");
    assert_eq!(cluster.versions().await, before);
    cluster.own.kubectl(&remedy.split(' ').skip(1).collect::<Vec<_>>());
    cluster.install();
}

#[tokio::test]
async fn without_the_webhook_v1alpha1_fails_closed_and_the_installer_says_so() {
    let cluster = Cluster::start().await;
    let mut installing = cluster.crd("install").stdout(Stdio::piped()).spawn().unwrap();
    let error = eventually("v1alpha1 fails for want of its webhook", || async {
        match cluster.create_old("one").await {
            Err(kube::Error::Api(status)) if status.message.contains("conversion webhook") => {
                Ok(status.message.clone())
            }
            other => Err(other.map(|_| ()).map_err(|error| error.to_string())),
        }
    })
    .await;
    assert!(error.contains(&format!("https://{NAME}.{NAMESPACE}.svc:{}/convert", cluster.port)), "{error}");
    assert!(installing.try_wait().unwrap().is_none(), "it continues trying");
    // Interrupted and run again, it continues from there.
    installing.kill().unwrap();
    installing.wait().unwrap();
    let mounted = cluster.own.dir().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    cluster.mount(&mounted).await;
    let _pod = cluster.webhook(&mounted).await;
    let again = cluster.install();
    assert!(again.contains("can stay") && again.contains("converts through the webhook"), "{again}");
    cluster.create_old("one").await.unwrap();
}
