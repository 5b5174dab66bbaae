//! What a node announces of itself by mDNS, as DNS-SD records (RFC 6763), and how `weaver find` reads it. Pure.
//!
//! Guarantees: only what the card's page shows to everyone is announced, and nothing that changes while the node runs,
//! so that an agent that has died announces nothing wrong; the state is asked for at the page. Anyone in the network
//! can announce anything: of what is read, each value has its form or is left out, and none of them proves anything.

/// The type of the service.
pub const SERVICE: &str = "_weaver._tcp";
/// Where the page of a node says its state in a word.
pub const STATE_PATH: &str = "/state";

/// Of the records as they are here. A later one may mean something else by its keys.
const VERSION: &str = "1";
/// Characters of a value.
const LONGEST: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announcement {
    /// The name of the host. The responder may announce it under another, where two hosts have it.
    pub name: Option<String>,
    pub version: Option<String>,
    /// Whether it joins a server, and has no API server to get a kubeconfig of.
    pub joins: bool,
    /// Whether the port is that of its page; otherwise it is that of the API server.
    pub has_page: bool,
    /// SHA-256 of k3s' CA file, as `sha256sum` prints it.
    pub ca: Option<String>,
    /// A name that the certificate of the API server has.
    pub served: Option<String>,
}

impl Announcement {
    /// As `KEY=VALUE`. A value that has not its form is left out.
    pub fn records(&self) -> Vec<String> {
        let texts = [
            ("name", self.name.as_deref().filter(|text| is_host(text))),
            ("version", self.version.as_deref().filter(|text| is_version(text))),
            ("role", Some(if self.joins { "agent" } else { "server" })),
            ("port", Some(if self.has_page { "page" } else { "api" })),
            ("ca", self.ca.as_deref().filter(|text| is_fingerprint(text))),
            ("served", self.served.as_deref().filter(|text| is_host(text))),
        ];
        let texts = texts.into_iter().filter_map(|(key, text)| Some(format!("{key}={}", text?)));
        std::iter::once(format!("txtvers={VERSION}")).chain(texts).collect()
    }

    /// What the records say; of a key that is there twice the first, as the RFC has it.
    pub fn read<'a>(records: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let records: Vec<_> = records.into_iter().collect();
        let text = |wanted: &str, is_good: fn(&str) -> bool| {
            let (_, value) = records.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted))?;
            std::str::from_utf8(value).ok().filter(|text| is_good(text)).map(str::to_owned)
        };
        let is = |key, word: &str| text(key, |_| true).is_some_and(|text| text == word);
        if !is("txtvers", VERSION) {
            return Self::default();
        }
        Self {
            name: text("name", is_host),
            version: text("version", is_version),
            joins: is("role", "agent"),
            has_page: is("port", "page"),
            ca: text("ca", is_fingerprint),
            served: text("served", is_host),
        }
    }
}

/// Whether it can be the name or the address of a host, and no flag.
fn is_host(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ':')
        && fits(text)
        && text.chars().all(is_plain)
}

fn is_version(text: &str) -> bool {
    fits(text) && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-+~".contains(c))
}

fn is_fingerprint(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

fn fits(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
}

/// The state of a node in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Nothing is known to be wrong, and the gate is open or the node joins a server.
    Ok,
    /// Something is known to be wrong.
    Fail,
    /// Not everything is proven yet.
    Starting,
}

impl NodeState {
    const ALL: [Self; 3] = [Self::Ok, Self::Fail, Self::Starting];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Starting => "starting",
        }
    }

    /// What the page answered.
    pub fn read(answer: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|state| answer.trim_ascii() == state.word().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Announcement {
        Announcement {
            name: Some("raspi".to_owned()),
            version: Some("0.1.0~rc.1+a".to_owned()),
            joins: false,
            has_page: true,
            ca: Some("0a".repeat(32)),
            served: Some("raspi.lan".to_owned()),
        }
    }

    fn read(records: &[String]) -> Announcement {
        Announcement::read(records.iter().filter_map(|record| {
            let (key, value) = record.split_once('=')?;
            Some((key, value.as_bytes()))
        }))
    }

    #[test]
    fn what_is_announced_is_read_back() {
        let records = full().records();
        assert_eq!(records[..3], ["txtvers=1", "name=raspi", "version=0.1.0~rc.1+a"]);
        assert!(
            records.iter().all(|record| record.len() < 200),
            "one string of a record has 255 bytes: {records:?}"
        );
        assert_eq!(read(&records), full());
        let bare = Announcement { joins: true, ..Announcement::default() };
        assert_eq!(bare.records(), ["txtvers=1", "role=agent", "port=api"]);
        assert_eq!(read(&bare.records()), bare);
    }

    #[test]
    fn what_has_not_its_form_is_neither_announced_nor_read() {
        let long = "a".repeat(101);
        for (key, bad) in [
            ("name", "ras pi"),
            ("name", ""),
            ("name", "-oProxyCommand=reboot"),
            ("name", "a\u{1b}[2J"),
            ("name", "$(reboot)"),
            ("name", "räspi"),
            ("name", &long),
            ("version", "1 2"),
            ("version", &long),
            ("ca", "abc"),
            ("ca", &"0A".repeat(32)),
            ("ca", &"zz".repeat(32)),
            ("served", "a;reboot"),
            ("served", "--force"),
        ] {
            let mut records = full().records();
            records.retain(|record| !record.starts_with(key));
            records.push(format!("{key}={bad}"));
            let found = read(&records);
            let value = match key {
                "name" => &found.name,
                "version" => &found.version,
                "ca" => &found.ca,
                _ => &found.served,
            };
            assert_eq!(*value, None, "{key}={bad:?}");
            let written = Announcement { name: Some(bad.to_owned()), ..full() }.records();
            assert!(
                key != "name" || !written.iter().any(|record| record.starts_with("name=")),
                "{written:?}"
            );
        }
        assert_eq!(Announcement::read([("txtvers", &b"1"[..]), ("name", &[0xff])]).name, None);
    }

    #[test]
    fn the_first_of_a_key_counts_in_any_case_and_another_version_means_nothing() {
        let records: [(&str, &[u8]); 4] =
            [("TxtVers", b"1"), ("NAME", b"a"), ("name", b"b"), ("txtvers", b"2")];
        assert_eq!(Announcement::read(records).name.as_deref(), Some("a"));
        for other in ["txtvers=2", "txtvers=", "x=1"] {
            let mut records = full().records();
            records[0] = other.to_owned();
            assert_eq!(read(&records), Announcement::default(), "{other}");
        }
    }

    #[test]
    fn a_state_is_one_of_its_words() {
        for state in NodeState::ALL {
            assert_eq!(NodeState::read(format!("{}\n", state.word()).as_bytes()), Some(state));
        }
        for other in ["", "OK", "ok\nok", "okay", "<html>", "\u{1b}[2J"] {
            assert_eq!(NodeState::read(other.as_bytes()), None, "{other:?}");
        }
    }
}
