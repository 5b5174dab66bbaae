//! The generated pages are those that the programs make.

use weaver_tests::monitoring::file;
use weaver_tests::reference;
use weaver_tests::world::given;

#[test]
fn generated_pages_are_up_to_date() {
    for (path, page) in reference::pages(&given("WEAVER_TEST_BIN_DIR")) {
        assert!(file(path) == page, "{path} is stale: run `make generate`");
    }
}
