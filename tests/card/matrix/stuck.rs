//! k3s that hangs while it starts: the case for which the agent is not ordered after it.

use weaver_image::booted::machine;

use super::fault::{MatrixCase, MatrixFault};

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_k3s_that_hangs_while_it_starts_is_reported() {
    static FAULT: MatrixFault = MatrixFault {
        name: "80-k3s-hangs",
        what: "a k3s that never says that it is ready (`ExecStart=/bin/sleep infinity`)",
        codes: &["F-04"],
        down: &["k3s"],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    let hang = "mkdir -p /run/systemd/system/k3s.service.d
        printf '[Service]\\nExecStart=\\nExecStart=/bin/sleep infinity\\n' > /run/systemd/system/k3s.service.d/hang.conf
        systemctl daemon-reload && systemctl restart --no-block k3s.service";
    case.machine.run(hang).unwrap();
    let said = case.seen(&[]);
    case.does("the drop-in removed, then");
    let mend = "rm /run/systemd/system/k3s.service.d/hang.conf && systemctl daemon-reload";
    case.machine.run(mend).unwrap();
    case.type_remedy(&said, "F-04", &[]).mended();
}
