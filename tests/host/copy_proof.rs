//! What proves after an update that the operator does its work.

mod own_server {
    use std::time::Duration;

    use weaver_node_agent::copy_proof::{CopySeen, prove};
    use weaver_tests::agent::{AgentScene, pid, send};
    use weaver_tests::world::client_of;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_is_made_read_and_removed_and_nothing_stays_without_an_operator_either() {
        let scene = AgentScene::start();
        let agent = scene.run(&[]);
        agent.open();
        let report = agent.wait_for("the definitions and the operator", |report| {
            report["definitions"]["installed"] == true && report["operator"]["pid"].is_u64()
        });
        let client = client_of(&scene.server.kubeconfig()).await;
        assert_eq!(prove(&client, LONG).await.unwrap(), CopySeen::Copied);

        // One that does nothing.
        let operator = pid(&report);
        send(operator, "STOP");
        let error = format!("{:#}", prove(&client, Duration::from_secs(3)).await.unwrap_err());
        send(operator, "CONT");
        // Where the namespace of the first proof is still being deleted, the objects could not even be made.
        assert!(
            error.contains("has copied nothing within 3 s") || error.contains("could not be made"),
            "{error}"
        );
        let syncs = scene.kubectl(&["get", "configmapsyncs", "-A", "-o", "name"]);
        assert_eq!(syncs, "", "no finalizer keeps it");
        assert_eq!(prove(&client, LONG).await.unwrap(), CopySeen::Copied, "as the namespaces are gone");

        scene.kubectl(&["annotate", "namespace", "config-weaver", "weaver.example.com/paused=because"]);
        assert_eq!(prove(&client, LONG).await.unwrap(), CopySeen::Paused);
        scene.kubectl(&["annotate", "namespace", "config-weaver", "weaver.example.com/paused-"]);
        scene.kubectl(&["wait", "--for=delete", "namespace/weaver-proof", "--timeout=60s"]);
        scene.kubectl(&["create", "namespace", "weaver-proof"]);
        let error = prove(&client, LONG).await.unwrap_err().to_string();
        assert!(error.contains("weaver-proof exists and is not the node agent's"), "{error}");
        scene.kubectl(&["get", "namespace", "weaver-proof"]);
        agent.stop();
    }
}
