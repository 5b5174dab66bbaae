//! Which `cmdline.txt` the firmware reads: the candidates, and what
//! `config.txt` changes about them.
//!
//! `cmdline=` renames the file and `os_prefix=` moves it; both may stand in a
//! section that holds for some boards only. Of what applies the last wins.

/// The settings of `config.txt` that decide where the command line is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootOptions {
    /// `cmdline=`, relative to the boot partition.
    pub cmdline: Option<String>,
    /// `os_prefix=`, put in front of the file's name.
    pub os_prefix: Option<String>,
}

/// The directory where the boot partition is mounted.
pub const BOOT_DIR: &str = "/boot/firmware";
/// Where it was mounted before Debian 12; afterwards a stub.
pub const OLD_CMDLINE: &str = "/boot/cmdline.txt";

/// The options that apply to this board. `model` is the device tree's.
#[must_use]
pub fn boot_options(text: &str, model: Option<&str>) -> BootOptions {
    let mut options = BootOptions::default();
    let mut applies = true;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            applies = section_applies(section, model);
        } else if applies && let Some((key, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned()).filter(|v| !v.is_empty());
            match key.trim() {
                "cmdline" => options.cmdline = value,
                "os_prefix" => options.os_prefix = value,
                _ => {}
            }
        }
    }
    options
}

/// A filter that is not known here does not apply: the file it might name is
/// then simply not looked at, and the usual candidates are.
fn section_applies(section: &str, model: Option<&str>) -> bool {
    let boards = match section.to_ascii_lowercase().as_str() {
        "all" => return true,
        // A family: a compute module counts, and so does a keyboard by its name.
        "pi3" => &["Raspberry Pi 3", "Raspberry Pi Compute Module 3"][..],
        "pi3+" => &["Raspberry Pi 3 Model B Plus"],
        "pi4" => &["Raspberry Pi 4", "Raspberry Pi Compute Module 4"],
        "pi5" => &["Raspberry Pi 5", "Raspberry Pi Compute Module 5"],
        "pi400" => &["Raspberry Pi 400"],
        "cm4" => &["Raspberry Pi Compute Module 4"],
        "cm5" => &["Raspberry Pi Compute Module 5"],
        _ => return false,
    };
    model.is_some_and(|model| boards.iter().any(|board| model.starts_with(board)))
}

/// The files to look for, best first, the old place left out.
#[must_use]
pub fn candidates(options: &BootOptions) -> Vec<String> {
    let name = options.cmdline.as_deref().unwrap_or("cmdline.txt");
    let mut paths = Vec::new();
    if let Some(prefix) = &options.os_prefix {
        paths.push(format!("{BOOT_DIR}/{prefix}{name}"));
    }
    if options.cmdline.is_some() {
        paths.push(format!("{BOOT_DIR}/{name}"));
    }
    paths.push(format!("{BOOT_DIR}/cmdline.txt"));
    paths.push(format!("{BOOT_DIR}/current/cmdline.txt"));
    // A name with `..` would leave the boot partition; the firmware cannot.
    paths.retain(|path| !path.split('/').any(|part| part == ".."));
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const PI4: Option<&str> = Some("Raspberry Pi 4 Model B Rev 1.5");

    #[test]
    fn the_last_setting_that_applies_wins() {
        for (text, model, want) in [
            ("", PI4, None),
            ("cmdline=a.txt\ncmdline=b.txt\n", PI4, Some("b.txt")),
            ("[pi5]\ncmdline=five.txt\n", PI4, None),
            ("[pi4]\ncmdline=four.txt\n[all]\n", PI4, Some("four.txt")),
            ("[none]\ncmdline=x\n[all]\ncmdline = y # note\r\n", PI4, Some("y")),
            ("[pi4]\ncmdline=four.txt\n", None, None),
            ("[pi4]\ncmdline=four.txt\n", Some("Raspberry Pi 400 Rev 1.0"), Some("four.txt")),
            ("[pi4]\ncmdline=x\n", Some("Raspberry Pi Compute Module 4 Rev 1.0"), Some("x")),
            ("[pi5]\ncmdline=x\n", Some("Raspberry Pi Compute Module 5 Rev 1.0"), Some("x")),
            ("[pi3]\ncmdline=x\n", Some("Raspberry Pi Compute Module 3 Plus Rev 1.0"), Some("x")),
            ("[pi4]\ncmdline=x\n", Some("Raspberry Pi Compute Module 5 Rev 1.0"), None),
            ("[pi400]\ncmdline=x\n", PI4, None),
            ("[gpio4=1]\ncmdline=x\n", PI4, None),
        ] {
            assert_eq!(boot_options(text, model).cmdline.as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn candidates_in_order() {
        assert_eq!(
            candidates(&BootOptions::default()),
            ["/boot/firmware/cmdline.txt", "/boot/firmware/current/cmdline.txt"]
        );
        let moved = BootOptions { cmdline: Some("c.txt".into()), os_prefix: Some("new/".into()) };
        assert_eq!(candidates(&moved)[..2], ["/boot/firmware/new/c.txt", "/boot/firmware/c.txt"]);
        let escaping = BootOptions { cmdline: Some("../../etc/shadow".into()), os_prefix: None };
        assert!(candidates(&escaping).iter().all(|path| !path.contains("..")));
    }
}
