//! The commands of the documentation, typed as they stand there.

use std::process::{Command, Stdio};

use weaver_devstack::server::ServerBinary;
use weaver_tests::world::{World, given};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The blocks of shell commands of a page, in their order.
fn commands(page: &str) -> String {
    let page = std::fs::read_to_string(format!("{ROOT}/{page}")).unwrap();
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let all: Vec<_> = blocks.collect();
    assert!(all.len() >= 5, "{}", all.len());
    all.concat()
}

#[tokio::test]
async fn the_worked_example_of_tokens_works() {
    let world = World::new("docs-tokens").await;
    let team = world.namespace("team").await;
    // So that the operator may ask for content there.
    world.account(&team).await;
    let dir = tempfile::tempdir().unwrap();
    let samples = dir.path().join("deploy/samples");
    std::fs::create_dir_all(&samples).unwrap();
    let sample = std::fs::read_to_string(format!("{ROOT}/deploy/samples/servicetoken.yaml")).unwrap();
    std::fs::write(samples.join("servicetoken.yaml"), sample.replace("team-t", &team)).unwrap();
    let server = ServerBinary::from_environment().unwrap();
    let script = format!(
        "set -e\nkubectl() {{ '{}' kubectl \"$@\"; }}\n{}",
        server.path.display(),
        commands("docs/how-to/keep-tokens-in-a-secret.md").replace("team-t", &team)
    );
    let output = tokio::task::spawn_blocking(move || {
        Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .env("KUBECONFIG", given("WEAVER_TEST_KUBECONFIG"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for part in
        ["condition met", &format!("system:serviceaccount:{team}:robot"), "token 20", "vault 20", "deleted"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    world.finish().await;
}
