//! What config.txt says about booting one of our boards.
//!
//! [`weaver_diagnostics::config_txt`] decides which lines apply. What this harness cannot emulate faithfully (several
//! initramfs files, a filter whose condition it does not know) is refused where it applies, never skipped.
//!
//! Failure: names the file, the line and what to write instead.

use anyhow::{Result, bail};
use weaver_diagnostics::config_txt::{self, Hardware, Included, Line, is_on};

use super::board::Board;

pub use weaver_diagnostics::config_txt::FILE;

/// What a start on trial reads instead, where it is there.
pub const TRIAL_FILE: &str = "tryboot.txt";

/// What config.txt says about booting; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub kernel: Option<String>,
    /// The file of `initramfs FILE followkernel`.
    pub initramfs: Option<String>,
    pub cmdline: Option<String>,
    pub os_prefix: Option<String>,
    pub device_tree: Option<String>,
    pub arm_64bit: Option<bool>,
    pub upstream_kernel: bool,
}

/// Keys that are read, or refused: with a blank next to `=` the firmware does not
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

/// Reads the text of config.txt as `board` would; `file` returns another file of the boot partition.
///
/// # Errors
/// When a line that applies cannot be emulated.
pub fn read(text: &[u8], board: Board, file: impl Fn(&str) -> Result<Option<Vec<u8>>>) -> Result<Settings> {
    read_file(FILE, text, board, false, file)
}

/// The same for the file `name`, in a start on trial or another one.
///
/// # Errors
/// As [`read`].
pub fn read_file(
    name: &str,
    text: &[u8],
    board: Board,
    is_tryboot: bool,
    file: impl Fn(&str) -> Result<Option<Vec<u8>>>,
) -> Result<Settings> {
    // Its serial number is that of no board.
    let (model, serial) = (Some(board.model().to_owned()), Some(0));
    let hardware = Hardware { model, serial, is_tryboot, ..Hardware::default() };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let include = |name: &str| match file(name) {
        Ok(Some(bytes)) => Included::Text(lossy(&bytes)),
        Ok(None) => Included::Missing,
        Err(error) => Included::Unreadable(error.to_string()),
    };
    let config = config_txt::read_file(name, &lossy(text), &hardware, include);
    let mut settings = Settings::default();
    for line in config.lines() {
        if let Err(error) = setting(&mut settings, line) {
            bail!("{}:{}: {error}", line.file, line.number);
        }
    }
    Ok(settings)
}

fn setting(settings: &mut Settings, line: &Line) -> Result<()> {
    let text = line.text.as_str();
    let mut words = text.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let (key, value) = line.setting().unwrap_or((first, ""));
    let name = key.trim();
    let concerns_us = |name| KEYS.contains(&name) || name == "include";
    if let Some(condition) = line.condition.as_ref().filter(|_| concerns_us(name) || concerns_us(first)) {
        bail!("whether this applies is not known to the harness: {condition}");
    }
    if first == "initramfs" && !text["initramfs".len()..].trim_start().starts_with('=') {
        let (file, place) = (words.next(), words.next());
        settings.initramfs = Some(initramfs(file, place)?);
        return Ok(());
    }
    if line.setting().is_none() {
        return Ok(());
    }
    if KEYS.contains(&name) && (key != name || value.starts_with([' ', '\t'])) {
        bail!("the firmware allows no space next to `=`; write `{name}={}`", value.trim());
    }
    let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
    match key {
        "kernel" => settings.kernel = text(),
        "cmdline" => settings.cmdline = text(),
        "os_prefix" => settings.os_prefix = text(),
        "device_tree" => settings.device_tree = text(),
        "arm_64bit" => settings.arm_64bit = Some(is_on(value)),
        "upstream_kernel" => settings.upstream_kernel = is_on(value),
        "initramfs" => bail!("this key has no `=`; write `initramfs {value} followkernel`"),
        "auto_initramfs" if is_on(value) => {
            bail!("`auto_initramfs` is not supported by this harness; write `initramfs FILE followkernel`")
        }
        "ramfsfile" | "ramfsaddr" => {
            bail!("`{key}` is not supported by this harness; write `initramfs FILE followkernel`")
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
        bail!("several initramfs files are not supported by this harness; join them with cat, name one");
    }
    // The load address does not matter to QEMU; a word that is no address is a mistake, though.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, board: Board) -> Result<Settings> {
        super::read(text.as_bytes(), board, |_| Ok(None))
    }

    #[test]
    fn what_debian_writes() {
        let text = "# Do not edit\n\n# 64 bit\narm_64bit=1\nenable_uart=1\nupstream_kernel=1\n\
             kernel=vmlinuz-6.12\ninitramfs initrd.img-6.12 followkernel\n\n[cm4]\n\
             device_tree=bcm2711-rpi-cm4-io.dtb\n";
        let want = Settings {
            kernel: Some("vmlinuz-6.12".into()),
            initramfs: Some("initrd.img-6.12".into()),
            arm_64bit: Some(true),
            upstream_kernel: true,
            ..Settings::default()
        };
        assert_eq!(read(text, Board::Pi4).unwrap(), want);
        assert_eq!(read(&text.replace('\n', "\r\n"), Board::Pi4).unwrap(), want, "CRLF");
        let cm4 = read(text, Board::Cm4).unwrap();
        assert_eq!(cm4.device_tree.as_deref(), Some("bcm2711-rpi-cm4-io.dtb"));
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
                "\n[gpio4=1]\nkernel=a",
                "config.txt:3: whether this applies is not known to the harness: [gpio4=1] depends on the level of a pin at \
                 power-on",
            ),
            ("initramfs", "config.txt:1: `initramfs` names no file; write `initramfs FILE followkernel`"),
            (
                "initramfs=i followkernel",
                "config.txt:1: this key has no `=`; write `initramfs i followkernel followkernel`",
            ),
            ("initramfs i behind", "config.txt:1: `behind` is no address; write `initramfs i followkernel`"),
            (
                "initramfs i,j followkernel",
                "config.txt:1: several initramfs files are not supported by this harness; join them with \
                 cat, name one",
            ),
            (
                "auto_initramfs=1",
                "config.txt:1: `auto_initramfs` is not supported by this harness; write `initramfs FILE \
                 followkernel`",
            ),
            (
                "ramfsfile=i",
                "config.txt:1: `ramfsfile` is not supported by this harness; write `initramfs FILE \
                 followkernel`",
            ),
            ("kernel = a", "config.txt:1: the firmware allows no space next to `=`; write `kernel=a`"),
        ] {
            assert_eq!(read(text, Board::Pi4).unwrap_err().to_string(), want, "{text:?}");
        }
    }

    #[test]
    fn what_does_not_apply_is_not_refused() {
        let text = "[pi3]\ninitramfs\n[gpio4=1]\ndtparam=x=y\n[all]\nauto_initramfs=0\n[none]\ninitramfs\n";
        assert_eq!(read(text, Board::Pi4).unwrap(), Settings::default());
    }

    #[test]
    fn a_start_on_trial_sees_its_own_section() {
        let text = b"kernel=a\n[tryboot]\nkernel=b\n";
        for (is_tryboot, want) in [(false, "a"), (true, "b")] {
            let settings = read_file(FILE, text, Board::Pi4, is_tryboot, |_| Ok(None)).unwrap();
            assert_eq!(settings.kernel.as_deref(), Some(want));
        }
        let error = read_file(TRIAL_FILE, b"initramfs", Board::Pi4, true, |_| Ok(None)).unwrap_err();
        assert!(error.to_string().starts_with("tryboot.txt:1: "), "{error}");
    }

    #[test]
    fn an_included_file_is_part_of_it() {
        let file = |name: &str| Ok((name == "more.txt").then(|| b"[pi5]\nkernel=five\n".to_vec()));
        let text = b"kernel=a\ninclude more.txt\ninclude none.txt\ncmdline=five.txt\n";
        let read = |board| super::read(text, board, file).unwrap();
        assert_eq!(read(Board::Pi4).kernel.as_deref(), Some("a"));
        assert_eq!(read(Board::Pi4).cmdline, None, "its filters hold for what follows");
        assert_eq!(read(Board::Pi5).kernel.as_deref(), Some("five"));
    }
}
