//! Entries of `kubelet-arg` against the flags that the kubelet has. Pure.
//!
//! The kubelet exits at a flag that it does not know, and k3s with it. A newer kubelet may know more than the
//! table: a flag that the table lacks is a failure only where it is close to one that the kubelet has.

use crate::finding::{Code, Finding, RESTART_K3S, Remedy, Severity};
use crate::finding_text::cut;
use crate::k3s_unit::Setting;
use crate::kubelet_config::{self, DROP_INS};

const TABLE: &str = include_str!("kubelet_flags.txt");
/// The oldest Kubernetes, of v1, that a k3s may still have.
const OLDEST: u32 = 31;
/// Characters of a flag that a message repeats.
const LONGEST: usize = 60;

/// Each flag that the kubelet has or had, with the last v1.N that had it.
fn all() -> impl Iterator<Item = (&'static str, Option<u32>)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, until) = line.split_once(' ')?;
        Some((name, until.trim().parse().ok()))
    })
}

/// The flags that the kubelet does not have; their values are not repeated.
pub fn lint(arguments: &[Setting]) -> Vec<Finding> {
    arguments.iter().filter_map(judge).collect()
}

fn judge(argument: &Setting) -> Option<Finding> {
    let given = argument.value.trim_start_matches('-').split('=').next()?;
    // The kubelet takes underscores for hyphens.
    let name = given.replace('_', "-");
    let place = argument.origin.clone();
    if let Some((flag, _)) = name.split_once(char::is_whitespace)
        && all().any(|(known, _)| known == flag)
    {
        let what = format!("a blank follows `{flag}` instead of `=`, and k3s does not start with it");
        let remedy = Remedy::new(format!("write `{flag}=VALUE`")).command(RESTART_K3S);
        return Some(Finding::at(Code::SettingMisspelled, place, &what).remedy(remedy));
    }
    let Some((_, until)) = all().find(|(known, _)| *known == name) else {
        if let Some(field) = field(&name) {
            let what = format!(
                "the kubelet has no flag `{name}`, only a field of its configuration, and k3s does not start with it"
            );
            let remedy = Remedy::new(format!(
                "remove the entry, and write `{field}` below `apiVersion: kubelet.config.k8s.io/v1beta1` and `kind: \
                 KubeletConfiguration` into /var/lib/rancher/k3s/{DROP_INS}/99-mine.conf"
            ));
            let finding = Finding::at(Code::SettingMisspelled, place, &what);
            return Some(finding.remedy(remedy.command(RESTART_K3S)));
        }
        let meant = nearest(&name)?;
        let what =
            format!("the kubelet does not know `{}`, and k3s does not start with it", cut(given, LONGEST));
        let remedy = Remedy::new(format!("write `{meant}`, if that is what is meant")).command(RESTART_K3S);
        return Some(Finding::at(Code::SettingMisspelled, place, &what).remedy(remedy));
    };
    let since = until? + 1;
    let what = format!(
        "the kubelet has no `{name}` since v1.{since}: k3s of that version and newer does not start with it"
    );
    let finding = Finding::at(Code::SettingMisspelled, place, &what)
        .remedy(Remedy::new("remove the entry from `kubelet-arg`").command(RESTART_K3S));
    // The installed one may be older.
    Some(if since > OLDEST { finding.milder(Severity::Warn) } else { finding })
}

/// The field of this name, which no flag sets.
fn field(flag: &str) -> Option<&'static str> {
    let joined = flag.replace('-', "");
    kubelet_config::fields().find(|field| field.eq_ignore_ascii_case(&joined))
}

/// The flag that was most likely meant.
fn nearest(given: &str) -> Option<&'static str> {
    let lower = given.to_ascii_lowercase();
    let known = all().filter(|(_, until)| until.is_none());
    let (distance, name) = known.map(|(name, _)| (strsim::damerau_levenshtein(&lower, name), name)).min()?;
    // Of a short word another letter makes another word.
    (distance <= lower.chars().count() / 5).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Place;
    use proptest::prelude::*;

    fn found(value: &str) -> Vec<(Severity, String)> {
        let argument = Setting { value: value.to_owned(), origin: Place::line("/c.yaml", 3) };
        let findings = lint(&[argument]);
        assert!(findings.iter().all(|finding| finding.code == Code::SettingMisspelled));
        findings.into_iter().map(|finding| (finding.severity(), finding.message)).collect()
    }

    #[test]
    fn every_line_of_the_table_is_a_flag_and_none_is_there_twice() {
        let names: Vec<_> = all().map(|(name, _)| name).collect();
        assert_eq!(names.len(), TABLE.lines().filter(|line| !line.starts_with('#')).count());
        assert!(names.is_sorted_by(|a, b| a < b), "in the order of their names, each once");
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let until = line.split_whitespace().nth(1).unwrap();
            assert!(until == "-" || until.parse::<u32>().is_ok(), "{line}");
        }
    }

    #[test]
    fn what_the_kubelet_has_is_left_alone() {
        for value in [
            "max-pods=200",
            "--eviction-hard=memory.available<100Mi",
            "node_labels=a=b",
            "v=2",
            "config=/k.yaml",
            "housekeeping-interval=10s",
            // No k3s of today has it, and no flag is near it.
            "brand-new-thing=1",
            "",
            "=",
        ] {
            assert_eq!(found(value), [], "{value}");
        }
    }

    #[test]
    fn what_it_had_and_what_it_never_had() {
        for (value, severity, want) in [
            (
                "pod-infra-container-image=hunter2",
                Severity::Warn,
                "the kubelet has no `pod-infra-container-image` since v1.35",
            ),
            (
                "--container-runtime=remote",
                Severity::Fail,
                "the kubelet has no `container-runtime` since v1.27",
            ),
            ("logtostderr=true", Severity::Fail, "the kubelet has no `logtostderr` since v1.26"),
            (
                "shutdown-grace-period=30s",
                Severity::Fail,
                "the kubelet has no flag `shutdown-grace-period`, only a field",
            ),
            ("max-pod=hunter2", Severity::Fail, "the kubelet does not know `max-pod`"),
            ("--max-pods hunter2", Severity::Fail, "a blank follows `max-pods` instead of `=`"),
            ("feature-gates hunter2=true", Severity::Fail, "a blank follows `feature-gates` instead of `=`"),
            (
                "image-gc-high-treshold=80",
                Severity::Fail,
                "the kubelet does not know `image-gc-high-treshold`",
            ),
        ] {
            let found = found(value);
            assert_eq!(found.len(), 1, "{value}");
            assert_eq!(found[0].0, severity, "{value}");
            assert!(found[0].1.starts_with(&format!("/c.yaml:3: {want}")), "{}", found[0].1);
            assert!(!found[0].1.contains("hunter2"));
        }
    }

    proptest! {
        #[test]
        fn never_panics(value in "\\PC*") {
            let _ = found(&value);
        }
    }
}
