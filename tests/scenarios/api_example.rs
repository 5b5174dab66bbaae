//! The example program of `weaver-client` works as it says: other people's programs begin with it.

use weaver_tests::cli::{ended, program};
use weaver_tests::world::World;

#[tokio::test]
async fn the_example_program_takes_each_kind_through_its_life() {
    let world = World::new("api-example").await;
    let home = world.namespace("home").await;
    let said = ended(program("examples/client", &[&home])).await;
    assert!(said.done, "{said:?}");
    for kind in ["ConfigMapSync", "ServiceToken"] {
        for step in [
            "the API server would create it",
            "a misspelt field is refused by name",
            "created, generation 1",
            "listed by label: example-client",
            "listed by field: example-client",
            "changed, generation 2",
            "the watch saw the change",
            "deleted, and the watch saw it",
        ] {
            assert!(said.out.contains(&format!("{kind}: {step}\n")), "{kind}: {step}: {said:?}");
        }
    }
    assert!(
        said.out.contains("NodeReport: listed: ") && said.out.contains("NodeReport: watched: "),
        "{said:?}"
    );
    world.finish().await;
}
