//! Anyone who can write the FAT partition of a card, or what an editor leaves there.
//!
//! What such an owner may do by design: say in `weaver.toml` who may log in. What they may not: read what the card has
//! taken over, access files elsewhere, delay the boot or write on a terminal.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use weaver_tests::world::given;

const WEAVER_TOML: &str = "/boot/firmware/weaver.toml";
const SECRET: &str = "K10hunter2::server:hunter2";
const GOOD: &str = "hostname = \"raspi\"\n[k3s]\ntoken = \"K10hunter2::server:hunter2\"\n";
/// systemd gives it a minute; each of these is for a slow card, and this machine is none.
const SOON: Duration = Duration::from_secs(20);

/// Replaces a file by something else.
type Put<'a> = &'a dyn Fn(&Card);

/// A flashed card in a temporary directory.
struct Card(tempfile::TempDir);

impl Card {
    fn new() -> Self {
        let card = Self(tempfile::tempdir().unwrap());
        card.write("/boot/firmware/config.txt", "");
        card.write("/etc/hosts", "127.0.0.1 localhost\n");
        card.write("/etc/hostname", "weaver\n");
        card
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
    }

    /// boot-config, as at each boot: what it printed, and its report.
    fn boot(&self, name: &str) -> (String, Value) {
        let begun = Instant::now();
        let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
        agent.args(["boot-config", "--root"]).arg(self.0.path()).env_remove("RUST_LOG");
        let Output { status, stderr, .. } = agent.output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(status.code().is_some_and(|code| code < 2), "{name}: {status}: {said}");
        assert!(begun.elapsed() < SOON, "{name}: {:?}", begun.elapsed());
        let report = fs::read(self.path("/var/lib/weaver/boot-config/report.json")).unwrap();
        let shown = said.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(shown, None, "{name}: a control character on the console: {said:?}");
        assert!(
            !said.contains("hunter2") && !String::from_utf8_lossy(&report).contains("hunter2"),
            "{name}: {said}"
        );
        (said, serde_json::from_slice(&report).unwrap())
    }
}

fn found<'a>(report: &'a Value, code: &str) -> Option<&'a Value> {
    report["findings"].as_array()?.iter().find(|finding| finding["code"] == code)
}

#[test]
fn copies_that_an_editor_left_are_named_with_what_deletes_them_and_their_content_is_not_shown() {
    for name in [
        "weaver.toml~",
        ".weaver.toml.swp",
        "._weaver.toml",
        "weaver.toml.bak",
        "weaver (1).toml",
        "#weaver.toml#",
        "weaver.toml.txt",
        "Weaver - Kopie.TOML",
        ".Trash-1000/files/weaver.toml",
        ".Trashes/501/weaver.toml",
        "nppBackup/weaver.toml.2026-11-25.bak",
        "old/weaver.toml",
    ] {
        let card = Card::new();
        card.write(WEAVER_TOML, GOOD);
        card.write(&format!("/boot/firmware/{name}"), GOOD);
        let (said, report) = card.boot(name);
        let finding = found(&report, "B-04").unwrap_or_else(|| panic!("{name}: {report:#}"));
        assert!(finding["message"].as_str().unwrap().contains(name), "{name}: {finding:#}");
        let command = finding["remedy"]["commands"][0].as_str().unwrap();
        assert!(command.starts_with("sudo rm ") && command.contains(name), "{name}: {command}");
        assert!(said.contains(name), "{name}: {said}");
        // The file itself was taken over and blanked, and the copy is its owner's to delete.
        assert!(!fs::read_to_string(card.path(WEAVER_TOML)).unwrap().contains(SECRET), "{name}");
        assert_eq!(fs::read_to_string(card.path(&format!("/boot/firmware/{name}"))).unwrap(), GOOD, "{name}");
        fs::remove_file(card.path(&format!("/boot/firmware/{name}"))).unwrap();
        assert_eq!(found(&card.boot(name).1, "B-04"), None, "{name}");
    }
}

#[test]
fn names_on_the_card_do_not_reach_the_console_raw_nor_a_shell() {
    let card = Card::new();
    card.write(WEAVER_TOML, "hostname = \"raspi\"\n");
    for name in [
        "weaver\u{1b}]0;owned\u{7}.toml",
        "weaver\nT-02 FAIL.toml",
        "weaver';reboot;'.toml",
        "weaver$(reboot).toml",
    ] {
        card.write(&format!("/boot/firmware/{name}"), "x");
    }
    let (_, report) = card.boot("names");
    let commands = found(&report, "B-04").unwrap()["remedy"]["commands"].clone();
    let commands: Vec<&str> = commands.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(commands.len(), 2, "only what can be typed: {commands:?}");
    for command in commands {
        // As a shell reads it: two words after `sudo`, whatever the name.
        let words = Command::new("sh").args(["-c", &format!("set -- {command}; echo $#")]).output().unwrap();
        assert_eq!(words.stdout, b"3\n", "{command}");
    }
}

#[test]
fn a_thousand_copies_are_one_bounded_finding() {
    let card = Card::new();
    card.write(WEAVER_TOML, "hostname = \"raspi\"\n");
    for number in 0..1_000 {
        card.write(&format!("/boot/firmware/weaver ({number}).toml{}", "x".repeat(200)), "");
    }
    let (said, report) = card.boot("a thousand");
    assert!(said.len() < 20_000 && report.to_string().len() < 20_000, "{}", said.len());
    assert!(said.contains("more"), "{said}");
}

#[test]
fn what_lies_in_the_place_of_a_file_stops_no_boot_and_changes_nothing() {
    for file in ["weaver.toml", "user-data", "network-config", "cmdline.txt"] {
        let at = format!("/boot/firmware/{file}");
        let cases: [(&str, Put<'_>); 8] = [
            ("binary", &|card| card.write(&at, [0, 159, 146, 150, 255])),
            ("huge", &|card| fs::File::create(card.path(&at)).unwrap().set_len(8 << 30).unwrap()),
            ("control characters", &|card| {
                card.write(&at, "hostname = \"\u{1b}]0;owned\u{7}\"\nx: \u{1b}[2J\n");
            }),
            ("one long line", &|card| card.write(&at, "hostname = \"".to_owned() + &"x".repeat(200_000))),
            ("deep", &|card| card.write(&at, "a = ".to_owned() + &"[".repeat(100_000))),
            ("directory", &|card| fs::create_dir_all(card.path(&at)).unwrap()),
            ("pipe", &|card| {
                assert!(Command::new("mkfifo").arg(card.path(&at)).status().unwrap().success());
            }),
            // FAT has none; a partition that is no FAT, and is called like it, could.
            ("link to a device without end", &|card| symlink("/dev/zero", card.path(&at)).unwrap()),
        ];
        for (what, put) in cases {
            let card = Card::new();
            if file != "weaver.toml" {
                card.write(WEAVER_TOML, "hostname = \"raspi\"\n");
            }
            put(&card);
            let name = format!("{file}: {what}");
            card.boot(&name);
            let expected = if file == "weaver.toml" { "weaver\n" } else { "raspi\n" };
            assert_eq!(fs::read_to_string(card.path("/etc/hostname")).unwrap(), expected, "{name}");
        }
    }
}

#[test]
fn a_link_to_a_secret_of_the_machine_is_not_shown_and_not_written_through() {
    let card = Card::new();
    card.write("/etc/shadow", "root:hunter2:1::\n");
    fs::set_permissions(card.path("/etc/shadow"), fs::Permissions::from_mode(0o600)).unwrap();
    for name in
        ["weaver.toml", "user-data", "network-config", "cmdline.txt", "NODE-STATUS.txt", "weaver.toml.new"]
    {
        let _ = fs::remove_file(card.path(&format!("/boot/firmware/{name}")));
        symlink(card.path("/etc/shadow"), card.path(&format!("/boot/firmware/{name}"))).unwrap();
    }
    card.boot("links");
    assert_eq!(fs::read_to_string(card.path("/etc/shadow")).unwrap(), "root:hunter2:1::\n");
}
