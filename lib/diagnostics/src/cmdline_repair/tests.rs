use super::*;
use proptest::prelude::*;
use std::process;

/// Runs the printed commands on a real file, without `sudo` and reboot.
fn run_commands(text: &str, need: Need) -> String {
    let dir = std::env::temp_dir().join(format!("weaver-repair-{}-{:p}", std::process::id(), &text));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("cmdline.txt");
    std::fs::write(&path, text).unwrap();
    let remedy = remedy(path.to_str().unwrap(), text, need).unwrap();
    for command in remedy.commands.iter().filter(|c| !c.contains("reboot")) {
        let command = command.strip_prefix("sudo ").unwrap();
        assert!(process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    }
    let mended = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    mended
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn the_printed_commands_mend_the_file() {
    for (text, need, want) in [
        ("root=a rootwait\n", Need::Enable, "root=a rootwait cgroup_enable=memory"),
        ("root=a rootwait\r\n", Need::Enable, "root=a rootwait cgroup_enable=memory"),
        ("root=a", Need::Enable, "root=a cgroup_enable=memory"),
        ("root=a\n\ncgroup_enable=memory\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("root=a\r\ncgroup_enable=cpu,memory\r\n", Need::Enable, "root=a cgroup_enable=cpu,memory"),
        ("\nroot=a rootwait\ncgroup_enable=memory\n", Need::Enable, "root=a rootwait cgroup_enable=memory"),
        ("\r\nroot=a\r\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("root=a\nrootwait cgroup_enable=memory\n", Need::Enable, "root=a rootwait cgroup_enable=memory"),
        ("\u{feff}cgroup_enable=memory root=a\n", Need::Enable, "cgroup_enable=memory root=a"),
        ("\u{feff}root=a\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("root=a -- single\n", Need::Enable, "root=a cgroup_enable=memory -- single"),
        (
            "root=a -- cgroup_enable=memory\n",
            Need::Enable,
            "root=a cgroup_enable=memory -- cgroup_enable=memory",
        ),
        // Other text on the lines that the firmware ignores stays ignored.
        ("root=a\nroot=old cgroup_enable=memory\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("root=a\n# add cgroup_enable=memory\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("#/boot/cmdline.txt\nroot=a rootwait\n", Need::Enable, "root=a rootwait cgroup_enable=memory"),
        ("#\n# don\"t\n\r\nroot=a cgroup_enable=memory\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("\n# mine\nroot=a\n# yours\n", Need::Enable, "root=a cgroup_enable=memory"),
        ("\u{feff}# mine\nroot=a", Need::Enable, "root=a cgroup_enable=memory"),
        ("cgroup_enable=memory cgroup_disable=memory x\n", Need::Enable, "cgroup_enable=memory x"),
        ("cgroup_disable=memory cgroup_disable=memory x\n", Need::NoDisable, "x"),
        ("a cgroup_disable=cpu,memory b\n", Need::NoDisable, "a cgroup_disable=cpu b"),
        ("a cgroup_disable=\"memory\" b\n", Need::NoDisable, "a b"),
        ("a \"cgroup_disable=cpu,memory\" b\n", Need::NoDisable, "a \"cgroup_disable=cpu\" b"),
        ("root=a rootwaitcgroup_enable=memory\n", Need::Enable, "root=a rootwait cgroup_enable=memory"),
        (
            "root=a rootwaitcgroup_enable=memory cgroup_enable=memory\r\n",
            Need::Enable,
            "root=a rootwait cgroup_enable=memory cgroup_enable=memory",
        ),
        (
            "quietcgroup_memory=1 cgroup_disable=memory\n",
            Need::Enable,
            "quiet cgroup_memory=1 cgroup_enable=memory",
        ),
    ] {
        let mended = run_commands(text, need);
        assert_eq!(words(lines(&mended)[0]), words(want), "{text:?}");
        let change = remedy("f", text, need).unwrap().changes.remove(0);
        assert_eq!(words(lines(&change.to)[0]), words(want), "{text:?}");
        assert!(change.to.ends_with('\n') && change.from.as_deref() == Some(text));
        assert_eq!(remedy("f", &mended, need), None, "a mended file needs nothing: {mended:?}");
    }
}

#[test]
fn a_missing_space_is_the_only_change() {
    let text = "console=tty1  root=/dev/sda2\tfsck.repair=yes rootwaitcgroup_enable=memory quiet \n# mine\n";
    let remedy = remedy("f", text, Need::Enable).unwrap();
    let want = text.replace("rootwaitcgroup", "rootwait cgroup");
    assert_eq!(remedy.changes[0].to, want);
    assert_eq!(
        remedy.explain,
        "in f: put a space between `rootwait` and `cgroup_enable=memory`; then reboot"
    );
    assert_eq!(super::remedy("f", &want, Need::Enable), None);
    assert_eq!(super::remedy("f", text, Need::NoDisable), None);
    for same in [
        "note=\"rootwaitcgroup_enable=memory\" cgroup_enable=memory\n",
        "xcgroup_memory=1 cgroup_enable=memory\n",
    ] {
        assert_eq!(super::remedy("f", same, Need::Enable), None, "{same}");
    }
}

#[test]
fn the_printed_command_puts_the_space_into_that_word_only() {
    let glued = "root=/dev/disk/by-id/a.b+ccgroup_enable=memory";
    let other = glued.replace("a.b+c", "aXbbc");
    let apart = glued.replace("ccgroup", "c cgroup");
    let text = format!("a={glued} {glued} {glued} \"{glued}\" {other},\n{glued}\n");
    let want =
        format!("a={apart} {apart} {apart} \"{glued}\" {},\n{glued}\n", other.replace("ccgroup", "c cgroup"));
    assert_eq!(run_commands(&text, Need::Enable), want);
    assert_eq!(remedy("f", &text, Need::Enable).unwrap().changes[0].to, want);
}

#[test]
fn the_diff_shows_before_and_after() {
    let remedy =
        remedy("/boot/firmware/cmdline.txt", "root=a\ncgroup_enable=memory\n", Need::Enable).unwrap();
    assert_eq!(
        remedy.diff.unwrap(),
        "--- /boot/firmware/cmdline.txt\n+++ /boot/firmware/cmdline.txt\n@@ -1,2 +1 @@\n\
         -root=a\n-cgroup_enable=memory\n+root=a cgroup_enable=memory\n"
    );
}

#[test]
fn repairs_in_order_restart_once_and_only_where_one_needs_it() {
    let one = |file: &str| repair(file, "root=a\n", Need::Enable).unwrap();
    let remedy = in_order([one("/a"), one("/b")]).unwrap();
    assert_eq!(remedy.commands.iter().filter(|command| **command == Command::Reboot).count(), 1);
    assert_eq!(remedy.commands.last().unwrap(), &Command::Reboot);
    assert_eq!(remedy.explain.matches("then reboot").count(), 1, "{}", remedy.explain);
    assert!(remedy.explain.ends_with("; then reboot"), "{}", remedy.explain);
    assert_eq!(remedy.changes.len(), 2);
    let calm = in_order([one("/a").without_restart(), one("/b").without_restart()]).unwrap();
    assert!(!calm.commands.contains(&Command::Reboot) && !calm.explain.contains("reboot"));
    assert_eq!(calm.diff, remedy.diff);
    assert_eq!(in_order([]), None);
}

#[test]
fn a_file_name_that_a_shell_would_read_is_in_no_command() {
    let remedy = remedy("/boot/firmware/a;reboot.txt", "root=a\n", Need::Enable).unwrap();
    assert_eq!(remedy.commands, ["sudo weaver-node-agent repair", "sudo reboot"]);
}

#[test]
fn an_empty_file_gets_a_diff_and_no_command_that_would_do_nothing() {
    let remedy = remedy("f", "", Need::Enable).unwrap();
    assert_eq!((remedy.commands, remedy.changes), (vec![Command::Reboot], vec![]));
    assert!(remedy.diff.unwrap().ends_with("+cgroup_enable=memory\n"));
}

proptest! {
    #[test]
    fn never_panics_and_is_idempotent(
        text in "\\PC*|([a-z]{0,3}|cgroup_enable=memory|cgroup_disable=memory|cgroup_disable=cpu,memory| |\n|\r\n|\"){0,12}",
        enable: bool,
    ) {
        let need = if enable { Need::Enable } else { Need::NoDisable };
        let Some(remedy) = remedy("f", &text, need) else { return Ok(()) };
        if let Some(diff) = remedy.diff {
            let new = diff.lines().last().unwrap().strip_prefix('+').unwrap().to_owned();
            prop_assert_eq!(super::remedy("f", &new, need), None, "{:?}", new);
        }
        for change in remedy.changes {
            prop_assert_eq!(super::remedy("f", &change.to, need), None, "{:?}", change.to);
            // All other parameters of the line that counts stay, in their order, and none is added.
            let others = |text: &str| -> Vec<String> {
                let all = parameters(lines(text)[0], 1).into_iter().map(|parameter| parameter.text.to_owned());
                all.filter(|parameter| !parameter.trim_matches('"').starts_with("cgroup_")).collect()
            };
            // What an empty first line was meant to have is below it, and so is what is below notes.
            let first = lines(&text)[0];
            if !first.trim_ascii().is_empty() && !first.trim_ascii_start().starts_with('#') {
                // A space that is missing is put in where a parameter is to be.
                let old = if enable { separated(first) } else { first.to_owned() };
                prop_assert_eq!(others(&change.to), others(&old), "{:?} {:?}", text, change.to);
            }
        }
    }
}
