//! Copies of `weaver.toml` that an editor, a file manager or a user leaves on the boot partition. They keep token and
//! password after boot-config has blanked these in the file itself.
//!
//! Judged by the name alone: the content of such a file is neither read nor shown.

use crate::{
    finding::{Code, Finding, Place, Remedy},
    finding_text::cut,
    shell::quoted,
};

/// The one file that is no copy.
const ITSELF: &str = "weaver.toml";
/// Most names that one finding lists.
const LISTED: usize = 8;
/// Characters of a name: more than FAT has, fewer than would fill a screen.
const LONGEST: usize = 255;

/// Is this the name of a copy, as editors and file managers make them?
///
/// `weaver.toml~`, `.weaver.toml.swp`, `._weaver.toml`, `weaver.toml.bak`, `weaver (1).toml`, `Copy of weaver.toml`,
/// `#weaver.toml#`, `weaver.toml.txt`: all have both words, in this order. FAT knows no upper and lower case.
pub fn is_copy(name: &str) -> bool {
    let name = name.to_lowercase();
    name != ITSELF && name.find("weaver").is_some_and(|at| name[at..].contains("toml"))
}

/// What there is to say about these files, which lie at paths below `directory`.
pub fn finding(directory: &str, paths: &[String]) -> Option<Finding> {
    let (first, more) = (paths.iter().take(LISTED), paths.len().saturating_sub(LISTED));
    let at = |path: &String| format!("{}/{path}", directory.trim_end_matches('/'));
    let and_more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let names = first.clone().map(|path| cut(path, LONGEST)).collect::<Vec<_>>().join(", ");
    let message = format!(
        "copies of weaver.toml on the card may contain the k3s token or the Wi-Fi password, readable by anyone who \
        has the card: {names}{and_more}"
    );
    let mut finding = Finding::new(Code::TokenLeftOnCard, message);
    let mut remedy = Remedy::new("delete these copies of weaver.toml, on another computer or here");
    for path in first {
        finding =
            finding.saw(Place::file(cut(&at(path), 2 * LONGEST)), "a copy, by its name; it was not read");
        // A name that cannot be typed is deleted on another computer.
        if !path.chars().any(char::is_control) {
            remedy = remedy.command(format!("sudo rm {}", quoted(&at(path))));
        }
    }
    (!paths.is_empty()).then(|| finding.remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_and_file_managers_leave_is_a_copy() {
        for name in [
            "weaver.toml~",
            ".weaver.toml.swp",
            ".weaver.toml.swo",
            "._weaver.toml",
            "weaver.toml.bak",
            "weaver (1).toml",
            "weaver - Copy.toml",
            "Copy of weaver.toml",
            "#weaver.toml#",
            ".#weaver.toml",
            "weaver.toml.txt",
            "WEAVER.TOML.TXT",
            "weaver.toml.save",
            "weaver.toml.new",
            "weaver_old.toml",
            "my-weaver.toml",
            ".weaver.toml.kate-swp",
            ".goutputstream-weaver.toml",
        ] {
            assert!(is_copy(name), "{name}");
        }
        for name in [
            "weaver.toml",
            "Weaver.toml",
            "toml-weaver",
            "weaver-override",
            "cmdline.txt",
            "",
            "WEAVER~1.TXT",
        ] {
            assert!(!is_copy(name), "{name}");
        }
    }

    #[test]
    fn the_finding_names_them_and_what_deletes_them() {
        let path = |name: &str| vec![name.to_owned()];
        let finding = |paths: &[String]| super::finding("/boot/firmware", paths);
        assert_eq!(finding(&[]), None);
        let found = finding(&path("weaver (1).toml")).unwrap();
        assert!(found.message.contains("weaver (1).toml"), "{}", found.message);
        assert_eq!(found.remedy.unwrap().commands, ["sudo rm '/boot/firmware/weaver (1).toml'"]);
        // A name is a stranger's: no control character of it is shown, nothing of it is executed.
        let found = finding(&path("weaver\u{1b}]0;x\u{7}\n.toml")).unwrap();
        assert!(
            !format!("{found:?}").contains('\u{1b}') && !found.message.contains('\n'),
            "{}",
            found.message
        );
        assert!(found.remedy.unwrap().commands.is_empty());
        let found = finding(&path("weaver';reboot;'.toml")).unwrap();
        let command = &found.remedy.unwrap().commands[0];
        assert!(!command.contains("weaver';reboot"), "{command}");
        let many: Vec<String> = (0..5_000).map(|n| format!("weaver ({n}).toml{}", "x".repeat(200))).collect();
        let found = finding(&many).unwrap();
        assert!(found.message.ends_with("and 4992 more") && found.message.len() < 4_000, "{}", found.message);
    }
}
