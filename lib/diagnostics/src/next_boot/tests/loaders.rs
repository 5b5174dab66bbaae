//! GRUB, U-Boot and what replaces the firmware's file.

use super::*;

#[test]
fn grub_and_kairos() {
    const GRUB_CFG: &str = "/boot/grub/grub.cfg";
    let grub = "set default=\"0\"\nmenuentry 'Debian' {\n\tlinux /boot/vmlinuz-6.12 root=UUID=1 ro quiet $vt_handoff\n}\n\
                submenu 'Advanced' {\nmenuentry 'recovery' {\n\tlinux /boot/vmlinuz-6.12 root=UUID=1 ro single\n}\n}\n\
                menuentry memtest {\n linux16 /boot/memtest86+.bin\n}\n";
    let kairos = "BOOT_IMAGE=(loop0)/boot/vmlinuz root=LABEL=COS_ACTIVE cos-img/filename=/cOS/active.img rd.cos.oemlabel=COS_OEM";
    let by_grub = "BOOT_IMAGE=/boot/vmlinuz-6.12 root=UUID=1 ro quiet";
    let uefi =
        "arm_64bit=1\narmstub=RPI_EFI.fd\ndisable_commandline_tags=2\n[pi4]\ndtoverlay=upstream-pi4\n[all]\n";
    for (system, running, given, want) in [
        (
            "a PC, or UEFI on a Pi",
            by_grub,
            &[(GRUB_CFG, grub)][..],
            "GRUB /boot/grub/grub.cfg:3 root=UUID=1 ro quiet",
        ),
        (
            "UEFI on a Pi, whose firmware has a cmdline.txt of no use",
            by_grub,
            &[(GRUB_CFG, grub), (CONFIG, uefi), (CMDLINE, LINE)],
            "GRUB /boot/grub/grub.cfg:3 root=UUID=1 ro quiet",
        ),
        ("GRUB's files not mounted", by_grub, &[], "GRUB ? /boot/grub/grub.cfg: it is not there"),
        (
            "GRUB with variables",
            by_grub,
            &[(GRUB_CFG, "linux /v root=a ${extra}\n")],
            "GRUB /boot/grub/grub.cfg:1 root=a ${extra} ? /boot/grub/grub.cfg:1: `root=a ${extra}` has variables",
        ),
        (
            "GRUB with entries of their own",
            by_grub,
            &[
                ("/boot/grub2/grub.cfg", "blscfg\n"),
                ("/boot/loader/entries/a.conf", "title A\noptions root=c\n"),
            ],
            "GRUB /boot/loader/entries/a.conf:2 root=c",
        ),
        (
            "Kairos",
            kairos,
            &[],
            "GRUB ? /oem/grubenv: its variables may be in another partition's grubenv, and each image has parameters of \
             its own",
        ),
        (
            "Kairos, asked for",
            kairos,
            &[("/oem/grubenv", "# GRUB Environment Block\nextra_cmdline=cgroup_enable=memory\n####")],
            "GRUB /oem/grubenv:2 cgroup_enable=memory",
        ),
    ] {
        assert_eq!(said(given, &machine(running)), want, "{system}");
    }
}

#[test]
fn u_boot_in_each_form() {
    let extlinux = "## written\ndefault l1\nmenu title U-Boot\nlabel l0\n\tappend root=a\nlabel l1\n\tlinux /v\n\tAPPEND root=b ro\n";
    let env = "verbosity=1\nextraargs=cma=128M\nextraboardargs=x\n";
    let script = "if test \"${docker_optimizations}\" = \"on\"; then setenv bootargs \"${bootargs} cgroup_enable=memory\"; fi\n";
    for (system, running, given, want) in [
        (
            "a Pi with U-Boot and a file of its own",
            "root=b ro",
            &[(CONFIG, "kernel=u-boot.bin\n"), (CMDLINE, LINE), ("/boot/extlinux/extlinux.conf", extlinux)][..],
            "U-Boot /boot/extlinux/extlinux.conf:8 root=b ro",
        ),
        (
            "a Pi with U-Boot whose files are not here",
            "root=b ro",
            &[(CONFIG, "kernel=u-boot.bin\n"), (CMDLINE, LINE)],
            "the boot loader ? /boot/firmware/config.txt:1: `kernel=u-boot.bin` has the firmware start a boot loader \
             whose configuration is not known here; /boot/firmware/cmdline.txt is not what the running kernel got",
        ),
        (
            "extlinux",
            "root=b ro",
            &[("/boot/extlinux/extlinux.conf", extlinux)],
            "U-Boot /boot/extlinux/extlinux.conf:8 root=b ro",
        ),
        (
            "Armbian",
            "root=b",
            &[("/boot/armbianEnv.txt", env), ("/boot/boot.cmd", "# nothing of cgroups\n")],
            "U-Boot /boot/armbianEnv.txt:2 cma=128M x",
        ),
        (
            "Armbian's script adds it",
            "root=b",
            &[("/boot/armbianEnv.txt", env), ("/boot/boot.cmd", script)],
            "U-Boot /boot/armbianEnv.txt:2 cma=128M x cgroup_enable=memory",
        ),
        (
            "Armbian, with that turned off",
            "root=b",
            &[("/boot/armbianEnv.txt", "docker_optimizations=off\n"), ("/boot/boot.cmd", script)],
            "U-Boot /boot/armbianEnv.txt:1 ",
        ),
        (
            "Armbian without the script's source",
            "root=b",
            &[("/boot/armbianEnv.txt", env)],
            "U-Boot /boot/armbianEnv.txt:2 cma=128M x ? /boot/boot.scr: it is a compiled script, and may add some",
        ),
        (
            "another script",
            "root=b",
            &[("/boot/boot.scr", "\u{27}\u{5}")],
            "U-Boot ? /boot/boot.scr: it is a compiled script",
        ),
    ] {
        assert_eq!(said(given, &machine(running)), want, "{system}");
    }
}

#[test]
fn what_to_type_for_grub_depends_on_its_defaults() {
    let running = machine("BOOT_IMAGE=/v root=a");
    for (defaults, want) in [
        (&[][..], "tee -a"),
        (&[("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n")], "sed"),
        (&[("/etc/default/grub", "GRUB_CMDLINE_LINUX=''\n")], "nano"),
        (
            &[("/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet cgroup_enable=memory\"\n")],
            "sudo grub-mkconfig",
        ),
        (
            &[("/etc/default/grub.d/50-k3s.cfg", "GRUB_CMDLINE_LINUX='cgroup_enable=memory'\n")],
            "sudo grub-mkconfig",
        ),
    ] {
        let given = [&[("/boot/grub/grub.cfg", "linux /v root=a\n")], defaults].concat();
        let BootFile::Loader(loader) = forecast(&files(&given), &running).file else {
            panic!("{defaults:?}")
        };
        let commands = &loader.to_enable.commands;
        assert!(commands[0].contains(want), "{commands:?}");
        assert_eq!(*commands.last().unwrap(), "sudo grub-mkconfig -o /boot/grub/grub.cfg");
    }
}
