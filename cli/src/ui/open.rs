//! Opens the page in the user's browser.
//!
//! The arguments of a program are visible to every user of the machine, so the browser does not get the address, which
//! contains the token, but a file that only this user can read, and that redirects to it.

use std::env;
use std::env::consts::OS;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use maud::{DOCTYPE, html};
use tempfile::{Builder, NamedTempFile};

/// What opens a file as the desktop does, by the system that this is.
fn opener(system: &str) -> (&'static str, &'static [&'static str]) {
    match system {
        "macos" => ("open", &[]),
        // `start` is of cmd, which would interpret a part of the path as a command.
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    }
}

/// Is there a desktop? On other systems there always is; without one, `xdg-open` would start a text browser in the
/// terminal.
fn is_desktop(system: &str, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    ["macos", "windows"].contains(&system)
        || ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

/// Opens the page. `None` where there is no desktop; else the file that redirects to it, which must exist until it was
/// read.
pub fn browser(address: &str) -> anyhow::Result<Option<NamedTempFile>> {
    if !is_desktop(OS, |name| env::var_os(name)) {
        return Ok(None);
    }
    let directory = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|directory| directory.is_dir());
    let file = leading(address, &directory.unwrap_or_else(env::temp_dir))?;
    let (program, arguments) = opener(OS);
    let mut opener = Command::new(program);
    opener.args(arguments).arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    opener.spawn().with_context(|| format!("{program} cannot be run"))?;
    Ok(Some(file))
}

/// A file that leads a browser to `address`, for this user alone.
fn leading(address: &str, directory: &Path) -> anyhow::Result<NamedTempFile> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(format!("0; url={address}"));
                title { "Config Weaver" }
            }
            body { a href=(address) { "Config Weaver" } }
        }
    };
    // A temporary file of this crate has mode 0600.
    let file = Builder::new().prefix("weaver-ui-").suffix(".html").tempfile_in(directory);
    let mut file = file.context("writing the file that leads the browser to the page")?;
    file.write_all(page.into_string().as_bytes())
        .context("writing the file that leads the browser to the page")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weaver_host::platform;

    use super::*;

    #[test]
    fn only_this_user_can_read_the_file_with_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = leading("http://127.0.0.1:1/p/?token=a&b", directory.path()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("content=\"0; url=http://127.0.0.1:1/p/?token=a&amp;b\""), "{text}");
        let owner = platform::owner(&fs::metadata(file.path()).unwrap());
        assert!(owner.mode.is_none_or(|mode| mode == 0o600), "{owner:?}");
    }

    #[test]
    fn a_terminal_is_not_taken_for_a_browser() {
        for (system, name, value, expected) in [
            ("linux", "DISPLAY", ":0", true),
            ("linux", "WAYLAND_DISPLAY", "w", true),
            ("linux", "DISPLAY", "", false),
            ("linux", "TERM", "x", false),
            ("macos", "TERM", "x", true),
            ("windows", "TERM", "x", true),
        ] {
            let variable = |asked: &str| (asked == name).then(|| OsString::from(value));
            assert_eq!(is_desktop(system, variable), expected, "{system} {name}={value}");
        }
    }

    #[test]
    fn each_system_has_its_own_way_to_open_a_file() {
        assert_eq!(opener("macos"), ("open", &[][..]));
        assert_eq!(opener("windows"), ("rundll32", &["url.dll,FileProtocolHandler"][..]));
        assert_eq!(opener("linux"), ("xdg-open", &[][..]));
    }
}
