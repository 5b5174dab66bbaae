//! What of the volumes a backup leaves out, since it cannot be saved: in its manifest, and as a user reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::volumes::VOLUMES;
use crate::finding_text::cut;

/// How many parts of volumes are listed; the others are counted.
const LISTED: usize = 100;
/// How many of one volume: a pod that fills its own must not hide what others lost.
const OF_ONE: usize = 10;
/// How many volumes are named.
const VOLUMES_NAMED: usize = 1000;
/// How many parts are printed; of each volume its number is.
const PRINTED: usize = 20;
/// Longest name and longest reason, in characters.
const NAME: usize = 600;
const REASON: usize = 200;

/// A file or a directory of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    pub name: String,
    pub why: String,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    pub count: u64,
    /// The volumes of which nothing is in the backup, with the reason.
    pub whole: BTreeMap<String, String>,
    /// How many parts of each other volume.
    pub parts: BTreeMap<String, u64>,
    /// The first ones of these.
    pub listed: Vec<Omission>,
}

impl LeftOut {
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one, by the name that it would have in the archive.
    pub fn push(&mut self, name: &str, why: &str) {
        self.count = self.count.saturating_add(1);
        let below = name.strip_prefix(VOLUMES).unwrap_or_default();
        match below.split_once('/') {
            None => self.add_whole(below, why),
            Some((volume, _)) => {
                self.add_parts(volume, 1);
                self.list(name, why);
            }
        }
    }

    /// Adds what was left out later.
    pub fn join(&mut self, later: Self) {
        self.count = self.count.saturating_add(later.count);
        for (volume, why) in later.whole {
            self.add_whole(&volume, &why);
        }
        for (volume, count) in later.parts {
            self.add_parts(&volume, count);
        }
        for Omission { name, why } in later.listed {
            self.list(&name, &why);
        }
    }

    fn add_whole(&mut self, volume: &str, why: &str) {
        if self.whole.len() < VOLUMES_NAMED {
            self.whole.entry(volume.to_owned()).or_insert_with(|| cut(why, REASON));
        }
    }

    fn add_parts(&mut self, volume: &str, more: u64) {
        if self.parts.len() < VOLUMES_NAMED || self.parts.contains_key(volume) {
            let count = self.parts.entry(volume.to_owned()).or_default();
            *count = count.saturating_add(more);
        }
    }

    fn list(&mut self, name: &str, why: &str) {
        let name = cut(name, NAME);
        let of_one = self.listed.iter().filter(|listed| volume(&listed.name) == volume(&name)).count();
        if self.listed.len() < LISTED && of_one < OF_ONE {
            self.listed.push(Omission { name, why: cut(why, REASON) });
        }
    }

    /// What a user should know; `None` where nothing is left out.
    pub fn verdict(&self) -> Option<String> {
        let what = "the backup is not complete: parts of volumes are left out";
        (!self.is_empty()).then(|| format!("{what} ({})", self.count))
    }

    /// One line for each volume, then one for each part, as far as they are printed. The manifest may be another's:
    /// nothing in it is obeyed.
    pub fn lines(&self) -> Vec<String> {
        let line = |name: &str, why: &str| format!("left out: {}: {}", cut(name, NAME), cut(why, REASON));
        let of_volume = |volume: &String| format!("{VOLUMES}{volume}");
        let whole = self.whole.iter().take(VOLUMES_NAMED);
        let parts = self.parts.iter().take(VOLUMES_NAMED);
        let listed = self.listed.iter().take(PRINTED);
        let shown = (whole.len() + listed.len()) as u64;
        let count = |(volume, count): (&String, &u64)| {
            format!("parts of {} are left out ({count})", cut(&of_volume(volume), NAME))
        };
        let mut lines: Vec<_> = whole.map(|(volume, why)| line(&of_volume(volume), why)).collect();
        lines.extend(parts.map(count));
        lines.extend(listed.map(|Omission { name, why }| line(name, why)));
        let others = self.count.saturating_sub(shown);
        if others > 0 {
            lines.push(format!("left out: {others} more"));
        }
        lines
    }
}

fn volume(name: &str) -> Option<&str> {
    name.strip_prefix(VOLUMES)?.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding_text::is_unprintable;

    #[test]
    fn the_list_is_bounded() {
        let mut first = LeftOut::default();
        for file in 0..1000 {
            first.push(&format!("k3s/storage/pvc-1/{file}"), "why");
        }
        assert_eq!((first.count, first.listed.len()), (1000, OF_ONE));
        let mut all = LeftOut::default();
        assert_eq!((all.verdict(), all.lines().len()), (None, 0));
        for volume in 0..2000 {
            all.push(&format!("k3s/storage/pvc-{volume}/a"), &"x".repeat(9999));
            all.push(&format!("k3s/storage/whole-{volume}"), &"x".repeat(9999));
        }
        all.join(first);
        assert_eq!((all.count, all.listed.len(), all.parts["pvc-1"]), (5000, LISTED, 1001));
        let lines = all.lines();
        assert_eq!(lines.len(), 2 * VOLUMES_NAMED + PRINTED + 1);
        assert_eq!(lines.last().unwrap(), "left out: 3980 more");
        assert!(all.verdict().unwrap().ends_with("left out (5000)"));
        assert!(serde_json::to_string(&all).unwrap().len() < 400_000);
    }

    #[test]
    fn no_volume_hides_another() {
        let mut all = LeftOut::default();
        for volume in 0..20 {
            for file in 0..10 {
                all.push(&format!("k3s/storage/pvc-{volume:02}/{file}"), "why");
            }
        }
        let mut later = LeftOut::default();
        later.push("k3s/storage/pvc-98/data", "it cannot be read");
        later.push("k3s/storage/pvc-99", "it takes too much");
        all.join(later);
        let lines = all.lines();
        assert_eq!(lines[0], "left out: k3s/storage/pvc-99: it takes too much");
        assert_eq!(lines[1], "parts of k3s/storage/pvc-00 are left out (10)");
        assert_eq!(lines[21], "parts of k3s/storage/pvc-98 are left out (1)");
        assert_eq!((lines.len(), lines[42].as_str()), (43, "left out: 181 more"));
    }

    #[test]
    fn a_hostile_name_has_one_line_that_no_terminal_obeys() {
        let hostile = "k3s/storage/pvc-1\u{1b}[2J\nwrote\u{202e}/\u{1b}[2J\nwrote /mnt/usb\u{202e}";
        let mut made = LeftOut::default();
        made.push(hostile, "why");
        made.push("k3s/storage/\u{1b}[2J", "why");
        // As another program writes it.
        let named = || hostile.to_owned();
        let read = LeftOut {
            count: u64::MAX,
            whole: [(named(), named())].into(),
            parts: [(named(), 1)].into(),
            listed: vec![Omission { name: named(), why: named() }],
        };
        for left_out in [made, read] {
            let lines = left_out.lines();
            assert!(!lines.concat().contains(is_unprintable), "{lines:?}");
            assert!(lines[0].starts_with("left out: k3s/storage/"), "{lines:?}");
            assert!(lines[1].starts_with("parts of k3s/storage/") && lines[1].contains("\\u{1b}[2J"));
        }
    }
}
