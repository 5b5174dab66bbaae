//! A newer kernel on trial: one that is kept, and one that hangs. The harness plays the driver that Debian's kernel
//! lacks, and the firmware.

use std::thread::sleep;
use std::time::Duration;

use weaver_image::boot::machine::Machine;
use weaver_image::boot::running::End;
use weaver_image::booted::{machine, wait_for_unit};

use crate::poll::until_within;

const BOOT: Duration = Duration::from_mins(15);
/// For a command in the guest, and for what makes an initramfs there.
const COMMAND: Duration = Duration::from_mins(30);
/// Twice that, and a proof.
const KEPT: Duration = Duration::from_hours(1);

/// The running kernel with another release in it, of the same length, as a package that apt has. Debian's modules are
/// bound to symbols and not to the release.
const ARCHIVE: &str = r#"set -e
old=$(uname -r)
new=9${old#?}
mkdir /var/tmp/kernels && cd /var/tmp/kernels
tree=linux-image-$new
mkdir -p meta/DEBIAN $tree/DEBIAN $tree/boot $tree/usr/lib/modules
gzip -cd < /boot/vmlinuz-$old > image 2> /dev/null || cp /boot/vmlinuz-$old image
LC_ALL=C sed "s/$old/$new/g" image > $tree/boot/vmlinuz-$new
cp /boot/config-$old $tree/boot/config-$new
cp -a /usr/lib/modules/$old $tree/usr/lib/modules/$new
cp -a /usr/lib/linux-image-$old $tree/usr/lib/linux-image-$new
cat > $tree/DEBIAN/postinst <<END
#!/bin/sh
set -e
DEB_MAINT_PARAMS=configure run-parts --exit-on-error --arg=$new --arg=/boot/vmlinuz-$new /etc/kernel/postinst.d
END
chmod 755 $tree/DEBIAN/postinst
about() {
    printf 'Package: %s\nVersion: 9-1\nArchitecture: arm64\nInstalled-Size: %s\nMaintainer: x <x@x.test>\n' $1 $2
    printf 'Depends: %s\nDescription: x\n' "$3"
}
about $tree 200000 kmod > $tree/DEBIAN/control
about linux-image-arm64 1 "$tree (= 9-1)" > meta/DEBIAN/control
"#;

/// A kernel that is a loop: its first instruction branches to itself.
const HANGS: &str = r"
hang=$tree/boot/vmlinuz-$new
dd if=/dev/zero of=$hang bs=4096 count=1 status=none
printf '\000\000\000\024' | dd of=$hang conv=notrunc status=none
printf '\000\020' | dd of=$hang bs=1 seek=16 conv=notrunc status=none
printf 'ARMd' | dd of=$hang bs=1 seek=56 conv=notrunc status=none
";

const PUBLISHED: &str = r"
for package in $tree meta; do
    dpkg-deb --root-owner-group -Znone --build $package $package.deb > /dev/null
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $package.deb $(stat -c %s $package.deb) \
        $(sha256sum < $package.deb | cut -c-64) | cat $package/DEBIAN/control - >> Packages
done
rm -rf $tree meta image
printf 'Origin: x\nSHA256:\n %s %s Packages\n' $(sha256sum < Packages | cut -c-64) $(stat -c %s Packages) > Release
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/var/tmp/kernels ./' > /etc/apt/sources.list.d/kernels.list
";

/// The release of the kernel that runs, and of the one that is tried.
fn releases(machine: &Machine) -> (String, String) {
    let old = machine.run("uname -r").unwrap().trim().to_owned();
    let new = format!("9{}", &old[1..]);
    (old, new)
}

/// Asks for the trial of such a kernel, up to the restart.
fn asked(mut machine: Machine, made: &str) -> Machine {
    machine.run_within(&format!("{ARCHIVE}{made}{PUBLISHED}"), COMMAND).unwrap();
    let config = machine.run("cat /boot/firmware/config.txt").unwrap();
    // The connection breaks when it restarts.
    let said = machine.attempt("weaver-node-agent update --kernel --yes 2>&1", COMMAND);
    if let Ok(said) = &said {
        assert!(said.stdout.is_empty() || said.stdout.contains("has no driver that asks"), "{}", said.stdout);
    }
    assert_eq!(machine.wait_for_end(BOOT).unwrap(), End::Reset, "{:?}", said.map(|said| said.stdout));
    let now = String::from_utf8(machine.read_fat("config.txt").unwrap().unwrap()).unwrap();
    assert_eq!(now, config, "what a regular start reads");
    let machine = machine.start_again().unwrap();
    assert!(machine.steps().contains(&"on trial: tryboot.txt".to_owned()), "{:?}", machine.steps());
    assert!(machine.steps().contains(&"os_prefix: weaver-kernel/".to_owned()), "{:?}", machine.steps());
    machine
}

/// Waits until the record says so, and what a boot completes has ended.
fn wait_for_phase(machine: &Machine, phase: &str, limit: Duration) {
    let wanted = format!("\"phase\": \"{phase}\"");
    until_within(limit, &format!("the phase {phase}"), || {
        let record = machine.run("cat /var/lib/weaver/kernel.json")?;
        Ok(if record.contains(&wanted) { Ok(()) } else { Err(record) })
    });
    let ends =
        "while [ \"$(systemctl show -P ActiveState weaver-update-resume)\" = activating ]; do sleep 2; done";
    machine.run_within(ends, BOOT).unwrap();
}

fn is_tidy(machine: &Machine) {
    let left =
        machine.run("cd /boot/firmware && ls -d weaver-kernel tryboot.txt 2> /dev/null || true").unwrap();
    assert_eq!(left, "");
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_kernel_that_is_proven_on_trial_starts_from_then_on() {
    let machine = machine().unwrap();
    let (old, new) = releases(&machine);
    let cmdline = machine.run("cat /boot/firmware/cmdline.txt").unwrap();
    let mut machine = asked(machine, "");
    machine.wait_for_ssh(BOOT).unwrap();
    assert_eq!(machine.run("uname -r").unwrap().trim(), new);
    assert!(machine.run("cat /proc/cmdline").unwrap().contains("panic=10"));
    wait_for_phase(&machine, "kept", KEPT);
    is_tidy(&machine);
    let config = machine.run("cat /boot/firmware/config.txt").unwrap();
    assert!(
        config.contains(&format!("kernel=vmlinuz-{new}\n"))
            && !config.contains(&old)
            && !config.contains("os_prefix"),
        "{config}"
    );
    assert_eq!(machine.run("cat /boot/firmware/cmdline.txt").unwrap(), cmdline, "its hook wrote another one");
    machine.run(&format!("cmp /boot/vmlinuz-{new} /boot/firmware/vmlinuz-{new}")).unwrap();
    let status = machine.run(&format!("dpkg-query -W -f '${{db:Status-Abbrev}}' linux-image-{new}")).unwrap();
    assert_eq!(status.trim(), "ii");
    assert_eq!(machine.run("dpkg --audit").unwrap(), "");

    // The connection may break before ssh has its answer.
    let _ = machine.attempt("reboot", COMMAND);
    assert_eq!(machine.wait_for_end(BOOT).unwrap(), End::Reset);
    let mut machine = machine.start_again().unwrap();
    assert!(!machine.steps().iter().any(|step| step.starts_with("on trial")), "{:?}", machine.steps());
    machine.wait_for_ssh(BOOT).unwrap();
    assert_eq!(machine.run("uname -r").unwrap().trim(), new);
    wait_for_unit(&machine, "weaver-operator.service", BOOT).unwrap();
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_kernel_that_hangs_on_trial_is_left_by_a_power_cut_and_nothing_of_it_stays() {
    let machine = machine().unwrap();
    let (old, new) = releases(&machine);
    let mut machine = asked(machine, HANGS);
    sleep(Duration::from_secs(20));
    assert_eq!(machine.console(), "", "it says nothing, and does not end");
    machine.kill().unwrap();
    let mut machine = machine.start_again().unwrap();
    assert!(!machine.steps().iter().any(|step| step.starts_with("on trial")), "{:?}", machine.steps());
    machine.wait_for_ssh(BOOT).unwrap();
    assert_eq!(machine.run("uname -r").unwrap().trim(), old);
    wait_for_phase(&machine, "refused", BOOT);
    let log = machine.run("journalctl -b -u weaver-update-resume --no-pager").unwrap();
    assert!(log.contains("the trial did not start, or did not come back"), "{log}");
    is_tidy(&machine);
    machine.run(&format!("! ls -d /lib/modules/{new}")).unwrap();
    wait_for_unit(&machine, "weaver-operator.service", BOOT).unwrap();
}
