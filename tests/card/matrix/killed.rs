//! A process that ends.

use weaver_image::boot::machine::Machine;
use weaver_image::booted::machine;

use super::fault::{MatrixCase, MatrixFault, UNITS};
use crate::poll::until;

static FAULTS: [MatrixFault; 4] = [
    MatrixFault { name: "90-k3s-killed", what: "k3s killed", codes: &[], down: &[] },
    MatrixFault { name: "91-agent-killed", what: "the node agent killed", codes: &[], down: &[] },
    MatrixFault { name: "92-webhook-killed", what: "the webhook killed", codes: &[], down: &[] },
    MatrixFault { name: "93-operator-killed", what: "the operator killed", codes: &[], down: &[] },
];

fn pids(machine: &Machine) -> anyhow::Result<Vec<String>> {
    let asked = format!("systemctl show --value -p MainPID {}", UNITS.join(" "));
    Ok(machine.run(&asked)?.split_whitespace().map(str::to_owned).collect())
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn whatever_is_killed_comes_back_by_itself_and_takes_no_one_else_with_it() {
    for (fault, (at, unit)) in FAULTS.iter().zip(UNITS.into_iter().enumerate()) {
        let mut case = MatrixCase::begin(machine().unwrap(), fault);
        let before = pids(&case.machine).unwrap();
        case.machine.run(&format!("systemctl kill -s KILL {unit}.service")).unwrap();
        until(&format!("{unit} running again"), || {
            let now = pids(&case.machine)?;
            let back = now[at] != "0" && now[at] != before[at];
            Ok(if back { Ok(()) } else { Err(now.join(" ")) })
        });
        case.seen(&[]);
        case.does("nothing");
        let machine = case.mended();
        let after = pids(&machine).unwrap();
        for (other, name) in UNITS.into_iter().enumerate().filter(|(other, _)| *other != at) {
            assert_eq!(after[other], before[other], "{name} was restarted when {unit} was killed");
        }
    }
}
