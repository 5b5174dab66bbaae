//! Names of files, programs and the home directory as Windows has them. Pure, so that every system tests it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What Windows takes for a device in each directory (Naming Files, Paths, and Namespaces), with digits after
/// the last two.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
const NUMBERED: [&str; 2] = ["COM", "LPT"];

/// Why Windows would not make a file of this name, or another than is meant.
pub fn file_name_fault(name: &str) -> Option<String> {
    // `NUL.yaml` is the device as well.
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end();
    if is_device(stem) {
        return Some(format!("{stem} is a device of Windows, with any ending"));
    }
    // After a colon it would be a hidden stream of the file before it.
    let is_impossible = |c: char| c.is_control() || r#"<>:"/\|?*"#.contains(c);
    if let Some(c) = name.chars().find(|c| is_impossible(*c)) {
        return Some(format!("a file of Windows cannot have {c:?} in its name"));
    }
    name.ends_with(['.', ' ']).then(|| "Windows drops dots and spaces at the end of a name".to_owned())
}

fn is_device(stem: &str) -> bool {
    let upper = stem.to_uppercase();
    let is_numbered = |device: &str| {
        upper.strip_prefix(device).is_some_and(|number| {
            let mut number = number.chars();
            matches!((number.next(), number.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
        })
    };
    DEVICES.contains(&&*upper) || NUMBERED.into_iter().any(is_numbered)
}

/// A path of a drive without the prefix `\\?\`, which `canonicalize` adds and people do not write; `None`
/// where it has to stay.
pub fn without_prefix(path: &str) -> Option<&str> {
    let plain = path.strip_prefix(r"\\?\")?;
    let mut chars = plain.chars();
    let is_of_drive = matches!(
        (chars.next(), chars.next(), chars.next()),
        (Some(drive), Some(':'), Some('\\')) if drive.is_ascii_alphabetic()
    );
    // Without it a path is shorter, and names mean what they say.
    let is_plain = plain.len() < 260 && plain.split('\\').skip(1).all(|part| file_name_fault(part).is_none());
    (is_of_drive && is_plain).then_some(plain)
}

/// Where home may be, in kubectl's order: `HOME`, `HOMEDRIVE` with `HOMEPATH`, `USERPROFILE`.
pub fn homes(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let of_drive = set("HOMEDRIVE").zip(set("HOMEPATH")).map(|(mut drive, path)| {
        drive.push(path);
        drive
    });
    [set("HOME"), of_drive, set("USERPROFILE")].into_iter().flatten().map(PathBuf::from).collect()
}

/// The first with a kubeconfig, else the first that is there, else the first: as kubectl decides it.
pub fn home(
    candidates: &[PathBuf],
    has_kubeconfig: impl Fn(&Path) -> bool,
    is_there: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let first = |fits: &dyn Fn(&Path) -> bool| candidates.iter().find(|candidate| fits(candidate));
    first(&has_kubeconfig).or_else(|| first(&is_there)).or_else(|| candidates.first()).cloned()
}

/// The names of files that a program of this name may have; `endings` is `PATHEXT`.
pub fn programs(name: &str, endings: &str) -> Vec<String> {
    let endings = if endings.is_empty() { ".COM;.EXE;.BAT;.CMD" } else { endings };
    let endings = endings.split(';').filter(|ending| ending.starts_with('.'));
    let lower = name.to_lowercase();
    if endings.clone().any(|ending| lower.ends_with(&ending.to_lowercase())) {
        return vec![name.to_owned()];
    }
    endings.map(|ending| format!("{name}{ending}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_streams_and_what_windows_changes_are_no_names_of_files() {
        for (name, want) in [
            ("CON", "CON is a device"),
            ("nul", "nul is a device"),
            ("Nul.yaml", "Nul is a device"),
            ("aux .tar.gz", "aux is a device"),
            ("com1", "com1 is a device"),
            ("LPT9.txt", "LPT9 is a device"),
            ("com¹", "com¹ is a device"),
            ("CONOUT$", "is a device"),
            ("nul:", "nul is a device"),
            ("pi:6443.yaml", "cannot have ':'"),
            ("a*", "cannot have '*'"),
            ("a\tb", "cannot have '\\t'"),
            ("pi.", "drops dots and spaces"),
            ("pi ", "drops dots and spaces"),
        ] {
            let fault = file_name_fault(name);
            assert!(fault.as_deref().is_some_and(|fault| fault.contains(want)), "{name}: {fault:?}");
        }
        for name in [
            "config",
            "pi.yaml",
            "console",
            "com",
            "com10",
            "comma1",
            "nullx",
            "a b ü.yaml",
            ".kube",
            "a.con",
        ] {
            assert_eq!(file_name_fault(name), None, "{name}");
        }
    }

    #[test]
    fn a_path_is_shown_as_people_write_it_where_that_is_the_same_path() {
        for (path, want) in [
            (r"\\?\C:\Users\Jö Doe\.kube\config", Some(r"C:\Users\Jö Doe\.kube\config")),
            (r"\\?\UNC\server\share\config", None),
            (r"\\?\C:\Users\nul", None),
            (r"\\?\C:\Users\a.\config", None),
            (r"\\?\C:", None),
            (r"C:\config", None),
        ] {
            assert_eq!(without_prefix(path), want, "{path}");
        }
        let long = format!(r"\\?\C:\{}", "a".repeat(300));
        assert_eq!(without_prefix(&long), None);
    }

    #[test]
    fn home_is_where_kubectl_finds_it() {
        let all =
            [("HOME", r"H:\"), ("HOMEDRIVE", "D:"), ("HOMEPATH", r"\me"), ("USERPROFILE", r"C:\Users\me")];
        let homes = |set: &[(&str, &str)]| {
            homes(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(homes(&all), paths(&[r"H:\", r"D:\me", r"C:\Users\me"]));
        assert_eq!(homes(&all[3..]), paths(&[r"C:\Users\me"]));
        assert_eq!(homes(&all[1..2]), paths(&[]));
        assert_eq!(homes(&[("HOME", ""), all[3]]), paths(&[r"C:\Users\me"]));
        for (configured, there, want) in [
            (&[][..], &[r"C:\Users\me"][..], r"C:\Users\me"),
            (&[r"D:\me"], &[r"H:\", r"D:\me", r"C:\Users\me"], r"D:\me"),
            (&[], &[r"H:\", r"C:\Users\me"], r"H:\"),
            (&[], &[], r"H:\"),
        ] {
            let is_in = |list: &[&str], path: &Path| list.iter().any(|one| Path::new(one) == path);
            let found = home(&homes(&all), |path| is_in(configured, path), |path| is_in(there, path));
            assert_eq!(found.as_deref(), Some(Path::new(want)), "{configured:?} {there:?}");
        }
        assert_eq!(home(&[], |_| true, |_| true), None);
    }

    #[test]
    fn a_program_has_one_of_the_endings() {
        assert_eq!(programs("kubelogin", ".EXE;.CMD"), ["kubelogin.EXE", "kubelogin.CMD"]);
        assert_eq!(programs("kubelogin.exe", ".EXE;.CMD"), ["kubelogin.exe"]);
        assert_eq!(programs("aws", "").len(), 4);
        assert_eq!(programs("a.b", "junk;;.EXE"), ["a.b.EXE"]);
    }
}
