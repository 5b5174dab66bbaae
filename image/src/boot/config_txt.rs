//! config.txt as the firmware reads it, as far as it decides what is booted.
//!
//! Sections filter what follows them: filters of one type replace each other,
//! of different types add up, `[all]` resets them. The last value wins. What
//! this harness cannot play faithfully (`include`, several initramfs files) is
//! refused where it applies, never skipped.
//! <https://www.raspberrypi.com/documentation/computers/config_txt.html>
//!
//! Failure: names the file, the line and what to write instead.

use anyhow::{Result, bail};

use super::board::Board;

/// The file, on the card.
pub const FILE: &str = "config.txt";

/// What config.txt says about booting; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigTxt {
    /// `kernel=`
    pub kernel: Option<String>,
    /// The file of `initramfs FILE followkernel`.
    pub initramfs: Option<String>,
    /// `cmdline=`
    pub cmdline: Option<String>,
    /// `os_prefix=`
    pub os_prefix: Option<String>,
    /// `device_tree=`
    pub device_tree: Option<String>,
    /// `arm_64bit=`
    pub arm_64bit: Option<bool>,
    /// `upstream_kernel=`
    pub upstream_kernel: bool,
}

/// Keys that are read, or refused: with a blank beside `=` the firmware does not
/// know them, and nor would we.
const KEYS: [&str; 10] = [
    "kernel",
    "initramfs",
    "cmdline",
    "os_prefix",
    "device_tree",
    "arm_64bit",
    "upstream_kernel",
    "auto_initramfs",
    "ramfsfile",
    "ramfsaddr",
];

/// Reads the text of config.txt as `board` would, not in a `tryboot` start.
///
/// # Errors
/// When a line that applies asks for something that cannot be played.
pub fn read(text: &str, board: Board) -> Result<ConfigTxt> {
    let mut config = ConfigTxt::default();
    let mut filters = Filters::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            filters.enter(name, board);
        } else if filters.apply()
            && let Err(error) = setting(&mut config, line)
        {
            bail!("{FILE}:{number}: {error}");
        }
    }
    Ok(config)
}

/// What keeps the following lines from applying.
#[derive(Default)]
struct Filters {
    other_model: bool,
    tryboot: bool,
    // `[none]`, and what depends on hardware that is not there: monitors, pins, serial numbers.
    never: bool,
}

impl Filters {
    fn enter(&mut self, name: &str, board: Board) {
        match name {
            "all" => *self = Self::default(),
            "tryboot" => self.tryboot = true,
            _ if is_model(name) => self.other_model = !board.filters().contains(&name),
            _ => self.never = true,
        }
    }

    fn apply(&self) -> bool {
        !(self.other_model || self.tryboot || self.never)
    }
}

/// Whether it is a filter by model, known to the harness or not: `pi02`, `cm4s`.
fn is_model(name: &str) -> bool {
    ["pi", "cm"].iter().any(|family| {
        name.strip_prefix(family).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn setting(config: &mut ConfigTxt, line: &str) -> Result<()> {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("include") => {
            bail!("`include` is not played by this harness; write the settings into {FILE} itself")
        }
        Some("initramfs") if !line["initramfs".len()..].trim_start().starts_with('=') => {
            let (file, place) = (words.next(), words.next());
            config.initramfs = Some(initramfs(file, place)?);
            return Ok(());
        }
        _ => {}
    }
    let Some((key, value)) = line.split_once('=') else {
        return Ok(());
    };
    let name = key.trim();
    if KEYS.contains(&name) && (key != name || value.starts_with([' ', '\t'])) {
        bail!("the firmware takes no blank beside `=`; write `{name}={}`", value.trim());
    }
    let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
    match key {
        "kernel" => config.kernel = text(),
        "cmdline" => config.cmdline = text(),
        "os_prefix" => config.os_prefix = text(),
        "device_tree" => config.device_tree = text(),
        "arm_64bit" => config.arm_64bit = Some(is_on(value)),
        "upstream_kernel" => config.upstream_kernel = is_on(value),
        "initramfs" => bail!("this key has no `=`; write `initramfs {value} followkernel`"),
        "auto_initramfs" if is_on(value) => {
            bail!("`auto_initramfs` is not played by this harness; write `initramfs FILE followkernel`")
        }
        "ramfsfile" | "ramfsaddr" => {
            bail!("`{key}` is not played by this harness; write `initramfs FILE followkernel`")
        }
        _ => {}
    }
    Ok(())
}

fn initramfs(file: Option<&str>, place: Option<&str>) -> Result<String> {
    let Some(file) = file else {
        bail!("`initramfs` names no file; write `initramfs FILE followkernel`");
    };
    if file.contains(',') {
        bail!("several initramfs files are not played by this harness; join them with cat, name one");
    }
    // Where it is loaded is QEMU's affair; a word that is no address is a slip, though.
    let address = |word: &str| {
        let hex = word.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        hex.unwrap_or_else(|| word.parse()).is_ok()
    };
    match place {
        Some(word) if word != "followkernel" && !address(word) => {
            bail!("`{word}` is no address; write `initramfs {file} followkernel`")
        }
        _ => Ok(file.to_owned()),
    }
}

fn is_on(value: &str) -> bool {
    value.parse() != Ok(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kernel(text: &str) -> Option<String> {
        read(text, Board::Pi4).unwrap().kernel
    }

    #[test]
    fn what_debian_writes() {
        let text = "# Do not edit\n\n# 64 bit\narm_64bit=1\nenable_uart=1\nupstream_kernel=1\n\
             kernel=vmlinuz-6.12\ninitramfs initrd.img-6.12 followkernel\n\n[cm4]\n\
             device_tree=bcm2711-rpi-cm4-io.dtb\n";
        let want = ConfigTxt {
            kernel: Some("vmlinuz-6.12".into()),
            initramfs: Some("initrd.img-6.12".into()),
            arm_64bit: Some(true),
            upstream_kernel: true,
            ..ConfigTxt::default()
        };
        assert_eq!(read(text, Board::Pi4).unwrap(), want);
        assert_eq!(read(&text.replace('\n', "\r\n"), Board::Pi4).unwrap(), want, "CRLF");
        let cm4 = read(text, Board::Cm4).unwrap();
        assert_eq!(cm4.device_tree.as_deref(), Some("bcm2711-rpi-cm4-io.dtb"));
    }

    #[test]
    fn sections() {
        for (text, want) in [
            ("kernel=a\nkernel=b", Some("b")),
            ("kernel=a\n[all]\nkernel=b", Some("b")),
            ("kernel=a\n[none]\nkernel=b", Some("a")),
            ("kernel=a\n[none]\nkernel=b\n[all]\nkernel=c", Some("c")),
            ("kernel=a\n[none]\n[pi4]\nkernel=b", Some("a")),
            ("kernel=a\n[pi4]\nkernel=b", Some("b")),
            ("kernel=a\n[pi3]\nkernel=b", Some("a")),
            ("kernel=a\n[pi5]\nkernel=b", Some("a")),
            ("kernel=a\n[cm4]\nkernel=b", Some("a")),
            ("[pi3]\nkernel=a\n[pi4]\nkernel=b", Some("b")),
            ("[pi4]\nkernel=a\n[pi02]\nkernel=b", Some("a")),
            ("kernel=a\n[tryboot]\nkernel=b", Some("a")),
            ("kernel=a\n[tryboot]\n[pi4]\nkernel=b", Some("a")),
            ("kernel=a\n[EDID=VSC-TD2220]\n[pi4]\nkernel=b", Some("a")),
            ("kernel=a\n[gpio4=1]\nkernel=b\n[all]\n", Some("a")),
            ("kernel=a\n[0x12345678]\nkernel=b", Some("a")),
            ("kernel=a\n[what is this]\nkernel=b", Some("a")),
            ("#kernel=a", None),
            ("  # kernel=a", None),
            ("kernel=a\nkernel=", None),
            ("kernel=a # not a comment", Some("a # not a comment")),
            ("KERNEL=a", None),
            ("dtparam=kernel=a", None),
            ("", None),
        ] {
            assert_eq!(kernel(text).as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn boards_see_their_own_sections() {
        let text = "[pi4]\ncmdline=four\n[cm4]\ncmdline=module\n[pi400]\ncmdline=keyboard\n[pi3]\ncmdline=three\n[pi5]\ncmdline=five";
        for (board, want) in [
            (Board::Pi3, "three"),
            (Board::Pi4, "four"),
            (Board::Pi400, "keyboard"),
            (Board::Cm4, "module"),
            (Board::Pi5, "five"),
        ] {
            assert_eq!(read(text, board).unwrap().cmdline.as_deref(), Some(want), "{board:?}");
        }
    }

    #[test]
    fn where_the_initramfs_goes() {
        for line in ["initramfs i followkernel", "initramfs\ti 0", "initramfs i 0x00800000", "initramfs i"] {
            assert_eq!(read(line, Board::Pi4).unwrap().initramfs.as_deref(), Some("i"), "{line}");
        }
    }

    #[test]
    fn refusals_name_line_and_remedy() {
        for (text, want) in [
            (
                "\ninclude more.txt",
                "config.txt:2: `include` is not played by this harness; write the settings into config.txt itself",
            ),
            ("initramfs", "config.txt:1: `initramfs` names no file; write `initramfs FILE followkernel`"),
            (
                "initramfs=i followkernel",
                "config.txt:1: this key has no `=`; write `initramfs i followkernel followkernel`",
            ),
            ("initramfs i behind", "config.txt:1: `behind` is no address; write `initramfs i followkernel`"),
            (
                "initramfs i,j followkernel",
                "config.txt:1: several initramfs files are not played by this harness; join them with cat, name one",
            ),
            (
                "auto_initramfs=1",
                "config.txt:1: `auto_initramfs` is not played by this harness; write `initramfs FILE followkernel`",
            ),
            (
                "ramfsfile=i",
                "config.txt:1: `ramfsfile` is not played by this harness; write `initramfs FILE followkernel`",
            ),
            ("kernel = a", "config.txt:1: the firmware takes no blank beside `=`; write `kernel=a`"),
        ] {
            assert_eq!(read(text, Board::Pi4).unwrap_err().to_string(), want, "{text:?}");
        }
    }

    #[test]
    fn what_does_not_apply_is_not_refused() {
        let text = "[pi3]\ninclude x\n[all]\nauto_initramfs=0\n[none]\ninitramfs\n";
        assert_eq!(read(text, Board::Pi4).unwrap(), ConfigTxt::default());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(?s).*") {
            let _ = read(&text, Board::Pi4);
        }

        #[test]
        fn the_last_value_that_applies_wins(
            lines in prop::collection::vec((prop::sample::select(vec!["all", "pi4", "pi3", "none"]), "[a-z]{1,8}"), 0..12),
        ) {
            let sections = lines.iter().map(|(section, name)| format!("[all]\n[{section}]\nkernel={name}\n"));
            let text = sections.collect::<Vec<_>>().concat();
            let want = lines.iter().rev().find(|(section, _)| ["all", "pi4"].contains(section));
            prop_assert_eq!(kernel(&text), want.map(|(_, name)| name.clone()));
        }
    }
}
