//! What dpkg says of packages.

/// The fields that [`installed`] reads, for `dpkg-query --show`.
pub const FORMAT: &str = "${Package}\t${db:Status-Abbrev}\t${Version}\t${Installed-Size}\n";

/// A package that is there, if only in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledPackage {
    pub name: String,
    pub version: String,
    /// Whether it is unpacked and configured; else something was interrupted, or its script failed.
    pub is_whole: bool,
    /// What it takes on the disk.
    pub kib: u64,
}

/// The packages of an answer in [`FORMAT`]. One of which only conffiles are left is not there.
pub fn installed(answer: &str) -> Vec<InstalledPackage> {
    let package = |line: &str| {
        let [name, status, version, kib] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let mut status = status.trim_end().chars().skip(1);
        let (state, error) = (status.next()?, status.next());
        let is_there = !matches!(state, 'n' | 'c') && !version.is_empty();
        is_there.then(|| InstalledPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            is_whole: state == 'i' && error.is_none(),
            kib: kib.trim().parse().unwrap_or(0),
        })
    };
    answer.lines().filter_map(package).collect()
}

/// The control file of a package, of what `dpkg-query --status` says of it: without what only the installed one has.
pub fn control_file(status: &str) -> String {
    let mut is_ours = true;
    let mut control = String::new();
    for line in status.trim().lines() {
        if !line.starts_with([' ', '\t']) {
            is_ours =
                !["Status:", "Conffiles:", "Config-Version:"].iter().any(|field| line.starts_with(field));
        }
        if is_ours {
            control.push_str(line);
            control.push('\n');
        }
    }
    control
}

/// What [`conffiles`] reads, for `dpkg-query --show`.
pub const CONFFILES: &str = "${Conffiles}";

/// A file of `/etc` that dpkg asks about before it replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conffile {
    pub path: String,
    /// The sum that it came with; `None` where the installed version no longer has it.
    pub md5: Option<String>,
}

/// The conffiles of an answer in [`CONFFILES`].
pub fn conffiles(answer: &str) -> Vec<Conffile> {
    let conffile = |line: &str| {
        let line = line.trim();
        let (path, last) = line.rsplit_once(' ')?;
        // Behind the sum stand `obsolete`, `remove-on-upgrade` or both.
        let Some(md5) = Some(last).filter(|last| is_md5(last)) else {
            let words = line.split(' ');
            let path: Vec<_> = words.take_while(|word| !is_md5(word) && *word != "newconffile").collect();
            return Some(Conffile { path: path.join(" "), md5: None });
        };
        Some(Conffile { path: path.to_owned(), md5: Some(md5.to_owned()) })
    };
    let conffiles = answer.lines().filter_map(conffile);
    conffiles.filter(|conffile| conffile.path.starts_with('/')).collect()
}

fn is_md5(word: &str) -> bool {
    word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The paths of what `dpkg-query --listfiles` says, without the root and without what it says of diversions.
pub fn files(listed: &str) -> Vec<&str> {
    listed.lines().filter(|line| line.starts_with('/') && *line != "/.").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_whether_whole() {
        let answer = "config-weaver\tii \t0.1.0\t88660\nweaver\tiU \t0.1.0+newer\t50850\nconfig-weaver-card\trc \t0.1.0\t90\n\
                      a\tiHR\t1\t2\nb\tun \t\t\nc\tpi \t1\t\nhalf a line\tii";
        let found: Vec<_> = installed(answer)
            .into_iter()
            .map(|package| (package.name, package.version, package.is_whole, package.kib))
            .collect();
        let want = [
            ("config-weaver", "0.1.0", true, 88660),
            ("weaver", "0.1.0+newer", false, 50850),
            ("a", "1", false, 2),
            ("c", "1", true, 0),
        ];
        assert_eq!(
            found,
            want.map(|(name, version, whole, kib)| (name.to_owned(), version.to_owned(), whole, kib))
        );
    }

    #[test]
    fn a_control_file_has_no_state() {
        let status = "Package: weaver\nStatus: install ok installed\nVersion: 0.1.0\nConffiles:\n /etc/a 0123\n /etc/b 4567\nConfig-Version: 0\n\
                      Description: short\n long\n .\n more\n";
        assert_eq!(
            control_file(status),
            "Package: weaver\nVersion: 0.1.0\nDescription: short\n long\n .\n more\n"
        );
    }

    #[test]
    fn conffiles_and_what_they_came_with() {
        let sum = "0123456789abcdef0123456789abcdef";
        let answer = format!(
            " /etc/a {sum}\n /etc/b c {sum}\n /etc/d {sum} obsolete\n /etc/e newconffile\n \
             /etc/f {sum} obsolete remove-on-upgrade\n /etc/g newconffile remove-on-upgrade\n/etc/h\n\netc/i {sum}\n"
        );
        let found: Vec<_> = conffiles(&answer).into_iter().map(|found| (found.path, found.md5)).collect();
        let want = [
            ("/etc/a", Some(sum)),
            ("/etc/b c", Some(sum)),
            ("/etc/d", None),
            ("/etc/e", None),
            ("/etc/f", None),
            ("/etc/g", None),
        ];
        assert_eq!(found, want.map(|(path, md5)| (path.to_owned(), md5.map(str::to_owned))));
        assert_eq!(conffiles(""), []);
    }

    #[test]
    fn files_are_absolute() {
        let listed = "/.\n/usr\n/usr/bin/weaver\nlocally diverted to: /usr/bin/weaver.real\n";
        assert_eq!(files(listed), ["/usr", "/usr/bin/weaver"]);
    }
}
