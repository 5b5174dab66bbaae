//! How `weaver.toml` names a file system: `LABEL=ssd`.

use std::fmt;
use std::str::FromStr;

/// What to write instead of a name that is none.
pub const REMEDY: &str = "write \"LABEL=\" and the label of the disk's file system, such as \"LABEL=ssd\"";

/// A file system by what does not change from boot to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskName {
    Label(String),
    Uuid(String),
    PartUuid(String),
}

impl FromStr for DiskName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            return Err("is a path: a disk may have another one at the next boot");
        }
        let (of, value): (fn(String) -> Self, _) = match text.split_once('=') {
            Some(("LABEL", value)) => (Self::Label, value),
            Some(("UUID", value)) => (Self::Uuid, value),
            Some(("PARTUUID", value)) => (Self::PartUuid, value),
            _ => return Err("does not begin with LABEL=, UUID= or PARTUUID="),
        };
        // It is a word in a file that systemd reads.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if value.is_empty() {
            Err("names nothing")
        } else if !value.chars().all(is_plain) {
            Err("has characters other than letters, digits, `.`, `_` and `-`")
        } else {
            Ok(of(value.to_owned()))
        }
    }
}

impl fmt::Display for DiskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "LABEL={label}"),
            Self::Uuid(uuid) => write!(f, "UUID={uuid}"),
            Self::PartUuid(uuid) => write!(f, "PARTUUID={uuid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_shown_and_no_other() {
        for text in ["LABEL=ssd", "UUID=0a1b-2C", "PARTUUID=8f2b61c4-02", "LABEL=k3s_data.1"] {
            assert_eq!(text.parse::<DiskName>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "does not begin"),
            ("ssd", "does not begin"),
            ("label=ssd", "does not begin"),
            ("TYPE=ext4", "does not begin"),
            ("LABEL=", "names nothing"),
            ("LABEL=my disk", "characters other than"),
            ("LABEL=$(reboot)", "characters other than"),
            ("LABEL=\"ssd\"", "characters other than"),
            ("/dev/sda1", "is a path"),
        ] {
            let error = text.parse::<DiskName>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
