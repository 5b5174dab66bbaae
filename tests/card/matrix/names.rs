//! A name that the owner asks for.

use weaver_image::booted::machine;

use super::fault::{MatrixCase, MatrixFault};

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_name_that_is_not_served_is_named_and_served_after_the_repair() {
    static FAULT: MatrixFault = MatrixFault {
        name: "20-name-not-served",
        what: "a drop-in with `tls-san+: [late.weaver.test]`, k3s not restarted",
        codes: &["T-02"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    let drop_in = "printf 'tls-san+:\\n- late.weaver.test\\n' > /etc/rancher/k3s/config.yaml.d/95-late.yaml";
    case.machine.run(drop_in).unwrap();
    let said = case.seen(&["late.weaver.test"]);
    let mended = case.type_remedy(&said, "T-02", &[]).mended();
    let by_name = mended.kubectl("late.weaver.test", &["get", "--raw", "/readyz"]).unwrap();
    assert_eq!(by_name.trim(), "ok");
}
