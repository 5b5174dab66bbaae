//! Which parameters of `cmdline.txt` outlive Debian's generator. Pure.
//!
//! raspi-firmware writes that file again at each change of a kernel, an initramfs or its own package: what Raspberry
//! Pi Imager or the owner appended is lost then, such as the instance of cloud-init, the country of the Wi-Fi or a
//! quirk without which a disk does not answer. What is in [`EXTRA_CMDLINE`](crate::memory_cgroup::EXTRA_CMDLINE)
//! is appended each time. Guarantees: what the owner wrote there stays; what came from `cmdline.txt` is removed with
//! it.

use crate::kernel_cmdline::{lines, parameters};

/// What the generator writes on our card by itself; the inspection of the image compares it.
pub const GENERATED: [&str; 7] = [
    "console=ttyS1,115200",
    "console=tty0",
    "root=LABEL=weaver-root",
    "rw",
    "fsck.repair=yes",
    "net.ifnames=0",
    "rootwait",
];

/// What shall be kept, each a list of parameters in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptParameters {
    /// The content of the generator's extra file; empty where there is nothing to add.
    pub extra: String,
    /// What of it came from `cmdline.txt`, to be remembered before the extra file is written.
    pub imported: String,
}

/// `cmdline` is the whole `cmdline.txt`, of which the firmware reads the first line; `extra` the generator's extra
/// file, and `imported` what an earlier look remembered. `None` if there is nothing to write, and if the line
/// is empty: the next boot fails with it, and it says nothing of what is wanted.
pub fn kept(cmdline: &str, extra: &str, imported: &str) -> Option<KeptParameters> {
    let wanted = split(lines(cmdline).first()?);
    let (before, imported_before) = (split(extra), split(imported));
    if wanted.is_empty() {
        return None;
    }
    let is_gone = |parameter: &&str| imported_before.contains(parameter) && !wanted.contains(parameter);
    let is_to_keep = |parameter: &&str| !GENERATED.contains(parameter) && !is_for_one_boot(parameter);
    let mut after: Vec<_> = before.iter().copied().filter(|parameter| !is_gone(parameter)).collect();
    let mut imported: Vec<_> =
        imported_before.iter().copied().filter(|parameter| before.contains(parameter)).collect();
    for parameter in wanted.iter().copied().filter(is_to_keep) {
        if !after.contains(&parameter) {
            after.push(parameter);
            imported.push(parameter);
        }
    }
    let has_changed = after != before || imported != imported_before;
    has_changed.then(|| KeptParameters { extra: line(&after), imported: line(&imported) })
}

fn split(text: &str) -> Vec<&str> {
    parameters(text, 1).into_iter().map(|parameter| parameter.text).collect()
}

/// What systemd's generators take for this boot only: Imager's script for older systems would run at each.
fn is_for_one_boot(parameter: &str) -> bool {
    ["systemd.run", "systemd.unit=", "init="].iter().any(|start| parameter.starts_with(start))
}

fn line(parameters: &[&str]) -> String {
    if parameters.is_empty() { String::new() } else { parameters.join(" ") + "\n" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: &str = "console=ttyS1,115200 console=tty0 root=LABEL=weaver-root rw fsck.repair=yes net.ifnames=0  rootwait ";

    fn kept_of(added: &str, extra: &str, imported: &str) -> Option<(String, String)> {
        kept(&format!("{OURS}{added}\n"), extra, imported).map(|kept| (kept.extra, kept.imported))
    }

    #[test]
    fn what_was_in_cmdline_is_kept_for_the_generator() {
        let both = |extra: &str, imported: &str| Some((extra.to_owned(), imported.to_owned()));
        for (case, added, extra, imported, want) in [
            ("as generated", "", "", "", None),
            (
                "Imager's",
                "ds=nocloud;i=rpi-1 cfg80211.x=DE",
                "",
                "",
                both("ds=nocloud;i=rpi-1 cfg80211.x=DE\n", "ds=nocloud;i=rpi-1 cfg80211.x=DE\n"),
            ),
            ("a second look", "a=1", "a=1\n", "a=1\n", None),
            ("generated with it", "a=1 a=1", "a=1\n", "a=1\n", None),
            ("the owner's extra file", "", "own", "", None),
            ("the owner's stays", "a=1", "own", "", both("own a=1\n", "a=1\n")),
            ("the owner's, generated", "own", "own", "", None),
            ("taken out again", "", "own a=1", "a=1", both("own\n", "a=1\n")),
            ("forgotten once it is out", "", "own", "a=1", both("own\n", "")),
            ("the last one out", "", "a=1", "a=1", both("", "a=1\n")),
            ("another value", "a=2", "a=1", "a=1", both("a=2\n", "a=1 a=2\n")),
            ("twice", "a=1 a=1", "", "", both("a=1\n", "a=1\n")),
            ("another root", "root=/dev/sda2", "", "", both("root=/dev/sda2\n", "root=/dev/sda2\n")),
            ("quoted", "a=\"b c\"", "", "", both("a=\"b c\"\n", "a=\"b c\"\n")),
            (
                "for one boot",
                "systemd.run=/boot/firstrun.sh systemd.run_success_action=reboot systemd.unit=x init=/bin/sh",
                "",
                "",
                None,
            ),
            ("torn off after the list was written", "a=1", "", "a=1", both("a=1\n", "a=1\n")),
        ] {
            assert_eq!(kept_of(added, extra, imported), want, "{case}");
        }
    }

    #[test]
    fn only_the_first_line_counts_and_an_empty_one_says_nothing() {
        assert_eq!(kept(&format!("{OURS}\r\na=1\n"), "", ""), None);
        for text in ["", "\n", "  \na=1\n"] {
            assert_eq!(kept(text, "a=1", "a=1"), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_generator_gives_the_line_back_and_it_settles(
            added in "( (a|b|c)=[0-9]{1,2}){0,6}",
            extra in "( (a|b|c|own)=[0-9]{1,2}){0,4}",
            imported in "( (a|b|c)=[0-9]{1,2}){0,4}",
        ) {
            let (mut extra, mut imported) = (extra, imported);
            for _ in 0..2 {
                if let Some((next, noted)) = kept_of(&added, &extra, &imported) {
                    (extra, imported) = (next, noted);
                }
            }
            prop_assert_eq!(kept_of(&added, &extra, &imported), None);
            for parameter in added.split_whitespace() {
                prop_assert!(extra.split_whitespace().any(|kept| kept == parameter), "{} in {}", parameter, extra);
            }
        }
    }
}
