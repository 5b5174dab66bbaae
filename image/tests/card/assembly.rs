//! The same root file system gives the same bytes.

use weaver_devstack::download::sha256;
use weaver_image::build::{Options, build};

use crate::root::image;

#[test]
#[ignore = "needs the image: make image-smoke"]
fn assembled_twice_the_image_has_the_same_bytes() {
    let home = tempfile::tempdir_in(image().parent().unwrap()).unwrap();
    let options = Options {
        source: concat!(env!("CARGO_MANIFEST_DIR"), "/..").into(),
        out: home.path().to_owned(),
        k3s: Some("testbed".into()),
        fresh: false,
        raw: true,
    };
    let again = build(&options).unwrap();
    assert_eq!(sha256(&again.raw).unwrap(), sha256(&image()).unwrap());
}
