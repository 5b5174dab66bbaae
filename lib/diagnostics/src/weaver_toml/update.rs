//! `[update]`: the apt repository from which `weaver node update` installs, the key that signs it, and how often a
//! timer does.

use super::{
    fault::{Faults, Mistake, shown},
    section::Section,
};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::when::When;

const SOURCE: &str = "write it like source = \"https://example.com/apt\" or \"file:/media/usb/apt\"";
const KEY: &str =
    "write the name of a file next to weaver.toml, such as \"config-weaver.asc\", or an absolute path";
const SCHEMES: [&str; 4] = ["https://", "http://", "file:", "copy:"];
const LONGEST: usize = 255;

/// The apt repository that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateSection {
    /// Its address, as apt takes it.
    pub source: String,
    /// The file with the public key: a name next to `weaver.toml`, or an absolute path.
    pub key: String,
    /// How often a timer installs what is newer; `None` for never.
    pub when: Option<When>,
}

pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Option<UpdateSection> {
    let (source, key) = (section.text("source", faults), section.text("key", faults));
    for (there, absent, missing, remedy) in [
        ("source", "key", &key, KEY),
        ("key", "source", &source, SOURCE),
        ("when", "source", &source, SOURCE),
    ] {
        if missing.is_none()
            && let Some(place) = section.place_of(there)
        {
            faults.add_at(Some(&place), format!("`{there}` needs `{absent}` below [update]"), remedy);
        }
    }
    let source = source.and_then(|text| faults.take(text.span.as_ref(), address(text.value)));
    let key = key.and_then(|text| faults.take(text.span.as_ref(), key_file(text.value)));
    let when = section.text("when", faults);
    let when = when.and_then(|text| faults.take(text.span.as_ref(), interval(text.value)));
    Some(UpdateSection { source: source?, key: key?, when })
}

fn interval(text: &str) -> Result<When, Mistake> {
    let remedy = "write \"daily\" or \"weekly\", or remove the line for no updates by timer";
    When::of(text)
        .filter(|when| *when != When::Hourly)
        .ok_or_else(|| Mistake::new(format!("`when` is {}", shown(text)), remedy))
}

/// What apt takes as an address on one line of its file.
fn address(text: &str) -> Result<String, Mistake> {
    // Not shown: it may be a password.
    if text.contains('@') {
        let remedy = "write such an address with its password into a file of /etc/apt, which this section need not know";
        return Err(Mistake::new("`source` has a user or a password in it", remedy));
    }
    let wrong = |why: &str| Err(Mistake::new(format!("the source {} {why}", shown(text)), SOURCE));
    let Some((scheme, rest)) = SCHEMES.iter().find_map(|scheme| Some((*scheme, text.strip_prefix(scheme)?)))
    else {
        return wrong("begins with none of https://, http://, file: and copy:");
    };
    if !text.chars().all(|c| c.is_ascii_graphic()) || text.contains(['[', ']', '$']) {
        return wrong("has white space, brackets, a dollar sign or characters outside ASCII");
    }
    if text.len() > LONGEST {
        return wrong("is longer than 255 characters");
    }
    let is_of_host = scheme.ends_with("//");
    if is_of_host && !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return wrong("has no host");
    }
    if !is_of_host && !rest.starts_with('/') {
        return wrong("has no absolute path");
    }
    Ok(text.to_owned())
}

fn key_file(text: &str) -> Result<String, Mistake> {
    let wrong = |why: &str| Err(Mistake::new(format!("the key {} {why}", shown(text)), KEY));
    let name = text.strip_prefix('/').unwrap_or(text);
    if text.contains("PRIVATE KEY") {
        wrong("is not a file")
    } else if text.contains("PUBLIC KEY") {
        wrong("is the key itself, not its file")
    } else if name.is_empty() || text.chars().any(char::is_control) || text.len() > LONGEST {
        wrong("is not a file name")
    } else if !text.starts_with('/') && text.contains(['/', '\\']) {
        wrong("is in a directory")
    } else {
        Ok(text.to_owned())
    }
}

/// What is wrong with the content of a key's file; none of it is repeated.
pub fn key_mistake(text: &str) -> Option<&'static str> {
    const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
    const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
    if text.contains("PRIVATE KEY") {
        return Some(
            "it is a private key, which must not be on a card: delete it there and export the public key",
        );
    }
    let (text, is_lone) = (text.trim(), text.matches(BEGIN).count() == 1);
    (!text.starts_with(BEGIN) || !text.ends_with(END) || !is_lone)
        .then_some("it is not an ASCII-armoured public key, which `gpg --armor --export` writes")
}

/// The key cannot be used: the source stays as it was.
pub fn key_unusable(file: &str, why: &str) -> Finding {
    let message = format!("{file} cannot be used as the key of [update]: the apt source stays as it was");
    let explain = "put config-weaver.asc, which is next to the packages of the source, there";
    let remedy = Remedy::new(explain).command("sudo weaver-node-agent boot-config");
    Finding::new(Code::HostNotConfigured, message).saw(Place::file(file), why).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weaver_toml::parse;

    #[test]
    fn both_or_none() {
        let read = |text: &str| parse(text.as_bytes()).map(|read| read.config.update);
        assert_eq!(read("[update]\n").unwrap(), None);
        let update =
            read("[update]\nsource = \"file:/media/usb/apt\"\nkey = \"config-weaver.asc\"\n").unwrap();
        let want = ("file:/media/usb/apt".to_owned(), "config-weaver.asc".to_owned());
        assert_eq!(update.map(|update| (update.source, update.key)), Some(want));
        let update = read("[update]\nsource = \"file:/a\"\nkey = \"a.asc\"\nwhen = \"weekly\"\n").unwrap();
        assert_eq!(update.unwrap().when, Some(When::Weekly));
        for (text, line, message) in [
            ("[update]\nsource = \"https://a/b\"\n", 2, "`source` needs `key`"),
            ("[update]\nkey = \"a.asc\"\n", 2, "`key` needs `source`"),
            ("[update]\nwhen = \"daily\"\n", 2, "`when` needs `source`"),
            ("[update]\nsource = \"file:/a\"\nkey = \"a\"\nwhen = \"hourly\"\n", 4, "`when` is `hourly`"),
            ("[update]\nsource = 1\nkey = \"a\"\n", 2, "a number, not a string in quotes"),
            ("[update]\nsources = \"https://a\"\n", 2, "unknown key `sources`"),
        ] {
            let faults = read(text).unwrap_err();
            let found = faults.iter().any(|fault| fault.line == line && fault.message.contains(message));
            assert!(found, "{text}: {faults:?}");
        }
    }

    #[test]
    fn addresses() {
        for text in [
            "https://example.com/apt",
            "http://10.0.0.2:8080/",
            "file:/media/usb/apt",
            "copy:/mnt",
            "file:///mnt",
        ] {
            assert_eq!(address(text).unwrap(), text);
        }
        for (text, why) in [
            ("", "begins with none of"),
            ("example.com/apt", "begins with none of"),
            ("ftp://example.com", "begins with none of"),
            ("https://", "has no host"),
            ("https:///apt", "has no host"),
            ("file:apt", "no absolute path"),
            ("https://a/b c", "white space"),
            ("https://a/b\nTrusted: yes", "white space"),
            ("https://a/$(ARCH)", "dollar sign"),
            ("https://a/[trusted=yes]", "brackets"),
            ("https://ä/apt", "outside ASCII"),
            (&format!("https://{}", "a".repeat(300)), "longer than"),
        ] {
            let mistake = address(text).unwrap_err();
            assert!(mistake.message.contains(why), "{text}: {mistake:?}");
        }
        let mistake = address("https://me:hunter2@example.com").unwrap_err();
        assert!(!format!("{mistake:?}").contains("hunter2"), "{mistake:?}");
    }

    #[test]
    fn the_key_of_the_repository_is_named_by_a_file() {
        assert_eq!(key_file("config-weaver.asc").unwrap(), "config-weaver.asc");
        assert_eq!(key_file("/etc/keys/a.asc").unwrap(), "/etc/keys/a.asc");
        for (text, why) in [
            ("", "not a file name"),
            ("/", "not a file name"),
            ("../a.asc", "in a directory"),
            ("keys\\a.asc", "in a directory"),
            ("-----BEGIN PGP PUBLIC KEY BLOCK-----", "not its file"),
            ("a\nb", "not a file name"),
        ] {
            let mistake = key_file(text).unwrap_err();
            assert!(mistake.message.contains(why), "{text}: {mistake:?}");
        }
        let public = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n-----END PGP PUBLIC KEY BLOCK-----\n";
        assert_eq!(key_mistake(public), None);
        assert_eq!(key_mistake(&format!("\r\n{public}\r\n")), None);
        let private = public.replace("PUBLIC", "PRIVATE");
        for text in ["", "hello", &public[..60], &format!("{public}{public}")] {
            assert!(
                key_mistake(text).is_some_and(|why| why.contains("not an ASCII-armoured public key")),
                "{text}"
            );
        }
        for text in [private.clone(), format!("{public}{private}")] {
            assert!(key_mistake(&text).is_some_and(|why| why.contains("private key")), "{text}");
        }
    }
}
