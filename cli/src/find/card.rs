//! A card as it was announced; which names clash; and how cards are shown. Pure.
//!
//! Guarantees: an address is one that this machine can and may connect to: none of this machine itself, unless it was
//! announced here; each text is bounded and has no control characters.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use serde_json::{Value, json};
use weaver_diagnostics::announcement::{Announcement, NodeState};
use weaver_diagnostics::finding_text::cut;

/// Addresses of a card, and characters of the name that an announcement has.
const ADDRESSES: usize = 8;
const NAME: usize = 63;
/// Characters of a CA's fingerprint in a table. JSON has all.
const FINGERPRINT: usize = 16;

#[derive(Debug, Default)]
pub struct FoundService {
    /// The name by which it is announced.
    pub instance: String,
    pub port: u16,
    pub addresses: Vec<ServedAddress>,
    pub records: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedAddress {
    /// Without a port; one of a link has its interface.
    pub at: SocketAddr,
    /// Name and number of the interface where it was heard.
    pub interface: Option<(String, u32)>,
    /// Whether it was heard from this machine itself.
    pub is_own: bool,
}

impl ServedAddress {
    /// The best first; none for one that is not to be connected to.
    fn rank(&self) -> Option<u8> {
        match self.at.ip().to_canonical() {
            ip if ip.is_unspecified() || ip.is_multicast() => None,
            ip if ip.is_loopback() => self.is_own.then_some(4),
            IpAddr::V4(ip) if ip.is_broadcast() => None,
            IpAddr::V4(ip) => Some(if ip.is_link_local() { 2 } else { 0 }),
            IpAddr::V6(ip) if ip.is_unicast_link_local() => self.interface.as_ref().map(|_| 3),
            IpAddr::V6(_) => Some(1),
        }
    }

    fn with_scope(mut self) -> Self {
        if let (SocketAddr::V6(v6), Some((_, number))) = (&mut self.at, &self.interface)
            && v6.ip().is_unicast_link_local()
        {
            *v6 = SocketAddrV6::new(*v6.ip(), 0, 0, *number);
        }
        self
    }
}

impl fmt::Display for ServedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = self.at.ip();
        match (&self.interface, ip) {
            (Some((name, _)), IpAddr::V6(v6)) if v6.is_unicast_link_local() => write!(f, "{ip}%{name}"),
            _ => ip.fmt(f),
        }
    }
}

impl Ord for ServedAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |address: &Self| (address.rank().unwrap_or(u8::MAX), address.at.ip());
        key(self).cmp(&key(other)).then_with(|| self.interface.cmp(&other.interface))
    }
}

impl PartialOrd for ServedAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Clone)]
pub struct FoundCard {
    /// The name of its host; where it announces none, that of the announcement.
    pub name: String,
    /// The best first; at least one.
    pub addresses: Vec<ServedAddress>,
    pub port: u16,
    pub announced: Announcement,
    /// The state that its page shows; none without a page that answers.
    pub state: Option<NodeState>,
}

impl FoundCard {
    /// None where it has no address that can be used.
    pub fn read(service: FoundService) -> Option<Self> {
        let FoundService { instance, port, addresses, records } = service;
        let mut addresses: Vec<_> = addresses
            .into_iter()
            .filter(|address| address.rank().is_some())
            .map(ServedAddress::with_scope)
            .collect();
        addresses.sort();
        addresses.truncate(ADDRESSES);
        let announced =
            Announcement::read(records.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
        let name =
            announced.name.as_ref().map_or_else(|| cut(&instance, NAME), |name| name.to_ascii_lowercase());
        (!addresses.is_empty()).then_some(Self { name, addresses, port, announced, state: None })
    }

    pub fn address(&self) -> String {
        self.addresses.first().map_or_else(String::new, ToString::to_string)
    }

    fn state_word(&self) -> &'static str {
        self.state.map_or("unknown", NodeState::word)
    }
}

/// Each name that more than one card has, with what helps.
pub fn clashes(cards: &[FoundCard]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&FoundCard>> = BTreeMap::new();
    for card in cards {
        by_name.entry(&card.name).or_default().push(card);
    }
    let several = by_name.into_iter().filter(|(_, cards)| cards.len() > 1);
    let reported = several.map(|(name, cards)| {
        let (count, most) = (cards.len(), 5);
        let mut addresses: Vec<_> = cards.iter().take(most).map(|card| card.address()).collect();
        addresses.extend((count > most).then(|| "…".to_owned()));
        format!(
            "{count} cards have the name {name} ({}): {name}.local leads to one of them only, and a cluster takes only one node \
             of a name; rename the others: weaver docs rename-a-node",
            addresses.join(", ")
        )
    });
    reported.collect()
}

/// For a table, the titles first.
pub fn rows(cards: &[FoundCard]) -> Vec<Vec<String>> {
    let titles = ["NAME", "ADDRESS", "STATE", "VERSION", "CA"].map(str::to_owned).to_vec();
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |card: &FoundCard| {
        let ca = card.announced.ca.as_deref().and_then(|ca| ca.get(..FINGERPRINT)).unwrap_or("-");
        vec![
            card.name.clone(),
            card.address(),
            card.state_word().to_owned(),
            text(&card.announced.version),
            ca.to_owned(),
        ]
    };
    std::iter::once(titles).chain(cards.iter().map(row)).collect()
}

pub fn json(cards: &[FoundCard]) -> Value {
    let card = |card: &FoundCard| {
        let Announcement { name: _, version, joins, has_page, ca, served } = &card.announced;
        json!({
            "name": card.name,
            "addresses": card.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "port": card.port,
            "page": has_page,
            "state": card.state_word(),
            "version": version,
            "role": if *joins { "agent" } else { "server" },
            "ca": ca,
            "served": served,
        })
    };
    json!({ "cards": cards.iter().map(card).collect::<Vec<_>>(), "clashes": clashes(cards) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str, interface: Option<(&str, u32)>, is_own: bool) -> ServedAddress {
        let interface = interface.map(|(name, number)| (name.to_owned(), number));
        ServedAddress { at: SocketAddr::new(ip.parse().unwrap(), 0), interface, is_own }
    }

    fn heard(instance: &str, ips: &[&str], records: &[&str]) -> FoundService {
        let records = records.iter().map(|record| record.split_once('=').unwrap());
        FoundService {
            instance: instance.to_owned(),
            port: 9480,
            addresses: ips.iter().map(|ip| address(ip, Some(("eth0", 2)), false)).collect(),
            records: records.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).collect(),
        }
    }

    fn card(instance: &str, ips: &[&str], records: &[&str]) -> FoundCard {
        FoundCard::read(heard(instance, ips, records)).unwrap()
    }

    #[test]
    fn the_address_is_the_best_that_can_be_connected_to() {
        for (ips, want) in [
            (&["fe80::1", "fd00::2", "192.168.1.20"][..], Some("192.168.1.20")),
            (&["fe80::1", "fd00::2"], Some("fd00::2")),
            (&["169.254.3.4", "2001:db8::1"], Some("2001:db8::1")),
            (&["fe80::1"], Some("fe80::1%eth0")),
            (&["0.0.0.0"], None),
            (&["::"], None),
            (&["224.0.0.251"], None),
            (&["255.255.255.255"], None),
            (&["ff02::fb"], None),
            // Only this machine announces this machine.
            (&["127.0.0.1"], None),
            (&["::1"], None),
            (&["::ffff:127.0.0.1"], None),
            (&[], None),
        ] {
            let found = FoundCard::read(heard("a", ips, &[]));
            assert_eq!(found.map(|card| card.address()).as_deref(), want, "{ips:?}");
        }
        let own = FoundService {
            addresses: vec![address("127.0.0.1", Some(("lo", 1)), true)],
            ..FoundService::default()
        };
        assert_eq!(FoundCard::read(own).unwrap().address(), "127.0.0.1");
        let nowhere =
            FoundService { addresses: vec![address("fe80::1", None, false)], ..FoundService::default() };
        assert!(FoundCard::read(nowhere).is_none(), "of which link?");
        let link = card("a", &["fe80::1"], &[]).addresses[0].at;
        assert!(matches!(link, SocketAddr::V6(v6) if v6.scope_id() == 2), "{link}");
        let many: Vec<_> = (0..200).map(|n| format!("10.0.0.{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(card("a", &many, &[]).addresses.len(), ADDRESSES);
    }

    #[test]
    fn a_name_is_that_of_the_host_and_a_foreign_one_is_not_obeyed() {
        // avahi announces a host under another name where its own is taken.
        let renamed = card("raspi #2", &["10.0.0.2"], &["txtvers=1", "name=Raspi"]);
        assert_eq!(renamed.name, "raspi");
        let evil =
            card("\u{1b}[2J\u{202e}evil\n", &["10.0.0.2"], &["txtvers=1", "name=a b", "version=\u{1b}[2J"]);
        assert_eq!((evil.name.as_str(), &evil.announced.version), ("\\u{1b}[2J\\u{202e}evil\\n", &None));
        assert!(card(&"é".repeat(5000), &["10.0.0.2"], &[]).name.chars().count() <= NAME + 20);
    }

    #[test]
    fn each_name_of_several_cards_is_a_clash() {
        let records = ["txtvers=1", "name=raspi"];
        let cards = [
            card("raspi", &["10.0.0.2"], &records),
            card("raspi #2", &["10.0.0.3"], &records),
            card("attic", &["10.0.0.4"], &["txtvers=1", "name=attic"]),
        ];
        assert_eq!(clashes(&cards[1..]), Vec::<String>::new());
        let reported = clashes(&cards);
        assert_eq!(reported.len(), 1);
        assert!(
            reported[0].starts_with("2 cards have the name raspi (10.0.0.2, 10.0.0.3): ")
                && reported[0].ends_with("weaver docs rename-a-node"),
            "{reported:?}"
        );
        let crowd: Vec<_> = (0..90).map(|_| cards[0].clone()).collect();
        assert!(clashes(&crowd)[0].len() < 400, "{:?}", clashes(&crowd));
    }

    #[test]
    fn what_is_shown() {
        let ca = format!("ca={}", "0a".repeat(32));
        let records = ["txtvers=1", "name=raspi", "version=0.1.0", "port=page", "role=server", &ca];
        let full = FoundCard {
            state: Some(NodeState::Starting),
            ..card("raspi", &["10.0.0.2", "fe80::1"], &records)
        };
        let bare = card("older", &["10.0.0.3"], &[]);
        let rows = rows(&[full.clone(), bare.clone()]);
        assert_eq!(rows[1], ["raspi", "10.0.0.2", "starting", "0.1.0", "0a0a0a0a0a0a0a0a"]);
        assert_eq!(rows[2], ["older", "10.0.0.3", "unknown", "-", "-"]);
        let json = json(&[full, bare]);
        let first = &json["cards"][0];
        assert_eq!(first["addresses"], json!(["10.0.0.2", "fe80::1%eth0"]));
        assert_eq!((first["state"].as_str(), first["page"].as_bool()), (Some("starting"), Some(true)));
        assert_eq!(first["ca"], "0a".repeat(32));
        assert_eq!(json["cards"][1]["version"], Value::Null);
        assert_eq!(json["clashes"], json!([]));
    }
}
