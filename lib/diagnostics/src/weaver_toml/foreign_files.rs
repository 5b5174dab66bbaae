//! Files that other systems read at their first start, and this card does not: someone who knows those writes
//! them next to `weaver.toml` and then waits for a Wi-Fi or a user that never comes. Judged by their names
//! alone, since they contain passwords.
//!
//! As <https://www.raspberrypi.com/documentation/computers/configuration.html> has it.

use std::path::Path;

use crate::finding::{Code, Finding, Place, Remedy};

const USER: &str = "write the user into `user-data` (Raspberry Pi Imager does), and ssh keys into `keys` below [ssh] in weaver.toml";
const WIFI: &str = "write the Wi-Fi below [wifi] in weaver.toml";
const ALL: &str = "write host name, keys and Wi-Fi into weaver.toml";

/// Each name, the system that reads it, and what has its effect here. `ssh` is left out: ssh is on.
const FOREIGN: [(&str, &str, &str); 8] = [
    ("userconf", "Raspberry Pi OS", USER),
    ("userconf.txt", "Raspberry Pi OS", USER),
    ("wpa_supplicant.conf", "Raspberry Pi OS", WIFI),
    ("custom.toml", "Raspberry Pi OS", ALL),
    ("firstrun.sh", "Raspberry Pi OS", ALL),
    ("dietpi.txt", "DietPi", ALL),
    ("dietpi-wifi.txt", "DietPi", WIFI),
    ("armbian_first_run.txt", "Armbian", ALL),
];

/// Names that an editor has put an ending to, and what is read.
const ENDED: [(&str, &str); 6] = [
    ("user-data.txt", "user-data"),
    ("network-config.txt", "network-config"),
    ("user-data.yaml", "user-data"),
    ("network-config.yaml", "network-config"),
    ("weaver.toml.txt", "weaver.toml"),
    ("meta-data.txt", "meta-data"),
];

/// What has no effect on the card, of the names in the directory of `weaver.toml`.
pub fn lint(directory: &Path, names: &[String]) -> Vec<Finding> {
    let fault = |found: &str, what: String, remedy: String| {
        // FAT keeps the letters' case and does not regard it.
        let name = names.iter().find(|name| name.eq_ignore_ascii_case(found))?;
        let place = Place::file(directory.join(name).display().to_string());
        Some(Finding::at(Code::UserDataFault, place, &what).remedy(Remedy::new(remedy)))
    };
    let found = |(foreign, system, remedy): &(&str, &str, &str)| {
        let what = format!("this file is for {system} and has no effect on this card");
        fault(foreign, what, format!("{remedy}, and delete the file"))
    };
    let ended = |(ended, read): &(&str, &str)| {
        let what = format!("no file of this name is read, only `{read}`");
        fault(ended, what, format!("rename it to {read}, without an ending"))
    };
    FOREIGN.iter().filter_map(found).chain(ENDED.iter().filter_map(ended)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_systems_are_named_with_what_has_their_effect_here() {
        let lint = |names: &[&str]| -> Vec<_> {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            lint(Path::new("/boot/firmware"), &names)
                .into_iter()
                .map(|finding| format!("{finding:?}"))
                .collect()
        };
        for (name, system, field) in [
            ("userconf.txt", "Raspberry Pi OS", "user-data"),
            ("UserConf", "Raspberry Pi OS", "user-data"),
            ("wpa_supplicant.conf", "Raspberry Pi OS", "[wifi]"),
            ("CUSTOM.TOML", "Raspberry Pi OS", "weaver.toml"),
            ("dietpi-wifi.txt", "DietPi", "[wifi]"),
            ("user-data.txt", "no file of this name is read", "rename it to user-data"),
            ("Network-Config.txt", "only `network-config`", "rename it to network-config"),
        ] {
            let found = lint(&["config.txt", name, "weaver.toml"]);
            assert_eq!(found.len(), 1, "{name}");
            for part in ["UserDataFault", name, system, field] {
                assert!(found[0].contains(part), "{part}: {}", found[0]);
            }
        }
        let ours =
            ["config.txt", "cmdline.txt", "user-data", "meta-data", "network-config", "weaver.toml", "ssh"];
        assert_eq!(lint(&ours), [""; 0]);
        assert_eq!(lint(&["userconf.txt.bak", "my-dietpi.txt"]), [""; 0]);
    }
}
