use proptest::prelude::*;

use super::cmdline_file::{CmdlineFile, cmdline_file};
use super::*;

const PI4: &str = "Raspberry Pi 4 Model B Rev 1.5";

fn hardware(model: Option<&str>) -> Hardware {
    let (model, serial) = (model.map(str::to_owned), Some(0x1000_0000_1234_5678));
    Hardware { model, serial, ..Hardware::default() }
}

/// The value of `cmdline`: `-` if there is none, and where it is not known the line with the reason.
fn cmdline(text: &str, model: Option<&str>, files: &[(&str, &str)]) -> String {
    let include = |name: &str| match files.iter().find(|(file, _)| *file == name) {
        Some((_, "damaged")) => Included::Unreadable("damaged".to_owned()),
        Some((_, text)) => Included::Text((*text).to_owned()),
        None => Included::Missing,
    };
    let config = read(text, &hardware(model), include);
    match config.value("cmdline") {
        Ok(value) => value.unwrap_or("-").to_owned(),
        Err(line) => format!("?{}:{}", line.file, line.number),
    }
}

/// On a Pi 4 with the serial number 12345678.
#[test]
fn every_rule_of_the_documentation() {
    let long = |blanks: usize, value: usize| format!("{}cmdline={}", " ".repeat(blanks), "x".repeat(value));
    for (rule, text, want) in [
        ("nothing is set", "", "-"),
        ("one property a line", "cmdline=a", "a"),
        ("the last value wins", "cmdline=a\ncmdline=b\n", "b"),
        ("an empty value is the default", "cmdline=a\ncmdline=\n", "-"),
        ("a line that starts with # is a comment", "#cmdline=a\n  # cmdline=b\n", "-"),
        ("there are no other comments", "cmdline=a # b\n", "a # b"),
        ("blanks around a line do not count", " \tcmdline=a \t\r\n", "a"),
        ("a blank next to = belongs to the property", "cmdline =a\n", "-"),
        ("a blank next to = belongs to the value", "cmdline= a\n", " a"),
        ("properties are case-sensitive", "CMDLINE=a\n", "-"),
        ("a property in a value is none", "dtparam=cmdline=a\n", "-"),
        ("of a value with = all is the value", "cmdline=a=b\n", "a=b"),
        // 8 characters are the property and its sign.
        ("98 characters are read", &long(0, 90), &"x".repeat(90)),
        ("further characters are ignored", &long(0, 91), &"x".repeat(90)),
        ("blanks count", &long(2, 90), &"x".repeat(88)),
        ("no character is cut in two", &format!("cmdline={}ä", "x".repeat(89)), &"x".repeat(89)),
        ("[all] applies", "[all]\ncmdline=a\n", "a"),
        ("[none] never applies", "cmdline=a\n[none]\ncmdline=b\n", "a"),
        ("[none] combines", "cmdline=a\n[none]\n[pi4]\ncmdline=b\n", "a"),
        ("[all] ends [none]", "[none]\ncmdline=a\n[all]\ncmdline=b\n", "b"),
        ("the model", "[pi4]\ncmdline=a\n", "a"),
        ("another model", "cmdline=a\n[pi5]\ncmdline=b\n", "a"),
        ("a later model", "[pi6]\ncmdline=b\n", "-"),
        ("the same type replaces", "[pi5]\n[pi4]\ncmdline=a\n", "a"),
        ("the same type replaces, no", "[pi4]\n[pi02]\ncmdline=a\n", "-"),
        ("a board type", "[board-type=0x11]\ncmdline=a\n", "a"),
        ("a board type in decimal", "[board-type=17]\ncmdline=a\n", "a"),
        ("another board type", "[board-type=0x14]\ncmdline=a\n", "-"),
        ("a board type is a model filter", "[pi5]\n[board-type=0x11]\ncmdline=a\n", "a"),
        ("the serial number", "[0x12345678]\ncmdline=a\n", "a"),
        ("another serial number", "[0x12345679]\ncmdline=a\n", "-"),
        ("other types combine", "[0x12345679]\n[pi4]\ncmdline=a\n", "-"),
        ("other types combine, the other way round", "[pi5]\n[0x12345678]\ncmdline=a\n", "-"),
        ("[all] resets all", "[0x12345679]\n[pi5]\n[all]\ncmdline=a\n", "a"),
        ("no start but one is a tryboot", "[tryboot]\n[pi4]\ncmdline=a\n", "-"),
        ("an indented filter", "  [pi5]\n  cmdline=a\n", "-"),
        // What only the firmware knows.
        ("a pin", "[gpio4=1]\ncmdline=a\n", "?config.txt:2"),
        ("a pin that changes nothing", "cmdline=a\n[gpio4=1]\ndtparam=x\ncmdline=a\n", "a"),
        ("a pin, overruled", "[gpio4=1]\ncmdline=a\n[all]\ncmdline=b\n", "b"),
        ("a pin of another board", "[pi5]\n[gpio4=1]\ncmdline=a\n", "-"),
        ("pins are of one type", "[gpio4=1]\n[gpio2=0]\ncmdline=a\n[all]\n", "?config.txt:3"),
        ("a monitor", "[EDID=VSC-TD2220]\ncmdline=a\n", "?config.txt:2"),
        ("a monitor on this board", "[EDID=VSC-TD2220]\n[pi4]\ncmdline=a\n", "?config.txt:3"),
        ("a port", "[HDMI:1]\ncmdline=a\n", "?config.txt:2"),
        ("the partition that was asked for", "[partition=2]\ncmdline=a\n", "?config.txt:2"),
        ("the partition", "[boot_partition=2]\ncmdline=a\n", "?config.txt:2"),
        ("a variable", "[bootvar0=42]\ncmdline=a\n", "?config.txt:2"),
        ("bits of a variable", "[boot_arg1&0x10=0x10]\ncmdline=a\n", "?config.txt:2"),
        ("more than a variable", "[boot_count>3]\ncmdline=a\n", "?config.txt:2"),
        ("a row of the customer", "[cust_otp7<3]\ncmdline=a\n", "?config.txt:2"),
        ("a serial number of all digits", "[0x1000000012345678]\ncmdline=a\n", "?config.txt:2"),
        // What is not documented.
        ("an unknown filter", "[what is this]\ncmdline=a\n", "?config.txt:2"),
        ("filters are lower case", "[PI4]\ncmdline=a\n", "?config.txt:2"),
        ("a filter with a comment", "[pi5] # mine\ncmdline=a\n", "?config.txt:2"),
        ("a pin at no level", "[gpio4=2]\ncmdline=a\n", "?config.txt:2"),
        ("it may have replaced a model", "[pi5]\n[what]\ncmdline=a\n", "?config.txt:3"),
        ("a model after it", "[what]\n[pi5]\ncmdline=a\n", "-"),
        ("there is only one [none]", "[none]\n[what]\ncmdline=a\n", "-"),
        ("[all] resets it", "[what]\n[all]\ncmdline=a\n", "a"),
        ("a file is inserted", "include a.txt\n", "of-a"),
        ("what follows wins", "include a.txt\ncmdline=b\n", "b"),
        ("a file in a file", "include b.txt\n", "of-a"),
        ("filters hold in it", "[pi5]\ninclude a.txt\n", "-"),
        ("filters of it remain", "include five.txt\ncmdline=a\n", "-"),
        ("a file that does not exist", "cmdline=a\ninclude none.txt\n", "a"),
        ("a file that cannot be read", "cmdline=a\ninclude bad.txt\n", "?config.txt:2"),
        ("a file that cannot be read may have filters", "include bad.txt\ncmdline=a\n", "?config.txt:1"),
        ("a file that cannot be read, overruled", "include bad.txt\n[all]\ncmdline=a\n", "a"),
        ("a file under a condition", "[gpio4=1]\ninclude all.txt\n", "?all.txt:2"),
        (
            "its filters, under a condition",
            "[gpio4=1]\ninclude five.txt\n[pi4]\ncmdline=a\n",
            "?config.txt:4",
        ),
        ("a byte order mark", "\u{feff}cmdline=a\n", "?config.txt:1"),
        ("a byte order mark, overruled", "\u{feff}cmdline=a\n[all]\ncmdline=b\n", "b"),
        ("[all] behind a byte order mark", "\u{feff}[all]\ncmdline=a\n", "a"),
        ("a filter behind a byte order mark", "\u{feff}[pi5]\ncmdline=a\n", "?config.txt:2"),
        ("a file that includes itself ends", "include self.txt\ncmdline=a\n", "?self.txt:2"),
        ("no file is named", "include\ncmdline=a\n", "a"),
    ] {
        let files = [
            ("a.txt", "cmdline=of-a\n"),
            ("b.txt", "include a.txt\n"),
            ("five.txt", "[pi5]\n"),
            ("all.txt", "[all]\ncmdline=of-all\n"),
            ("bad.txt", "damaged"),
            ("self.txt", "include self.txt\ninclude self.txt\n"),
        ];
        assert_eq!(cmdline(text, Some(PI4), &files), want, "{rule}: {text:?}");
    }
}

#[test]
fn a_tryboot_sees_the_lines_below_its_filter() {
    let text = "os_prefix=current/\n[tryboot]\nos_prefix=new/\n";
    let tryboot = Hardware { is_tryboot: true, ..hardware(Some(PI4)) };
    for (hardware, want) in [(hardware(Some(PI4)), "current/"), (tryboot, "new/")] {
        assert_eq!(read(text, &hardware, |_| Included::Missing).value("os_prefix"), Ok(Some(want)));
    }
}

#[test]
fn the_partition_that_has_the_file_decides_where_it_is_known() {
    let text = "[boot_partition=2]\ncmdline=b.txt\n[boot_partition=3]\ncmdline=c.txt\n[all]\n";
    for (partition, want) in [(2, Some("b.txt")), (3, Some("c.txt")), (1, None)] {
        let hardware = Hardware { partition: Some(partition), ..hardware(Some(PI4)) };
        let config = read(text, &hardware, |_| Included::Missing);
        assert_eq!(config.value("cmdline"), Ok(want), "{partition}");
    }
}

#[test]
fn each_board_sees_the_filters_of_the_table() {
    for (model, filters) in [
        ("Raspberry Pi Model B Rev 2", "pi1"),
        ("Raspberry Pi Compute Module Rev 1.0", "pi1 cm1"),
        ("Raspberry Pi 2 Model B Rev 1.1", "pi2"),
        ("Raspberry Pi 3 Model B Rev 1.2", "pi3"),
        ("Raspberry Pi 3 Model B Plus Rev 1.3", "pi3 pi3+"),
        ("Raspberry Pi Compute Module 3 Rev 1.0", "pi3 cm3"),
        ("Raspberry Pi Compute Module 3 Plus Rev 1.0", "pi3 pi3+ cm3+"),
        (PI4, "pi4"),
        ("Raspberry Pi 400 Rev 1.0", "pi4 pi400"),
        ("Raspberry Pi Compute Module 4 Rev 1.1", "pi4 cm4"),
        ("Raspberry Pi Compute Module 4S Rev 1.0", "pi4 cm4s"),
        ("Raspberry Pi 5 Model B Rev 1.1", "pi5"),
        ("Raspberry Pi 500 Rev 1.0", "pi5 pi500"),
        ("Raspberry Pi Compute Module 5 Lite Rev 1.0", "pi5 cm5"),
        ("Raspberry Pi Zero Rev 1.3", "pi0"),
        ("Raspberry Pi Zero W Rev 1.1", "pi0 pi0w"),
        ("Raspberry Pi Zero 2 W Rev 1.0", "pi0 pi0w pi02"),
    ] {
        for filter in
            "pi0 pi0w pi02 pi1 pi2 pi3 pi3+ pi4 pi400 pi5 pi500 cm0 cm1 cm3 cm3+ cm4 cm4s cm5".split(' ')
        {
            let want = if filters.split(' ').any(|seen| seen == filter) { "a" } else { "-" };
            let text = format!("[{filter}]\ncmdline=a\n");
            assert_eq!(cmdline(&text, Some(model), &[]), want, "{filter} on {model}");
        }
    }
}

#[test]
fn a_board_that_is_not_known_is_reported() {
    for model in [None, Some("Raspberry Pi 6 Model B Rev 1.0"), Some("Raspberry Pi 40")] {
        for filter in ["pi4", "pi6", "board-type=0x11"] {
            assert_eq!(cmdline(&format!("[{filter}]\ncmdline=a\n"), model, &[]), "?config.txt:2", "{filter}");
        }
    }
    let nothing = Hardware::default();
    let config = read("[0x12345678]\ncmdline=a\n", &nothing, |_| Included::Missing);
    let line = config.value("cmdline").unwrap_err();
    assert_eq!(
        line.condition.as_deref(),
        Some("[0x12345678] depends on the serial number, which is unknown here")
    );
}

#[test]
fn the_file_of_the_command_line() {
    let files = [
        "vmlinuz",
        "kernel8.img",
        "cmdline.txt",
        "current/vmlinuz",
        "current/bcm2711-rpi-4-b.dtb",
        "kernelless/bcm2711-rpi-4-b.dtb",
        "treeless/kernel8.img",
        "test-kernel8.img",
        "test-bcm2711-rpi-4-b.dtb",
        "upstream/kernel8.img",
        "upstream/bcm2711-rpi-4-b.dtb",
    ];
    let names = |directory: &str| {
        let split = files.iter().map(|path| path.rsplit_once('/').unwrap_or(("", path)));
        split.filter(|(found, _)| *found == directory).map(|(_, name)| name.to_owned()).collect()
    };
    for (text, want) in [
        ("", "cmdline.txt"),
        ("cmdline=a.txt", "a.txt"),
        ("kernel=vmlinuz\nos_prefix=current/\n", "current/cmdline.txt"),
        ("kernel=vmlinuz\nos_prefix=current/\ncmdline=a.txt", "current/a.txt"),
        ("kernel=vmlinuz\nos_prefix=current/\ncmdline=/a.txt", "a.txt"),
        ("kernel=/vmlinuz\nos_prefix=kernelless/\n", "kernelless/cmdline.txt"),
        ("os_prefix=test-\n", "test-cmdline.txt"),
        ("upstream_kernel=1\n", "upstream/cmdline.txt"),
        ("upstream_kernel=1\nkernel=vmlinuz\n", "cmdline.txt"),
        ("upstream_kernel=0\n", "cmdline.txt"),
        // Kernel and device tree are not both there.
        ("os_prefix=current/\n", "cmdline.txt"),
        ("os_prefix=kernelless/\n", "cmdline.txt"),
        ("os_prefix=treeless/\ncmdline=a.txt\n", "a.txt"),
        ("kernel=vmlinuz\nos_prefix=current/\ndevice_tree=other.dtb\n", "cmdline.txt"),
        ("os_prefix=none/\n", "cmdline.txt"),
        // Without a prefix there is no kernel either.
        ("kernel=Image\nos_prefix=none/\n", "none/cmdline.txt"),
        // Not to be known.
        (
            "[gpio4=1]\nos_prefix=test-\n",
            "?2: whether `os_prefix=test-` applies is unknown: [gpio4=1] depends on the level of a pin at \
             power-on",
        ),
        ("cmdline=../etc/shadow\n", "?1: `cmdline=../etc/shadow` is outside of the boot partition"),
        ("cmdline=/../etc/shadow\n", "?1: `cmdline=/../etc/shadow` is outside of the boot partition"),
        ("[gpio4=1]\nkernel=x\n", "cmdline.txt"),
    ] {
        let found = match cmdline_file(&read(text, &hardware(Some(PI4)), |_| Included::Missing), names) {
            CmdlineFile::File { path, is_default } => {
                assert_eq!(is_default, path == "cmdline.txt", "{text:?}");
                path
            }
            CmdlineFile::Undecided { line, why, .. } => format!("?{line}: {why}"),
        };
        assert_eq!(found, want, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_to_an_end(text in "(?s).*|([a-z\\[\\]=# ]|include x|\n)*", included in "(?s).*|(include x\n)*") {
        let config = read(&text, &hardware(Some(PI4)), |_| Included::Text(included.clone()));
        let _ = cmdline_file(&config, |_| vec!["kernel8.img".to_owned(), "x.dtb".to_owned()]);
        prop_assert!(config.lines().iter().all(|line| line.text.len() <= LINE_LIMIT));
    }

    /// After `[all]` nothing of what was before matters.
    #[test]
    fn all_resets(before in prop::collection::vec("\\[(none|pi[345]|gpio4=1|what|tryboot|0x1)\\]|dtparam=a", 0..8)) {
        let text = format!("{}\n[all]\ncmdline=a\n", before.join("\n"));
        prop_assert_eq!(cmdline(&text, Some(PI4), &[]), "a");
    }

    /// What is certain without knowing a pin is what the firmware does at either level: the section's lines
    /// apply, or not.
    #[test]
    fn what_is_certain_holds_at_every_level_of_a_pin(
        lines in prop::collection::vec("\\[(all|none|pi[45]|gpio4=1)\\]|cmdline=[ab]", 0..8),
    ) {
        let unknown = cmdline(&lines.join("\n"), Some(PI4), &[]);
        let at = |level: &str| cmdline(&lines.join("\n").replace("gpio4=1", level), Some(PI4), &[]);
        // Filters of one more type: one that applies here, one that does not.
        let (high, low) = (at("0x12345678"), at("0x0"));
        if !unknown.starts_with('?') {
            prop_assert_eq!(&unknown, &high);
            prop_assert_eq!(&unknown, &low);
        }
    }

    #[test]
    fn the_last_value_that_applies_wins(
        lines in prop::collection::vec((prop::sample::select(vec!["all", "pi4", "pi3", "none"]), "[a-z]{1,8}"), 0..12),
    ) {
        let sections = lines.iter().map(|(section, name)| format!("[all]\n[{section}]\ncmdline={name}\n"));
        let text = sections.collect::<Vec<_>>().concat();
        let want = lines.iter().rev().find(|(section, _)| ["all", "pi4"].contains(section));
        prop_assert_eq!(cmdline(&text, Some(PI4), &[]), want.map_or("-", |(_, name)| name));
    }
}
