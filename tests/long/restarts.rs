//! A hundred restarts while someone edits: nothing is lost, nothing is written twice, and never do two write.

use std::process::Command;
use std::time::Duration;

use weaver_tests::alone::OwnOperator;
use weaver_tests::audit;

use super::copies::Copies;

const ROUNDS: usize = 100;
const TARGETS: usize = 5;

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_a_hundred_rolling_restarts_lose_no_edit_and_write_none_twice() {
    const FLAGS: [&str; 2] = ["--lease", "12"];
    let (mut alone, _wire) = OwnOperator::behind_wire(&FLAGS).await;
    let world = alone.world("rolling");
    let copies = Copies::in_granted(&world, TARGETS).await;
    for round in 0..ROUNDS {
        let value = format!("round {round}");
        copies.edit(&value).await;
        // Another moment of what the edit causes each time.
        tokio::time::sleep(Duration::from_millis(u64::try_from(round * 37 % 200).unwrap())).await;
        let ends = Command::new("kill").args(["-TERM", &alone.operator.pid().to_string()]).status().unwrap();
        assert!(ends.success());
        // As a Deployment's `RollingUpdate` does; and else as systemd.
        if round % 2 == 1 {
            alone.operator.ends().await;
        }
        let next = alone.another_operator(&format!("rolling-{round}"), &FLAGS).await;
        alone.operator.ends().await;
        alone.operator = next;
        copies.have(&value).await;
    }
    copies.survive(&mut alone).await;
    let audit = alone.own.audit();
    for target in &copies.targets {
        assert_eq!(audit.requests(target, "create"), 1);
        assert_eq!(audit.requests(target, "update"), ROUNDS, "{target}");
    }
    let turns = audit::writers_in_turn(&audit);
    assert!(turns.len() > ROUNDS / 2, "{turns:#?}");
    println!("{} of {} operators wrote, one after the other", turns.len(), ROUNDS + 1);
    world.finish().await;
}
