//! Units with which systemd does not start k3s, whatever k3s would do with its settings. Pure.
//!
//! systemd.service(5) for `ExecStart=`, systemd.exec(5) for `EnvironmentFile=`, systemd.syntax(7) for lines.

use super::{Assignment, given, list};
use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, START_K3S, Severity};
use crate::text_file::TextFile;

/// What is wrong with the unit and its drop-ins, in systemd's order; `is_there` says whether the host has a file.
pub fn lint(units: &[TextFile], is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let given = given(units);
    let mut findings: Vec<_> = commands(&given).into_iter().collect();
    findings.extend(units.iter().filter_map(cut_line));
    findings.extend(environment(&given, is_there));
    findings
}

/// A unit that is a link to `/dev/null`, with its name.
pub fn masked(path: &str, name: &str) -> Finding {
    let what = format!("{name} is masked, so systemd does not start k3s");
    let remedy =
        Remedy::new("if k3s is to run here, unmask it").command(format!("sudo systemctl unmask {name}"));
    let finding = Finding::at(Code::SettingMisspelled, Place::file(path), &what);
    finding.remedy(remedy.command(START_K3S)).milder(Severity::Warn)
}

/// A second command, or none at all where a drop-in takes the first one back.
fn commands(given: &[Assignment]) -> Option<Finding> {
    let kind = given.iter().rfind(|(_, key, _)| key == "Type").map(|(_, _, kind)| kind.as_str());
    let (commands, emptied) = list(given, "ExecStart");
    let (place, what, remedy) = match (&commands[..], emptied) {
        ([(first, _), (second, _), ..], _) if kind != Some("oneshot") => (
            (*second).clone(),
            format!(
                "this is a second command next to the one at {first}: systemd does not start a service that has two"
            ),
            "write a line `ExecStart=` with nothing behind it above this one: it takes the first command back",
        ),
        ([], Some(place)) => (
            place.clone(),
            "this takes the command of the service back, and none follows: systemd does not start it"
                .to_owned(),
            "write the new command into a line `ExecStart=` below it, or remove this line",
        ),
        _ => return None,
    };
    let finding = Finding::at(Code::SettingMisspelled, place, &what);
    Some(finding.remedy(Remedy::new(remedy).command(RESTART_K3S)))
}

/// The first line that was to go on in the next one, and has blanks behind its backslash.
fn cut_line(unit: &TextFile) -> Option<Finding> {
    let is_cut = |line: &str| {
        let trimmed = line.trim_end();
        trimmed.len() < line.len() && trimmed.ends_with('\\') && !trimmed.trim_start().starts_with(['#', ';'])
    };
    let next = unit.text.lines().skip(1);
    let mut pairs = (1..).zip(unit.text.lines().zip(next));
    let (number, _) = pairs.find(|(_, (line, next))| is_cut(line) && !next.trim().is_empty())?;
    let what = "a blank follows the backslash, so systemd ends the line here and ignores the next one";
    let remedy = Remedy::new("remove the blanks at the end of this line");
    let finding = Finding::at(Code::SettingMisspelled, Place::line(&unit.path, number), what);
    Some(finding.remedy(remedy.command(RESTART_K3S)).milder(Severity::Warn))
}

/// Files of the environment that must be there and are not. What is below /run may be made before k3s starts.
fn environment(given: &[Assignment], is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let (mut files, _) = list(given, "EnvironmentFile");
    let is_plain = |path: &str| {
        path.starts_with('/') && !path.starts_with("/run/") && !path.contains(['%', '*', '?', '['])
    };
    files.retain(|(_, path)| is_plain(path) && !is_there(path));
    let missing = files.into_iter().map(|(place, path)| {
        let message =
            format!("{path} does not exist, {place} names it, and systemd does not start k3s without it");
        let explain =
            format!("write {path}, or `EnvironmentFile=-{path}` at {place}, which lets it be missing");
        Finding::new(Code::K3sFileUnreadable, message)
            .saw(place.clone(), format!("EnvironmentFile={path}"))
            .remedy(Remedy::new(explain).command(RESTART_K3S))
            .milder(Severity::Warn)
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "[Unit]\nAfter=network-online.target\n\n[Service]\nType=notify\nEnvironmentFile=-/etc/default/%N\n\
                        EnvironmentFile=-/etc/systemd/system/k3s.service.env\nExecStartPre=-/sbin/modprobe overlay\n\
                        ExecStart=/usr/local/bin/k3s \\\n    server \\\n\t'--disable' \\\n\t'traefik' \\\n\n";

    fn judged(unit: &str, drop_in: &str) -> Vec<Finding> {
        let units = [TextFile::new("/k3s.service", unit), TextFile::new("/k3s.service.d/o.conf", drop_in)];
        lint(&units, |path| path == "/etc/k3s.env")
    }

    #[test]
    fn what_keeps_systemd_from_starting_k3s_is_named_with_its_line() {
        for (drop_in, want) in [
            (
                "[Service]\nExecStart=/usr/local/bin/k3s server --disable traefik\n",
                "/k3s.service.d/o.conf:2: this is a second command next to the one at /k3s.service:9",
            ),
            (
                "[Service]\nExecStart=\n",
                "/k3s.service.d/o.conf:2: this takes the command of the service back",
            ),
            (
                "[Service]\nExecStart=\nExecStart=k3s server \\ \n  --debug\n",
                "/k3s.service.d/o.conf:3: a blank follows the backslash",
            ),
            (
                "[Service]\nEnvironmentFile=/etc/rancher/k3s/proxy.env\n",
                "/etc/rancher/k3s/proxy.env does not exist, /k3s.service.d/o.conf:2 names it",
            ),
        ] {
            let found = judged(UNIT, drop_in);
            assert_eq!(found.len(), 1, "{drop_in}: {found:?}");
            assert!(found[0].message.starts_with(want), "{drop_in}: {found:?}");
        }
        let second = &judged(UNIT, "[Service]\nExecStart=k3s server\n")[0];
        assert_eq!((second.code, second.severity()), (Code::SettingMisspelled, Severity::Fail));
    }

    #[test]
    fn what_systemd_takes_is_left_alone() {
        for drop_in in [
            "",
            "[Unit]\nRequiresMountsFor=/mnt/ssd\n[Service]\nTimeoutStartSec=0\n",
            "[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s server --disable servicelb\n",
            "[Service]\nType=oneshot\nExecStart=/usr/bin/true\n",
            "[Service]\nEnvironmentFile=/etc/k3s.env\nEnvironmentFile=-/none.env\nEnvironmentFile=/run/made.env\n",
            "[Service]\nEnvironmentFile=/none.env\nEnvironmentFile=\nEnvironmentFile=/etc/k3s.d/*.env\n",
            "# ends with a backslash \\ \n[Service]\nEnvironment=A=b \\ \n\n",
        ] {
            assert_eq!(judged(UNIT, drop_in), [], "{drop_in}");
        }
        assert_eq!(lint(&[], |_| false), []);
    }
}
