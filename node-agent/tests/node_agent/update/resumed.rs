//! An update that was cut off, and completed by a boot or by the timer.

use std::fs;

use super::{NEW, OLD, UpdateTestHost};

const RECORD: &str = "root/var/lib/weaver/update-timer.json";

#[test]
fn a_version_that_a_boot_could_not_verify_is_skipped_by_the_timer() {
    let host = UpdateTestHost::new();
    let timer = ["--yes", "--when", "daily"];
    host.offers("0.2bad");
    host.write("kill", "within dpkg install");
    assert_eq!(host.update(&timer).0, None);
    assert!(!host.path(RECORD).exists(), "it did not live to say so");
    let (code, said) = host.update(&["--resume", "--yes"]);
    assert_eq!((code, host.installed()), (Some(12), OLD.map(str::to_owned).into()), "{said}");
    let noted = fs::read_to_string(host.path(RECORD)).unwrap();
    assert!(noted.contains(r#""unproven":"0.2bad""#) && noted.contains("is installed again"), "{noted}");
    // The next night.
    host.write(RECORD, r#"{"made": 1, "unproven": "0.2bad"}"#);
    let (code, said) = host.update(&timer);
    assert_eq!((code, host.installed()), (Some(0), OLD.map(str::to_owned).into()), "{said}");
    assert!(said.contains("0.2bad could not be verified on this host and is skipped"), "{said}");
}

#[test]
fn an_update_of_a_user_that_is_completed_is_none_of_the_timers() {
    for flags in [&["--resume", "--yes"][..], &["--yes", "--when", "daily"]] {
        let host = UpdateTestHost::new();
        host.offers("0.2bad");
        host.write("kill", "within dpkg install");
        assert_eq!(host.update(&["--yes"]).0, None);
        let (code, said) = host.update(flags);
        assert_eq!((code, host.installed()), (Some(12), OLD.map(str::to_owned).into()), "{said}");
        assert!(!host.path(RECORD).exists(), "{flags:?}");
    }
}

#[test]
fn what_apt_installs_besides_to_complete_an_update_is_said_before() {
    let host = UpdateTestHost::new();
    host.write("missing", "libmissing\n");
    host.write("kill", "within apt-get install");
    let (code, said) = host.update(&["--yes"]);
    assert!(code.is_none() && said.contains("\napt also installs: libother 1.0\n"), "{said}");
    let (code, said) = host.update(&["--resume", "--yes"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    let announced = said.find("\napt also installs: libother 1.0, libmissing 1\n").unwrap();
    assert!(announced < said.find("Installing 0.2").unwrap(), "{said}");
}
