//! What the firmware loads from a card, and which cards it refuses.

use std::fs;

use weaver_image::boot::board::Board;

use super::cards::{CONFIG, CardImage, MIB, Then, kernel};

#[test]
fn the_firmware_takes_what_the_card_names() {
    let kernel = kernel("word", Then::PowerOff);
    let image = CardImage::good(&kernel);
    image.write("cmdline.txt", b"root=LABEL=weaver-root rw\r\ncgroup_enable=memory\r\n");
    let (_dir, played) = image.play(Board::Pi4).unwrap();
    assert_eq!(fs::read(&played.kernel).unwrap(), kernel);
    assert_eq!(fs::read(played.initramfs.as_ref().unwrap()).unwrap(), b"initramfs");
    let line = &played.arguments;
    assert!(
        line.starts_with("8250.nr_uarts=1 ")
            && line.ends_with(" root=LABEL=weaver-root rw console=ttyAMA0 extra=1"),
        "{line}"
    );
    let steps = played.steps.join("\n");
    assert!(
        steps.contains("cmdline.txt: ignored, as it is not on the first line: cgroup_enable=memory"),
        "{steps}"
    );
}

#[test]
fn a_prefix_counts_only_where_kernel_and_device_tree_are() {
    let image = CardImage::good(&kernel("old", Then::PowerOff));
    let config = format!("{CONFIG}os_prefix=new/\n");
    image.write("config.txt", config.as_bytes());
    let new = kernel("new", Then::PowerOff);
    image.write("new/vmlinuz", &new);
    let (_dir, played) = image.play(Board::Pi4).unwrap();
    assert!(
        played.steps.iter().any(|step| step.starts_with("os_prefix: new/ is ignored")),
        "{:?}",
        played.steps
    );
    assert_ne!(fs::read(&played.kernel).unwrap(), new);

    image.write("new/bcm2711-rpi-4-b.dtb", b"tree");
    image.write("new/initrd", b"new initramfs");
    image.write("new/cmdline.txt", b"root=new\n");
    let (_dir, played) = image.play(Board::Pi4).unwrap();
    assert_eq!(fs::read(&played.kernel).unwrap(), new);
    assert_eq!(fs::read(played.initramfs.as_ref().unwrap()).unwrap(), b"new initramfs");
    assert!(played.arguments.contains("root=new"), "{}", played.arguments);
}

#[test]
fn a_start_on_trial_reads_its_own_file_where_there_is_one() {
    let image = CardImage::good(&kernel("old", Then::PowerOff));
    let new = kernel("new", Then::PowerOff);
    let takes_new = |is_trial| {
        let (_dir, played) = image.play_start(Board::Pi4, is_trial).unwrap();
        fs::read(&played.kernel).unwrap() == new
    };
    assert!(!takes_new(true), "without tryboot.txt it is a start as any other");
    image.write("tryboot.txt", format!("{CONFIG}os_prefix=new/\n").as_bytes());
    image.write("new/vmlinuz", &new);
    for name in ["initrd", "cmdline.txt", "bcm2711-rpi-4-b.dtb"] {
        image.write(&format!("new/{name}"), b"new");
    }
    assert!(takes_new(true) && !takes_new(false));
}

#[test]
fn a_card_that_no_board_boots_is_refused_by_file_and_remedy() {
    type Change = fn(&CardImage);
    let cases: [(&str, Change, &str); 8] = [
        (
            "no kernel",
            |i| i.write("config.txt", b"kernel=none\n"),
            "none is not on the card, and it is the kernel",
        ),
        (
            "no initramfs",
            |i| i.write("config.txt", b"kernel=vmlinuz\ninitramfs gone followkernel\n"),
            "gone is not on the card",
        ),
        (
            "no device tree",
            |i| i.write("config.txt", b"kernel=vmlinuz\ndevice_tree=x.dtb\n"),
            "x.dtb is not on the card",
        ),
        (
            "no cmdline.txt",
            |i| i.write("config.txt", b"kernel=vmlinuz\ncmdline=other.txt\n"),
            "other.txt is not on the card",
        ),
        (
            "empty cmdline.txt",
            |i| i.write("cmdline.txt", b"\nroot=x\n"),
            "the first line of cmdline.txt on the card is empty",
        ),
        ("not arm64", |i| i.write("vmlinuz", &[b'x'; 100]), "vmlinuz on the card is no arm64 kernel"),
        ("empty kernel", |i| i.write("vmlinuz", b""), "vmlinuz on the card is no arm64 kernel"),
        ("32 bit", |i| i.write("config.txt", b"arm_64bit=0\nkernel=vmlinuz\n"), "write arm_64bit=1 there"),
    ];
    for (name, change, want) in cases {
        let image = CardImage::good(&kernel("", Then::PowerOff));
        change(&image);
        let error = format!("{:#}", image.play(Board::Pi4).expect_err(name));
        assert!(error.contains(want), "{name}: {error}");
    }
    let error = format!("{:#}", CardImage::empty().play(Board::Pi4).unwrap_err());
    assert!(error.starts_with("config.txt is not on the card"), "{error}");
}

#[test]
fn a_destroyed_boot_partition_is_said_to_be_so() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    image.put(MIB, &[0xff; 512]);
    let error = format!("{:#}", image.play(Board::Pi4).unwrap_err());
    assert!(error.contains("cannot read the card's FAT partition (8388608 bytes"), "{error}");
}
