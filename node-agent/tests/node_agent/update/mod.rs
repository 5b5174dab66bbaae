//! `update` on hosts that are directories, with replacements for apt and dpkg: what it does, where it can be
//! interrupted, and its messages. tests/devstack/packages.sh does it with Debian's own.

mod kernel;
mod one_at_a_time;
mod resumed;
mod scheduled_reboot;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const FAKE: &str = include_str!("fake.sh");
const PACKAGES: [&str; 2] = ["config-weaver", "weaver"];

struct UpdateTestHost {
    dir: TempDir,
}

impl UpdateTestHost {
    /// Two packages at 0.1, units that run, and a source that has 0.2.
    fn new() -> Self {
        let host = Self { dir: tempfile::tempdir().unwrap() };
        let kernel = ["depmod", "mkinitramfs", "unshare"];
        let all = ["apt-get", "apt-cache", "dpkg", "dpkg-query", "dpkg-deb", "systemctl"];
        for program in all.into_iter().chain(kernel) {
            host.write(&format!("bin/{program}"), FAKE);
            fs::set_permissions(host.path(&format!("bin/{program}")), fs::Permissions::from_mode(0o755))
                .unwrap();
        }
        for program in ["tar", "md5sum"] {
            symlink(format!("/usr/bin/{program}"), host.path(&format!("bin/{program}"))).unwrap();
        }
        for name in PACKAGES {
            host.write(&format!("state/{name}"), "0.1 ii\n");
        }
        host.write("root/run/systemd/system/x", "");
        host.write("root/run/weaver/report.json", "{}");
        host.write("root/usr/program", "0.1");
        host.write("root/etc/conffile", "as it came");
        host.write("root/etc/edited", "of the owner");
        host.write("root/etc/obsolete", "as it came");
        symlink("program", host.path("root/usr/link")).unwrap();
        host.offers("0.2");
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn offers(&self, version: &str) {
        let policy = PACKAGES.map(|name| {
            format!("{name}:\n  Candidate: {version}\n  Version table:\n     {version} 500\n        500 file:/srv/apt stable/main\n")
        });
        self.write("policy", &policy.concat());
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        agent.args(["update", "--wait", "1", "--settle", "0", "--root"]).arg(self.path("root"));
        agent.arg("--programs").arg(self.path("bin")).arg("--systemctl").arg(self.path("bin/systemctl"));
        agent.env("LANGUAGE", "de").args(flags).stdin(Stdio::null());
        agent
    }

    fn update(&self, flags: &[&str]) -> (Option<i32>, String) {
        let output = self.command(flags).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// The report of `preflight`.
    fn preflight(&self) -> String {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        let output = agent.args(["preflight", "--root"]).arg(self.path("root")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The versions that are installed, and whether each is whole.
    fn installed(&self) -> Vec<String> {
        let state = |name| fs::read_to_string(self.path(&format!("state/{name}"))).unwrap().trim().to_owned();
        PACKAGES.map(state).into()
    }

    fn record(&self) -> String {
        fs::read_to_string(self.path("root/var/lib/weaver/update.json")).unwrap_or_default()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

const OLD: [&str; 2] = ["0.1 ii"; 2];
const NEW: [&str; 2] = ["0.2 ii"; 2];

#[test]
fn what_is_new_is_shown_and_installed_only_when_asked() {
    let host = UpdateTestHost::new();
    for (flags, ends) in [(&[][..], "pass --yes to install.\n"), (&["--dry-run"], "Nothing was changed.\n")] {
        let (code, said) = host.update(flags);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("  weaver 0.1 → 0.2, from file:/srv/apt stable/main\n") && said.ends_with(ends),
            "{said}"
        );
    }
    assert!(
        !host.calls().contains("install") && !host.path("root/var/lib/weaver/packages").exists(),
        "{}",
        host.calls()
    );
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    assert!(said.contains("\napt also installs: libother 1.0\n"), "{said}");
    assert!(said.contains("0.2 is installed and verified: weaver-node-agent.service, "), "{said}");
    assert!(said.ends_with("0.1 is kept: `sudo weaver node update --to 0.1`\n"), "{said}");
    // As dpkg-deb was called with it: modes and links as they are, and no conffile that the owner has edited or
    // removed.
    let kept =
        fs::read_to_string(host.path("root/var/lib/weaver/packages/old/weaver_0.1_amd64.deb")).unwrap();
    assert!(kept.contains("DEBIAN/postinst 755 \n") && kept.contains("usr/link 777 program\n"), "{kept}");
    assert!(kept.contains("etc/conffile 6") && kept.ends_with("\nconffile /etc/conffile\n"), "{kept}");
    for other in ["absent", "edited", "removed", "obsolete"] {
        assert!(!kept.contains(other), "{other}: {kept}");
    }
    let (code, said) = host.update(&["--yes"]);
    assert_eq!(
        (code, said.as_str()),
        (
            Some(0),
            "Config Weaver 0.2 is installed; there is no newer version (from file:/srv/apt stable/main).\n"
        )
    );
}

#[test]
fn the_source_of_the_card_is_the_only_one_that_is_asked() {
    let host = UpdateTestHost::new();
    host.write("root/etc/apt/sources.list.d/config-weaver.sources", "URIs: file:/srv/apt\n");
    fs::copy(host.path("policy"), host.path("policy-of-own")).unwrap();
    // By a third party that gives its package the same name.
    host.offers("0.9");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    let own = fs::read_to_string(host.path("calls-to-own")).unwrap();
    assert_eq!(own, "apt-get update\napt-cache policy\napt-get download\n");
    host.write("fail", "apt-get update");
    for (address, remedy) in
        [("file:/srv/apt/x", "have its owner copy it"), ("file:/x", "sudo apt-get update")]
    {
        host.write("words", &format!("E: Failed to fetch {address}  File not found"));
        let (code, said) = host.update(&["--yes"]);
        assert!(code == Some(10) && said.contains(remedy), "{said}");
    }
}

#[test]
fn a_version_that_is_not_proven_goes_back_and_one_by_hand() {
    let host = UpdateTestHost::new();
    host.offers("0.2bad");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(12), OLD.map(str::to_owned).into()), "{said}");
    assert!(
        said.contains(
            "0.2bad could not be verified: after 1 s: weaver-node-agent.service is failed; the node agent has not"
        ),
        "{said}"
    );
    assert!(said.contains("0.1 is installed again and verified"), "{said}");
    host.offers("0.2");
    assert_eq!(host.update(&["--yes"]).0, Some(0));
    let (code, said) = host.update(&["--yes", "--to", "0.1"]);
    assert_eq!((code, host.installed()), (Some(0), OLD.map(str::to_owned).into()), "{said}");
    assert!(
        said.starts_with("An older version:\n  config-weaver 0.2 → 0.1, from kept on this host"),
        "{said}"
    );
    // Without a network, too: what the source had before is not fetched.
    host.write("fail", "apt-get update");
    host.write("words", "E: Failed to fetch x  Could not resolve 'x'");
    let (code, said) = host.update(&["--yes", "--to", "0.2"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    assert!(
        said.starts_with(
            "Using the packages that the last update kept, since the source cannot be used: the name"
        ),
        "{said}"
    );
    assert!(said.contains("weaver 0.1 → 0.2, from kept on this host"), "{said}");
    let (code, said) = host.update(&["--yes", "--to", "0.3"]);
    assert_eq!((code, host.installed()), (Some(10), NEW.map(str::to_owned).into()), "{said}");
}

#[test]
fn the_state_of_k3s_is_saved_first_and_nothing_changes_where_it_cannot_be() {
    const DATASTORE: &str = "root/var/lib/rancher/k3s/server/db/state.db";
    let host = UpdateTestHost::new();
    host.write("root/usr/local/bin/k3s", "#!/bin/sh\necho k3s version v1.36.4+k3s1\n");
    fs::set_permissions(host.path("root/usr/local/bin/k3s"), fs::Permissions::from_mode(0o755)).unwrap();
    host.write("root/proc/sys/kernel/hostname", "raspi\n");
    host.write("root/var/lib/rancher/k3s/server/tls/server-ca.crt", "raspi");
    host.write("root/var/lib/rancher/k3s/server/tls/server-ca.key", "secret");
    host.write(DATASTORE, "no database");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(1), OLD.map(str::to_owned).into()), "{said}");
    assert!(
        said.contains("no backup could be made, and nothing was changed") && said.contains("database"),
        "{said}"
    );
    assert!(!host.calls().contains("install") && host.record().is_empty(), "{}", host.calls());

    let (code, said) = host.update(&["--yes", "--no-backup"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    assert_eq!(host.update(&["--yes", "--no-backup", "--to", "0.1"]).0, Some(0));

    fs::remove_file(host.path(DATASTORE)).unwrap();
    let database = rusqlite::Connection::open(host.path(DATASTORE)).unwrap();
    database.execute_batch("CREATE TABLE kine (id INTEGER PRIMARY KEY, name TEXT, value BLOB)").unwrap();
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    assert!(said.contains("The state of k3s is saved in "), "{said}");
    assert_eq!(fs::read_dir(host.path("root/var/lib/weaver/backups")).unwrap().count(), 1);
}

#[test]
fn what_apt_fails_with_is_explained_and_ends_in_what_was() {
    for (call, words, code, want) in [
        (
            "apt-get update",
            "E: The repository 'x' is not signed.",
            10,
            "refused: the signature of the repository is wrong",
        ),
        (
            "apt-get download",
            "E: Failed to fetch x  File not found",
            10,
            "refused: the package lists of another apt source are out of date",
        ),
        (
            "apt-get simulate",
            "The following packages have unmet dependencies:",
            10,
            "refused: what the new packages depend on",
        ),
        (
            "apt-get install",
            "dpkg: error: No space left on device",
            12,
            "was not installed: the disk is full",
        ),
        ("dpkg-deb --build", "", 1, ""),
    ] {
        let host = UpdateTestHost::new();
        host.write("fail", call);
        host.write("words", words);
        if call == "dpkg-deb --build" {
            fs::remove_file(host.path("bin/dpkg-deb")).unwrap();
        }
        let (ended, said) = host.update(&["--yes"]);
        assert_eq!((ended, host.installed()), (Some(code), OLD.map(str::to_owned).into()), "{call}: {said}");
        assert!(said.contains(want), "{call}: {said}");
        assert!(code != 10 || said.ends_with("Nothing was changed.\n"), "{call}: {said}");
        assert!(!host.path("root/var/lib/weaver/packages/new").exists() || code == 1, "{call}");
    }
    let host = UpdateTestHost::new();
    host.write("locked", "yes");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(10), OLD.map(str::to_owned).into()), "{said}");
    assert!(
        said.contains("another program is installing packages") && said.ends_with("Nothing was changed.\n"),
        "{said}"
    );
    assert!(host.record().contains("went-back"), "{}", host.record());
}

#[test]
fn a_release_whose_objects_the_installed_one_cannot_read_is_one_way() {
    let definition = |versions: &str, stored: &str| {
        let listed: Vec<_> = versions
            .split(' ')
            .map(|name| format!("  - name: {name}\n    storage: {}\n", name == stored))
            .collect();
        format!("metadata:\n  name: syncs.example\nspec:\n  versions:\n{}", listed.concat())
    };
    let host = UpdateTestHost::new();
    host.write("root/usr/share/weaver/crds/syncs.yaml", &definition("v1alpha1", "v1alpha1"));
    host.write("definitions/usr/share/weaver/crds/syncs.yaml", &definition("v1 v1alpha1", "v1"));
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(10), OLD.map(str::to_owned).into()), "{said}");
    assert!(
        said.contains("refused: 0.2 stores syncs.example as v1, which 0.1 does not know")
            && said.contains("--one-way"),
        "{said}"
    );
    let (code, said) = host.update(&["--yes", "--one-way"]);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    // Now the other way round: the definitions of 0.2 are installed.
    fs::rename(host.path("root/usr/share/weaver/crds"), host.path("alpha")).unwrap();
    fs::rename(host.path("definitions/usr/share/weaver/crds"), host.path("root/usr/share/weaver/crds"))
        .unwrap();
    fs::rename(host.path("alpha"), host.path("definitions/usr/share/weaver/crds")).unwrap();
    for flags in [&["--yes", "--to", "0.1"][..], &["--yes", "--to", "0.1", "--one-way"]] {
        let (code, said) = host.update(flags);
        assert_eq!((code, host.installed()), (Some(10), NEW.map(str::to_owned).into()), "{said}");
        assert!(said.contains("which 0.1 does not know: what it stored stays unreadable"), "{said}");
    }
}

/// Killed as by a power cut, before, within and after each call that changes something; the next run finishes it.
#[test]
fn cut_off_anywhere_the_next_run_ends_in_the_new_or_the_old() {
    let cut = |offered: &'static str, at: String, code, want: [&'static str; 2]| {
        std::thread::spawn(move || {
            let host = UpdateTestHost::new();
            host.offers(offered);
            host.write("kill", &at);
            let (killed, said) = host.update(&["--yes"]);
            assert_eq!(killed, None, "{at}: {said}");
            let report = host.preflight();
            let is_begun = host.record().contains("forward") || host.record().contains("\"back\"");
            assert_eq!(report.contains("F-17"), is_begun, "{at}: {report}");
            let (ended, said) = host.update(&["--yes"]);
            assert_eq!(
                (ended, host.installed()),
                (Some(code), want.map(str::to_owned).into()),
                "{at}: {said}"
            );
            assert_eq!(said.contains("was interrupted; "), is_begun, "{at}: {said}");
            let record = host.record();
            assert!(record.contains("\"done\"") || record.contains("went-back"), "{at}: {record}");
        })
    };
    let mut cuts = Vec::new();
    for when in ["before", "after"] {
        for call in [
            "apt-get download",
            "apt-get simulate",
            "dpkg-deb --build",
            "apt-get install",
            "systemctl stop",
            "systemctl start",
        ] {
            cuts.push(cut("0.2", format!("{when} {call}"), 0, NEW));
        }
        cuts.push(cut("0.2bad", format!("{when} dpkg install"), 12, OLD));
    }
    cuts.push(cut("0.2", "within apt-get install".to_owned(), 0, NEW));
    cuts.push(cut("0.2bad", "within dpkg install".to_owned(), 12, OLD));
    for cut in cuts {
        cut.join().unwrap();
    }
}

#[test]
fn the_timer_leaves_out_what_was_not_proven_and_a_boot_completes_what_was_cut_off() {
    let host = UpdateTestHost::new();
    let noted = || fs::read_to_string(host.path("root/var/lib/weaver/update-timer.json")).unwrap_or_default();
    // The next night.
    let later = || {
        let text = noted();
        let made = text.split_once("\"made\":").unwrap().1.split([',', '}']).next().unwrap();
        host.write("root/var/lib/weaver/update-timer.json", &text.replace(made, "1"));
    };
    let timer = ["--yes", "--when", "daily"];
    assert_eq!(host.update(&["--when", "daily"]).0, Some(2), "a timer has no one to ask");

    host.write("fail", "apt-get update");
    host.write("words", "E: Failed to fetch x  Could not resolve 'x'");
    assert_eq!(host.update(&timer).0, Some(10));
    assert!(noted().contains(r#""made":null,"failure":"the name"#), "{}", noted());
    fs::remove_file(host.path("fail")).unwrap();

    host.offers("0.2bad");
    let (code, said) = host.update(&timer);
    assert_eq!((code, host.installed()), (Some(12), OLD.map(str::to_owned).into()), "{said}");
    assert!(
        noted().contains("0.2bad could not be verified, the version before is installed again"),
        "{}",
        noted()
    );
    let (code, said) = host.update(&timer);
    assert!(code == Some(0) && said.contains("not old enough"), "{said}");
    later();
    let (code, said) = host.update(&timer);
    assert!(
        code == Some(0) && said.contains("0.2bad could not be verified on this host and is skipped"),
        "{said}"
    );
    assert!(noted().contains(r#""unproven":"0.2bad""#), "{}", noted());

    later();
    host.offers("0.3");
    host.write("kill", "within apt-get install");
    assert_eq!(host.update(&timer).0, None);
    let (code, said) = host.update(&["--resume", "--yes"]);
    assert_eq!((code, host.installed()), (Some(0), ["0.3 ii"; 2].map(str::to_owned).into()), "{said}");
    assert!(said.contains("was interrupted; some packages were replaced"), "{said}");
    let (code, said) = host.update(&["--resume", "--yes"]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "there is nothing to complete, and nothing is begun");
    let (code, said) = host.update(&timer);
    assert!(code == Some(0) && said.contains("there is no newer version"), "{said}");
    assert!(noted().contains(r#""failure":null,"unproven":null"#), "{}", noted());
}

#[test]
fn what_is_stopped_before_its_proof_goes_back_and_is_tried_again_by_the_timer() {
    let host = UpdateTestHost::new();
    let timer = ["--yes", "--when", "daily"];
    host.write("stop", "systemctl start");
    let (code, said) = host.update(&timer);
    assert_eq!((code, host.installed()), (Some(12), OLD.map(str::to_owned).into()), "{said}");
    assert!(said.contains("0.2 could not be verified: SIGTERM came"), "{said}");
    let noted = fs::read_to_string(host.path("root/var/lib/weaver/update-timer.json")).unwrap();
    let want = r#""failure":"it was stopped before 0.2 could be verified","unproven":null"#;
    assert!(noted.contains(want), "{noted}");
    let (code, said) = host.update(&timer);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
}

#[test]
fn where_the_way_back_fails_it_says_what_to_type_and_that_ends_it() {
    let host = UpdateTestHost::new();
    host.offers("0.2bad");
    host.write("fail", "dpkg install");
    host.write("words", "dpkg: error: no");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!(code, Some(13), "{said}");
    // The directory is root's: no shell of another account finds what is in it.
    let old = host.path("root/var/lib/weaver/packages/replaced");
    assert!(said.contains(&format!("  sudo dpkg --install --recursive {}\n", old.display())), "{said}");

    // As docs/how-to/update.md describes it, after a power cut and with dpkg alone.
    let host = UpdateTestHost::new();
    host.write("kill", "after apt-get install");
    assert_eq!(host.update(&["--yes"]).0, None);
    for name in PACKAGES {
        host.write(&format!("state/{name}"), "0.1 ii\n");
    }
    let (code, said) = host.update(&["--to", "0.1"]);
    assert_eq!((code, host.installed()), (Some(0), OLD.map(str::to_owned).into()), "{said}");
    assert!(host.record().contains("went-back"), "{}", host.record());
}

#[test]
fn an_update_that_changed_nothing_leaves_what_an_earlier_one_kept() {
    let host = UpdateTestHost::new();
    assert_eq!(host.update(&["--yes"]).0, Some(0));
    for (what, offered, code) in [("locked", "0.3", 10), ("not proven", "0.3bad", 12)] {
        host.offers(offered);
        host.write("locked", if what == "locked" { "yes" } else { "no" });
        let (ended, said) = host.update(&["--yes"]);
        assert_eq!((ended, host.installed()), (Some(code), NEW.map(str::to_owned).into()), "{what}: {said}");
    }
    let (code, said) = host.update(&["--yes", "--to", "0.1"]);
    assert_eq!((code, host.installed()), (Some(0), OLD.map(str::to_owned).into()), "{said}");
    assert!(said.contains("weaver 0.2 → 0.1, from kept on this host"), "{said}");
}

#[test]
fn packages_that_a_cut_has_lost_are_fetched_again_or_it_goes_back() {
    for (source, code, want) in [("is there", 0, NEW), ("is gone", 12, OLD)] {
        let host = UpdateTestHost::new();
        host.write("kill", "within apt-get install");
        assert_eq!(host.update(&["--yes"]).0, None);
        fs::remove_file(host.path("root/var/lib/weaver/packages/new/weaver_0.2_amd64.deb")).unwrap();
        if source == "is gone" {
            host.write("fail", "apt-get download");
            host.write("words", "E: Failed to fetch x  File not found");
        }
        let (ended, said) = host.update(&["--yes"]);
        assert_eq!(
            (ended, host.installed()),
            (Some(code), want.map(str::to_owned).into()),
            "{source}: {said}"
        );
    }
}

#[test]
fn a_dpkg_that_cannot_say_what_is_installed_ends_no_record() {
    let host = UpdateTestHost::new();
    host.write("kill", "within apt-get install");
    assert_eq!(host.update(&["--yes"]).0, None);
    host.write("fail", "dpkg-query --show");
    host.write("words", "dpkg-query: error: parsing file '/var/lib/dpkg/status'");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("dpkg-query cannot say what is installed (exit status: 2): dpkg-query: error"),
        "{said}"
    );
    assert!(host.record().contains("forward"), "{}", host.record());
    fs::remove_file(host.path("fail")).unwrap();
    assert_eq!(host.update(&["--yes"]).0, Some(0));
    assert_eq!(host.installed(), NEW);
}

#[test]
fn what_someone_else_has_installed_meanwhile_is_left_alone() {
    let host = UpdateTestHost::new();
    host.write("kill", "within apt-get install");
    assert_eq!(host.update(&["--yes"]).0, None);
    for name in PACKAGES {
        host.write(&format!("state/{name}"), "0.3 ii\n");
    }
    host.offers("0.3");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(0), ["0.3 ii"; 2].map(str::to_owned).into()), "{said}");
    assert!(
        said.contains("another version was installed since") && said.contains("no newer version"),
        "{said}"
    );
}

#[test]
fn a_card_whose_boot_partition_is_not_mounted_is_not_updated() {
    let host = UpdateTestHost::new();
    host.write("state/config-weaver-card", "0.1 ii\n");
    host.write("root/proc/self/mountinfo", "");
    host.write("root/boot/firmware/x", "");
    let (code, said) = host.update(&["--yes"]);
    assert_eq!(code, Some(10), "{said}");
    assert!(
        said.contains("refused: /boot/firmware is not mounted, and a package may write there: sudo mount"),
        "{said}"
    );
}
