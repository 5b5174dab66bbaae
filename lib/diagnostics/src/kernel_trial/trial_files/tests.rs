use super::*;
use crate::config_txt::{Hardware, Included, read};

fn config(text: &str) -> ConfigTxt {
    let hardware = Hardware {
        model: Some("Raspberry Pi 4 Model B Rev 1.5".to_owned()),
        serial: Some(1),
        is_tryboot: true,
        ..Hardware::default()
    };
    read(text, &hardware, |_| Included::Missing)
}

/// As Debian's hook and as Raspberry Pi OS write it.
const DEBIAN: &str = "arm_64bit=1\nupstream_kernel=1\n\nkernel=vmlinuz-6.12.48+deb13-arm64\n\
                      initramfs initrd.img-6.12.48+deb13-arm64\n";
const PI_OS: &str = "dtparam=audio=on\nauto_initramfs=1\narm_64bit=1\n[cm4]\notg_mode=1\n";

#[test]
fn a_trial_is_the_present_configuration_with_the_new_names_and_the_directory() {
    let trial = trial_text(DEBIAN, "6.12.48+deb13-arm64", "6.12.57+deb13-arm64");
    let read = config(&trial);
    takes_directory(&read).unwrap();
    let want = KernelNames {
        kernel: "vmlinuz-6.12.57+deb13-arm64".to_owned(),
        initramfs: Some("initrd.img-6.12.57+deb13-arm64".to_owned()),
        cmdline: "cmdline.txt".to_owned(),
    };
    assert_eq!(names(&read, "6.12.57+deb13-arm64").unwrap(), want);
    let kept = kept_text(&trial).unwrap();
    assert_eq!(kept, DEBIAN.replace("6.12.48", "6.12.57"));
    assert_eq!(kept_text(&kept), None);

    for text in [PI_OS, PI_OS.trim_end(), &PI_OS.replace('\n', "\r\n"), "[none]"] {
        let trial = trial_text(text, "6.12.47+rpt-rpi-v8", "6.12.62+rpt-rpi-v8");
        takes_directory(&config(&trial)).unwrap();
        assert_eq!(kept_text(&trial).as_deref(), Some(text), "nothing but the end is added");
    }
}

#[test]
fn what_was_written_into_the_configuration_of_a_trial_stays_where_the_directory_goes() {
    let trial = trial_text("[cm4]\notg_mode=1\n", "a", "b");
    for (edited, want) in [
        (format!("{trial}dtparam=audio=on\n"), "[cm4]\notg_mode=1\n\n[all]\ndtparam=audio=on\n"),
        (trial.trim_end().to_owned(), "[cm4]\notg_mode=1\n\n[all]\n"),
        (trial.replace('\n', "\r\n"), "[cm4]\r\notg_mode=1\r\n\r\n[all]\r\n"),
        (format!("arm_64bit=1\n{trial}"), "arm_64bit=1\n[cm4]\notg_mode=1\n"),
    ] {
        assert_eq!(kept_text(&edited).as_deref(), Some(want), "{edited}");
    }
    assert_eq!(kept_text("os_prefix=mine/\n"), None);
}

#[test]
fn the_names_that_a_configuration_has_for_a_kernel() {
    for (text, release, want) in [
        (PI_OS, "1-rpi-v8", Ok(("kernel8.img", Some("initramfs8")))),
        (PI_OS, "1-rpi-2712", Ok(("kernel_2712.img", Some("initramfs_2712")))),
        ("", "1-rpi-v8", Ok(("kernel8.img", None))),
        ("kernel=a\ninitramfs b 0x1000\n", "1-arm64", Ok(("a", Some("b")))),
        ("kernel=a\n[none]\ninitramfs b\n", "1-arm64", Ok(("a", None))),
        ("kernel=kernel7l.img\nauto_initramfs=1\n", "1-x", Ok(("kernel7l.img", Some("initramfs7l")))),
        ("", "1-arm64", Err("config.txt has no `kernel=`")),
        ("kernel=/a\n", "1-arm64", Err("`/a` for `kernel` in config.txt is no single file")),
        ("kernel=a\ncmdline=x/y\n", "1-arm64", Err("`x/y` for `cmdline`")),
        ("kernel=a\ninitramfs b,c\n", "1-arm64", Err("`b,c` for `initramfs`")),
        ("kernel=a\nauto_initramfs=1\n", "1-arm64", Err("`auto_initramfs=1` for `a`")),
        ("kernel=a\nauto_initramfs=1\ninitramfs b\n", "1-arm64", Err("or in two ways")),
        ("kernel=a\nramfsfile=b\n", "1-arm64", Err("or in two ways")),
        ("[gpio4=1]\nkernel=a\n", "1-arm64", Err("whether `kernel=a` in config.txt applies is unknown")),
        ("kernel=a\n[gpio4=1]\ninitramfs b\n", "1-arm64", Err("whether `initramfs b`")),
    ] {
        match (names(&config(text), release), want) {
            (Ok(found), Ok((kernel, initramfs))) => {
                assert_eq!(
                    (found.kernel.as_str(), found.initramfs.as_deref()),
                    (kernel, initramfs),
                    "{text}"
                );
            }
            (Err(refusal), Err(words)) => assert!(refusal.what.contains(words), "{text}: {refusal}"),
            (found, want) => panic!("{text}: {found:?}, {want:?}"),
        }
    }
}

#[test]
fn another_prefix_behind_it_is_seen() {
    let refusal = takes_directory(&config(&(trial_text("", "a", "b") + "os_prefix=mine/\n"))).unwrap_err();
    assert!(refusal.what.ends_with("os_prefix=mine/"), "{refusal}");
}

#[test]
fn a_kernel_that_panics_restarts() {
    for (present, want) in [
        ("root=x rw\n", "panic=10 root=x rw\n"),
        ("root=x -- single\r\n", "panic=10 root=x -- single\r\n"),
        ("root=x panic=0\n", "root=x panic=0\n"),
        ("root=x\npanic=0\n", "panic=10 root=x\npanic=0\n"),
        ("root=x oops=panic", "panic=10 root=x oops=panic"),
    ] {
        assert_eq!(trial_cmdline(present), want);
    }
}

#[test]
fn each_tree_and_overlay_of_now_is_there_of_the_new_kernel_where_it_has_one() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let names =
        KernelNames { kernel: "k".to_owned(), initramfs: Some("i".to_owned()), cmdline: "c".to_owned() };
    let shown = |package: &TreeNames, present: &TreeNames| {
        let files = files(&names, package, present)?;
        Ok::<_, UpgradeRefusal>(
            files.iter().map(|file| format!("{} {:?}", file.path, file.from)).collect::<Vec<_>>(),
        )
    };
    let present = TreeNames { trees: list(&["a.dtb", "MINE.DTB"]), overlays: list(&["README", "own.dtbo"]) };
    let mut package = TreeNames { trees: list(&["A.dtb", "other.dtb"]), overlays: Vec::new() };
    let plain = [r"k Kernel", r"i Initramfs", r#"a.dtb Tree("A.dtb")"#, r#"MINE.DTB Present("MINE.DTB")"#]
        .map(str::to_owned);
    assert_eq!(shown(&package, &present).unwrap(), plain);
    package.overlays = list(&["README", "new.dtbo"]);
    let overlays = [
        r#"overlays/README Overlay("README")"#,
        r#"overlays/new.dtbo Overlay("new.dtbo")"#,
        r#"overlays/own.dtbo Present("overlays/own.dtbo")"#,
    ];
    assert_eq!(shown(&package, &present).unwrap(), [&plain[..], &overlays.map(str::to_owned)].concat());
    let refusal = shown(&package, &TreeNames::default()).unwrap_err();
    assert!(refusal.what.contains("no device tree"), "{refusal}");
}
