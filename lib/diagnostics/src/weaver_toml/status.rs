//! `[status]`: the card's page, which shows the state of the node in a browser, and whether the card announces itself.

use std::net::IpAddr;

use super::{
    fault::{Faults, Mistake, shown},
    limits::is_of_no_host,
    section::Section,
};

const LISTEN: &str = "write an address of this card, such as 192.168.1.20, or 127.0.0.1 for the card itself";

/// What is asked for of the page. By default: shown at every address of the card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusPage {
    /// Whether there is one, where that is said.
    pub page: Option<bool>,
    /// The only addresses of the card at which it is shown; none: at all of them.
    pub listen: Vec<IpAddr>,
    /// Whether the card announces itself in its network, where that is said.
    pub announce: Option<bool>,
}

impl StatusPage {
    /// Whether the page is shown. A node that has joined and has no name of its own is one of many, which users do not
    /// look for.
    pub fn is_on(&self, joins: bool, has_name: bool) -> bool {
        self.page.unwrap_or(has_name || !joins)
    }

    /// Whether the card announces itself: where nothing is said, as long as anyone may look at its page.
    pub fn announces(&self, joins: bool, has_name: bool) -> bool {
        self.announce.unwrap_or(self.listen.is_empty() && self.is_on(joins, has_name))
    }
}

pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> StatusPage {
    let page = section.truth("page", faults);
    let announce = section.truth("announce", faults);
    let mut listen = Vec::new();
    let texts = section.texts("listen", faults);
    let is_empty = texts.is_empty();
    for text in texts {
        let Some(address) = faults.take(text.span.as_ref(), address(text.value)) else { continue };
        if listen.contains(&address) {
            faults.add_at(text.span.as_ref(), "this entry is listed twice", "remove one of the two");
        }
        listen.push(address);
    }
    // Anything but a list of addresses is a fault already.
    if is_empty && section.is_empty_list("listen") {
        let remedy = "remove the line for all addresses, or write page = false for none";
        faults.add_at(section.place_of("listen").as_ref(), "`listen` names no address", remedy);
    }
    StatusPage { page, listen, announce }
}

fn address(text: &str) -> Result<IpAddr, Mistake> {
    let wrong = |why: &str, remedy: &str| {
        Err(Mistake::new(format!("the address {} {why}", shown(text)), remedy.to_owned()))
    };
    match text.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) if address.is_unspecified() => {
            wrong("stands for all addresses", "remove `listen`: without it the page is shown at all of them")
        }
        Ok(address) if is_of_no_host(address) => wrong("is not the address of a host", LISTEN),
        Ok(address) => Ok(address),
        Err(_) => wrong("is not an IP address", LISTEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weaver_toml::{Fault, parse};

    fn read(text: &str) -> Result<StatusPage, String> {
        let faults = match parse(format!("[status]\n{text}\n").as_bytes()) {
            Ok(read) => return Ok(read.config.status),
            Err(faults) => faults,
        };
        let reported = |fault: &Fault| format!("{}: {}; {}", fault.line, fault.message, fault.remedy);
        Err(faults.iter().map(reported).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn what_is_asked_for() {
        assert_eq!(read(""), Ok(StatusPage::default()));
        assert_eq!(read("page = false").unwrap().page, Some(false));
        let listen = read("listen = [\"192.168.1.20\", \"fd00::1\", \"127.0.0.1\"]").unwrap().listen;
        assert_eq!(
            listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["192.168.1.20", "fd00::1", "127.0.0.1"]
        );
        let mapped = read("listen = [\"::ffff:10.0.0.1\"]").unwrap().listen;
        assert_eq!(mapped, [IpAddr::from([10, 0, 0, 1])], "as the connection will have it");
    }

    #[test]
    fn what_is_wrong() {
        for (text, says) in [
            ("page = \"no\"", "2: `page` is a string, not true or false; write it like page = false"),
            ("page = 0", "not true or false"),
            (
                "announce = \"no\"",
                "2: `announce` is a string, not true or false; write it like announce = false",
            ),
            ("pages = false", "did you mean `page`?"),
            ("listen = \"10.0.0.1\"", "`listen` is a string, not a list; write it like listen = ["),
            ("listen = []", "2: `listen` names no address; remove the line"),
            ("listen = [1]", "not a string"),
            ("listen = [\"\"]", "is not an IP address"),
            ("listen = [\"raspi.lan\"]", "is not an IP address; write an address of this card"),
            ("listen = [\"10.0.0.1:9480\"]", "is not an IP address"),
            ("listen = [\"10.0.0.0/24\"]", "is not an IP address"),
            ("listen = [\"10.0.0.1\\n\"]", "is not an IP address"),
            ("listen = [\"fe80::1%eth0\"]", "is not an IP address"),
            ("listen = [\"0.0.0.0\"]", "stands for all addresses; remove `listen`"),
            ("listen = [\"::\"]", "stands for all addresses"),
            ("listen = [\"224.0.0.1\"]", "is not the address of a host"),
            ("listen = [\"255.255.255.255\"]", "is not the address of a host"),
            ("listen = [\"10.0.0.1\", \"::ffff:10.0.0.1\"]", "this entry is listed twice"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(says), "{text}: {found}");
            assert_eq!(found.lines().count(), 1, "{text}: {found}");
        }
    }

    #[test]
    fn who_has_a_page() {
        for (page, joins, has_name, on) in [
            (None, false, false, true),
            (None, false, true, true),
            (None, true, true, true),
            (None, true, false, false),
            (Some(true), true, false, true),
            (Some(false), true, true, false),
            (Some(false), false, true, false),
        ] {
            let status = StatusPage { page, ..StatusPage::default() };
            assert_eq!(status.is_on(joins, has_name), on, "{page:?} {joins} {has_name}");
            assert_eq!(status.announces(joins, has_name), on, "as the page: {page:?} {joins} {has_name}");
        }
    }

    #[test]
    fn who_announces_itself() {
        for (text, on) in [
            ("", true),
            ("page = false", false),
            ("listen = [\"127.0.0.1\"]", false),
            ("announce = false", false),
            ("page = false\nannounce = true", true),
            ("listen = [\"127.0.0.1\"]\nannounce = true", true),
        ] {
            assert_eq!(read(text).unwrap().announces(false, true), on, "{text}");
        }
    }
}
