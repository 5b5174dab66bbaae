//! Pages whose reader has a cluster in which nothing of ours is installed: each is typed on a server of its own.
//!
//! No kubelet is here: what a pod would run is run as a process, where the page waits for it.

mod own_server {
    use std::fmt::Write as _;

    use weaver_devstack::ports;
    use weaver_devstack::server::ServerBinary;
    use weaver_tests::helm;
    use weaver_tests::own::OwnServer;
    use weaver_tests::world::given;

    use crate::page::page_works_on;

    fn manifests() -> String {
        format!("cp -r '{}'/../deploy .\n", env!("CARGO_MANIFEST_DIR"))
    }

    /// A server whose Services may lead to this machine.
    async fn cluster() -> OwnServer {
        let binary = ServerBinary::from_environment().unwrap();
        // With it, the API server would look for pods behind a Service.
        let direct = ["--kube-apiserver-arg=enable-aggregator-routing=false"];
        OwnServer::start_with(&binary, &given("WEAVER_TEST_BIN_DIR"), |options| options.extra_args(direct))
            .await
    }

    /// `weaver crd install --service`, while the webhook of that Service runs on this machine with the
    /// certificate that it makes, and `weaver status`, while the operator is the leader.
    fn with_a_webhook() -> String {
        let port = ports::disposable().unwrap();
        format!(
            r#"weaver() {{
              case "$1 $2" in "crd install") ;; *) command weaver "$@"; return;; esac
              kubectl -n config-weaver delete service weaver-webhook
              kubectl -n config-weaver create service externalname weaver-webhook --external-name=localhost
              mkdir mounted
              weaver-operator webhook --listen 127.0.0.1:{port} --certificates mounted > webhook.log 2>&1 &
              pod=$!
              trap 'kill $pod' EXIT
              (
                kubectl -n config-weaver wait --for=create secret/weaver-webhook --timeout=60s
                kubectl -n config-weaver get secret weaver-webhook -o 'jsonpath={{.data.leaf\.pem}}' | base64 -d > new.pem
                mv new.pem mounted/leaf.pem
              ) &
              command weaver "$@:{port}"
            }}
            "#
        )
    }

    /// `why_it_does_not_start`: a Pod as the chart's Job makes one, and what a kubelet says of it that cannot pull the
    /// image. The page's two commands have the reason.
    const A_POD_THAT_DOES_NOT_START: &str = r#"
        its() { kubectl -n config-weaver get "$1" -o "jsonpath={$2}"; }
        why_it_does_not_start() {
          # Without the labels by which the Job would take it for its own, and delete it as one too many.
          printf '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"of-the-job",
            "labels":{"app.kubernetes.io/component":"%s"}},"spec":%s}' \
            "$(its job/weaver-installer '.spec.template.metadata.labels.app\.kubernetes\.io/component')" \
            "$(its job/weaver-installer .spec.template.spec)" | kubectl -n config-weaver create -f -
          printf '{"apiVersion":"v1","kind":"Event","metadata":{"name":"of-the-pod"},"type":"Warning",
            "reason":"Failed","message":"Error: ImagePullBackOff","involvedObject":{"apiVersion":"v1","kind":"Pod",
            "namespace":"config-weaver","name":"of-the-job","uid":"%s"}}' \
            "$(its pod/of-the-job .metadata.uid)" | kubectl -n config-weaver create -f -
          kubectl -n config-weaver describe pod -l app.kubernetes.io/component=installer | grep ImagePullBackOff
          kubectl -n config-weaver get events --field-selector involvedObject.kind=Pod | grep ImagePullBackOff
          kubectl -n config-weaver delete pod of-the-job
        }
    "#;

    /// What an interrupted Helm leaves is there when the page removes it: the hooks of the chart.
    fn after_an_interrupted_helm() -> String {
        let kubectl = ServerBinary::from_environment().unwrap().path;
        format!(
            r#"kubectl() {{
              case "$*" in "delete clusterrole,clusterrolebinding weaver-installer")
                helm template config-weaver deploy/chart -n config-weaver -f values.yaml \
                  --show-only templates/install.yaml --show-only templates/certificate.yaml |
                  '{kubectl}' kubectl apply -f -
                why_it_does_not_start
              esac
              '{kubectl}' kubectl "$@"
            }}
            "#,
            kubectl = kubectl.display()
        )
    }

    #[tokio::test]
    async fn install_definitions() {
        let own = OwnServer::start().await;
        let webhook = own.webhook.address().url;
        let certificates = own.dir().join("webhook");
        let before = format!(
            "weaver() {{
               case \"$1 $2\" in
                 'crd install') set -- \"$@\" --certificates '{certificates}' --webhook '{webhook}';;
                 'crd diff') set -- \"$@\" --webhook '{webhook}';;
               esac
               command weaver \"$@\"
             }}\n",
            certificates = certificates.display()
        );
        page_works_on(&own.server.kubeconfig(), "docs/how-to/install-definitions.md", &[], &before);
    }

    #[tokio::test]
    async fn install_in_a_cluster() {
        let own = cluster().await;
        let before = manifests() + &with_a_webhook();
        page_works_on(&own.server.kubeconfig(), "docs/how-to/install-in-a-cluster.md", &[], &before);
    }

    #[tokio::test]
    async fn install_with_helm() {
        let own = cluster().await;
        let helm = helm::program();
        let mut before = manifests() + &with_a_webhook();
        writeln!(before, "helm() {{ '{}' \"$@\"; }}", helm.display()).unwrap();
        before += A_POD_THAT_DOES_NOT_START;
        before += &after_an_interrupted_helm();
        page_works_on(&own.server.kubeconfig(), "docs/how-to/install-with-helm.md", &[], &before);
    }

    #[tokio::test]
    async fn limit_to_namespaces() {
        let own = OwnServer::start().await;
        own.install().await.unwrap();
        let before = manifests() + "for name in team-a team-b; do kubectl create namespace $name; done\n";
        page_works_on(&own.server.kubeconfig(), "docs/how-to/limit-to-namespaces.md", &[], &before);
    }
}
