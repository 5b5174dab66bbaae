//! The token of a node that joins: as `token`, or in the file that `token-file` names. Pure.
//!
//! No message repeats it.

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity};
use crate::k3s_unit::Setting;
use crate::weaver_toml::join_token::{self, Form};

/// A token that no server takes, and where it is.
pub fn refused(place: Place, token: &str) -> Option<Finding> {
    let why = match join_token::form(token.trim()) {
        Form::Broken(why) => why,
        Form::Whole(_) | Form::Short => return None,
    };
    let what = format!("the token {why}, and no server takes it");
    let remedy = Remedy::new("write the whole line that the server prints, without quotes or blanks in it")
        .command("# on the server: sudo cat /var/lib/rancher/k3s/server/node-token")
        .command(RESTART_K3S);
    Some(Finding::at(Code::K3sConfigWrongType, place, &what).remedy(remedy).milder(Severity::Warn))
}

/// The file is not there. No more than a warning, which blocks nothing: a mount may bring it while k3s waits.
pub fn missing(file: &Setting) -> Finding {
    let Setting { value: path, origin } = file;
    let message = format!(
        "{path} does not exist, token-file at {origin} names it, and k3s exits after it has waited for it for four minutes"
    );
    let remedy =
        Remedy::new(format!("write the token into {path}, or remove token-file from {}", origin.file));
    Finding::new(Code::K3sFileUnreadable, message)
        .saw(origin.clone(), format!("token-file {path}"))
        .remedy(remedy.command(RESTART_K3S))
        .milder(Severity::Warn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_server_takes_is_named_by_its_place_only() {
        for (token, want) in [
            ("hunter2\n", None),
            ("K10hunter2\n", Some("/t:1: the token begins with K10 and has no `::`, and no server takes it")),
        ] {
            let found = refused(Place::line("/t", 1), token);
            assert_eq!(found.as_ref().map(|found| found.message.as_str()), want);
            assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
        }
        let named = Setting { value: "/t".to_owned(), origin: Place::line("/c.yaml", 3) };
        let found = missing(&named);
        assert_eq!((found.code, found.severity()), (Code::K3sFileUnreadable, Severity::Warn));
        assert!(
            found.message.starts_with("/t does not exist, token-file at /c.yaml:3 names it"),
            "{found:?}"
        );
    }
}
