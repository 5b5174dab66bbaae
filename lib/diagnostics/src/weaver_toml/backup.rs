//! `[backup]`: where the timer's backups go, how often, and how many stay.

use super::fault::{Faults, Mistake, shown};
use super::section::Section;
use crate::when::When;

const MOST_KEPT: u16 = 1_000;
const KEPT: u16 = 7;
/// What the unit's sandbox hides from it or makes read-only, and what is no disk.
const NOT_THERE: [&str; 11] =
    ["/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/var/tmp"];
const TARGET: &str = "write the directory of a mounted disk or share, such as \"/mnt/usb\"";

/// The backups that the timer makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// A directory on a disk or share that is mounted.
    pub target: String,
    pub when: When,
    /// How many of this node stay.
    pub keep: u16,
    /// Whether local-path volumes are in them.
    pub volumes: bool,
    /// An age recipient for whom they are encrypted.
    pub recipient: Option<String>,
}

/// `None` where there is no target.
pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Option<Backup> {
    let target = section.text("target", faults);
    let target = target.and_then(|text| faults.take(text.span.as_ref(), directory(text.value)));
    let when = section.text("when", faults);
    let when = when.and_then(|text| faults.take(text.span.as_ref(), interval(text.value)));
    let recipient = section.text("recipient", faults);
    let recipient = recipient.and_then(|text| faults.take(text.span.as_ref(), age_recipient(text.value)));
    let keep = section.number("keep", MOST_KEPT, faults).unwrap_or(KEPT);
    let volumes = section.truth("volumes", faults).unwrap_or(false);
    if keep == 0 {
        let place = section.place_of("keep");
        faults.add_at(place.as_ref(), "`keep` is 0, so no backup would stay", "write 1 or more");
    }
    let others = ["when", "keep", "volumes", "recipient"].into_iter().find_map(|key| section.place_of(key));
    if section.place_of("target").is_none()
        && let Some(place) = others
    {
        faults.add_at(Some(&place), "[backup] has no `target`", TARGET);
    }
    Some(Backup { target: target?, when: when.unwrap_or(When::Daily), keep, volumes, recipient })
}

/// An absolute path whose characters mean nothing to systemd.
fn directory(text: &str) -> Result<String, Mistake> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let why = if !text.starts_with('/') {
        "is not an absolute path"
    } else if !text.chars().all(is_plain) {
        "has characters other than letters, digits, `/`, `.`, `_` and `-`"
    } else if text.split('/').skip(1).any(|step| matches!(step, "" | "." | "..")) {
        "has an empty step, `.` or `..`"
    } else if NOT_THERE
        .iter()
        .any(|path| text.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    {
        "is on the card or of the system, and the unit does not see or may not write there"
    } else {
        return Ok(text.to_owned());
    };
    // It may be an address with a password.
    let target =
        if text.contains("://") || text.contains('@') { String::new() } else { format!(" {}", shown(text)) };
    Err(Mistake::new(format!("the target{target} {why}"), TARGET))
}

fn interval(text: &str) -> Result<When, Mistake> {
    let remedy = "write \"hourly\", \"daily\" or \"weekly\"";
    When::of(text).ok_or_else(|| Mistake::new(format!("`when` is {}", shown(text)), remedy))
}

/// What was written instead is not repeated: it may be the secret key.
fn age_recipient(text: &str) -> Result<String, Mistake> {
    let is_one = text.len() == 62
        && text.starts_with("age1")
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let remedy = "write the public key that age-keygen prints: age1 and 58 letters and digits";
    if is_one {
        Ok(text.to_owned())
    } else {
        Err(Mistake::new("`recipient` is not a public key of age", remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weaver_toml::parse;

    const RECIPIENT: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

    #[test]
    fn only_the_target_must_be_written() {
        let backup = |text: &str| parse(format!("[backup]\n{text}").as_bytes()).unwrap().config.backup;
        assert_eq!(backup(""), None);
        let usual = Backup {
            target: "/mnt/usb".to_owned(),
            when: When::Daily,
            keep: 7,
            volumes: false,
            recipient: None,
        };
        assert_eq!(backup("target = \"/mnt/usb\""), Some(usual.clone()));
        let text = format!(
            "target = \"/mnt/usb\"\nwhen = \"weekly\"\nkeep = 3\nvolumes = true\nrecipient = \"{RECIPIENT}\""
        );
        let recipient = Some(RECIPIENT.to_owned());
        let all = Backup { when: When::Weekly, keep: 3, volumes: true, recipient, ..usual };
        assert_eq!(backup(&text), Some(all));
    }

    #[test]
    fn each_fault_is_named_and_a_secret_key_is_not_repeated() {
        for (text, why) in [
            ("target = \"usb\"", "is not an absolute path"),
            ("target = \"/mnt/my disk\"", "has characters other than"),
            ("target = \"/mnt/$HOME\"", "has characters other than"),
            ("target = \"/mnt/../etc\"", "has an empty step"),
            ("target = \"/mnt/usb/\"", "has an empty step"),
            ("target = \"/\"", "has an empty step"),
            ("target = \"/boot/firmware\"", "is on the card"),
            ("target = \"/home/me/usb\"", "the unit does not see"),
            ("target = \"/tmp\"", "the unit does not see"),
            ("target = \"s3://AKIA:HUNTER2@b\"", "the target is not an absolute path"),
            ("target = 3", "`target` is a number, not a string"),
            ("keep = 3", "[backup] has no `target`"),
            ("target = \"/mnt/usb\"\nkeep = 0", "no backup would stay"),
            ("target = \"/mnt/usb\"\nkeep = 1001", "not in 0 to 1000"),
            ("target = \"/mnt/usb\"\nwhen = \"monthly\"", "`when` is `monthly`"),
            ("target = \"/mnt/usb\"\nrecipient = \"AGE-SECRET-KEY-1HUNTER2\"", "not a public key of age"),
            ("target = \"/mnt/usb\"\nevery = \"day\"", "unknown key"),
        ] {
            let faults = parse(format!("[backup]\n{text}").as_bytes()).unwrap_err();
            let said: Vec<_> =
                faults.iter().map(|fault| format!("{}: {}", fault.message, fault.remedy)).collect();
            assert!(said.iter().any(|said| said.contains(why)), "{text}: {said:?}");
            assert!(!said.join(" ").contains("HUNTER2"), "{said:?}");
        }
    }
}
