//! A kernel without the memory controller: k3s would restart for ever and say nothing.

use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::card::Card;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted::edits;

use crate::poll::until;
use crate::root::image;

#[test]
#[ignore = "needs the image: make image-smoke"]
fn k3s_is_not_started_and_the_card_says_why() {
    let card = Arc::new(Card::new(&image(), 4 << 30, &edits()).unwrap());
    let setup = Setup { arguments: vec!["cgroup_disable=memory".to_owned()], ..Setup::default() };
    let mut machine = Machine::start(&card, &setup).unwrap();
    machine.wait_for_ssh(Duration::from_mins(12)).unwrap();
    let blocked = until("the block", || {
        let asked = machine.attempt("cat /run/weaver/k3s.blocked", Duration::from_mins(1))?;
        Ok(if asked.code == 0 { Ok(asked.stdout) } else { Err(asked.stderr) })
    });
    assert!(blocked.contains("cgroup_disable=memory"), "the cause: {blocked}");
    until("an end of the boot", || {
        let state = machine.attempt("systemctl is-system-running", Duration::from_mins(1))?;
        let state = state.stdout.trim().to_owned();
        Ok(if state == "starting" { Err(state) } else { Ok(()) })
    });
    let k3s = machine.run("systemctl show --value -p ActiveState -p ConditionResult k3s.service").unwrap();
    let words: Vec<_> = k3s.split_whitespace().collect();
    assert!(words.contains(&"inactive") && words.contains(&"no"), "k3s was not to start: {k3s}");
    let operator =
        machine.attempt("systemctl is-active weaver-operator.service", Duration::from_mins(1)).unwrap();
    assert_ne!(operator.stdout.trim(), "active");
    let banner = machine.run("cat /run/issue.d/*weaver*").unwrap();
    assert!(banner.contains("N-0"), "the console names the code: {banner}");

    machine.power_off(Duration::from_mins(3)).unwrap();
    let text = machine.read_fat("NODE-STATUS.txt").unwrap().expect("the reason is on the card");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("cgroup_disable=memory") && text.contains("cmdline.txt"), "{text}");
}
