//! An update, and unattended-upgrades, which has scheduled a reboot.

use super::{NEW, OLD, UpdateTestHost};

#[test]
fn an_update_that_a_scheduled_reboot_would_cut_off_is_not_begun() {
    let host = UpdateTestHost::new();
    let scheduled = |minutes: i64| {
        let micros = (jiff::Timestamp::now().as_second() + minutes * 60) * 1_000_000;
        host.write("root/run/systemd/shutdown/scheduled", &format!("USEC={micros}\nMODE=reboot\n"));
    };
    scheduled(30);
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(10), OLD.map(str::to_owned).into()), "{said}");
    assert!(said.contains("this host goes down in ") && said.contains("sudo shutdown -c"), "{said}");
    let (code, said) = host.update(&["--yes", "--when", "daily"]);
    assert!(code == Some(0) && said.contains("The timer tries again"), "{said}");
    assert!(
        !host.path("root/var/lib/weaver/update-timer.json").exists(),
        "no failure, and due in the next night"
    );
    scheduled(1_200);
    let (code, said) = host.update(&["--yes", "--when", "daily"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
}
